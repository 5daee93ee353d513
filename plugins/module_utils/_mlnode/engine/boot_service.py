# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that keep the agent's units, and systemd's that read our drop-ins, from running at the next boot.

The next boot reads files, so that they are what is judged: they name the line at fault, and answer for an
image and a captured tree as well. Where systemd runs it is asked once per run for what files cannot say:
drop-ins from places that are not known here, and a unit that it could not load or sees another command of.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ..host import unit_words
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..linux import systemd_show, systemd_unit
from ..linux.systemd_conf import Line
from ..linux.systemd_show import Properties
from ..linux.systemd_unit import Unit
from ..model.record import NamedTuple
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

#: What makes all right that is the agent's own
MEND = "run site.yml, or install the agent"
_TAKE_OUT = "take that line out and run systemctl daemon-reload"

#: What decides whether a service runs, and what; a drop-in may set all else, such as Nice= or a timeout
_COMMANDS = ("ExecCondition", "ExecStartPre", "ExecStart")
_DECIDING = (
    ("[Unit]", ("Requires", "Requisite", "BindsTo", "Conflicts")),
    ("[Service]", (*_COMMANDS, "User", "RootDirectory", "RootImage")),
    ("[Path]", ("PathExists", "Unit")),
    ("[Timer]", ("Unit",)),
)
#: Options of [Service] with which it could not set the kernel's values (systemd.exec(5)), and the words
#: for no (src/basic/parse-util.c: parse_boolean)
_MUST_BE_OFF = (
    *("DynamicUser", "PrivateNetwork", "PrivateUsers", "ProtectKernelModules", "ProtectKernelTunables"),
)
_NO = ("", "0", "no", "n", "false", "f", "off")

#: From this exit status on, systemd has not come to our command (systemd.exec(5), process exit codes)
_NOT_STARTED = 200

#: Distributions have these in /usr/lib; the order of systemd_unit.PLACES
_VENDOR = ("/usr/lib/", "/lib/")


class Fault(NamedTuple):
    """remedy: what to do. theirs: it lies in a file of others, which an installation leaves alone. stops: the
    unit does not do its work; else it is only not as it was installed."""

    words: str
    remedy: str
    theirs: bool = False
    stops: bool = True

    def __str__(self) -> str:
        return f"{self.words}: {self.remedy}"


def installed(host: Host) -> bool:
    """True if anything of the agent is there. Raises HostError."""
    return any(host.is_link(path) or host.exists(path) for path in (AGENT_COMMAND, *TEXTS, *LINKS))


# running: whether the system that runs is the one that is meant, and may be asked; False in an image build,
# whose files are for other machines.


def stopped(host: Host, running: bool = True) -> str:
    """Reason why the next boot does not run our command; empty if it does. Raises HostError."""
    if not installed(host):
        return NO_AGENT
    return next((str(fault) for fault in boot_faults(host, running) if fault.stops), "")


def boot_faults(host: Host, running: bool = True) -> Sequence[Fault]:
    """Faults that keep the boot service from its work, and files of it that are not as installed. Raises
    HostError."""
    return host.once(f"faults of the boot service {running}", lambda: _boot_faults(host, running))


def nic_faults(host: Host, running: bool = True) -> Sequence[Fault]:
    """The same for what applies settings when a NIC arrives or changes its queues. Raises HostError."""
    return host.once(f"faults of the NIC units {running}", lambda: _nic_faults(host, running))


def timer_faults(host: Host, units: Sequence[str], running: bool = True) -> Sequence[Fault]:
    """The same for a timer and its service, whatever starts them. Raises HostError."""
    return host.once(
        f"faults of {units} {running}",
        lambda: [
            fault for name in units for fault in _unit(host, name, f"{UNIT_FOLDER}/{name}", "", running)
        ],
    )


def left(host: Host, running: bool = True) -> list[str]:
    """Faults that an installation does not mend. Raises HostError."""
    faults = (*boot_faults(host, running), *nic_faults(host, running))
    return [str(fault) for fault in faults if fault.theirs]


