# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole subnet, looked at again and again while things happen to it."""

from __future__ import annotations

import errno
import json
import pathlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import revert, subnet_check
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.checks.model import Check, Verdict
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import DeclarationError, HostError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.subnet_check import Request
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.system import Finished
from ansible_collections.mlnode.tuning.tests.fixtures import infiniband
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import TOOLS, SubnetMachine
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear

FILE = "/var/lib/mlnode/ib-subnet.json"
HOUR = 3600.0
CABLE = "gpu001 mlx5_0/1 - leaf1/1"
END = ("leaf1", 1)


@pytest.fixture
def machine(tmp_path: object) -> SubnetMachine:
    return SubnetMachine(f"{tmp_path}/node", infiniband.ndr())


def look(
    machine: SubnetMachine, at: float = 0.0, port: str = "", reset: bool = False, write: bool = True
) -> list[Check]:
    machine.forget()
    return subnet_check.look(machine, Request(port, reset, write, 300), lambda: at).checks


def bad(checks: list[Check]) -> list[tuple[str, str, str, str]]:
    return [
        (check.name, check.target, check.verdict.value, check.found)
        for check in checks
        if check.verdict not in (Verdict.PASS, Verdict.SKIP)
    ]


def verdicts(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.verdict.value for check in checks}


WELL = dict.fromkeys(("manager", "links", "topology", "errors"), "pass")
FIRST = {**WELL, "topology": "skip", "errors": "skip"}


def test_a_healthy_subnet(machine: SubnetMachine) -> None:
    first = look(machine)
    assert verdicts(first) == FIRST
    assert any("is kept, for later looks" in check.found for check in first)
    assert verdicts(look(machine, HOUR)) == WELL
    assert machine.commands[:4] == [
        ["sminfo", "-C", "mlx5_0", "-P", "1"],
        ["ibnetdiscover", "-C", "mlx5_0", "-P", "1"],
        ["iblinkinfo", "--line", "-C", "mlx5_0", "-P", "1"],
        [
            *("ibqueryerrors", "--threshold-file", "/dev/null", "--suppress"),
            *("PortXmitWait,PortRcvSwitchRelayErrors", "-C", "mlx5_0", "-P", "1"),
        ],
    ]


def test_a_look_that_may_not_write_keeps_nothing_and_compares(machine: SubnetMachine) -> None:
    before = machine.tree()
    assert verdicts(look(machine, write=False)) == FIRST
    assert machine.tree() == before
    look(machine)
    kept = machine.tree()
    machine.subnet = machine.subnet.without("gpu004 mlx5_0")
    assert [one[1] for one in bad(look(machine, HOUR, write=False))] == ["gpu004 mlx5_0"]
    assert machine.tree() == kept


# -- topology ------------------------------------------------------------------------------


def test_a_node_that_is_gone_fails_until_that_is_accepted(machine: SubnetMachine) -> None:
    look(machine)
    machine.subnet = machine.subnet.without("gpu004 mlx5_0")
    gone = [("topology", "gpu004 mlx5_0", "fail", "the HCA is gone from leaf2/2")]
    assert bad(look(machine, 1)) == bad(look(machine, 2)) == gone
    assert verdicts(look(machine, 3, reset=True)) == FIRST
    assert verdicts(look(machine, 4)) == WELL


def test_a_switch_that_is_gone_is_one_line(machine: SubnetMachine) -> None:
    look(machine)
    machine.subnet = machine.subnet.without("spine2")
    [found] = bad(look(machine, 1))
    assert found == ("topology", "spine2", "fail", "the switch is gone from leaf1/6; leaf2/6")


def test_a_card_that_was_exchanged(machine: SubnetMachine) -> None:
    look(machine)
    hosts = {**machine.subnet.hosts, "gpu004 mlx5_0": "946dae0300d49990"}
    machine.subnet = replace(machine.subnet, hosts=hosts)
    assert bad(look(machine, 1)) == [
        (
            *("topology", "gpu004 mlx5_0 (0x946dae0300d40040)", "fail"),
            "the HCA is gone from leaf2/2, where gpu004 mlx5_0 (0x946dae0300d49990)/1 is now",
        ),
        ("topology", "gpu004 mlx5_0 (0x946dae0300d49990)", "warn", "new, at leaf2/2"),
    ]


def test_a_new_node_warns(machine: SubnetMachine) -> None:
    whole = machine.subnet
    machine.subnet = whole.without("gpu004 mlx5_0")
    look(machine)
    machine.subnet = whole
    assert bad(look(machine, 1)) == [("topology", "gpu004 mlx5_0", "warn", "new, at leaf2/2")]


