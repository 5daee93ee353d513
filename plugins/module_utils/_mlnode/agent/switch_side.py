# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch side of the declared priorities: a checklist, and text for network operating systems.

Nothing is sent to a switch. A scheme that several rules or declarations share is printed once.
"""

from __future__ import annotations

import argparse
from typing import Any, Mapping, Sequence

from ..engine import declared
from ..engine.declared import Declaration
from ..host.host import Host
from ..knobs.nic import schema as nic_schema
from ..knobs.qos import parse as qos
from ..knobs.qos import schema as qos_schema
from ..knobs.qos import switches
from ..knobs.qos.parse import QosSetting
from ..model.errors import DeclarationError, MlnodeError
from ..model.record import NamedTuple
from . import output
from .arguments import ERROR, OK

NOT_APPLIED = (
    "Not applied, and not tested on a switch: compare each line with the switch and its vendor's manual."
)
_NONE = f"{declared.FOLDER}: no scheme of priorities is declared; use roce_qos, or fabric_qos_preset"
_NO_DSCP = "the texts are for `trust: dscp`, and this scheme declares "


def command(host: Host, options: argparse.Namespace) -> int:
    """`mlnode render switch`, and its exit status."""
    checklists = render_checklists(host, options.nos or "")
    for line in checklists.lines:
        output.say(line)
    for problem in checklists.problems:
        output.complain(problem)
    return ERROR if checklists.problems else OK


class Found(NamedTuple):
    """problems: why something is missing; errors of the command."""

    lines: Sequence[str]
    problems: Sequence[str]


def render_checklists(host: Host, nos: str = "") -> Found:
    """nos: a key of switches.SYSTEMS, or all of them if empty. Never raises."""
    problems: list[str] = []
    try:
        declarations = declared.load_all(host, problems)
    except MlnodeError as error:
        return Found((), (str(error),))
    names: dict[tuple[str, ...], list[str]] = {}
    for declaration in declarations:
        try:
            mtu = _mtu(declaration)
            for name, settings in _rules(declaration).items():
                text = tuple(_text(settings, mtu, nos))
                names.setdefault(text, []).append(f"{name} of {declaration.name}")
        except MlnodeError as error:
            problems.append(f"{declaration.path}: {error}")
    if not names and not problems:
        problems.append(_NONE)
    lines: list[str] = []
    for text, rules in names.items():
        lines += [*([""] if lines else []), f"Switch side of {', '.join(rules)}", NOT_APPLIED, *text]
    return Found(lines, problems)


def _rules(declaration: Declaration) -> dict[str, list[QosSetting]]:
    """Settings of each rule, as `qos.NAME`. Raises DeclarationError."""
    rules: dict[str, list[QosSetting]] = {}
    for setting in qos.parse(declaration.checked_spec(qos.KIND, qos_schema.OPTIONS)):
        if isinstance(setting, QosSetting):
            rules.setdefault(f"{qos.KIND}.{setting.rule.name}", []).append(setting)
    # Such as a rule that sets the type of service alone
    return {name: settings for name, settings in rules.items() if switches.checklist(settings, 0)}


def _mtu(declaration: Declaration) -> int:
    """The greatest MTU that a rule for NICs declares, 0 if none does. Raises DeclarationError."""
    given = declaration.checked_spec("nic", nic_schema.OPTIONS)
    numbers = [_number(rule["mtu"]) for rule in given.get("rules", ()) if rule.get("mtu") is not None]
    return max(numbers, default=0)


def _number(mtu: Any) -> int:
    number: Any = mtu.get("at_least") if isinstance(mtu, Mapping) else mtu
    try:
        return int(number)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"nic: mtu: expected a number or at_least, got {mtu!r}") from error


def _text(settings: Sequence[QosSetting], mtu: int, nos: str) -> list[str]:
    made = switches.scheme(settings, mtu)
    lines = ["", "Every port between two nodes, towards nodes and between switches:"]
    lines += [f"  [ ] {line}" for line in switches.checklist(settings, mtu)]
    if made.trust != "dscp":
        return [
            *lines,
            "",
            f"{_NO_DSCP}{f'`trust: {made.trust}`' if made.trust else 'no trust and no DSCPs'}",
        ]
    for key, system in switches.SYSTEMS.items():
        if nos in ("", key):
            lines += ["", f"-- {system.title} --"]
            notes = [*system.notes]
            if mtu > system.most:
                notes.append(f"MTU: {mtu} is declared, and the text has {system.most}")
            lines += [f"   {note}" for note in notes]
            lines += [f"   source: {source}" for source in system.source]
            lines += system.make(made)
    return lines
