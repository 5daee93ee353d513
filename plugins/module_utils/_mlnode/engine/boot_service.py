# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that keep the agent's units, and systemd's readers of our drop-ins, from running at the next boot.

The next boot reads files, therefore files are judged: they name the line at fault, and exist in an image and
a captured tree as well. A running systemd is asked once per run for facts outside these files: drop-ins in
unknown places, units that failed to load, and commands that differ from the file.

A line from others counts unless it is listed as harmless (harmless.py). A line that changes an installed
setting is a fault; the effect of any other line is unknown.
"""

from __future__ import annotations

import math
from typing import Iterator, Mapping, Sequence

from ..host import unit_words
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..linux import exec_mounts, selinux_access, systemd_show, systemd_unit
from ..linux.kernel_line import KernelLine
from ..linux.systemd_conf import Line
from ..linux.systemd_show import Properties
from ..linux.systemd_unit import Unit
from ..model.errors import HostError
from . import boot_manager, harmless
from .boot_manager import NOT_JUDGED, TAKE_OUT, TAKE_OUT_WORD, Fault
from .kind import AGENT_FILE, AGENT_LINK, AGENT_UNIT, NO_AGENT
from .units import (
    LINKS,
    NIC_PATH_FILE,
    NIC_PATH_LINK,
    NIC_PATH_UNIT,
    NIC_SERVICE,
    NIC_SERVICE_FILE,
    NIC_SERVICE_LINK,
    PRESET_FILE,
    TEXTS,
    UDEV_FILE,
    UNIT_FOLDER,
)

#: Repairs all files of the agent
MEND = "run site.yml, or install the agent"
#: Targets that every service of the agent needs and follows (systemd.service(5), Default Dependencies)
_NEEDED = ("sysinit.target", "basic.target")

#: The names of the agent's first files lie within so many bytes, four times the measured length
_NAMES = 1 << 17

#: From this exit status on, systemd has not come to our command (systemd.exec(5), process exit codes)
_NOT_STARTED = 200

#: Prefix of all our units
_OURS = "mlnode-"

#: Lines of another unit that act upon the unit they name
_ACTING = ("Conflicts", "After", "Before")

#: Targets of the units started at boot, and of the timers
_STARTING, _TIMERS = "multi-user.target", "timers.target"


def installed(host: Host) -> bool:
    """True if any file of the agent exists. Raises HostError."""
    return any(host.is_link(path) or host.exists(path) for path in (AGENT_COMMAND, *TEXTS, *LINKS))


# running: True if the running system is the one to judge and may be asked; False in an image build, whose
# files are for other machines.


def stopped(host: Host, running: bool = True) -> str:
    """Reason why the next boot does not run our command; empty if it does. Raises HostError, also if the
    answer is unknown."""
    if not installed(host):
        return NO_AGENT
    stopping = [fault for fault in boot_faults(host, running) if fault.stops]
    for fault in stopping:
        if fault.judged:
            return str(fault)
    if stopping:
        raise HostError("judge whether the next boot runs", AGENT_UNIT, None, str(stopping[0]))
    return ""


def boot_faults(host: Host, running: bool = True) -> Sequence[Fault]:
    """Faults that stop the boot service, and differences from its installed files. Raises HostError."""
    return host.once(
        f"faults of the boot service {running}", lambda: _boot_faults(host, running), of_files=True
    )


def nic_faults(host: Host, running: bool = True) -> Sequence[Fault]:
    """Faults of the units that handle new NICs and changed queues. Raises HostError."""
    return host.once(f"faults of the NIC units {running}", lambda: _nic_faults(host, running), of_files=True)


def timer_faults(host: Host, units: Sequence[str], running: bool = True) -> Sequence[Fault]:
    """Faults of a timer and its service, which timers.target starts. Raises HostError."""
    return host.once(
        f"faults of {units} {running}", lambda: _timer_faults(host, units, running), of_files=True
    )


def left(host: Host, running: bool = True) -> list[str]:
    """Faults that an installation does not repair. Raises HostError."""
    faults = (*boot_faults(host, running), *nic_faults(host, running))
    return [str(fault) for fault in faults if fault.theirs]


def loader_off(host: Host, unit: str, running: bool = True) -> str:
    """Reason why a systemd service does not read its configuration files; empty if it does. Also empty if
    that cannot be seen, as in a tree without /usr. Raises HostError."""
    return host.once(f"loader {unit} {running}", lambda: _loader_off(host, unit, running), of_files=True)


def is_idle(host: Host) -> bool:
    """True if systemd runs and does not wait for NICs now."""
    return _state(host, NIC_PATH_UNIT) in (("inactive",), ("failed",))


# -- the units of the agent ----------------------------------------------------------------


def _boot_faults(host: Host, running: bool) -> tuple[Fault, ...]:
    faults = [*_command(host, running), *boot_manager.words(host, running), *boot_manager.environment(host)]
    faults += _unit(host, AGENT_UNIT, AGENT_FILE, AGENT_LINK, running)
    faults += _never_began(host) if running and not faults else []
    return (*faults, *_file(host, PRESET_FILE, stops=False))


def _timer_faults(host: Host, units: Sequence[str], running: bool) -> list[Fault]:
    faults = [fault for name in units for fault in _unit(host, name, f"{UNIT_FOLDER}/{name}", "", running)]
    return [*faults, *_masked(host, [_TIMERS], boot_manager.line_of_next_boot(host, running))]


def _nic_faults(host: Host, running: bool) -> tuple[Fault, ...]:
    faults = [
        *_file(host, UDEV_FILE),
        *_unit(host, NIC_PATH_UNIT, NIC_PATH_FILE, NIC_PATH_LINK, running),
        *_unit(host, NIC_SERVICE, NIC_SERVICE_FILE, NIC_SERVICE_LINK, running),
    ]
    if not faults and running and is_idle(host):
        words = unit_words.last(host, NIC_PATH_UNIT) if _state(host, NIC_PATH_UNIT) == ("failed",) else ""
        cause = f" ({words})" if words else ""
        return (Fault(f"{NIC_PATH_UNIT} does not run{cause}", f"{MEND}, which starts it"),)
    # Report a cause that stops both only once.
    return tuple(fault for fault in faults if fault not in boot_faults(host, running))


def _command(host: Host, running: bool) -> list[Fault]:
    if not host.exists(AGENT_COMMAND):
        return [Fault(f"{AGENT_COMMAND} does not exist", "install the agent")]
    # The first line names the interpreter. A zip of megabytes follows, whose names are in order.
    content, _is_all = host.beginning(AGENT_COMMAND, _NAMES, math.inf)
    starts = content.startswith(b"#!") and content.startswith(b"PK\x03\x04", content.find(b"\n") + 1)
    if not (starts and b"mlnode/agent/cli.py" in content):
        return [Fault(f"{AGENT_COMMAND} is not the agent", MEND)]
    if not host.is_executable(AGENT_COMMAND):
        return [Fault(f"{AGENT_COMMAND} is not executable", MEND)]
    if refusal := selinux_access.refusal(host, (AGENT_COMMAND,)) if running else "":
        return [Fault(refusal, f"restorecon -v {AGENT_COMMAND}")]
    mounted = [exec_mounts.next_boot(host, AGENT_COMMAND)]
    mounted += [exec_mounts.now(host, AGENT_COMMAND)] if running else []
    return [
        Fault(f"{where} mounts {point} noexec, so that {AGENT_COMMAND} cannot be started",
              f"mount {point} with exec", theirs=True)
        for where, point in mounted
        if where
    ]  # fmt: skip


def _unit(host: Host, name: str, path: str, link: str, running: bool) -> list[Fault]:
    """Faults of a unit. link: its start at boot; empty if a declaration creates it."""
    properties = _properties(host, running).get(name, {})
    unit = systemd_unit.load(host, name, properties.get("DropInPaths", ()))
    if not unit.fragment or (not host.exists(path) and not host.is_link(path)):
        return [Fault(f"{name} is not enabled, as {path} does not exist", "install the agent")]
    if unit.masked:
        return [Fault(f"{unit.fragment} masks {name}", *_unmasking(unit.fragment, name, path))]
    if unit.fragment != path:
        return [Fault(f"{unit.fragment} takes the place of {path}", f"remove {unit.fragment}", True)]
    wanted = systemd_unit.of_text(name, TEXTS[path])
    line = boot_manager.line_of_next_boot(host, running)
    faults = [*boot_manager.masking(name, line), *_masked(host, _NEEDED, line)]
    faults += [_fault(difference, path, judged) for difference, judged in harmless.differences(unit, wanted)]
    if not any(fault for fault in faults if not fault.theirs):
        faults += _file(host, path, stops=False)
    faults += _start(host, name, link, running) if link else []
    faults += _others(host, unit, line)
    return faults or _as_loaded(name, properties, wanted)


def _unmasking(masked_by: str, name: str, path: str) -> tuple[str, bool]:
    """The remedy, and True if an installation leaves it to others."""
    if masked_by == path:
        return f"systemctl unmask {name}, then {MEND}", False
    return f"remove {masked_by}", True


def _fault(line: Line, own: str, judged: bool) -> Fault:
    if line.file in ("", own):
        difference = f"{own}:{line.number} has {line.text}" if line.number else f"{own} lacks {line.text}"
        return Fault(difference, MEND)
    words = f"{line.where} sets {line.text}"
    return Fault(words if judged else f"{words}, {NOT_JUDGED}", TAKE_OUT, theirs=True, judged=judged)


def _file(host: Host, path: str, stops: bool = True) -> list[Fault]:
    """The fault of a file that differs from its installed content."""
    if not host.is_link(path) and not host.exists(path):
        return [Fault(f"{path} does not exist", MEND, stops=stops)]
    if target := host.link_target(path):
        return [Fault(f"{path} is a link to {target}", MEND, stops=stops)]
    if host.content(path) != TEXTS[path].encode("utf-8"):
        return [Fault(f"{path} differs from the file of this mlnode version", MEND, stops=stops)]
    return []


def _start(host: Host, name: str, link: str, running: bool) -> list[Fault]:
    """Faults of the unit's start at boot."""
    line = boot_manager.line_of_next_boot(host, running)
    start = systemd_unit.start(host, name, line=line)
    if start.by:
        return []
    if masked := _masked(host, [_STARTING], line):
        return masked
    right = systemd_unit.leads_to(host, link, name)
    if start.broken == link or (start.broken and right):
        target = host.link_target(start.broken)
        leads = f"leads to {target} and not" if target else "is not a link"
        theirs = start.broken != link
        remedy = f"remove {start.broken}" if theirs else MEND
        return [Fault(f"{start.broken} {leads} to {name}", remedy, theirs)]
    if not right:
        return [Fault(f"{name} is not enabled, as {link} does not lead to it", "install the agent")]
    problem = f"the next boot ends in {start.target} ({start.where}), which does not start multi-user.target"
    remedy = "systemctl set-default multi-user.target"
    if "kernel command line" in start.where:
        remedy = TAKE_OUT_WORD
    return [Fault(problem, remedy, theirs=True)]