def test_a_cable_that_is_gone_is_named_with_its_ports(machine: SubnetMachine) -> None:
    look(machine)
    whole = machine.subnet
    cables = tuple(cable for cable in whole.cables if cable != (("leaf1", 5), ("spine1", 1)))
    machine.subnet = replace(whole, cables=cables, states={("spine1", 1): ("Down", "Disabled")})
    words = "gone: leaf1/5 is Down/Polling, spine1/1 is Down/Disabled"
    assert bad(look(machine, 1)) == [("topology", "leaf1/5 - spine1/1", "fail", words)]


def test_cables_that_were_swapped_are_moved(machine: SubnetMachine) -> None:
    look(machine)
    one, two, *rest = machine.subnet.cables
    machine.subnet = replace(machine.subnet, cables=((one[0], two[1]), (two[0], one[1]), *rest))
    assert [found[1:] for found in bad(look(machine, 1))] == [
        (CABLE, "fail", "moved: gpu001 mlx5_0/1 goes to leaf1/2, leaf1/1 goes to gpu002 mlx5_0/1"),
        (
            *("gpu002 mlx5_0/1 - leaf1/2", "fail"),
            "moved: gpu002 mlx5_0/1 goes to leaf1/1, leaf1/2 goes to gpu001 mlx5_0/1",
        ),
    ]


def test_a_new_cable_between_known_switches_warns(machine: SubnetMachine) -> None:
    look(machine)
    machine.subnet = replace(machine.subnet, cables=(*machine.subnet.cables, (("leaf1", 4), ("spine1", 4))))
    assert bad(look(machine, 1)) == [("topology", "leaf1/4 - spine1/4", "warn", "new")]


# -- links ---------------------------------------------------------------------------------


def test_links_below_what_they_could_be_or_not_active(machine: SubnetMachine) -> None:
    machine.subnet = replace(
        machine.subnet,
        could={END: "Could be 4X", ("gpu001 mlx5_0", 1): "Could be 4X"},
        states={("leaf2", 1): ("Initialize", "LinkUp")},
        silent=frozenset({("leaf2", 3)}),
    )
    found = look(machine)
    assert bad(found) == [
        ("links", CABLE, "fail", "4X 106.25 Gbps Active/LinkUp"),
        ("links", "gpu003 mlx5_0/1 - leaf2/1", "fail", "4X 106.25 Gbps Initialize/LinkUp"),
        (
            *("links", "leaf2/3", "unknown"),
            "4X 106.25 Gbps Active/LinkUp, and nobody answers at its other end",
        ),
    ]
    assert next(check for check in found if check.target == CABLE).expected == "4X"


def test_ports_without_a_cable_are_none(machine: SubnetMachine) -> None:
    machine.subnet = replace(machine.subnet, states={("spine1", 6): ("Down", "Disabled")})
    assert bad(look(machine)) == []


def test_links_of_hdr(machine: SubnetMachine) -> None:
    machine.subnet = infiniband.hdr()
    assert bad(look(machine)) == []


# -- errors --------------------------------------------------------------------------------


def errors(machine: SubnetMachine, at: float, **counts: int) -> list[tuple[str, str, str, str]]:
    machine.subnet = replace(machine.subnet, counters={END: counts} if counts else {})
    return bad(look(machine, at))


def test_only_rises_count(machine: SubnetMachine) -> None:
    assert errors(machine, 0, SymbolErrorCounter=4000, PortRcvErrors=9) == []
    assert errors(machine, HOUR, SymbolErrorCounter=4100, PortRcvErrors=9) == []
    words = "leaf1/1: SymbolErrorCounter +900 to 5000 in 1.0 h, where at most 120 per hour is allowed"
    [found] = errors(machine, 2 * HOUR, SymbolErrorCounter=5000, PortRcvErrors=9)
    assert found[:3] == ("errors", CABLE, "fail")
    # Since the first look, 1000 in two hours are too many as well.
    assert "SymbolErrorCounter +1000 to 5000 in 2.0 h" in found[3] or found[3] == words


def test_a_burst_shows_however_old_the_kept_look_is(machine: SubnetMachine) -> None:
    assert errors(machine, 0) == []
    assert errors(machine, 1000 * HOUR) == []
    [found] = errors(machine, 1001 * HOUR, SymbolErrorCounter=5000)
    assert "+5000 to 5000 in 1.0 h" in found[3]


def test_a_counter_that_went_back_has_risen_from_zero(machine: SubnetMachine) -> None:
    assert errors(machine, 0, PortXmitDiscards=900) == []
    assert errors(machine, HOUR) == []
    [found] = errors(machine, 2 * HOUR, PortXmitDiscards=3)
    assert found[2:] == (
        "warn",
        "leaf1/1: PortXmitDiscards +3 to 3 in 2.0 h, where at most 0 since the baseline is allowed",
    )


