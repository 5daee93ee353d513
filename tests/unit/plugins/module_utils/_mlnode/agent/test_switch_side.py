# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode render switch`: the switch side of what a node declares."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import arguments, cli, switch_side
from mlnode.knobs.qos import switches

Capture = pytest.CaptureFixture[str]

RULE: dict[str, Any] = {
    "name": "rails",
    "global_pause": False,
    "trust": "dscp",
    "dscp": {"26": 3, "48": 6},
    "pfc": [3],
    "ecn": [3],
    "cnp": {"dscp": 48, "priority": 6},
    "traffic_class": 106,
}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(f"{tmp_path}/node")


def declare(machine: Machine, *rules: dict[str, Any], name: str = "fabric", mtu: Any = None) -> None:
    kinds: dict[str, Any] = {"qos": {"rules": [*rules]}} if rules else {}
    if mtu is not None:
        kinds["nic"] = {"rules": [{"name": "rails", "mtu": mtu}]}
    document = {"format": 1, "name": name, "kinds": kinds}
    machine.put(f"/etc/mlnode/declared.d/{name}.json", json.dumps(document))


def shown(machine: Machine, capsys: Capture, *words: str) -> str:
    assert cli.main(["render", "switch", *words, "--root", machine.root]) == cli.OK
    return capsys.readouterr().out


def test_the_reference_scheme(machine: Machine, capsys: Capture) -> None:
    declare(machine, RULE, mtu={"at_least": 4200})
    text = shown(machine, capsys)
    assert text.startswith(f"Switch side of qos.rails of fabric\n{switch_side.NOT_APPLIED}\n")
    for line in (
        "PFC on priority 3 and on no other, on every port between two nodes",
        "DSCP 26 in priority 3, DSCP 48 in priority 6",
        "ECN thresholds of priority 3: marking begins before PFC pauses",
        "PFC watchdog on for priority 3: a port that is paused for ever stops no other",
        "an MTU of at least 4200 bytes of IP, and the headers of the link above it",
    ):
        assert f"  [ ] {line}\n" in text
    for line in (
        "nv set qos pfc default-global switch-priority 3",
        "nv set qos mapping default-global dscp 48 switch-priority 6",
        "nv set interface swp1 qos pfc-watchdog",
        "qos map dscp 26 to traffic-class 3",
        "   priority-flow-control priority 3 no-drop",
        "    pause pfc-cos 3",
        "    set qos-group 7",
        "  priority-flow-control watch-dog-interval on",
    ):
        assert f"\n{line}\n" in text
    assert all(source in text for system in switches.SYSTEMS.values() for source in system.source)


@pytest.mark.parametrize("nos", arguments.NOS)
def test_one_system_alone(machine: Machine, capsys: Capture, nos: str) -> None:
    declare(machine, RULE)
    text = shown(machine, capsys, "--nos", nos)
    assert [line for line in text.splitlines() if line.startswith("-- ")] == [
        f"-- {switches.SYSTEMS[nos].title} --"
    ]
    assert [*switches.SYSTEMS] == [*arguments.NOS]


def test_another_scheme_has_no_number_of_the_reference(machine: Machine, capsys: Capture) -> None:
    rule = {
        "name": "x", "trust": "dscp", "dscp": {"40-41": 5, "10": 1}, "pfc": [5], "ecn": [5],
        "cnp": {"dscp": 10},
    }  # fmt: skip
    declare(machine, rule)
    text = shown(machine, capsys)
    assert "nv set qos mapping default-global dscp 40,41 switch-priority 5\n" in text
    assert "traffic-class 1 mode strict" in text
    assert "   uc-tx-queue 5\n      random-detect ecn" in text
    assert "c-8q-nq5\n    mtu 9216\n    pause pfc-cos 5\n" in text
    assert "  match dscp 40,41\n" in text
    number = r"(?:switch-priority|traffic-class|queue|pfc-cos|qos-group|no-drop|8q-n?q) ?3\b"
    assert not re.search(number, text)


def test_sonic_has_tables_that_refer_to_each_other(machine: Machine, capsys: Capture) -> None:
    declare(machine, {**RULE, "pfc": [2], "dscp": {"20": 2, "48": 6}, "ecn": [2], "traffic_class": 82})
    text = shown(machine, capsys, "--nos", "sonic")
    tables = json.loads(text[text.index("{\n") :])
    port = tables["PORT_QOS_MAP"]["Ethernet0"]
    assert (port["pfc_enable"], port["pfcwd_sw_enable"]) == ("2", "2")
    assert tables["DSCP_TO_TC_MAP"][port["dscp_to_tc_map"]] == {"20": "2", "48": "6"}
    assert tables["TC_TO_PRIORITY_GROUP_MAP"][port["tc_to_pg_map"]]["2"] == "2"
    assert {tables["TC_TO_PRIORITY_GROUP_MAP"]["ROCE"][one] for one in "0134567"} == {"0"}
    assert tables["QUEUE"]["Ethernet0|2"]["wred_profile"] in tables["WRED_PROFILE"]
    assert tables["QUEUE"]["Ethernet0|6"]["scheduler"] in tables["SCHEDULER"]


