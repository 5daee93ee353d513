# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.rail import parse as rail_parse
from mlnode.model.errors import DeclarationError

from .node import RAILS


def parsed(**groups: Any) -> list[Any]:
    return door.parse("rail", {"rules": [{"name": "x", **groups}]})


def test_a_rule_is_a_setting_for_each_value_in_the_order_of_application() -> None:
    found = door.parse("rail", {"rules": [RAILS, {"name": "b", "arp_ignore": "1"}]})
    assert [item.key for item in found] == [
        "rail.rails.arp_ignore",
        "rail.b.arp_ignore",
        "rail.rails.arp_announce",
        "rail.rails.rp_filter",
    ]
    assert found[0].claim == "1 (all rails)"
    assert found[1].claim == "1 (all NICs)"
    assert found[0].path == "/proc/sys/net/ipv4/conf/*/arp_ignore"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({}, "rail.rules[0]: give it at least one of arp_ignore, arp_announce, rp_filter"),
        ({"arp_ignore": 4}, "rail.rules[0].arp_ignore: must be one of 0, 1, 2, 3, 8, got 4"),
        ({"arp_announce": 3}, "rail.rules[0].arp_announce: must be one of 0, 1, 2, got 3"),
        ({"rp_filter": True}, "rail.rules[0].rp_filter: must be a whole number, got True"),
        ({"rp_filter": "-1"}, "rail.rules[0].rp_filter: must be one of 0, 1, 2, got '-1'"),
        ({"arp_filter": 1}, "rail.rules[0].arp_filter: unknown"),
        ({"arp_ignore": 1, "nics": {"nic": []}}, "rail.rules[0].nics.nic: unknown; known are names, drivers"),
        ({"source_routing": {"table": 1000}}, "rail.rules[0].source_routing: unknown; known are name, nics,"),
    ],
)
def test_what_is_wrong_is_named(groups: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        parsed(**groups)
    assert words in str(raised.value)


def test_guards_and_names_are_checked() -> None:
    for spec, words in (
        ({"allow": ["busy"]}, "must be one of management"),
        ({"rules": {"a": 1}}, "rail.rules.a: must be a dictionary"),
        ({"rules": [{"name": "A", "arp_ignore": 1}]}, "must be up to 31 of a-z"),
        ({"rules": [{"name": "a", "arp_ignore": 1}] * 2}, "declared by two rules"),
        ({"settings": {}}, "rail.settings: unknown"),
    ):
        with pytest.raises(DeclarationError, match=words):
            door.parse("rail", spec if isinstance(spec, dict) else {})
    assert door.parse("rail", {}) == []


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "nics", *rail_parse.GROUPS), values)))
@quick
def test_no_rule_raises_anything_else(raw: dict[str, Any]) -> None:
    try:
        door.parse("rail", {"rules": [raw]})
    except DeclarationError:
        return