# -- lines of others about a unit ----------------------------------------------------------


def _others(host: Host, unit: Unit, line: KernelLine | None) -> list[Fault]:
    """Units of others that prevent this one's start: by a conflict, or by a cycle, which systemd breaks by
    leaving one unit out.

    Every file that names the unit is read. Commands of others are not read, although one may stop it too.
    """
    named = [
        (other, unit_line)
        for other, unit_line in systemd_unit.naming(host, _OURS)
        if unit_line.file not in TEXTS and unit_line.key in _ACTING and unit.name in unit_line.value.split()
        if other != unit.name
    ]
    added = [
        unit_line
        for unit_line in unit.lines
        if unit_line.key in ("After", "Before") and unit_line.file != unit.fragment
    ]
    if not named and not added:
        return []
    booted = systemd_unit.booted(host, line)
    faults = [
        Fault(f"{unit_line.where} ({other}) sets {unit_line.text}", TAKE_OUT, theirs=True)
        for other, unit_line in named
        if unit_line.key == "Conflicts" and other in booted
    ]
    acting = [(other, unit_line) for other, unit_line in named if other in booted]
    order = _order(host, unit, [other for other, _line in acting])
    for later, earlier, unit_line in _stated(
        [*((unit.name, unit_line) for unit_line in added), *acting], unit.name
    ):
        known = {later, earlier} <= booted
        if known and systemd_unit.waits_for(host, earlier, later, booted, order):
            words = f"{unit_line.where} sets {unit_line.text}, which closes a cycle of After= and Before="
            faults.append(Fault(words, TAKE_OUT, theirs=True))
    return faults