def test_what_is_not_declared_is_not_asked_of_a_switch(machine: Machine, capsys: Capture) -> None:
    declare(machine, {"name": "ecn", "trust": "dscp", "dscp": {"26": 3}, "ecn": [3]})
    text = shown(machine, capsys)
    for words in ("pfc-watchdog", "no-drop", "pfc-cos", "pfc_enable", "PFC_WD", "strict", "MTU of at least"):
        assert words not in text, words


@cases.table
def test_a_scheme_without_dscps_has_a_checklist_alone(
    machine: Machine, capsys: Capture, given: dict[str, Any], words: str
) -> None:
    declare(machine, {"name": "tags", "pfc": [3], **given})
    text = shown(machine, capsys)
    assert ("  [ ] trust PCP on the ports" in text) == bool(given)
    assert "  [ ] PFC on priority 3" in text
    assert "-- " not in text
    assert "trust dscp" not in text.replace("`", "")
    assert words in text


def test_notifications_have_their_dscp_in_each_text(machine: Machine, capsys: Capture) -> None:
    """The NIC sends them with DSCP 48 whether or not the map for received packets has it."""
    declare(machine, {**RULE, "dscp": {"26": 3}})
    text = shown(machine, capsys)
    for line in (
        "nv set qos mapping default-global dscp 48 switch-priority 6",
        '      "48": "6"',
        "qos map dscp 48 to traffic-class 6",
        "  match dscp 48\npolicy-map",
        "  class PRIORITY6\n    set qos-group 7",
    ):
        assert f"\n{line}" in text, line


def test_what_may_be_lost_shares_no_group_of_sonic_with_what_may_not(
    machine: Machine, capsys: Capture
) -> None:
    declare(machine, {"name": "x", "trust": "dscp", "dscp": {"0": 0, "26": 3}, "pfc": [0, 3]})
    text = shown(machine, capsys, "--nos", "sonic")
    groups = json.loads(text[text.index("{\n") :])["TC_TO_PRIORITY_GROUP_MAP"]["ROCE"]
    assert (groups["0"], groups["3"]) == ("0", "3")
    assert {groups[one] for one in "124567"} == {"1"}


def test_a_scheme_of_several_rules_is_shown_once(machine: Machine, capsys: Capture) -> None:
    declare(machine, RULE, {**RULE, "name": "more"})
    declare(machine, RULE, name="other")
    text = shown(machine, capsys, "--nos", "eos")
    assert text.count("Switch side of") == 1
    assert text.startswith("Switch side of qos.rails of fabric, qos.more of fabric, qos.rails of other\n")
    declare(machine, {**RULE, "ecn": [3, 4]}, name="other")
    assert shown(machine, capsys, "--nos", "eos").count("Switch side of") == 2


def test_an_mtu_that_the_text_does_not_have_is_said(machine: Machine, capsys: Capture) -> None:
    declare(machine, RULE, mtu=9200)
    text = shown(machine, capsys)
    assert "MTU: 9200 is declared, and the text has 9100" in text
    assert "the text has 9216" not in text


@pytest.mark.parametrize("rules", [(), ({"name": "x", "rdma_cm_tos": 106},)])
def test_nothing_declared_is_no_success(machine: Machine, capsys: Capture, rules: Any) -> None:
    declare(machine, *rules)
    assert cli.main(["render", "switch", "--root", machine.root]) == cli.ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert "no scheme of priorities is declared" in err


@pytest.mark.parametrize(
    "damage", ["{", '{"format":1,"name":"bad","kinds":{"qos":{"rules":[{"name":"x","pfc":[9]}]}}}']
)
def test_a_declaration_that_cannot_be_read_is_an_error_beside_the_others(
    machine: Machine, capsys: Capture, damage: str
) -> None:
    declare(machine, RULE)
    machine.put("/etc/mlnode/declared.d/bad.json", damage)
    assert cli.main(["render", "switch", "--nos", "eos", "--root", machine.root]) == cli.ERROR
    out, err = capsys.readouterr()
    assert "qos map dscp 26 to traffic-class 3" in out
    assert "bad.json" in err


def test_groups_of_nxos_do_not_meet() -> None:
    """Group 7 has strict priority; a scheme that needs it for another priority leaves it out."""
    made = switches.Scheme(dscp={26: 7, 48: 6}, pfc=(7,), ecn=(7,), cnp=(48, 6))
    lines = switches.SYSTEMS["nxos"].make(made)
    assert lines.count("    set qos-group 7") == 1
    assert "    priority level 1" not in lines
