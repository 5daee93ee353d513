# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from mlnode.knobs.irq import parse as irq_parse
from mlnode.knobs.irq.parse import RuleSetting, Selection, Steering

RULE = {"name": "a", "strategy": "spread"}


def parsed(**rule: Any) -> irq_parse.Rule:
    (setting, *_rest) = door.parse("irq", {"rules": [{**RULE, **rule}]})
    assert isinstance(setting, RuleSetting)
    return setting.rule


def test_one_rule_is_a_setting_for_each_thing_it_rules_in_the_order_of_application() -> None:
    spec = {
        "irqbalance": "agree",
        "rules": [
            {"name": "fabric", "strategy": "spread", "rps": "auto", "xps": 3, "rfs_entries": 32768},
            {"name": "storage", "nics": {"names": ["eth1", "eth0"]}, "strategy": "list", "cpus": "8,0-3"},
        ],
        "allow": ["isolated_cpus"],
    }
    assert [(item.key, item.claim, item.want) for item in door.parse("irq", spec)] == [
        ("irq.fabric", "spread (all NICs)", None),
        ("irq.fabric.rps", "auto (all NICs)", None),
        ("irq.fabric.xps", "3 (all NICs)", None),
        ("irq.fabric.rfs", "32768 (all NICs)", None),
        ("irq.storage", "list 0-3,8 (names eth0, eth1)", None),
        ("irq.irqbalance", "agree", "agree"),
    ]


def test_every_word_of_a_selection_is_in_its_claim_in_one_spelling() -> None:
    nics = {
        "names": ["eth1", "eth0", "eth1"],
        "drivers": ["mlx5_core"],
        "addresses": ["00000000:41:00.0", "10000:E1:1f.7"],
        "rdma": ["mlx5_0"],
        "rails": [3, "1", 2],
        "nodes": [1, 0],
    }
    rule = parsed(nics=nics)
    assert rule.nics.addresses == ("0000:41:00.0", "10000:e1:1f.7")
    assert str(rule.nics) == (
        "names eth0, eth1; drivers mlx5_core; addresses 0000:41:00.0, 10000:e1:1f.7; rdma mlx5_0; rails 1-3; "
        "nodes 0-1"
    )


@cases.table
def test_rails_are_all_of_them_some_or_not_asked_for(rails: Any, expected: Any, words: str) -> None:
    rule = parsed(nics={"rails": rails})
    assert rule.nics.rails == expected
    assert str(rule.nics) == words


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("off", Steering("off")),
        (False, Steering("off")),  # an unquoted off in YAML
        ("auto", Steering("auto")),
        ("0-1,4", Steering("cpus", (0, 1, 4))),
        (0, Steering("cpus", (0,))),
        (None, None),
    ],
)
def test_steering_is_a_word_or_a_list(value: Any, expected: Steering | None) -> None:
    rule = parsed(rps=value)
    assert rule.rps == expected


def test_no_flows_at_all_is_something_that_is_declared() -> None:
    assert parsed(rfs_entries=0).rfs_entries == 0
    assert parsed(rfs_entries="1024").rfs_entries == 1024


def test_two_declarations_that_say_the_same_have_one_claim() -> None:
    first = door.parse(
        "irq", {"rules": [{**RULE, "nics": {"names": ["eth0", "eth1"], "rails": [1, 0]}}]}, None
    )
    other = door.parse(
        "irq", {"rules": [{**RULE, "nics": {"rails": ["0", 1], "names": ["eth1", "eth0"]}}]}, None
    )
    assert [item.claim for item in first] == [item.claim for item in other]


def test_an_empty_selection_is_all_nics() -> None:
    assert parsed(nics={}).nics == parsed().nics == Selection()