def loader_off(host: Host, unit: str, running: bool = True) -> str:
    """Reason why a service of systemd does not read the files that it is there for; empty if it does, or if
    that cannot be seen here, as in a tree without /usr. Raises HostError."""
    return host.once(f"loader {unit} {running}", lambda: _loader_off(host, unit, running))


def is_idle(host: Host) -> bool:
    """True where systemd runs and does not wait for NICs now."""
    return _state(host, NIC_PATH_UNIT) in (("inactive",), ("failed",))


# -- the units of the agent ----------------------------------------------------------------


def _boot_faults(host: Host, running: bool) -> tuple[Fault, ...]:
    faults = [*_command(host), *_unit(host, AGENT_UNIT, AGENT_FILE, AGENT_LINK, running)]
    faults += _never_began(host) if running and not faults else []
    return (*faults, *_file(host, PRESET_FILE, stops=False))


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
    # What keeps both from working is reported once.
    return tuple(fault for fault in faults if fault not in boot_faults(host, running))


def _command(host: Host) -> list[Fault]:
    content = host.content(AGENT_COMMAND)
    if content is None:
        return [Fault(f"{AGENT_COMMAND} does not exist", "install the agent")]
    # The first line names the interpreter, and what follows is a zip. It has megabytes: no copy of them.
    starts = content.startswith(b"#!") and content.startswith(b"PK\x03\x04", content.find(b"\n") + 1)
    if not (starts and b"mlnode/agent/cli.py" in content):
        return [Fault(f"{AGENT_COMMAND} is not the agent", MEND)]
    if not host.is_executable(AGENT_COMMAND):
        return [Fault(f"{AGENT_COMMAND} is not executable", MEND)]
    return []


def _unit(host: Host, name: str, path: str, link: str, running: bool) -> list[Fault]:
    """link: what starts it at boot; empty where only a declaration does."""
    properties = _properties(host, running).get(name, {})
    unit = systemd_unit.load(host, name, properties.get("DropInPaths", ()))
    if not unit.fragment or (not host.exists(path) and not host.is_link(path)):
        return [Fault(f"{name} is not enabled, as {path} does not exist", "install the agent")]
    if unit.masked:
        return [Fault(f"{unit.fragment} masks {name}", *_unmasking(unit.fragment, name, path))]
    if unit.fragment != path:
        return [Fault(f"{unit.fragment} takes the place of {path}", f"remove {unit.fragment}", True)]
    wanted = systemd_unit.of_text(name, TEXTS[path])
    faults = [_fault(line, path) for line in _changed(unit, wanted)]
    if not any(fault for fault in faults if not fault.theirs):
        faults += _file(host, path, stops=False)
    faults += _start(host, name, link, running) if link else []
    return faults or _as_loaded(name, properties, wanted)


def _unmasking(masked_by: str, name: str, path: str) -> tuple[str, bool]:
    """The remedy, and True if an installation leaves it to others."""
    if masked_by == path:
        return f"systemctl unmask {name}, then {MEND}", False
    return f"remove {masked_by}", True


def _fault(line: Line, own: str) -> Fault:
    if line.file in ("", own):
        difference = f"{own}:{line.number} has {line.text}" if line.number else f"{own} lacks {line.text}"
        return Fault(difference, MEND)
    return Fault(f"{line.where} sets {line.text}", _TAKE_OUT, theirs=True)


def _file(host: Host, path: str, stops: bool = True) -> list[Fault]:
    """The fault of a file that is not as it was installed."""
    if not host.is_link(path) and not host.exists(path):
        return [Fault(f"{path} does not exist", MEND, stops=stops)]
    if target := host.link_target(path):
        return [Fault(f"{path} is a link to {target}", MEND, stops=stops)]
    if host.content(path) != TEXTS[path].encode("utf-8"):
        return [Fault(f"{path} is not what this version of mlnode installs", MEND, stops=stops)]
    return []