def test_a_counter_that_was_cleared_and_rose_since(machine: SubnetMachine) -> None:
    assert errors(machine, 0, PortXmitDiscards=900) == []
    assert "+7 to 7" in errors(machine, HOUR, PortXmitDiscards=7)[0][3]
    assert "+7 to 7" in errors(machine, 2 * HOUR, PortXmitDiscards=7)[0][3]
    assert look(machine, 3 * HOUR, reset=True)
    assert errors(machine, 4 * HOUR, PortXmitDiscards=7) == []


def test_both_ends_are_named(machine: SubnetMachine) -> None:
    look(machine)
    counters = {END: {"PortRcvErrors": 1}, ("gpu001 mlx5_0", 1): {"LocalLinkIntegrityErrors": 2}}
    machine.subnet = replace(machine.subnet, counters=counters)
    [found] = bad(look(machine, HOUR))
    assert found[1:3] == (CABLE, "fail")
    assert "gpu001 mlx5_0/1: LocalLinkIntegrityErrors +2" in found[3]
    assert "leaf1/1: PortRcvErrors +1" in found[3]


def test_a_node_that_boots_is_no_flapping_link(machine: SubnetMachine) -> None:
    assert errors(machine, 0) == []
    assert errors(machine, HOUR, LinkDownedCounter=4) == []
    assert "at most 4 per day" in errors(machine, 2 * HOUR, LinkDownedCounter=5)[0][3]


def test_a_counter_at_its_end_tells_nothing(machine: SubnetMachine) -> None:
    assert errors(machine, 0, LinkDownedCounter=255)[0:0] == []
    [found] = errors(machine, HOUR, LinkDownedCounter=255)
    assert found[2:] == ("unknown", "leaf1/1: LinkDownedCounter stands at its end, 255, and rises no more")
    machine.subnet = replace(machine.subnet, wide=True)
    assert bad(look(machine, 2 * HOUR)) == []


def test_the_clock_that_was_set_back(machine: SubnetMachine) -> None:
    assert errors(machine, 10 * HOUR) == []
    assert errors(machine, HOUR, SymbolErrorCounter=5) == []


# -- what cannot be looked at ----------------------------------------------------------------


def says(out: str = "", rc: int = 0, err: str = "") -> Callable[[str], Finished]:
    return lambda text: Finished(rc, out or text, err)


