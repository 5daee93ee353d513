# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.agent import registry
from mlnode.engine.digests import differences
from mlnode.engine.digests import digests as digests_of
from mlnode.model import schema


def digests(kinds: dict[str, Any]) -> dict[str, str]:
    return digests_of({kind: schema.checked(kind, kinds[kind], registry.options(kind)) for kind in kinds})


SPEC: dict[str, Any] = {"settings": {"vm.swappiness": 1, "vm.b": {"at_least": 5}}, "allow": ["hugepages"]}


@cases.table
def test_what_means_the_same_has_one_digest(other: Any) -> None:
    assert digests({"sysctl": other}) == digests({"sysctl": SPEC})


@cases.table
def test_what_means_another_thing_has_another_digest(other: Any) -> None:
    assert digests({"sysctl": other}) != digests({"sysctl": SPEC})


def as_text(declared: Any) -> Any:
    """Each number as what a template or a vault makes of it."""
    if isinstance(declared, dict):
        return {name: as_text(item) for name, item in declared.items()}
    if isinstance(declared, list):
        return [as_text(item) for item in declared]
    return str(declared) if isinstance(declared, int) and not isinstance(declared, bool) else declared


@pytest.mark.parametrize("kind", CASES)
def test_a_number_and_its_text_are_the_same(kind: str) -> None:
    for spec in (CASES[kind].spec, CASES[kind].other):
        assert digests({kind: as_text(spec)}) == digests({kind: spec})


@pytest.mark.parametrize("text", ["007", "+5", "5.0", "-0", "1 2", "0x5", str(1 << 64)])
def test_a_text_that_is_not_the_spelling_of_a_number_stays_one(text: str) -> None:
    found = schema.checked("sysctl", {"settings": {"vm.x": text}}, registry.options("sysctl"))

    assert found == {"settings": {"vm.x": text}}


def test_the_order_of_a_list_counts() -> None:
    rules = [{"name": "a", "mtu": 9000}, {"name": "b", "mtu": 1500}]

    assert digests({"nic": {"rules": rules}}) != digests({"nic": {"rules": [*reversed(rules)]}})


def test_an_empty_list_that_is_something_else_than_none_counts() -> None:
    spec = {"memlock": "unlimited"}

    assert digests({"limits": {**spec, "domains": []}}) != digests({"limits": spec})


@cases.table
def test_what_declares_nothing_has_no_digest(kind: str, spec: Any, declares: bool) -> None:
    assert bool(digests({kind: spec})) == declares


def test_each_way_to_differ_is_named() -> None:
    known = digests(
        {"sysctl": SPEC, "thp": {"enabled": "madvise"}, "nccl": {"variables": {"NCCL_DEBUG": "WARN"}}}
    )
    there = {"training_node": known}

    assert differences({"training_node": known}, there, "gpu001") == []
    assert differences({"other": {}}, there, "gpu001") == []
    wanted = {"sysctl": "0", "thp": known["thp"], "cpu": "1"}
    [words] = differences({"training_node": wanted}, there, "gpu001")
    assert "training_node is not declared on the node as the inventory says (" in words
    assert "other than there: sysctl; missing there: cpu; left over there: nccl" in words


OLD = digests({"sysctl": SPEC})


@cases.table
def test_what_is_not_expected_is_named_with_the_command_that_reverts_it(
    expected: dict[str, dict[str, str]], words: str
) -> None:
    [found] = differences(expected, {"training_node": OLD, "node": expected["node"]}, "gpu001")
    assert found == f"declared on the node as training_node, and the inventory declares {words}"


values = strategies.recursive(
    strategies.one_of(
        strategies.booleans(), strategies.integers(), strategies.floats(), strategies.text(max_size=5)
    ),
    lambda inner: strategies.one_of(
        strategies.lists(inner, max_size=3),
        strategies.dictionaries(strategies.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@quick
@given(strategies.dictionaries(strategies.text(max_size=4), values, max_size=4))
def test_a_declaration_has_the_same_digest_after_its_way_through_a_file(spec: Any) -> None:
    text = json.dumps(spec, ensure_ascii=False)

    assert digests_of({"sysctl": json.loads(text)}) == digests_of({"sysctl": spec})