def _stated(lines: Sequence[tuple[str, Line]], name: str) -> Iterator[tuple[str, str, Line]]:
    """Pairs of an order, later and earlier unit, with the line that states it; of a unit's own pairs only."""
    for unit, line in lines:
        for other in line.value.split() if line.key in ("After", "Before") else ():
            if name in (unit, other):
                yield (unit, other, line) if line.key == "After" else (other, unit, line)


def _order(host: Host, unit: Unit, others: Sequence[str]) -> dict[str, set[str]]:
    """Unit → units ordered before it by Before=, among this unit and the units that name it."""
    order: dict[str, set[str]] = {}
    for earlier in (unit, *(systemd_unit.load(host, name) for name in others)):
        for later in earlier.words("Before"):
            order.setdefault(later, set()).add(earlier.name)
    return order


# -- masked units --------------------------------------------------------------------------


def _masked(host: Host, names: Sequence[str], line: KernelLine | None) -> list[Fault]:
    """Faults of needed units that are masked, and so are never started."""
    faults = []
    for name in names:
        unit = systemd_unit.load(host, name)
        faults += boot_manager.masking(name, line)
        if unit.masked:
            faults.append(Fault(f"{unit.fragment} masks {name}", f"remove {unit.fragment}", theirs=True))
    return faults


