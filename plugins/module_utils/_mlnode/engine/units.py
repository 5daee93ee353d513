# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units and udev rules that run the agent: at every boot, and when a NIC arrives or changes its queues."""

from __future__ import annotations

from ..host.places import (
    AGENT_COMMAND,
    AGENT_UNITS,
    CHECK_SERVICE,
    CHECK_TIMER,
    LEASE,
    LEASE_UNIT,
    PULL_SERVICE,
    PULL_TIMER,
    WATCH_SERVICE,
    WATCH_TIMER,
)
from .kind import AGENT_FILE, AGENT_LINK, AGENT_UNIT

UNIT_FOLDER = "/etc/systemd/system"
_UNIT, NIC_SERVICE, NIC_PATH_UNIT = AGENT_UNITS
NIC_SERVICE_FILE = f"{UNIT_FOLDER}/{NIC_SERVICE}"
NIC_SERVICE_LINK = f"{UNIT_FOLDER}/multi-user.target.wants/{NIC_SERVICE}"
NIC_PATH_FILE = f"{UNIT_FOLDER}/{NIC_PATH_UNIT}"
NIC_PATH_LINK = f"{UNIT_FOLDER}/multi-user.target.wants/{NIC_PATH_UNIT}"
CHECK_SERVICE_FILE = f"{UNIT_FOLDER}/{CHECK_SERVICE}"
CHECK_TIMER_FILE = f"{UNIT_FOLDER}/{CHECK_TIMER}"
WATCH_SERVICE_FILE = f"{UNIT_FOLDER}/{WATCH_SERVICE}"
WATCH_TIMER_FILE = f"{UNIT_FOLDER}/{WATCH_TIMER}"
PULL_SERVICE_FILE = f"{UNIT_FOLDER}/{PULL_SERVICE}"
PULL_TIMER_FILE = f"{UNIT_FOLDER}/{PULL_TIMER}"
LEASE_FILE = f"{UNIT_FOLDER}/{LEASE_UNIT}"
LEASE_LINK = f"{UNIT_FOLDER}/multi-user.target.wants/{LEASE_UNIT}"
PRESET_FILE = "/etc/systemd/system-preset/50-mlnode.preset"
UDEV_FILE = "/etc/udev/rules.d/90-mlnode.rules"

#: Present if a NIC has changed and no run has handled it yet
NIC_FLAG = "/run/udev/mlnode-nics"

# -- sandboxes -----------------------------------------------------------------------------

# Restrictions of all five services. For the reasons of the remaining access see docs/guide/security.md.
# ProtectProc=ptraceable hides no process from root, who has CAP_SYS_PTRACE (proc(5), hidepid).
# Block devices are read by grub-probe, os-prober and bootctl, and never written. Character devices are those
# for GPUs and RDMA, whose names are known once their driver is loaded.
# Files get their mode by fchmod(2), whatever the umask is.
_CLOSED = """\
NoNewPrivileges=yes
StateDirectory=mlnode
StateDirectoryMode=0755
ProtectHome=yes
PrivateTmp=yes
PrivateMounts=yes
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectProc=ptraceable
DevicePolicy=closed
DeviceAllow=char-* rwm
DeviceAllow=block-* r
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
UMask=0077
"""

# For applying: /proc/sys, /sys and NICs (CAP_SYS_ADMIN, CAP_NET_ADMIN; user.max_* wants CAP_SYS_RESOURCE),
# modules (CAP_SYS_MODULE), files of others with their owner (CAP_CHOWN, CAP_FOWNER, CAP_DAC_OVERRIDE).
# CAP_SYS_PTRACE shows which process has a GPU open, for the guard of busy NICs (proc(5), /proc/PID/fd).
# CAP_MKNOD is for nvidia-smi, which may be the first to need the devices of the GPUs. No
# ProtectKernelTunables, ProtectKernelModules or PrivateNetwork: setting them is the service's work.
# AF_NETLINK lets dcb, of iproute2, set the priorities of NICs; systemctl needs AF_UNIX. /boot, mounts, block
# devices and /var/lib/os-prober are for regenerating a boot loader menu that lost its declared settings:
# os-prober finds other systems by mounting their disks. Only the memory groups of cgroup v1 are writable:
# each has a swappiness.
_APPLIES = f"""\
{_CLOSED}CapabilityBoundingSet=CAP_SYS_ADMIN CAP_NET_ADMIN CAP_SYS_MODULE CAP_SYS_RESOURCE
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER CAP_CHOWN CAP_SYS_PTRACE CAP_MKNOD
SystemCallFilter=@system-service @module @mount
SystemCallFilter=~@resources
ProtectSystem=strict
ReadWritePaths=/etc /run -/boot -/efi -/var/lib/os-prober -/sys/fs/cgroup/memory
"""
_OFFLINE = "RestrictAddressFamilies=AF_UNIX AF_NETLINK\nIPAddressDeny=any\n"
_SANDBOX = _APPLIES + _OFFLINE
_PULL_SANDBOX = f"{_APPLIES}RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6\n"

