# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Table of all paths that may be written: paths in a store, and mlnode's own files. Host checks each path
against it; a test compares it with the constants of the writers.

The table protects the file system from a damaged store. It is in one place, to be reviewed as a whole; new
paths are added by hand. It imports no kind, because Host needs it before any kind is loaded.
"""

from __future__ import annotations

import errno
import re

from ..model.errors import HostError
from ..model.record import NamedTuple, regex

#: Folders that contain only mlnode's files
FOLDERS = ("/etc/mlnode", "/var/lib/mlnode", "/run/mlnode")

# As in declared.check_name()
_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"
_UNIT = r"[A-Za-z0-9:_.@\\-]{1,255}\.service"
_PART = r"(?!\.\.?(?:/|\Z))[^/\0]+"

#: Interfaces over which the node is managed, as the last run saw them
MANAGEMENT = "/etc/mlnode/management.json"

#: Changes that the agent no longer retries (failed_changes.py), until an attended run or the next boot
FAILED_CHANGES = "/run/mlnode/failed"

#: Answers of devices to rejected values (answers.py)
ANSWERS = "/run/mlnode/answers"

#: A NIC change that waits for confirmation, and an undone change that was not reported yet
PENDING = "/var/lib/mlnode/confirm.json"
UNDONE = "/var/lib/mlnode/undone.json"

#: A lease on the state of this node, and the agent that ends it, as a revert removes the installed one
LEASE, LEASE_AGENT = "/var/lib/mlnode/lease.json", "/var/lib/mlnode/lease-agent"

#: Files of other programs that contain mlnode's lines
_SHARED = (
    r"/etc/default/grub",
    r"/etc/kernel/cmdline",
    rf"/(?:boot|efi|boot/efi)/loader/entries/{_PART}\.conf",
    r"/etc/[nr]ccl\.conf",
    r"/etc/docker/daemon\.json",
    r"/etc/systemd/system/multi-user\.target\.wants/irqbalance\.service",
)

#: Virtual folders, whose content comes from a driver; see Host.mounts
ETHTOOL, DCB = "/ethtool", "/dcb"
_DEVICES = (ETHTOOL, DCB, "/roce", "/service", "/gpu")
#: The virtual folder of the agent, which has no settings
AGENT = "/agent"
DRIVEN = (*_DEVICES, AGENT)

#: Files of the kernel, and files that drivers emulate
_KERNEL = (
    r"/proc/sys",
    r"/proc/irq/[0-9]+",
    r"/sys/kernel/mm/transparent_hugepage",
    r"/sys/kernel/debug/sched",
    rf"/sys/kernel/debug/mlx5/{_PART}/cc_params",
    rf"/sys/kernel/debug/bnxt_re/{_PART}/cc_config",
    rf"/sys/devices/system/(?:cpu|node)(?!(?:/{_PART})*/(?:online|hotplug|microcode|probe|release)(?:/|\Z))",
    # Without the links to other devices
    rf"/sys/class/net/{_PART}(?!/(?:device|phydev|master|(?:upper|lower)_[^/]*)/)",
    rf"/sys/block/{_PART}/queue",
    r"/sys/class/bdi/[0-9]+:[0-9]+",
    # Whether the kernel may suspend an unused device, such as a GPU
    rf"/sys/bus/pci/devices/{_PART}/power(?=/control\Z)",
    # memory.swappiness of slices and services, with cgroup v1
    r"/sys/fs/cgroup/memory",
    *_DEVICES,
)

#: Parts of names that act on hardware or the machine, take it away or hold a secret, as in delete_controller,
#: reset_method, online, panic_on_warn, bonding_masters and dhchap_secret
_SYSFS_ACTIONS = frozenset((
    "bind", "unbind", "new", "remove", "delete", "eject", "detach", "attach", "stop", "unregister",
    "release", "probe", "scan", "rescan", "reload", "reset", "online", "offline", "enable", "disable",
    "hotplug", "authorized", "override", "autoprobe", "autoconfig", "sriov", "firmware", "fw",
    "flash", "loading", "update", "rom", "nvram", "eeprom", "vpd", "uevent", "wakeup", "d3cold",
    "abort", "trigger", "shutdown", "poweroff", "suspend", "resume", "hibernate", "kexec",
    "livepatch", "thermal", "fan", "pwm", "masters", "xprt", "secret", "password", "security",
    "disconnect", "reconnect", "unmap", "freeze", "withdraw", "commit", "inject", "ro", "rfkill",
    "nvm", "nvmem", "dlpar", "kgdboc", "create", "add", "register", "ungroup", "configure", "connect",
    "resize", "export", "recover", "unload", "inhibited", "failslab", "vbflash", "optrom", "lip",
    "linkrate", "role", "acl", "key", "blank", "quirks", "crit", "emergency", "smi", "pwr", "panic",
    "reboot", "sysrq", "nowayout",
    # Whole subsystems, as the path of each of their devices names them: consoles and keyboards, watchdogs,
    # lines to hardware, memory as a device, fault dumps, cluster locks, and modules that guard access
    "tty", "serio", "input", "graphics", "usb", "typec", "watchdog", "wdt", "softdog", "hpwdt", "gpio",
    "ndbus", "dax", "decoder", "region", "xen", "devcoredump", "dlm", "lock", "apparmor", "yama", "selinux",
    "dcdbas", "mlnxbf", "mlxreg", "tsm",
))  # fmt: skip
#: Words of the same kind that are a part of harmless names, as in hwmon's power1_cap or a device's state
_SYSFS_NAMES = {
    "power": "it is power management, which can take a device or the machine away",
    "config": "it is the configuration space of a device",
    "state": "it takes a device or its memory away",
    "md": "it changes an array of disks",
    "smt": "it takes CPUs away, with forceoff until the next boot",
    "sig_enforce": "it cannot be set back (bool_enable_only in kernel/module/signing.c)",
    "profiling": "it cannot be set back (kernel/ksysfs.c: profiling_store)",
    "power_status": "it takes a disk of an enclosure away",
    "bConfigurationValue": "it takes a USB device away",
    "active": "it takes a device or a storage target out of use",
    "dh_state": "it detaches the paths of a disk",
    "status": "it forces a connector on or off",
    "errors": "it lets an error take a disk or the machine away",
    "halt_if_hws_hang": "it stops a GPU",
    "board_mode": "it takes an adapter offline",
    "make-it-fail": "it makes requests to a disk fail",
    "io-timeout-fail": "it makes requests to a disk fail",
    "ppi": "it asks the firmware for an operation of the TPM, such as to clear it",
}
#: Memory of a device, and the kind of a port, whose change removes its interface (mlx4)
_SYSFS_RESOURCE = regex(r"resource[0-9_]|mlx4_port[0-9]")
_SYSFS_WORD = regex(r"[A-Za-z0-9]+")

#: Folders of other file systems, mounted or not
_NOT_SYSFS = (
    *("kernel/debug", "kernel/tracing", "kernel/config", "kernel/security", "hypervisor", "fs/cgroup"),
    *("fs/bpf", "fs/fuse", "fs/pstore", "fs/resctrl", "fs/selinux", "fs/smackfs"),
)

#: Settings of an interface that do not change how it reaches others (ABI/testing/sysfs-class-net)
_SYSFS_OF_INTERFACE = ("gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "tx_queue_len", "statistics")

_SYSTEMD = "/etc/systemd/system"
WANTS = f"{_SYSTEMD}/multi-user.target.wants"
#: The agent, and the units that run it at boot and for a changed NIC
AGENT_COMMAND = "/usr/local/bin/mlnode"
AGENT_UNITS = ("mlnode-apply.service", "mlnode-nic.service", "mlnode-nic.path")
#: The unit that ends a lease after a boot
LEASE_UNIT = "mlnode-lease.service"
#: Units that check the node every 15 minutes and watch it every minute, and the drop-in of a declaration that
#: starts both
CHECK_SERVICE, CHECK_TIMER = "mlnode-check.service", "mlnode-check.timer"
WATCH_SERVICE, WATCH_TIMER = "mlnode-watch.service", "mlnode-watch.timer"
CHECK_DROP_IN = f"{_SYSTEMD}/timers.target.d/zz-mlnode-NAME.conf"
#: The same for pulling declarations. No other pattern may match these names
PULL_SERVICE, PULL_TIMER = "mlnode-pull.service", "mlnode-pull.timer"
PULL_DROP_IN = f"{_SYSTEMD}/timers.target.d/zz-mlnode.pull-NAME.conf"
#: Drop-in → the units that it starts
TIMED = {
    CHECK_DROP_IN: (CHECK_TIMER, CHECK_SERVICE, WATCH_TIMER, WATCH_SERVICE),
    PULL_DROP_IN: (PULL_TIMER, PULL_SERVICE),
}
TIMED_UNITS = tuple(unit for units in TIMED.values() for unit in units)
#: Result of the last pull, and its folder, which contains temporary files during a pull
PULL_FOLDER = "/run/mlnode/pull"
PULL_REPORT = f"{PULL_FOLDER}/report.json"
#: Serial of the last accepted pull, in two copies like the origin: it prevents replays of old documents
PULLED, PULLED_COPY = "/var/lib/mlnode/pull.json", "/etc/mlnode/pull.json"
#: Values of the last watch, for comparison with the next one. Empty after a boot
WATCHED = "/run/mlnode/watch.json"
#: Locks of a run, a pull and a check that writes metrics. They are on a tmpfs, so a reboot removes them, and
#: flock(2) ends with the process that holds it.
RUN_LOCK, PULL_LOCK, CHECK_LOCK = "/run/mlnode.lock", "/run/mlnode-pull.lock", "/run/mlnode-check.lock"
LOCKS = (RUN_LOCK, PULL_LOCK, CHECK_LOCK)

#: Readers of files, to be notified of a change; names in handlers.HANDLERS, stored in the file's origin
READERS = ("units", "irqbalance", "irqbalance service", "boot loader", "kernel images", "kernel arguments")

#: sysctls removed from sysctl.d that an initramfs may still contain
LEFT_SYSCTLS = "/etc/mlnode/initramfs.d/NAME"


def pattern(path: str) -> str:
    """Pattern that matches the files of all declarations, for Host.matching()."""
    return path.replace("NAME", "*")


class Own(NamedTuple):
    """Files whose name shows that they are mlnode's. NAME is the name of a declaration, * a service.

    reader: the service that reads them, one of READERS; empty for none. kinds: the kinds that write them;
    empty for files of the agent and of every declaration. Without NAME, all declarations share the file.
    """

    path: str
    reader: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        return pattern(self.path)

    @property
    def exact(self) -> str:
        """A regular expression whose first group is the name."""
        escaped = re.escape(self.path).replace(r"\*\.service", _UNIT)
        return escaped.replace("NAME", f"({_NAME})", 1)


#: In the order of removal: first the units that start the agent, because a boot during the removal would
#: otherwise restore the rest
OWN = (
    *(Own(f"{WANTS}/{unit}", "units") for unit in (*AGENT_UNITS, LEASE_UNIT)),
    Own(CHECK_DROP_IN, "units", ("metrics",)),
    Own(PULL_DROP_IN, "units", ("pull",)),
    *(Own(f"{_SYSTEMD}/{unit}", "units") for unit in (*AGENT_UNITS, LEASE_UNIT, *TIMED_UNITS)),
    Own("/etc/udev/rules.d/90-mlnode.rules", "units"),
    Own("/etc/systemd/system-preset/50-mlnode.preset", "units"),
    Own("/etc/sysctl.d/zz-mlnode-NAME.conf", "", ("sysctl",)),
    Own("/etc/modules-load.d/mlnode-NAME.conf", "", ("sysctl",)),
    Own("/etc/modules-load.d/mlnode-modules.NAME.conf", "", ("modules",)),
    Own("/etc/modprobe.d/zz-mlnode-NAME.conf", "", ("modules",)),
    Own("/etc/security/limits.d/zz-mlnode-NAME.conf", "", ("limits",)),
    Own("/etc/systemd/system.conf.d/zz-mlnode-NAME.conf", "units", ("limits",)),
    Own(f"{_SYSTEMD}/*.service.d/zz-mlnode-NAME.conf", "units", ("limits",)),
    Own(f"{_SYSTEMD}/*.service.d/zz-mlnode-stopped.NAME.conf", "units", ("services",)),
    Own(f"{_SYSTEMD}/irqbalance.service.d/zz-mlnode-irq.NAME.conf", "irqbalance", ("irq",)),
    Own("/etc/default/grub.d/zz-mlnode-NAME.cfg", "boot loader", ("boot",)),
    Own("/etc/mlnode/kernel-arguments.d/NAME.json", "kernel arguments", ("boot",)),
    Own("/etc/containers/containers.conf.d/zz-mlnode-NAME.conf", "", ("containers",)),
    Own("/etc/crio/crio.conf.d/zz-mlnode-NAME.conf", "", ("containers",)),
    Own("/etc/kubernetes/kubelet.conf.d/zz-mlnode-NAME.conf", "", ("containers",)),
    Own("/etc/mlnode/irqbalance.d/NAME", "irqbalance", ("irq",)),
    Own("/etc/mlnode/irqbalance-policy", "irqbalance", ("irq",)),
    Own(MANAGEMENT, "", ("nic", "rail", "qos")),
    Own(LEFT_SYSCTLS),
    Own("/etc/mlnode/declared.d/NAME.json"),
    Own(AGENT_COMMAND),
)

#: System file → kind, and pattern of the first line of its block; the group is the declaration's name
BLOCKS = dict.fromkeys(
    ("/etc/nccl.conf", "/etc/rccl.conf"), ("nccl", r"# BEGIN mlnode\.tuning ([a-z0-9_-]+)\b")
)

_BELOW = tuple(f"{folder}/" for folder in FOLDERS)
# Not in the patterns above, because compiling it takes longer than checking ten files.
_IS_NAMED = regex("|".join(f"(?:{place.exact})\\Z" for place in OWN))
_IS_SHARED = regex("|".join(f"(?:{pattern})\\Z" for pattern in (rf"/etc/mlnode(?:/{_PART})+", *_SHARED)))
#: Any other file of sysfs
_IS_SYSFS = regex(rf"/sys(?:/{_PART})+\Z")
_IS_KERNEL = regex(rf"(?:{'|'.join(_KERNEL)})(?:/{_PART})+\Z")


#: NUL ends a path in C, and a lone UTF-16 surrogate has no bytes: Python raises ValueError for both. U+DC80
#: to U+DCFF are allowed: they stand for bytes that are not UTF-8 (PEP 383).
_NO_PATH = regex("[\x00\ud800-\udc7f\udd00-\udfff]")


def checked(path: str) -> str:
    """The path itself. Raises HostError if no system call accepts it, such as a path from a damaged file."""
    if ("\0" in path or not path.isascii()) and _NO_PATH.search(path):
        raise HostError("look at", ascii(path)[1:-1], errno.EINVAL)
    return path


def is_own(path: str) -> bool:
    """True if the file contains only mlnode's content."""
    return path.startswith(_BELOW) or bool(_IS_NAMED.match(path))


