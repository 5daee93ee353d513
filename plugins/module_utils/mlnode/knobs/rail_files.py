# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one setting on one interface, what is wanted of each, and what stops a change."""

from __future__ import annotations

from typing import Sequence

from .. import management, policy_routes, sysctl_d, sysctl_values, values
from ..errors import HostError
from ..host import Host
from ..policy_routes import tables
from ..schema import unless_allowed
from ..setting import Part, Write
from . import rail_routes
from .nic_files import Files
from .nic_targets import Target
from .rail_parse import ROUTING, RailSetting, path_of

#: Knob and value → what it does to the interface over which the node is managed
_CUTS_OFF = {
    ("rp_filter", "1"): "with rp_filter 1 it drops what comes in on it and would be answered elsewhere",
    ("arp_ignore", "8"): "with arp_ignore 8 nobody finds its address any more",
    (ROUTING, ""): "what it answers would take another way",
}

_ALL = "all"


def of(host: Host, setting: RailSetting, target: Target, alone: bool, allow: Sequence[str]) -> Files:
    """All files of a setting on one interface. alone: as in rail_routes.fill()."""
    found = Files(target)
    try:
        if setting.group == ROUTING:
            rail_routes.fill(host, setting, found, alone)
        else:
            _knob(host, setting, found)
        found.parts = [_guarded(host, setting, target, part, allow) for part in found.parts]
        found.blocked = next(filter(None, (host.blocked(part.path) for part in found.parts)), "")
    except HostError as error:
        found.problems.append(str(error))
        found.parts = []  # half of a table is none
    return found


def _knob(host: Host, setting: RailSetting, found: Files) -> None:
    path = path_of(found.target.name, setting.group)
    value = host.value(path)
    if value.text is None:
        found.problems += [value.unreadable] if value.unreadable is not None else []
        found.lacking = value.absent or ""
        return
    beaten = overruled(host, setting)
    found.parts.append(
        Part(
            number=0,
            path=path,
            now=value.text.strip(),
            want=setting.text,
            undo=(Write(path, value.text.strip()),),
            device=f"/sys/class/net/{found.target.name}",
            # The file may be right and does not count: that must not look like success.
            moved=beaten,
            refusal=f"{found.label}: {beaten}" if beaten else "",
        )
    )


def overruled(host: Host, setting: RailSetting) -> str:
    """Why the value would not count: of that of the interface and of `all` the kernel takes the greater
    (IN_DEV_MAXCONF, include/linux/inetdevice.h). Raises HostError."""
    text = host.read(path_of(_ALL, setting.group)).strip()
    number = values.number(text[1:] if text[:1] == "-" else text)
    if number is None:
        raise HostError("understand", path_of(_ALL, setting.group), None, f"it reads {text[:40]!r}")
    if text[:1] == "-" or number <= int(setting.text):
        return ""
    name = f"net.ipv4.conf.all.{setting.group}"
    return (
        f"{name} is {text}, and the kernel takes the greater of both: declare {name} as {setting.text} or "
        "less (sysctl_ml)"
    )


# -- the next boot -------------------------------------------------------------------------


def at_boot(host: Host, setting: RailSetting, names: Sequence[str]) -> tuple[str, sysctl_d.Line | None]:
    """What sysctl.d sets at boot: words about lines for these interfaces, before which the agent has the
    last word, and the line for `all` that would overrule it."""
    config = sysctl_d.load(host)
    lines = {}
    for name in names:
        line = config.winner(_key(name, setting))
        if line is not None and line.value is not None and _number(line) != int(setting.text):
            lines[line.where] = line
    beats = config.winner(_key(_ALL, setting))
    value = _number(beats)
    words = [f"{line.where} sets {line.text}, and the agent comes after it" for line in lines.values()]
    words += [f"{text}: whether it sets another value is unknown" for text in config.unreadable]
    overrules = value is not None and value > int(setting.text)
    return "; ".join(words), beats if overrules else None


def _number(line: sysctl_d.Line | None) -> int | None:
    return None if line is None else sysctl_values.number(line.value or "")


def _key(name: str, setting: RailSetting) -> str:
    return path_of(name, setting.group)[len("/proc/sys/") :]


# -- guards --------------------------------------------------------------------------------


def _guarded(host: Host, setting: RailSetting, target: Target, part: Part, allow: Sequence[str]) -> Part:
    words = _CUTS_OFF.get((setting.group, setting.text))
    if words is None or part.refusal or not part.differs:
        return part
    carried = _carried(host, target.name)
    reason = f"{target.name}: {carried}, and {words}" if carried else ""
    return part._replace(refusal=unless_allowed("management", reason, allow))


def back_refusal(host: Host, path: str, value: str, allow: Sequence[str]) -> str:
    """Why a file that is not declared any more is not set to this value; empty where it is."""
    if path.startswith(policy_routes.TOP):
        # Both files are one line each, and the number of the table is of no use to their names.
        routes = tables.parse_routes(0, host.read(f"{path.rpartition('/')[0]}/routes"))
        group, names = ROUTING, [route.nic for route in routes]
    else:
        folder, _slash, group = path.rpartition("/")
        names = [folder.rpartition("/")[2]]
    words = _CUTS_OFF.get((group, "" if group == ROUTING else value))
    for name in names if words else ():
        carried = _carried(host, name)
        if carried:
            return unless_allowed("management", f"{name}: {carried}, and {words}", allow)
    return ""


def _carried(host: Host, name: str) -> str:
    """Why it is on the management path, or may be; empty if it is not."""
    unknown = management.unknown(host)
    if unknown:
        return f"it may carry the management path, as nobody can tell: {unknown}"
    return management.interfaces(host).get(name, "")
