# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
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
    assert door.parse("qos", {}) == []
    assert door.parse("qos", {"rules": []}) == []


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({}, "qos.rules[0]: give it at least one of global_pause, trust, dscp, ets, pfc, buffer, ecn,"),
        ({"pcf": [3]}, "qos.rules[0].pcf: unknown; known are name, nics, global_pause, trust, dscp, ets"),
        ({"pfc": 3}, "qos.rules[0].pfc: must be a list, got 3"),
        ({"pfc": [8]}, "qos.rules[0].pfc[0]: must be from 0 to 7, got 8"),
        ({"pfc": [True]}, "qos.rules[0].pfc[0]: must be a whole number, got True"),
        ({"pfc": ["3x"]}, "qos.rules[0].pfc[0]: must be a whole number, got '3x'"),
        ({"pfc": {"3": True}}, "qos.rules[0].pfc: must be a list, got {'3': True}"),
        ({"trust": "DSCP"}, "qos.rules[0].trust: must be one of dscp, pcp, got 'DSCP'"),
        ({"trust": True}, "qos.rules[0].trust: must be a text, got True, which is a YAML boolean"),
        ({"global_pause": "rx"}, "qos.rules[0].global_pause: must be true or false, got 'rx'"),
        ({"dscp": [26]}, "qos.rules[0].dscp: must be a dictionary, got [26]"),
        ({"dscp": {}}, "qos.rules[0].dscp: must have from 1 to 64 entries, got {}"),
        ({"dscp": {"64": 3}}, "the name '64' must be a DSCP from 0 to 63, or a range such as 24-31"),
        ({"dscp": {"AF31": 3}}, "qos.rules[0].dscp: the name 'AF31' must be a DSCP"),
        ({"dscp": {True: 3}}, "qos: the name True in rules[0].dscp is not a text"),
        ({"dscp": {"31-24": 3}}, "the name '31-24' must be a DSCP"),
        ({"dscp": {"0-4294967295": 3}}, "the name '0-4294967295' must be a DSCP"),
        ({"dscp": {"24-31": 3, "26": 4}}, "DSCP 26 is there twice"),
        ({"dscp": {"26": 8}}, "qos.rules[0].dscp.26: must be from 0 to 7, got 8"),
        ({"dscp": {"26": [3]}}, "qos.rules[0].dscp.26: must be a whole number, got [3]"),
        ({"ecn": []}, "qos.rules[0].ecn: must have from 1 to 8 entries, got []"),
        ({"cnp": {}}, "qos.rules[0].cnp: must have from 1 to 2 entries, got {}"),
        ({"cnp": {"tos": 3}}, "qos.rules[0].cnp.tos: unknown; known are dscp, priority"),
        ({"cnp": {"dscp": 64}}, "qos.rules[0].cnp.dscp: must be from 0 to 63, got 64"),
        ({"rdma_cm_tos": 256}, "qos.rules[0].rdma_cm_tos: must be from 0 to 255, got 256"),
        ({"traffic_class": -1}, "qos.rules[0].traffic_class: must be from 0 to 255, got -1"),
        ({"nics": {"name": ["eth0"]}, "pfc": [3]}, "qos.rules[0].nics.name: unknown; known are names"),
    ],
)
def test_mistakes_are_named(groups: dict[str, Any], words: str) -> None:
    assert words in refused(**groups)


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


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"pfc": [3], "global_pause": True}, "PFC and global pause exclude each other"),
        ({"trust": "pcp", "dscp": {"26": 3}}, "with trust: pcp DSCPs are ignored"),
        ({"dscp": {"48": 5}, "cnp": {"dscp": 48, "priority": 6}}, "CNPs have DSCP 48"),
        ({"dscp": {"26": 4}, "pfc": [3], "traffic_class": 106}, "qos.roce.traffic_class: 106 is DSCP 26"),
        ({"dscp": {"26": 4}, "pfc": [3], "rdma_cm_tos": 104}, "rdma_cm_tos: 104 is DSCP 26"),
    ],
)
def test_what_contradicts_itself_is_refused(groups: dict[str, Any], words: str) -> None:
    assert words in refused(**groups)


@pytest.mark.parametrize(
    "groups",
    [
        {"pfc": [], "global_pause": True},
        {"trust": "pcp", "pfc": [3]},
        {"dscp": {"26": 3}, "cnp": {"dscp": 48, "priority": 6}},
        {"dscp": {"48": 6}, "cnp": {"dscp": 48}},
        {"dscp": {"26": 4}, "traffic_class": 106},
        {"dscp": {"26": 4}, "pfc": [], "traffic_class": 106},
        {"dscp": {"46": 4}, "pfc": [3], "traffic_class": 106},
        {"pfc": [3], "traffic_class": 106},
    ],
)
def test_what_does_not_contradict_itself_is_taken(groups: dict[str, Any]) -> None:
    assert parsed(**groups)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"rules": {}, "rulez": []}, "qos.rulez: unknown"),
        ({"rules": {"a": 1}}, "must be a dictionary"),
        ({"rules": ["pfc"]}, "must be a dictionary"),
        ({"rules": [{"pfc": [3]}]}, "is required"),
        (
            {"rules": [{"name": "a", "pfc": [3]}, {"name": "a", "pfc": [4]}]},
            "qos.a.pfc is declared by two rules",
        ),
        ({"rules": [], "allow": ["pfc"]}, "must be one of management, busy, pfc_priorities"),
        ({"rules": [], "max_disruption": "much"}, "must be one of none, link_reset, driver_reload"),
    ],
)
def test_mistakes_around_the_rules_are_named(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(words)):
        door.parse("qos", spec)


def test_what_a_check_may_expect() -> None:
    expected = qos_parse.expected("expect.all.qos", {"trust": "dscp", "pfc": ["3"], "dscp": {"26": 3}})
    assert expected == {"trust": "dscp", "pfc": (3,), "dscp": {26: 3}}
    for raw, words in (
        ({"ets": {}}, "expect.all.qos.ets: unknown"),
        ([], "expect.all.qos: must be a dictionary, got []"),
    ):
        with pytest.raises(DeclarationError, match=re.escape(words)):
            qos_parse.expected("expect.all.qos", raw)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@quick
@given(st.dictionaries(st.sampled_from([*qos_parse.GROUPS, "nics", "name"]), _JSON, max_size=4))
def test_any_rule_is_parsed_or_refused_with_words(rule: dict[str, Any]) -> None:
    try:
        found = door.parse("qos", {"rules": [{"name": "roce", **rule}]})
    except DeclarationError:
        return
    again = door.parse("qos", json.loads(json.dumps({"rules": [{"name": "roce", **rule}]})))
    assert [item.claim for item in again] == [item.claim for item in found]