# -- the services of systemd ---------------------------------------------------------------


def _loader_off(host: Host, name: str, running: bool) -> str:
    properties = _properties(host, running).get(name, {})
    unit = systemd_unit.load(host, name, properties.get("DropInPaths", ()))
    if not unit.fragment:
        return f"{name} does not exist" if properties.get("LoadState") == ("not-found",) else ""
    if unit.masked:
        return f"{unit.fragment} masks {name}"
    line = boot_manager.line_of_next_boot(host, running)
    for fault in boot_manager.masking(name, line):
        return fault.words
    shipped = systemd_unit.shipped(host, name)
    for difference, judged in harmless.differences(unit, shipped):
        if difference not in unit.lines:
            return f"{unit.fragment} lacks {difference.text}"
        return f"{difference.where} sets {difference.text}" + ("" if judged else f", {NOT_JUDGED}")
    # Every boot starts it except emergency.target: services require sysinit.target by default (bootup(7)).
    start = systemd_unit.start(host, name, "sysinit.target", line)
    if start.by:
        return ""
    return f"{start.broken} keeps {name} from being started" if start.broken else f"nothing starts {name}"


# -- answers of systemd --------------------------------------------------------------------


def _properties(host: Host, running: bool) -> Mapping[str, Properties]:
    return systemd_show.units(host) if running else {}


def _state(host: Host, unit: str) -> tuple[str, ...]:
    return _properties(host, True).get(unit, {}).get("ActiveState", ("active",))


def _never_began(host: Host) -> list[Fault]:
    """Fault of a boot service that systemd could not start, or has ended, in this boot. Settings that its run
    could not make have their own rows."""
    properties = _properties(host, True).get(AGENT_UNIT, {})
    if properties.get("ActiveState") != ("failed",):
        return []
    status = " ".join(properties.get("ExecMainStatus", ()))
    ours = status.isdecimal() and int(status) < _NOT_STARTED
    if properties.get("Result") in (None, ("success",)) or (properties["Result"] == ("exit-code",) and ours):
        return []
    words = unit_words.last(host, AGENT_UNIT)
    problem = f"{AGENT_UNIT} has not run in this boot ({words or ' '.join(properties['Result'])})"
    return [Fault(problem, f"systemctl restart {AGENT_UNIT}", theirs=True, stops=False)]


def _as_loaded(name: str, properties: Properties, installed: Unit) -> list[Fault]:
    """Faults of a loaded unit whose files are right. A unit loaded before its files changed says nothing
    about the next boot."""
    if not properties or properties.get("NeedDaemonReload") != ("no",):
        return []
    state = " ".join(properties.get("LoadState", ()))
    if state != "loaded":
        return [Fault(f"systemd cannot load {name} ({state})", f"see systemctl status {name}", theirs=True)]
    commands = properties.get("ExecStart", ())
    # systemd shows words without their quotes.
    lines = installed.counting("[Service]", "ExecStart")
    wanted = [line.value.lstrip(systemd_unit.PREFIXES).replace("'", "") for line in lines]
    if commands and not all(any(f"argv[]={command} ;" in text for text in commands) for command in wanted):
        return [
            Fault(f"systemd would run {commands[0]} for {name}", f"see systemctl cat {name}", theirs=True)
        ]
    return []