# For checking: the service reads as `mlnode check` does and sets nothing. CAP_SYS_PTRACE as above, and
# CAP_DAC_READ_SEARCH to reach a folder of metrics below a closed folder. The file is written as the user
# who owns the folder (CAP_SETUID, CAP_SETGID), by a process that is ended if that user stops it (CAP_KILL).
# No ProtectKernelTunables and ProtectKernelModules: a read-only kernel file and invisible modules would be
# findings. Only the node knows the folder: hence all of /var, /srv and /opt, and nothing below /etc, /usr
# and /boot.
_CHECK_SANDBOX = f"""\
{_CLOSED}CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_PTRACE CAP_SETUID CAP_SETGID CAP_KILL
SystemCallFilter=@system-service
SystemCallFilter=~@resources
ProtectSystem=full
{_OFFLINE}"""

# -- services ------------------------------------------------------------------------------

# Runs after systemd's own sysctl and module services, tuned and the firewalls that set sysctls, as the last
# write counts, and before anything that starts jobs. The timeout of seven minutes has one for the lock and
# five for the boot loader; usually a second is enough. Exit status 3 is drift that it cannot repair, which
# `mlnode check` shows. Units of others are named here instead of in their kinds: each command compares this
# text with the file, and would import all kinds for a few words. udev renames NICs while it processes the
# devices found at its start: without the wait eth0 may be gone between the read and the write. Without udev
# the wait neither takes time nor fails the start. System programs that only wait, or remove a flag, run
# outside of the sandbox: + in systemd.service(5). Making a sandbox, with mounts and a dozen seccomp filters,
# takes as long as starting Python, for each program.
_ORDER = """\
After=local-fs.target systemd-modules-load.service systemd-sysctl.service
After=tuned.service nvidia-persistenced.service ufw.service firewalld.service
Before=slurmd.service kubelet.service containerd.service docker.service crio.service
"""
UNIT = f"""\
[Unit]
Description=Apply the declared settings of this node (mlnode.tuning)
{_ORDER}ConditionDirectoryNotEmpty=/etc/mlnode/declared.d

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=-+/bin/udevadm settle
ExecStart={AGENT_COMMAND} apply
SuccessExitStatus=3
TimeoutStartSec=420
{_SANDBOX}
[Install]
WantedBy=multi-user.target
"""

# Only a boot starts it: until then a transient timer ends the lease. It reverts or declares the node, and is
# as free as these commands are: both install or remove files below /usr/local.
LEASE_SERVICE = f"""\
[Unit]
Description=Restore the state of this node before a measurement (mlnode.tuning)
{_ORDER}Before={AGENT_UNITS[0]}
ConditionPathExists={LEASE}

[Service]
Type=oneshot
ExecStartPre=-+/bin/udevadm settle
ExecStart=%s
TimeoutStartSec=420
"""

#: The interrupts that drivers have requested, each with its name, and a file for an earlier list
_REQUESTED, _SEEN = "echo /proc/irq/*/*/", "/run/mlnode-nic/irqs"
_WAIT = (
    "for second in 1 2 3 4 5 6 7 8 9 10; do sleep 1; "
    f'[ ! -e {NIC_FLAG} ] && [ "$$({_REQUESTED})" = "$$(cat {_SEEN})" ] || exec touch {NIC_FLAG}; done'
)

# A driver that renews its queues causes an event for each: the second lets it finish. The flag is removed
# before the run: a change during the run raises it again, and the path unit starts the service once more.
# Many drivers request interrupts when the interface is raised, without any event. So ten seconds follow in
# which an event, or a new list of requested interrupts, ends the wait, and the flag starts the service once
# more for interfaces that come later: no event waits for more than a second beside a run. They end with a
# second run, as the configuration of the network may have set an MTU in them; one more run is after the
# network is up at boot. systemd makes $ of $$, and removes the folder.
# Without a condition: an unmet condition would keep the flag, and the unit would be started endlessly.
# The time is for the lock, twice, as another process may be writing the boot loader's menu.
NIC_UNIT = f"""\
[Unit]
Description=Apply declared settings to NICs that have arrived or changed their queues (mlnode.tuning)
After=mlnode-apply.service network.target network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
RuntimeDirectory=mlnode-nic
ExecStartPre=+/bin/sleep 1
ExecStartPre=+/bin/rm -f {NIC_FLAG}
ExecStartPre=+/bin/sh -c '{_REQUESTED} >{_SEEN}'
ExecStart={AGENT_COMMAND} apply --nics
ExecStart=+/bin/sh -c '{_WAIT}'
ExecStart={AGENT_COMMAND} apply --nics
SuccessExitStatus=3
TimeoutStartSec=780
{_SANDBOX}
[Install]
WantedBy=multi-user.target
"""

# Not after the boot service, which begins after all path units: that would be a cycle. The started unit is.
NIC_PATH = f"""\
[Unit]
Description=Wait for NICs that arrive or change their queues (mlnode.tuning)

[Path]
PathExists={NIC_FLAG}

[Install]
WantedBy=multi-user.target
"""

