# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from mlnode.knobs.qos import parse as qos_parse
from mlnode.knobs.qos.parse import QosSetting
from mlnode.model.errors import DeclarationError

from .node import ROCE


def parsed(**groups: Any) -> dict[str, QosSetting]:
    found = door.parse("qos", {"rules": [{"name": "roce", **groups}]})
    settings = [item for item in found if isinstance(item, QosSetting)]
    assert len(settings) == len(found)
    return {item.key.partition("qos.roce.")[2]: item for item in settings}


def test_a_whole_declaration() -> None:
    rule = {name: value for name, value in ROCE.items() if name != "name"}
    assert {key: item.claim for key, item in parsed(**rule).items()} == {
        "global_pause": "off (not management)",
        "trust": "dscp (not management)",
        "dscp": "26:3 48:6 (not management)",
        "ets": "0/0/0/1/0/0/2/0 ets/ets/strict/strict/strict/strict/strict/strict 50/50/0/0/0/0/0/0 "
        "(not management)",
        "pfc": "3 (not management)",
        "buffer": "0/0/0/1/0/0/0/0 65536/131072/0/0/0/0/0/0 (not management)",
        "ecn": "3 (not management)",
        "cnp_dscp": "48 (not management)",
        "cnp_priority": "6 (not management)",
        "rdma_cm_tos": "106 (not management)",
        "traffic_class": "106 (not management)",
    }


def test_the_order_is_that_of_the_writes_whatever_the_rules_say() -> None:
    rules = [
        {"name": "b", "pfc": [3], "trust": "dscp"},
        {"name": "a", "global_pause": False, "dscp": {"26": 3}},
    ]
    keys = [item.key for item in door.parse("qos", {"rules": rules})]
    assert keys == ["qos.a.global_pause", "qos.b.trust", "qos.a.dscp", "qos.b.pfc"]


def test_numbers_may_be_texts_as_json_has_them() -> None:
    assert parsed(dscp={26: "3"})["dscp"].value == {26: 3}
    assert parsed(dscp={"24-31,46": 3})["dscp"].value == dict.fromkeys((*range(24, 32), 46), 3)
    assert parsed(pfc=["3", 3])["pfc"].value == (3,)
    assert parsed(traffic_class="106")["traffic_class"].text == "106"


def test_no_pfc_at_all_is_a_declaration() -> None:
    assert parsed(pfc=[])["pfc"].text == "none"


@pytest.mark.parametrize("value", [False, "off"])
def test_what_yaml_makes_of_off(value: object) -> None:
    assert parsed(global_pause=value)["global_pause"].text == "off"


def test_what_is_not_given_is_not_declared() -> None:
    assert list(parsed(pfc=[3], dscp=None, cnp=None)) == ["pfc"]
    assert list(parsed(cnp={"dscp": 46, "priority": None})) == ["cnp_dscp"]


def test_classes_without_shares_need_none() -> None:
    ets = {"prio_tc": [0] * 8, "tc_tsa": ["strict"] * 8, "tc_bw": [0] * 8}
    assert parsed(ets=ets)["ets"].text.endswith("0/0/0/0/0/0/0/0")


@cases.table
def test_what_does_not_contradict_itself_is_taken(groups: dict[str, Any]) -> None:
    assert parsed(**groups)


def test_what_a_check_may_expect() -> None:
    expected = qos_parse.expected("expect.all.qos", {"trust": "dscp", "pfc": ["3"], "dscp": {"26": 3}})
    assert expected == {"trust": "dscp", "pfc": (3,), "dscp": {26: 3}}
    for raw, words in (
        ({"ets": {}}, "expect.all.qos.ets: unknown"),
        ([], "expect.all.qos: must be a dictionary, got []"),
    ):
        with pytest.raises(DeclarationError, match=re.escape(words)):
            qos_parse.expected("expect.all.qos", raw)
