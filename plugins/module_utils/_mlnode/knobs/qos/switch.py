# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements for the peer of a NIC, and equivalent commands for this node."""

from __future__ import annotations

import shlex
from typing import Any, Iterable, Mapping

from ...drivers.dcb import answers, tools
from ...drivers.dcb.device import NONE
from ...drivers.roce import files as roce_files
from ...engine.kind import Row
from ...host.host import Host
from ...model.setting import KnobFile
from ...model.values import by_key
from .parse import QosSetting


def words(rows: Iterable[Row]) -> list[str]:
    """Requirements for switch ports and all other nodes of the fabric."""
    return requirements([row.setting for row in rows if isinstance(row.setting, QosSetting)])


def requirements(settings: Iterable[QosSetting]) -> list[str]:
    """The same, from settings."""
    lines = (_WORDS[item.group](item.value, item.rule.given) for item in settings if item.group in _WORDS)
    return list(dict.fromkeys(filter(None, lines)))


Given = Mapping[str, Any]


def _pause(value: Any, given: Given) -> str:
    del given
    return "global pause (IEEE 802.3x) off on the ports" if value == "off" else ""


def _trust(value: Any, given: Given) -> str:
    del given
    return f"trust {value.upper()} on the ports, towards nodes and between switches"


def _dscp(value: Any, given: Given) -> str:
    del given
    priorities = by_key((priority, dscp) for dscp, priority in value.items())
    each = [f"DSCP {answers.numbers(dscps)} in priority {number}" for number, dscps in priorities.items()]
    return ", ".join(each)


def pfc(value: Any, given: Given) -> str:
    """Requirement for PFC, also the note of the setting."""
    del given
    if not value:
        return ""
    noun = "priority" if len(value) == 1 else "priorities"
    return f"PFC on {noun} {answers.numbers(value)} and on no other, on every port between two nodes"


def _ecn(value: Any, given: Given) -> str:
    del given
    return f"ECN marking (RED or WRED with ECN) in the queue of priority {answers.numbers(value)}"


def _cnp(value: Any, given: Given) -> str:
    dscp = given.get("cnp", {}).get("dscp")
    named = f" (DSCP {dscp})" if dscp is not None else ""
    return f"strict priority for the queue of priority {value}, for congestion notifications{named}"


_WORDS = {
    "global_pause": _pause,
    "trust": _trust,
    "dscp": _dscp,
    "pfc": pfc,
    "ecn": _ecn,
    "cnp_priority": _cnp,
}


# -- commands ------------------------------------------------------------------------------


def commands(host: Host, rows: Iterable[Row]) -> list[str]:
    """Commands for all declared values, whether or not a change is needed, in the order of application."""
    folders: dict[tuple[str, str], list[KnobFile]] = {}
    for row in rows:
        for part in row.reading.parts:
            folders.setdefault((row.setting.key, part.joined or part.path), []).append(part)
    return list(dict.fromkeys(line for parts in folders.values() for line in _lines(host, parts)))


def _lines(host: Host, parts: list[KnobFile]) -> list[str]:
    top, *rest = parts[0].path.strip("/").split("/")
    if top == "ethtool":
        each = [word for part in parts for word in (part.path.rpartition("/")[2], part.want)]
        return [_line("ethtool", "-A", rest[0], *each)]
    if top == "dcb":
        fields = [field for part in parts for field in part.path.rpartition("/")[2].split(",")]
        values = [word for part in parts for word in part.want.split()]
        own = tools.commands(host, rest[0], rest[1], dict(zip(fields, values)))
        return _dcb(rest[0], rest[1], parts) if own is None else [_line(*words_) for words_ in own]
    if top == "roce":
        return [roce_files.command(host, parts[0].path, parts[0].want)]
    return [f"echo {part.want} > {shlex.quote(part.path)}" for part in parts]


def _dcb(nic: str, group: str, parts: list[KnobFile]) -> list[str]:
    want = parts[0].want
    if group == "pfc":
        on = [] if want == NONE else [f"{number}:on" for number in want.split(",")]
        return [_line("dcb", "pfc", "set", "dev", nic, "prio-pfc", "all:off", *on)]
    if group == "dscp-prio":
        each = [f"{part.path.rpartition('/')[2]}:{part.want}" for part in parts]
        return [_line("dcb", "app", "replace", "dev", nic, "dscp-prio", *each)]
    if group == "trust":
        # On most NICs it follows from the priorities of DSCPs.
        return []
    fields = parts[0].path.rpartition("/")[2].split(",")
    each = []
    for field, text in zip(fields, want.split()):
        each += [field, *(f"{number}:{value}" for number, value in enumerate(text.split("/")))]
    return [_line("dcb", group, "set", "dev", nic, *each)]


def _line(*words_: str) -> str:
    return " ".join(shlex.quote(word) for word in words_)