def _start(host: Host, name: str, link: str, running: bool) -> list[Fault]:
    """Faults of what starts the unit at boot."""
    start = systemd_unit.start(host, name, running=running)
    if start.by:
        return []
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
    if start.where.startswith("the kernel"):
        remedy = "take that out of the boot loader's entry"
    return [Fault(problem, remedy, theirs=True)]


def _changed(unit: Unit, installed: Unit) -> list[Line]:
    """The lines for which a unit does not do what the installed one does; a missing one has no file."""
    lines: list[Line] = []
    for section, keys in _DECIDING:
        for key in keys:
            present, wanted = unit.counting(section, key), installed.counting(section, key)
            if [line.value for line in present] != [line.value for line in wanted]:
                lines += [line for line in [unit.last(section, [key])] if line] or wanted[:1]
    lines += _forbidden(unit)
    for begin in ("Condition", "Assert"):
        known = [line.text for line in installed.conditions(begin)]
        lines += [line for line in unit.conditions(begin) if line.text not in known]
    return lines


def _forbidden(unit: Unit) -> list[Line]:
    last = [unit.last("[Service]", [key]) for key in _MUST_BE_OFF]
    return [line for line in last if line is not None and line.value.lower() not in _NO]


# -- the services of systemd ---------------------------------------------------------------


def _loader_off(host: Host, name: str, running: bool) -> str:
    properties = _properties(host, running).get(name, {})
    unit = systemd_unit.load(host, name, properties.get("DropInPaths", ()))
    if not unit.fragment:
        return f"{name} does not exist" if properties.get("LoadState") == ("not-found",) else ""
    if unit.masked:
        return f"{unit.fragment} masks {name}"
    program = name[: -len(".service")]
    commands = unit.counting("[Service]", "ExecStart")
    if not any(line.value.split(" ")[0].rpartition("/")[2] == program for line in commands):
        line = unit.last("[Service]", ["ExecStart"])
        return f"{line.where} sets {line.text}" if line else f"{unit.fragment} has no ExecStart="
    theirs = [
        line
        for line in (*unit.conditions("Condition"), *unit.conditions("Assert"), *_forbidden(unit))
        if not line.file.startswith(_VENDOR)
    ]
    if theirs:
        return f"{theirs[0].where} sets {theirs[0].text}"
    # Every boot starts it, but for that of emergency.target: services require it by themselves (bootup(7)).
    start = systemd_unit.start(host, name, "sysinit.target")
    if start.by:
        return ""
    return f"{start.broken} keeps {name} from being started" if start.broken else f"nothing starts {name}"


# -- what systemd says ---------------------------------------------------------------------


def _properties(host: Host, running: bool) -> Mapping[str, Properties]:
    return systemd_show.units(host) if running else {}


def _state(host: Host, unit: str) -> tuple[str, ...]:
    return _properties(host, True).get(unit, {}).get("ActiveState", ("active",))


def _never_began(host: Host) -> list[Fault]:
    """The fault of a boot service that systemd could not start, or has ended, in this boot. What a run of it
    could not set is a row of its own."""
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
    """Faults of a unit whose files are right. What was loaded before they changed says nothing
    about the next boot."""
    if not properties or properties.get("NeedDaemonReload") != ("no",):
        return []
    state = " ".join(properties.get("LoadState", ()))
    if state != "loaded":
        return [Fault(f"systemd cannot load {name} ({state})", f"see systemctl status {name}", theirs=True)]
    commands = properties.get("ExecStart", ())
    wanted = [line.value for line in installed.counting("[Service]", "ExecStart")]
    if commands and not all(any(f"argv[]={one} ;" in text for text in commands) for one in wanted):
        return [
            Fault(f"systemd would run {commands[0]} for {name}", f"see systemctl cat {name}", theirs=True)
        ]
    return []
