# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of one setting on one interface, its wanted value, and obstacles to a change."""

from __future__ import annotations

from typing import Iterator, Sequence

from ...host.host import Host
from ...linux import networkd, sysctl_d, sysctl_values
from ...model import values
from ...model.errors import HostError
from ...model.schema import unless_allowed
from ...model.setting import KnobFile, Write
from ...topology import management
from ..summary import Files, Target
from .parse import RailSetting, path_of

#: Knob and value → effect on the interface over which the node is managed
_CUTS_OFF = {
    ("rp_filter", "1"): "with rp_filter 1 it drops packets that would be answered through another interface",
    ("arp_ignore", "8"): "with arp_ignore 8 it answers no ARP request for its address",
}

_ALL = "all"


def target_files(host: Host, setting: RailSetting, target: Target, allow: Sequence[str]) -> Files:
    """The file of a setting on one interface."""
    files = Files(target)
    path = path_of(target.name, setting.group)
    try:
        value = host.value(path)
        if value.text is None:
            files.problems += [value.unreadable] if value.unreadable is not None else []
            files.lacking = value.absent or ""
        else:
            files.parts = [_part(host, setting, target, path, value.text.strip(), allow)]
            files.blocked = host.blocked(path)
    except HostError as error:
        files.problems.append(str(error))
    return files


def _part(
    host: Host, setting: RailSetting, target: Target, path: str, now: str, allow: Sequence[str]
) -> KnobFile:
    overridden = overruled(host, setting)
    part = KnobFile(
        number=0,
        path=path,
        runtime=now,
        want=setting.text,
        undo=(Write(path, now),),
        device=f"/sys/class/net/{target.name}",
        # The file may be right without effect, which must not look like success.
        moved=overridden,
        refusal=f"{target.name}: {overridden}" if overridden else "",
    )
    if overridden or not part.differs:
        return part
    return part._replace(refusal=_refusal(host, target.name, setting.group, setting.text, allow))


def overruled(host: Host, setting: RailSetting) -> str:
    """Reason why `all` overrides the value: the kernel takes the greater of both values (IN_DEV_MAXCONF,
    include/linux/inetdevice.h). Raises HostError.
    """
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
    """Values of sysctl.d at boot: words about lines for these interfaces, which the agent later overrides,
    and the line for `all` that would override it.
    """
    config = sysctl_d.load(host)
    lines = {}
    for name in names:
        line = config.winner(_key(name, setting))
        if line is not None and line.value is not None and _number(line) != int(setting.text):
            lines[line.where] = line
    beats = config.winner(_key(_ALL, setting))
    value = _number(beats)
    notes = [f"{line.where} sets {line.text}, and the agent comes after it" for line in lines.values()]
    notes += dict.fromkeys(_of_networkd(host, setting, names))
    notes += [f"{text}: whether it sets another value is unknown" for text in config.unreadable]
    overrules = value is not None and value > int(setting.text)
    return "; ".join(notes), beats if overrules else None


def _of_networkd(host: Host, setting: RailSetting, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        assignment = networkd.sets(host, path_of(name, setting.group))
        if assignment is not None and not values.same(assignment.value, setting.text):
            verb = "sets" if assignment.sure else "may set"
            yield f"{assignment.line.where} {verb} {assignment.text} whenever networkd configures {name}"


def _number(line: sysctl_d.Line | None) -> int | None:
    """The number that a line sets in the kernel; None if it sets none."""
    if line is None or line.value is None:
        return None
    return values.number(sysctl_values.effect(line.key, line.value).text)


def _key(name: str, setting: RailSetting) -> str:
    return path_of(name, setting.group)[len("/proc/sys/") :]


# -- guards --------------------------------------------------------------------------------


def back_refusal(host: Host, path: str, value: str, allow: Sequence[str]) -> str:
    """Reason not to restore this value of a file that is no longer declared; empty if there is none."""
    name, group = path.split("/")[-2:]
    return _refusal(host, name, group, value, allow)


def _refusal(host: Host, name: str, group: str, value: str, allow: Sequence[str]) -> str:
    """Reason not to set a value on an interface; empty if there is none."""
    effect = _CUTS_OFF.get((group, value))
    carried = management.carried(host, name) if effect else ""
    reason = f"{name}: {carried}, and {effect}" if carried else ""
    return unless_allowed("management", reason, allow)
