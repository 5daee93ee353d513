# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each option by itself on the node of its kind: it is set, read back and undone, with values made of what
the option says it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, MODULES, Node, made
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import ROCE
from ansible_collections.mlnode.tuning.tools.docs_pages import option_rows
from mlnode.agent import registry
from mlnode.engine import engine, revert
from mlnode.model import values
from mlnode.model.errors import MlnodeError
from mlnode.model.schema import Option, Table
from mlnode.model.setting import Status

OPTIONS = {
    f"{area}.{name}": option
    for area in registry.KINDS
    for name, option in option_rows(registry.options(area))
}
#: Values of options whose text alone says what they take
VALUES: dict[str, Any] = {
    "modules.options": {MODULES[0]: {"devices": "1"}},
    "limits.stack": "unlimited",
    "limits.core": "unlimited",
    "limits.nproc": 1048576,
    "cpu.energy_perf_bias": "6",
    "cpu.max_latency_us": "0",
    "nic.rules[].features": {"lro": True},
    "nic.rules[].private_flags": {"rx_striding_rq": True},
    "nic.rules[].mtu": 9000,
    "boot.absent": ["quiet"],
}
#: What can be declared beside others only
TOGETHER = {
    "qos.rules[].pfc": {"rules": [ROCE]},
    "irq.rules[].cpus": CASES["irq"].other,
}
#: Another machine, of which the file has tests
ELSEWHERE = {
    "modules.where_needed": "modules/test_needed.py",
    "irq.irqbalance": "irq/test_irqbalance.py",
    "cpu.energy_performance_preference": "cpu/test_kind.py",
}
#: Areas whose nodes have every file
WHOLE = ("irq", "qos")
_EXAMPLE = re.compile(r"such as (\S+?),?(?: |$)")


def examples(name: str, option: Option, known: list[Any]) -> list[Any]:
    """Values that the option takes, and those of the case."""
    found = [value for value in (*known, VALUES.get(name)) if value is not None]
    if option.choices and option.type != "list":
        found += option.choices
    elif option.type == "bool":
        found += [True, False]
    elif option.type == "int":
        assert option.least is not None
        assert option.most is not None, "a number has bounds"
        found += [option.least, option.least + 1, option.most]
    example = _EXAMPLE.search(option.form.words) if option.form else None
    if example:
        found.append([example[1]] if option.type == "list" else example[1])
    return found


def part(spec: Any, words: list[str]) -> Any:
    """What a declaration has for the first of these words: of rules the one with the second."""
    inner = spec.get(words[0].rstrip("[]")) if isinstance(spec, dict) else None
    return next((rule for rule in inner or () if words[1] in rule), None) if "[]" in words[0] else inner


def nested(table: Table, spec: Mapping[str, Any], words: list[str], value: Any) -> Any:
    """The value with what it cannot be without, which the case has."""
    if not words:
        return value
    word, rest = words[0], words[1:]
    name = word.rstrip("[]")
    option = table[name]
    kept = {
        other: spec[other]
        for other, one in table.items()
        if other in spec and (not one.declares or one.required or other == option.joined)
    }
    kept.update((other, spec[other]) for other, one in table.items() if one.joined == name and other in spec)
    inner = part(spec, words)
    if word.endswith("[]"):
        return {**kept, name: [nested(option.names, inner or spec[name][0], rest, value)]}
    if rest and option.values is not None:
        assert option.keys is not None
        example = _EXAMPLE.search(option.keys.words)
        assert example
        return {**kept, name: {example[1]: nested(option.values.names, {}, rest[1:], value)}}
    return {**kept, name: nested(option.names, inner if isinstance(inner, dict) else {}, rest, value)}


def given(spec: Any, words: list[str]) -> Any:
    """What a declaration has of an option; None if it does not have it."""
    for place in range(len(words)):
        spec = part(spec, words[place:])
    return spec


def with_files(node: Node, option: Option, path: str, want: str) -> list[str]:
    """The kernel's files of an option, made where the node has none: the words that they offer."""
    folder, _slash, name = path.rpartition("/")
    offered: list[str] = []
    for found in node.matching(folder) if "*" in folder else [folder]:
        file = f"{found}/{name}"
        if not node.exists(file):
            node.put(file, f"[off] {want}\n" if option.type == "str" and not want.isdigit() else "0\n")
        offered += values.choices(node.text(file))
    return offered


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ELSEWHERE])
def test_an_option_is_set_read_back_and_undone(name: str) -> None:
    area, _dot, rest = name.partition(".")
    case, option, words = CASES[area], OPTIONS[name], rest.split(".")
    table, kind = registry.options(area), registry.KINDS[area]
    tried = examples(name, option, [given(case.spec, words), given(case.other, words)])
    said: list[str] = []
    for folder in in_memory():
        node = made(case, folder / "node")
        node.enable_agent()
        if option.file and area not in WHOLE:
            for setting in door.parse(area, nested(table, case.spec, words, tried[0])):
                tried += with_files(node, option, setting.path, str(tried[0]))
        before = node.state()
        specs = [nested(table, case.spec, words, value) for value in tried]
        for spec in [TOGETHER[name]] if name in TOGETHER else specs:
            node.forget()
            try:
                done = engine.apply(node, case.request._replace(spec=kind.checked(spec)))
            except MlnodeError as error:
                said.append(f"{spec}: {error}")
            else:
                said += [f"{spec}: {row.setting.key}: {row.status} {row.reason}" for row in done.rows]
        node.forget()
        revert.revert(node)
        node.unload()
        assert node.state() == before
    changed = [one for one in said if f": {Status.CHANGED} " in one or f": {Status.PENDING_REBOOT} " in one]
    assert changed, "\n".join(said)
