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


def refused(**groups: Any) -> str:
    with pytest.raises(DeclarationError) as told:
        parsed(**groups)
    return str(told.value)


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tc_bw": [50, 40, 0, 0, 0, 0, 0, 0]}, "the shares are 90 % together, and not 100 %"),
        (
            {"tc_tsa": ["strict"] * 8, "tc_bw": [0] * 7},
            "qos.rules[0].ets.tc_bw: must have 8 entries, got [0, 0, 0, 0, 0, 0,",
        ),
        (
            {"tc_tsa": ["strict"] * 8, "tc_bw": [1, *[0] * 7]},
            "traffic class 0 is strict and has 1 % of the bandwidth",
        ),
        ({"tc_bw": [101, *[0] * 7]}, "qos.rules[0].ets.tc_bw[0]: must be from 0 to 100, got 101"),
        (
            {"tc_tsa": ["wrr"] * 8},
            "qos.rules[0].ets.tc_tsa[0]: must be one of strict, cbs, ets, vendor, got 'wrr'",
        ),
        ({"prio_tc": [8] * 8}, "qos.rules[0].ets.prio_tc[0]: must be from 0 to 7, got 8"),
        ({"prio_tc": None}, "qos.rules[0].ets.prio_tc: is required"),
        ({"willing": True}, "qos.rules[0].ets.willing: unknown; known are prio_tc, tc_tsa, tc_bw"),
    ],
)
def test_transmission_selection_fits_together(changes: dict[str, Any], words: str) -> None:
    assert words in refused(ets={**ROCE["ets"], **changes})


def test_classes_without_shares_need_none() -> None:
    ets = {"prio_tc": [0] * 8, "tc_tsa": ["strict"] * 8, "tc_bw": [0] * 8}
    assert parsed(ets=ets)["ets"].text.endswith("0/0/0/0/0/0/0/0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"buffer_size": None}, "qos.rules[0].buffer.buffer_size: is required"),
        (
            {"buffer_size": [1 << 32, *[0] * 7]},
            "qos.rules[0].buffer.buffer_size[0]: must be from 0 to 4294967295, got 4294967296",
        ),
        (
            {"buffer_size": ["64K", *[0] * 7]},
            "qos.rules[0].buffer.buffer_size[0]: must be a whole number, got '64K'",
        ),
        ({"prio_buffer": [0] * 9}, "qos.rules[0].buffer.prio_buffer: must have 8 entries, got [0, 0, 0,"),
    ],
)
def test_buffers_fit_together(changes: dict[str, Any], words: str) -> None:
    assert words in refused(buffer={**ROCE["buffer"], **changes})


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
