# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import endless, quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.irq import parse as irq_parse
from mlnode.knobs.irq import schema as irq_schema
from mlnode.knobs.irq.parse import RuleSetting, Selection, Steering
from mlnode.model.errors import DeclarationError

RULE = {"name": "a", "strategy": "spread"}


def parsed(**rule: Any) -> irq_parse.Rule:
    (setting, *_rest) = door.parse("irq", {"rules": [{**RULE, **rule}]})
    assert isinstance(setting, RuleSetting)
    return setting.rule


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"rule": []}, "irq.rule: unknown; known are rules, irqbalance, allow"),
        ({"rules": {"name": "a"}}, "irq.rules.name: must be a dictionary, got 'a'"),
        ({"rules": ["a"]}, "irq.rules[0]: must be a dictionary, got 'a'"),
        ({"rules": [RULE, "b"]}, "irq.rules[1]: must be a dictionary, got 'b'"),
        ({"rules": [{**RULE, "queues": 4}]}, "irq.rules[0].queues: unknown; known are name, nics, strategy"),
        ({"rules": [RULE, RULE]}, "irq.a is declared by two rules: give each its own name"),
        ({"rules": [{"name": "a"}]}, "irq.rules[0]: give it at least one of strategy, cpus, rps, xps"),
        ({"irqbalance": "off"}, "irq.irqbalance: must be one of agree, leave, disable, got 'off'"),
        ({"irqbalance": False}, "irq.irqbalance: must be a text, got False, which is a YAML boolean"),
        ({"allow": ["everything"]}, "irq.allow[0]: must be one of isolated_cpus, got 'everything'"),
        ({"allow": "isolated_cpus"}, "irq.allow: must be a list, got 'isolated_cpus'"),
    ],
)
def test_a_bad_declaration_is_refused_with_what_is_wrong(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        door.parse("irq", spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "name", [None, 1, True, "", "A", "a b", "a\n", "../a", "a.b", "a" * 32, "\u0661a", ["a"]]
)
def test_a_rule_has_a_plain_word_for_a_name(name: Any) -> None:
    with pytest.raises(
        DeclarationError, match=r"irq\.rules\[0\]\.name: (is required|must be|.* does not print)"
    ):
        door.parse("irq", {"rules": [{"name": name, "strategy": "spread"}]})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            {"strategy": "everywhere"},
            "irq.rules[0].strategy: must be one of spread, housekeeping, list, got 'everywhere'",
        ),
        ({"strategy": ["spread"]}, "irq.rules[0].strategy: must be a text, got ['spread']"),
        ({"strategy": "list"}, "irq.a.cpus: strategy list wants a list of CPUs such as 0-3,8"),
        ({"cpus": "0-3"}, "irq.a.cpus: only the strategies list and housekeeping take CPUs"),
        ({"strategy": "list", "cpus": ""}, "irq.rules[0].cpus: an empty list names no CPU"),
        ({"strategy": "list", "cpus": "3-0"}, "irq.rules[0].cpus: '3-0' in a list of CPUs runs backwards"),
        ({"strategy": "list", "cpus": "0-8192"}, "irq.rules[0].cpus: CPU 8192 cannot exist"),
        ({"strategy": "list", "cpus": "0-4294967295"}, "'0-4294967295' is not a list of CPUs"),
        (
            {"strategy": "list", "cpus": "0\n"},
            "irq.rules[0].cpus: '0\\n' holds a character that does not print",
        ),
        ({"strategy": "list", "cpus": "\u0661"}, "is not a list of CPUs"),
        ({"strategy": "list", "cpus": True}, "irq.rules[0].cpus: must be a text, got True"),
        ({"strategy": "list", "cpus": [0, 1]}, "irq.rules[0].cpus: must be a text, got [0, 1]"),
        ({"rps": "on"}, "irq.rules[0].rps: 'on' is not a list of CPUs such as 0-3,8, nor off or auto"),
        ({"rps": True}, "irq.rules[0].rps: 'on' is not a list of CPUs such as 0-3,8, nor off or auto"),
        ({"xps": ["auto"]}, "irq.rules[0].xps: must be a text, got ['auto']"),
        ({"xps": -1}, "irq.rules[0].xps: '-1' is not a list of CPUs"),
        ({"rfs_entries": 1000}, "irq.a.rfs_entries: 1000 is not a power of two"),
        ({"rfs_entries": 1 << 30}, "irq.rules[0].rfs_entries: must be from 0 to 536870912, got 1073741824"),
        ({"rfs_entries": -2}, "irq.rules[0].rfs_entries: must be from 0 to 536870912, got -2"),
        ({"rfs_entries": True}, "irq.rules[0].rfs_entries: must be a whole number, got True"),
        ({"rfs_entries": "many"}, "irq.rules[0].rfs_entries: must be a whole number, got 'many'"),
    ],
)
def test_a_bad_rule_is_refused_with_what_is_wrong(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parsed(**rule)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("nics", "words"),
    [
        ("eth0", "irq.rules[0].nics: must be a dictionary, got 'eth0'"),
        ({"name": ["eth0"]}, "irq.rules[0].nics.name: unknown; known are names, drivers, addresses, pci_ids"),
        ({"names": "eth0"}, "irq.rules[0].nics.names: must be a list, got 'eth0'"),
        (
            {"names": ["eth0/1"]},
            "irq.rules[0].nics.names[0]: must be an interface such as eth0, got 'eth0/1'",
        ),
        ({"names": [".."]}, "irq.rules[0].nics.names[0]: must be an interface such as eth0, got '..'"),
        (
            {"names": ["eth0\n"]},
            "irq.rules[0].nics.names[0]: 'eth0\\n' holds a character that does not print",
        ),
        (
            {"names": ["a" * 16]},
            "irq.rules[0].nics.names[0]: must be an interface such as eth0, got 'aaaaaaaaaaaaaaaa'",
        ),
        ({"names": ["eth*"]}, "irq.rules[0].nics.names[0]: must be an interface such as eth0, got 'eth*'"),
        ({"names": [True]}, "irq.rules[0].nics.names[0]: must be a text, got True, which is a YAML boolean"),
        (
            {"drivers": ["mlx5 core"]},
            "irq.rules[0].nics.drivers[0]: must be a driver such as mlx5_core, got 'mlx5 core'",
        ),
        (
            {"addresses": ["41:00.0"]},
            "irq.rules[0].nics.addresses[0]: must be a PCI address such as 0000:41:00.0, got",
        ),
        (
            {"addresses": ["0000:41:20.0"]},
            "irq.rules[0].nics.addresses[0]: must be a PCI address such as 0000:41:00.0, got",
        ),
        (
            {"addresses": ["0000:41:00.8"]},
            "irq.rules[0].nics.addresses[0]: must be a PCI address such as 0000:41:00.0, got",
        ),
        (
            {"addresses": [41]},
            "irq.rules[0].nics.addresses[0]: must be a PCI address such as 0000:41:00.0, got 41",
        ),
        (
            {"rdma": ["../mlx5_0"]},
            "irq.rules[0].nics.rdma[0]: must be an RDMA device such as mlx5_0, got '../mlx5_0'",
        ),
        ({"rails": "all"}, "irq.a.nics.rails: must be a list, got 'all'"),
        ({"rails": [True]}, "irq.a.nics.rails[0]: must be a whole number, got True"),
        ({"rails": [-1]}, "irq.a.nics.rails[0]: must be from 0 to 99999999, got -1"),
        ({"nodes": [0.5]}, "irq.rules[0].nics.nodes[0]: must be a whole number, got 0.5"),
        ({"nodes": ["9" * 5000]}, "irq.rules[0].nics.nodes[0]: must be a whole number, got"),
    ],
)
def test_a_bad_selection_is_refused_with_what_is_wrong(nics: Any, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parsed(nics=nics)
    assert words in str(caught.value)


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


@pytest.mark.parametrize(
    ("rails", "expected", "words"),
    [
        (True, (), "all rails"),
        ([0], (0,), "rails 0"),
        (False, None, "all NICs"),
        ([], None, "all NICs"),
        (None, None, "all NICs"),
    ],
)
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


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    values,
    endless,
    st.lists(values, max_size=2),
    st.dictionaries(values, values, max_size=2),
)


@quick
@given(
    st.fixed_dictionaries(
        {"name": st.one_of(st.just("a"), anything)},
        optional={
            "nics": st.one_of(
                anything,
                st.dictionaries(
                    st.sampled_from(["names", "addresses", "rails", "nodes"]), anything, max_size=3
                ),
            ),
            "strategy": st.one_of(st.sampled_from(irq_schema.STRATEGIES), anything),
            "cpus": anything,
            "rps": anything,
            "xps": anything,
            "rfs_entries": anything,
        },
    )
)
def test_whatever_is_declared_is_understood_or_refused_in_words(rule: dict[str, Any]) -> None:
    settings: list[Any] = []
    with contextlib.suppress(DeclarationError):
        settings = door.parse("irq", {"rules": [rule]})
        assert settings
    assert all(item.key.startswith(f"irq.{rule['name']}") and item.claim for item in settings)


def test_an_empty_selection_is_all_nics() -> None:
    assert parsed(nics={}).nics == parsed().nics == Selection()


def test_no_rule_has_the_name_of_the_program() -> None:
    with pytest.raises(DeclarationError, match=r"\.name: irqbalance is the key of the program"):
        parsed(name="irqbalance")
