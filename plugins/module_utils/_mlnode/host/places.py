# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every path that is ever written, in one table: the paths that a store may contain, and the product's own
files. Host checks paths here; a test compares the table with the constants of the writers.

One table for all kinds, on purpose: it stands between a damaged store and the file system, so it has to be
readable and reviewable as a whole, and a new path is added here by hand. It imports no kind, because Host
asks before any is known.
"""

from __future__ import annotations

import errno
import re

from ..model.errors import HostError
from ..model.record import NamedTuple, regex

#: Folders with our own files only
FOLDERS = ("/etc/mlnode", "/var/lib/mlnode", "/run/mlnode")

# As declared.check_name() has it
_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"
_UNIT = r"[A-Za-z0-9:_.@\\-]{1,255}\.service"
_PART = r"(?!\.\.?(?:/|\Z))[^/\0]+"

#: Interfaces over which the node is managed, as the last run saw them
MANAGEMENT = "/etc/mlnode/management.json"

#: Changes that the agent has given up (failed_changes.py), until an attended run or the next boot, which may
#: bring another kernel or cable
FAILED_CHANGES = "/run/mlnode/failed"

#: Answers of devices to values that they still do not have (answers.py)
ANSWERS = "/run/mlnode/answers"

#: A change of NICs that waits for confirmation, and an undone change that was not reported yet
PENDING = "/var/lib/mlnode/confirm.json"
UNDONE = "/var/lib/mlnode/undone.json"

#: Files of others that contain our lines
_SHARED = (
    r"/etc/default/grub",
    r"/etc/kernel/cmdline",
    rf"/boot/loader/entries/{_PART}\.conf",
    r"/etc/nccl\.conf",
    r"/etc/docker/daemon\.json",
    r"/etc/systemd/system/multi-user\.target\.wants/irqbalance\.service",
)

#: Folders that no kernel makes; a driver shows their content, see Host.mounts
ETHTOOL, DCB = "/ethtool", "/dcb"
_DEVICES = (ETHTOOL, DCB, "/roce", "/service", "/gpu")
#: The same for the agent, which has no settings
AGENT = "/agent"
DRIVEN = (*_DEVICES, AGENT)

#: Files of the kernel, and files that drivers emulate
_KERNEL = (
    r"/proc/sys",
    r"/proc/irq/[0-9]+",
    r"/sys/kernel/mm/transparent_hugepage",
    r"/sys/kernel/debug/sched",
    r"/sys/kernel/debug/mlx5",
    r"/sys/devices/system/(?:cpu|node)",
    rf"/sys/class/net/{_PART}",
    rf"/sys/block/{_PART}/queue",
    r"/sys/class/bdi/[0-9]+:[0-9]+",
    # memory.swappiness of slices and services, with cgroup v1
    r"/sys/fs/cgroup/memory",
    *_DEVICES,
)

_SYSTEMD = "/etc/systemd/system"
WANTS = f"{_SYSTEMD}/multi-user.target.wants"
#: The agent, and the units that run it: at every boot, for a changed NIC, and while no NIC has changed
AGENT_COMMAND = "/usr/local/bin/mlnode"
AGENT_UNITS = ("mlnode-apply.service", "mlnode-nic.service", "mlnode-nic.path")
#: Units that check the node every 15 minutes and watch it every minute, if declared, and the drop-in that
#: starts both for a declaration
CHECK_SERVICE, CHECK_TIMER = "mlnode-check.service", "mlnode-check.timer"
WATCH_SERVICE, WATCH_TIMER = "mlnode-watch.service", "mlnode-watch.timer"
CHECK_DROP_IN = f"{_SYSTEMD}/timers.target.d/zz-mlnode-NAME.conf"
#: The same for pulling declarations. The names must not match a pattern of the others
PULL_SERVICE, PULL_TIMER = "mlnode-pull.service", "mlnode-pull.timer"
PULL_DROP_IN = f"{_SYSTEMD}/timers.target.d/zz-mlnode.pull-NAME.conf"
#: Drop-in that starts them → the units
TIMED = {
    CHECK_DROP_IN: (CHECK_TIMER, CHECK_SERVICE, WATCH_TIMER, WATCH_SERVICE),
    PULL_DROP_IN: (PULL_TIMER, PULL_SERVICE),
}
TIMED_UNITS = tuple(unit for units in TIMED.values() for unit in units)
#: Result of the last pull, and its folder, which is otherwise empty except for moments
PULL_FOLDER = "/run/mlnode/pull"
PULL_REPORT = f"{PULL_FOLDER}/report.json"
#: Serial accepted by the last pull, in two copies like the origin: without it an old document would count
PULLED, PULLED_COPY = "/var/lib/mlnode/pull.json", "/etc/mlnode/pull.json"
#: Values with which the watch compares every minute. It starts afresh with each boot
WATCHED = "/run/mlnode/watch.json"
#: Held by a run, by a pull and by a check that writes metrics, while they are under way. They are on a tmpfs,
#: so no reboot leaves a stale one; flock(2) itself dies with its holder.
RUN_LOCK, PULL_LOCK, CHECK_LOCK = "/run/mlnode.lock", "/run/mlnode-pull.lock", "/run/mlnode-check.lock"
LOCKS = (RUN_LOCK, PULL_LOCK, CHECK_LOCK)

#: Services to notify of a changed file, as stored in the file's origin: handlers.HANDLERS
READERS = ("units", "irqbalance", "irqbalance service", "boot loader")

#: sysctls that left sysctl.d while an initramfs may have a copy of them
LEFT_SYSCTLS = "/etc/mlnode/initramfs.d/NAME"


def pattern(path: str) -> str:
    """Pattern for the files of all declarations, for Host.matching()."""
    return path.replace("NAME", "*")


class Own(NamedTuple):
    """Files that are mlnode's by name alone. NAME stands for the name of a declaration, * for a service.

    reader: the service that reads them, one of READERS; empty for none. kinds: the kinds that write them, for
    a declaration or, without NAME, for all of them; empty for the agent and for files of every declaration.
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