# Must cost a job nothing: the lowest priority, and the disk only while it is idle. A check that hangs, as on
# a dead NFS server, ends before the next is due; systemd starts no second instance.
CHECK_UNIT = f"""\
[Unit]
Description=Check this node and write metrics for node_exporter (mlnode.tuning)
After=mlnode-apply.service
ConditionDirectoryNotEmpty=/etc/mlnode/declared.d

[Service]
Type=oneshot
ExecStart={AGENT_COMMAND} metrics
Nice=19
IOSchedulingClass=idle
CPUSchedulingPolicy=batch
TimeoutStartSec=300
{_CHECK_SANDBOX}"""

# A check every minute, only of values that change by the minute. The check service has found the folder.
# systemd's own lines about each start would be 2,880 a day in the journal; warnings stay.
WATCH_UNIT = f"""\
[Unit]
Description=Watch the governor and RDMA counters of this node for node_exporter (mlnode.tuning)
After=mlnode-apply.service {CHECK_SERVICE}
ConditionPathExists=/var/lib/mlnode/textfile

[Service]
Type=oneshot
ExecStart={AGENT_COMMAND} metrics --watch
Nice=19
IOSchedulingClass=idle
CPUSchedulingPolicy=batch
TimeoutStartSec=50
LogLevelMax=notice
{_CHECK_SANDBOX}"""

# The delay spreads a fleet over the whole period. It is constant for a node if systemd has FixedRandomDelay=
# (247 and newer); older versions ignore the line, and two runs are up to 30 minutes apart.
_TIMER = """\
[Unit]
Description={about} every 15 minutes (mlnode.tuning)

[Timer]
OnCalendar=*:0/15
RandomizedDelaySec=900
FixedRandomDelay=yes
AccuracySec=1s
Unit={service}
"""
CHECK_TIMER_UNIT = _TIMER.format(about="Check this node", service=CHECK_SERVICE)

# Without a random delay, which varies before systemd 247: two runs would be up to two minutes apart.
# They ask no server, which a fleet could overload.
WATCH_TIMER_UNIT = f"""\
[Unit]
Description=Watch this node every minute (mlnode.tuning)

[Timer]
OnCalendar=minutely
AccuracySec=1s
Unit={WATCH_SERVICE}
"""
PULL_TIMER_UNIT = _TIMER.format(about="Look for a new declaration of this node", service=PULL_SERVICE)

# It applies, with the rights and the timeout of the boot service, plus a minute for the network.
PULL_UNIT = f"""\
[Unit]
Description=Pull the declaration of this node (mlnode.tuning)
Wants=network-online.target
After=mlnode-apply.service network-online.target
ConditionDirectoryNotEmpty=/etc/mlnode/declared.d

[Service]
Type=oneshot
ExecStart={AGENT_COMMAND} pull
SuccessExitStatus=3
TimeoutStartSec=480
{_PULL_SANDBOX}"""

# Interfaces without hardware come and go with every container. A flag that is already up needs no program. An
# RDMA driver may be loaded after the interface, or alone again, and then has its defaults. A NIC that has
# recovered from a PCIe error was reset by its driver (drivers/pci/pci-driver.c: pci_uevent_ers).
_RAISE = f"/bin/touch {NIC_FLAG}"
UDEV = f"""\
# A NIC or RDMA device that arrives, or changes its queues, gets its declared settings (mlnode.tuning).
TEST=="{NIC_FLAG}", GOTO="mlnode_end"
DEVPATH=="/devices/virtual/*", GOTO="mlnode_end"
ACTION=="add", SUBSYSTEM=="net|infiniband", RUN+="{_RAISE}"
ACTION=="add|remove", SUBSYSTEM=="queues", RUN+="{_RAISE}"
SUBSYSTEM=="pci", ENV{{ERROR_EVENT}}=="SUCCESSFUL_RECOVERY", ATTR{{class}}=="0x02*", RUN+="{_RAISE}"
LABEL="mlnode_end"
"""

# At the first boot of an image without a machine-id systemd applies the presets. If they disable unnamed
# units by default, the image's links would be removed: systemd.preset(5), machine-id(5).
PRESET = f"""\
# Units enabled in an image stay enabled at its first boot (mlnode.tuning).
enable {AGENT_UNIT}
enable {NIC_SERVICE}
enable {NIC_PATH_UNIT}
"""

#: Path → content, in the order in which they are installed
TEXTS = {
    AGENT_FILE: UNIT,
    NIC_SERVICE_FILE: NIC_UNIT,
    NIC_PATH_FILE: NIC_PATH,
    CHECK_SERVICE_FILE: CHECK_UNIT,
    CHECK_TIMER_FILE: CHECK_TIMER_UNIT,
    WATCH_SERVICE_FILE: WATCH_UNIT,
    WATCH_TIMER_FILE: WATCH_TIMER_UNIT,
    PULL_SERVICE_FILE: PULL_UNIT,
    PULL_TIMER_FILE: PULL_TIMER_UNIT,
    UDEV_FILE: UDEV,
    PRESET_FILE: PRESET,
}

#: Link → target, as `systemctl enable` makes them
LINKS = {AGENT_LINK: AGENT_FILE, NIC_SERVICE_LINK: NIC_SERVICE_FILE, NIC_PATH_LINK: NIC_PATH_FILE}
