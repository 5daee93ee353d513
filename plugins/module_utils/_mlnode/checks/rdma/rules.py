# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared rules for RDMA NICs that match none: they leave the fabric untuned, even if the ports work."""

from __future__ import annotations

from typing import Callable, Iterator, List, Sequence

from ...engine import declared
from ...engine.declared import Declaration
from ...host.host import Host
from ...knobs.irq import parse as irq_parse
from ...knobs.irq import schema as irq_schema
from ...knobs.nic import parse as nic_parse
from ...knobs.nic import schema as nic_schema
from ...knobs.nics import targets as nic_targets
from ...knobs.nics.selection import Selection
from ...knobs.qos import parse as qos_parse
from ...knobs.qos import schema as qos_schema
from ...knobs.rail import parse as rail_parse
from ...knobs.rail import schema as rail_schema
from ...model.errors import MlnodeError
from ...model.schema import Checked, Table
from ...model.setting import Setting
from ...topology.model import Topology
from ..model import Check, Subject

NAMES = ("rules",)

_Parse = Callable[[Checked], List[Setting]]
_PARSERS: Sequence[tuple[str, Table, _Parse]] = (
    (nic_parse.KIND, nic_schema.OPTIONS, nic_parse.parse),
    (rail_parse.KIND, rail_schema.OPTIONS, rail_parse.parse),
    (qos_parse.KIND, qos_schema.OPTIONS, qos_parse.parse),
    (irq_parse.KIND, irq_schema.OPTIONS, irq_parse.parse),
)

_ADVICE = "make the NICs appear (drivers, RDMA drivers, rdma link), or declare the rule for NICs of this node"


def checks(host: Host, topology: Topology, expect: object) -> list[Check]:
    del topology, expect
    checks = [
        _check(host, declaration, name, nics)
        for declaration in declared.load_all(host, [])
        for name, nics in _rules(declaration)
        if nics.expects
    ]
    return checks or [Subject(*NAMES).skip("no rule asks for RDMA devices or for NICs by their names")]


def _rules(declaration: Declaration) -> Iterator[tuple[str, Selection]]:
    """Rules with their NICs, without duplicates. Skips unreadable declarations, which applying reports."""
    for kind, table, parse in _PARSERS:
        try:
            settings = parse(declaration.checked_spec(kind, table))
        except MlnodeError:
            continue
        rules = [getattr(setting, "rule", None) for setting in settings]
        yield from {f"{kind}.{rule.name}": rule.nics for rule in rules if rule is not None}.items()


def _check(host: Host, declaration: Declaration, name: str, nics: Selection) -> Check:
    subject = Subject(*NAMES, name, declaration.path, str(nics), _ADVICE)
    match = nic_targets.find(host, nics, "pause")
    names, problem = ", ".join(target.name for target in match.targets), match.found.problem
    if problem.unreadable is not None:
        return subject.unknown(problem.unreadable)
    if not names and not match.found.missing:
        return subject.skip(problem.problem)
    return subject.judged(bool(names), names or problem.problem)