def half(text: str) -> Finished:
    lines = text.splitlines(keepends=True)
    return Finished(0, "".join(lines[: len(lines) // 2]), "")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "happens",
    ["missing", "hangs", "nothing", "half", "fails", "complains"],
)
def test_a_tool_that_did_not_do_its_work_is_never_a_pass(
    machine: SubnetMachine, tool: str, happens: str
) -> None:
    look(machine)
    kept = machine.tree()
    if happens in ("missing", "hangs"):
        getattr(machine, happens).add(tool)
    else:
        machine.says[tool] = {
            "nothing": lambda text: Finished(0, "", ""),
            "half": half,
            "fails": says(rc=255, err="ibwarn: [7] mad_rpc_open_port: can't open UMAD port ((null):0)"),
            "complains": says(err="ibwarn: [7] _do_madrpc: recv failed: Connection timed out"),
        }[happens]
    if tool == "sminfo" and happens == "half":
        machine.says[tool] = lambda text: Finished(0, text[:20], "")

    found = look(machine, HOUR)

    name = {
        "sminfo": "manager",
        "ibnetdiscover": "topology",
        "iblinkinfo": "links",
        "ibqueryerrors": "errors",
    }[tool]
    assert [one[:3] for one in bad(found)] == [(name, "subnet", "unknown")]
    [check] = [check for check in found if check.verdict is Verdict.UNKNOWN]
    assert check.advice
    assert ("install infiniband-diags" in check.advice) == (happens == "missing")
    assert name not in {check.name for check in found if check.verdict is Verdict.PASS}
    # What was kept before stays, so that the next look compares with something whole.
    before, after = (json.loads(tree[FILE][0]) for tree in (kept, machine.tree()))
    assert (before["nodes"], before["cables"], before["base"]) == (
        after["nodes"],
        after["cables"],
        after["base"],
    )


def test_no_manager_answers(machine: SubnetMachine) -> None:
    machine.says["sminfo"] = says(
        "-", 255, "ibwarn: [7] mad_rpc: _do_madrpc failed; dport (Lid 8)\niberror: failed: query"
    )
    [found] = bad(look(machine))
    assert found == ("manager", "subnet", "fail", "sminfo failed: iberror: failed: query")
    machine.says["sminfo"] = says(machine.subnet.sminfo("SMINFO_STANDBY", 2))
    assert bad(look(machine))[0][2] == "fail"


def test_the_first_look_of_half_a_subnet_is_not_kept(machine: SubnetMachine) -> None:
    machine.says["ibnetdiscover"] = says(err="ibwarn: [7] _do_madrpc: recv failed: Connection timed out")
    look(machine)
    assert FILE not in machine.tree()


def test_counters_that_could_not_be_read_yet(machine: SubnetMachine) -> None:
    machine.says["ibqueryerrors"] = says(rc=255, err="no")
    look(machine)
    del machine.says["ibqueryerrors"]
    assert verdicts(look(machine, 1)) == {**WELL, "errors": "skip"}
    assert verdicts(look(machine, 2)) == WELL


def test_a_node_without_access(machine: SubnetMachine) -> None:
    machine.without_umad()
    [found] = look(machine)
    assert (found.name, found.verdict) == ("access", Verdict.UNKNOWN)
    assert "umad* does not exist" in found.found


def test_a_port_that_is_named(machine: SubnetMachine) -> None:
    assert verdicts(look(machine, port="mlx5_4")) == FIRST
    assert machine.commands[0][-3:] == ["mlx5_4", "-P", "1"]
    assert "/var/lib/mlnode/ib-subnet-mlx5_4.json" in machine.tree()
    [found] = look(machine, port="mlx5_99")
    assert (found.name, found.found) == ("access", "mlx5_99 is no InfiniBand port of this node")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"format": 2}', '{"format": 1}', "[" * 9999, '{"format": 1, "nodes": 3}']
    + [
        json.dumps({"format": 1, "nodes": nodes, "cables": cables, "base": base, "last": None})
        for nodes, cables, base in (
            ({"x": ["switch", "a"]}, [], None),
            ({"0" * 16: ["tree", "a"]}, [], None),
            ({"0" * 16: ["HCA", "a"]}, [["0" * 16, 1, "1" * 16, 1]], None),
            ({"0" * 16: ["HCA", "a"]}, [["0" * 16, True, "0" * 16, 2]], None),
            ({"0" * 16: ["HCA", "a"]}, [["0" * 16, 1, "0" * 16, 1]], None),
            ({}, [], [-1, {}]),
            ({}, [], [1, {"a": {"b": -1}}]),
            ({}, [], [1, {"a": {"b": "1"}}]),
            ({}, [], [1, {"a": 1}]),
            ({}, [], [1e999, {}]),
        )
    ],
)
def test_a_damaged_file_is_told_and_kept_until_it_is_reset(machine: SubnetMachine, content: str) -> None:
    machine.put(FILE, content)
    found = look(machine)
    assert [one[0] for one in bad(found)] == ["baseline"]
    assert "baseline: reset takes a new one" in bad(found)[0][3]
    assert machine.tree()[FILE][0] == content
    assert verdicts(look(machine, reset=True)) == FIRST
    assert verdicts(look(machine, 1)) == WELL


def test_a_disk_that_is_full(machine: SubnetMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_file(path: str, *_args: object, **_more: object) -> None:
        raise HostError("write", path, errno.ENOSPC)

    monkeypatch.setattr(machine, "write_file", write_file)
    assert [one[::2] for one in bad(look(machine))] == [("baseline", "unknown")]


def test_a_revert_forgets(machine: SubnetMachine) -> None:
    look(machine)
    look(machine, port="mlx5_4")
    revert.revert(machine)
    assert not [path for path in machine.tree() if "ib-subnet" in path]


@pytest.mark.parametrize(
    ("port", "seconds", "words"),
    [
        ("mlx5_0/1/2", 1, "port: "),
        ("../x", 1, "port: "),
        ("-C", 0, "timeout: 0"),
        ("", 3601, "timeout: 3601"),
        ("a;b", 1, "port: "),
    ],
)
def test_what_is_wrong_is_said(port: str, seconds: int, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        subnet_check.parse(port, seconds)


def test_each_node_more_is_the_same_work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 480 nodes, on two switches with as many ports as any may have (8 bits)."""
    monkeypatch.setattr(infiniband, "SWITCH_PORTS", 254)
    sizes = (120, 240, 480)
    known = {number: SubnetMachine(f"{tmp_path}/{number}", infiniband.ndr(number)) for number in sizes}
    for one in known.values():
        look(one)
        assert verdicts(look(one, 1)) == WELL
    assert is_linear(sizes, lambda number: look(known[number], 1))