def is_roots(path: str) -> bool:
    """True if only root may change the file; only root may then write to its folders."""
    return path in LOCKS or is_own(path) or may_write(path)


def may_write(path: str) -> bool:
    """True if a run may write the file, and a revert may restore it."""
    return bool(_IS_SHARED.match(path) or _IS_NAMED.match(path))


def sysfs_fault(path: str) -> str:
    """Reason why a file of sysfs is never set, from its path without links or a pattern; empty if there is
    none. Sources: Documentation/ABI, sysfs(5)."""
    names = path[len("/sys/") :].split("/")
    below = "/".join(names)
    for other in _NOT_SYSFS:
        if f"{below}/".startswith(f"{other}/"):
            return "it is not in sysfs, but in another file system"
    for name in names:
        if name in _SYSFS_NAMES:
            return _SYSFS_NAMES[name]
        acting = _SYSFS_ACTIONS.intersection(
            word.lower().rstrip("0123456789") for word in _SYSFS_WORD.findall(name.replace("_", " "))
        )
        if acting or _SYSFS_RESOURCE.match(name):
            return f"{name!r} acts on a device or on the kernel, and holds no setting"
    return _of_interface(names)


def _of_interface(names: list[str]) -> str:
    """Reason for a file of a network interface; `devices/…/net/eth0/mtu` is one."""
    harmless = (*_SYSFS_OF_INTERFACE, "queues", "device")
    below = [*names, "", ""]
    if any(folder == "net" and own not in harmless for folder, own in zip(below, below[2:])):
        return "it can disconnect the node; the areas nic and rail set interfaces"
    return ""


def may_set(path: str, key: str) -> bool:
    """True if it is a kernel file that a run may set for a setting."""
    if key.startswith("sysfs."):
        return _IS_SYSFS.match(path) is not None and not sysfs_fault(path)
    return _IS_KERNEL.match(path) is not None