#: In the order of removal: first the units that start the agent, which would otherwise restore the rest at a
#: boot in between
OWN = (
    *(Own(f"{WANTS}/{unit}", "units") for unit in AGENT_UNITS),
    Own(CHECK_DROP_IN, "units", ("metrics",)),
    Own(PULL_DROP_IN, "units", ("pull",)),
    *(Own(f"{_SYSTEMD}/{unit}", "units") for unit in (*AGENT_UNITS, *TIMED_UNITS)),
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

#: File of the system → kind, and the first line of its block there; the group is the declaration
BLOCKS = {"/etc/nccl.conf": ("nccl", r"# BEGIN mlnode\.tuning ([a-z0-9_-]+)\b")}

_BELOW = tuple(f"{folder}/" for folder in FOLDERS)
# Separate from the others, because compiling it takes longer than checking ten files.
_IS_NAMED = regex("|".join(f"(?:{one.exact})\\Z" for one in OWN))
_IS_SHARED = regex("|".join(f"(?:{one})\\Z" for one in (rf"/etc/mlnode(?:/{_PART})+", *_SHARED)))
_IS_KERNEL = regex(rf"(?:{'|'.join(_KERNEL)})(?:/{_PART})+\Z")


#: NUL ends a path in C, and half of a UTF-16 pair has no bytes: Python raises ValueError for both. The range
#: U+DC80 to U+DCFF stands for bytes that are not UTF-8 (PEP 383).
_NO_PATH = regex("[\x00\ud800-\udc7f\udd00-\udfff]")


def checked(path: str) -> str:
    """The path. Raises HostError for a path that no system call takes, as from a damaged file."""
    if ("\0" in path or not path.isascii()) and _NO_PATH.search(path):
        raise HostError("look at", ascii(path)[1:-1], errno.EINVAL)
    return path


def is_own(path: str) -> bool:
    """True if a file is mlnode's alone."""
    return path.startswith(_BELOW) or bool(_IS_NAMED.match(path))


def is_roots(path: str) -> bool:
    """True if only root may change a file, so its folder must be root's alone."""
    return path in LOCKS or is_own(path) or may_write(path)


def may_write(path: str) -> bool:
    """True if it is a file that a run can have written and a revert puts back."""
    return bool(_IS_SHARED.match(path) or _IS_NAMED.match(path))


def may_set(path: str) -> bool:
    """True if it is a file of the kernel that a run can have written a value to."""
    return _IS_KERNEL.match(path) is not None
