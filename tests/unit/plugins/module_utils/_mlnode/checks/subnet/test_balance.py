# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uplinks that share the traffic of their leaf, or do not, in the words of perfquery."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import SubnetMachine, captured
from hypothesis import given, settings
from hypothesis import strategies as st
from mlnode.checks.campaign.clock import Clock
from mlnode.checks.model import Check, Verdict
from mlnode.checks.subnet import balance, traffic
from mlnode.checks.subnet import check as subnet_check
from mlnode.checks.subnet.check import Request
from mlnode.checks.subnet.fabric import Cable
from mlnode.checks.subnet.reports import Port, SubnetError
from mlnode.checks.subnet.traffic import Counters, Reading
from mlnode.host.system import Finished
from mlnode.model.errors import DeclarationError

#: In which 10 Gb/s carry what was set in ibsim
SECONDS = 100


class Time:
    """A clock that goes on when it is waited for, and by a hundredth for each look at it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        self.seconds += 0.01
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    @property
    def clock(self) -> Clock:
        return Clock(self.now, self.now, self.sleep)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> SubnetMachine:
    return SubnetMachine(f"{tmp_path}/node", "uplinks")


def look(machine: SubnetMachine, *states: str, **more: Any) -> list[Check]:
    machine.traffic = ["first", *states]
    machine.readings.clear()
    request = Request(only_uplinks=True, balance=SECONDS, **more)
    return subnet_check.look(machine, request, Time().clock).checks


def words(checks: list[Check]) -> list[str]:
    return [f"{check.verdict} {check.target}: {check.found}" for check in checks]


def test_balanced(machine: SubnetMachine) -> None:
    [check] = look(machine, "balanced")
    assert (check.name, check.target, check.verdict) == ("balance", "subnet", Verdict.PASS)
    assert check.found == "leaves: 2; uplinks: 8, at most 1% below the busiest of their leaf in 100.0 s"
    asked = [command for command in machine.commands if command[0] == "perfquery"]
    assert asked[:2] == [["perfquery", "-x", "-l", "3", "3,4,5,6"], ["perfquery", "-l", "3", "3,4,5,6"]]
    assert len(asked) == 8


def test_half_of_the_uplinks_carry_all(machine: SubnetMachine) -> None:
    [check] = look(machine, "half")
    assert (check.target, check.verdict) == ("leaf1", Verdict.FAIL)
    assert check.expected == "each at least 80% of the busiest"
    assert check.found == (
        "up: the busiest is leaf1/4 - spine1/3 6.42 of 10 Gb/s, and 2 of 4 are more than 20% below: "
        "leaf1/5 - spine2/1 0.0352 of 10 Gb/s, leaf1/6 - spine2/3 0.0416 of 10 Gb/s"
    )
    assert "adaptive routing" in check.advice


def test_one_uplink_is_dead_in_both_directions(machine: SubnetMachine) -> None:
    [check] = look(machine, "dead")
    assert check.verdict is Verdict.FAIL
    up, down = check.found.split("; ")
    assert up.startswith("up: ")
    assert down.startswith("down: ")
    assert all(
        part.endswith("1 of 4 are more than 20% below: leaf1/6 - spine2/3 0 of 10 Gb/s")
        for part in (up, down)
    )


def test_a_link_that_flaps_is_named_with_what_it_lost(machine: SubnetMachine) -> None:
    [check] = look(machine, "flapping")
    assert check.verdict is Verdict.FAIL
    assert "leaf1/5 - spine2/1" in check.found
    assert check.found.endswith("; links: leaf1/5 - spine2/1 was lost 3 times")


def test_a_link_that_was_lost_and_carried_as_much_warns(machine: SubnetMachine) -> None:
    machine.changes["narrow balanced leaf1"] = lambda text: text.replace(
        "LinkDownedCounter:...............0", "LinkDownedCounter:...............1", 1
    )
    [check] = look(machine, "balanced")
    assert words([check]) == ["warn leaf1: links: leaf1/3 - spine1/1 was lost 1 times"]


def test_a_counter_that_was_reset_meanwhile(machine: SubnetMachine) -> None:
    [check] = look(machine, "reset")
    assert (check.target, check.verdict) == ("leaf1", Verdict.UNKNOWN)
    assert "up: leaf1/4 - spine1/3: its counter went back from 50000000004 to 3000000000" in check.found
    assert "ibclearcounters" in check.advice


def test_a_switch_that_refuses_is_unknown_and_the_others_are_judged(machine: SubnetMachine) -> None:
    machine.refusing = {"leaf2"}
    found = look(machine, "half")
    assert [(check.target, str(check.verdict)) for check in found] == [
        ("leaf2", "unknown"),
        ("leaf1", "fail"),
    ]
    assert "classportinfo query" in found[0].found
    assert "_do_madrpc failed" in found[0].found
    found = look(machine, "balanced")
    assert [(check.target, str(check.verdict)) for check in found] == [("leaf2", "unknown")]


@pytest.mark.parametrize("states", [("refused", "half"), ("first", "refused")])
def test_a_refusal_of_one_reading_is_enough(machine: SubnetMachine, states: tuple[str, str]) -> None:
    machine.traffic = [*states]
    request = Request(only_uplinks=True, balance=SECONDS)
    found = subnet_check.look(machine, request, Time().clock).checks
    assert [check.verdict for check in found] == [Verdict.UNKNOWN] * 2


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        (Finished(0, "<html>\x00\u2028\n", ""), "which is not a counter"),
        (Finished(0, "", ""), "reports 0 of 4 ports"),
        (
            Finished(0, captured("uplinks/first-leaf1.wide").replace("PortXmitData", "XmtData"), ""),
            "no PortXmitData",
        ),
        (Finished(0, captured("uplinks/first-leaf1.wide")[:400], ""), "reports"),
        (Finished(-11, "", ""), "ended with -11"),
        (Finished(0, captured("uplinks/first-leaf1.wide"), "ibwarn: [7] something"), "ended with 0"),
    ],
)
def test_a_tool_that_did_not_do_its_work(machine: SubnetMachine, given: Finished, unknown: str) -> None:
    machine.says["perfquery"] = given
    found = look(machine, "balanced")
    assert [check.verdict for check in found] == [Verdict.UNKNOWN] * 2
    assert all(unknown in check.found for check in found), words(found)


@pytest.mark.parametrize("happens", ["missing", "hangs"])
def test_a_tool_that_is_not_there(machine: SubnetMachine, happens: str) -> None:
    getattr(machine, happens).add("perfquery")
    found = look(machine, "balanced")
    assert [check.verdict for check in found] == [Verdict.UNKNOWN] * 2
    assert ("install infiniband-diags" in found[0].found) == (happens == "missing")


def test_too_little_traffic_is_no_balance(machine: SubnetMachine) -> None:
    found = look(machine, "first")
    assert [check.verdict for check in found] == [Verdict.UNKNOWN] * 2
    assert "up: 0 GB in 100.0 s, too little to judge (from 5 GB)" in found[0].found


def number(name: str, value: int) -> Callable[[str], str]:
    return lambda text: re.sub(rf"({name}:\.*)[0-9]+", rf"\g<1>{value}", text)


@pytest.mark.parametrize("last", [5, 1 << 31, (1 << 32) - 1])
def test_counters_of_32_bits_could_have_wrapped_or_stopped(machine: SubnetMachine, last: int) -> None:
    """10 Gb/s pass 2 ** 32 words in 14 s."""
    machine.only_narrow = {"leaf1"}
    machine.changes["narrow first leaf1"] = number("PortXmitData", 1000)
    machine.changes["narrow balanced leaf1"] = number("PortXmitData", last)
    [check] = look(machine, "balanced")
    assert (check.target, check.verdict) == ("leaf1", Verdict.UNKNOWN)
    assert "32 bits" in check.found or "went back" in check.found


def test_counters_of_32_bits_are_enough_for_a_short_time(machine: SubnetMachine) -> None:
    machine.only_narrow = {"leaf1", "leaf2"}
    for leaf in machine.only_narrow:
        for state, value in (("first", 1000), ("balanced", 1_000_001_000)):
            machine.changes[f"narrow {state} {leaf}"] = number("Port(?:Xmit|Rcv)Data", value)
    machine.traffic = ["first", "balanced"]
    request = Request(only_uplinks=True, balance=10)
    [check] = subnet_check.look(machine, request, Time().clock).checks
    assert check.verdict is Verdict.PASS, check


def test_a_rise_that_the_link_cannot_carry(machine: SubnetMachine) -> None:
    machine.changes["wide balanced leaf1"] = number("PortXmitData", 1 << 60)
    [check] = look(machine, "balanced")
    assert (check.target, check.verdict) == ("leaf1", Verdict.UNKNOWN)
    assert "more than the link can carry" in check.found


def test_before_and_after(machine: SubnetMachine) -> None:
    """What nccl.yml and campaign.yml do, through JSON."""
    time = Time()
    machine.traffic = ["first", "half"]
    first = subnet_check.look(machine, Request(only_uplinks=True), time.clock)
    assert words(first.checks) == ["skip subnet: leaves: 2, uplinks: 8: read, for a second reading"]
    kept = json.loads(json.dumps({guid: one.document() for guid, one in first.traffic.items()}))
    time.seconds += SECONDS
    request = Request(only_uplinks=True, since=traffic.parse("since", kept))
    [check] = subnet_check.look(machine, request, time.clock).checks
    assert (check.target, check.verdict) == ("leaf1", Verdict.FAIL)
    other = Time()
    other.seconds = 3.0
    found = subnet_check.look(machine, request, other.clock).checks
    assert {check.verdict for check in found} == {Verdict.UNKNOWN}
    assert "not of this node since its boot" in found[0].found


def test_a_leaf_that_is_gone_at_the_second_reading(machine: SubnetMachine) -> None:
    time = Time()
    first = subnet_check.look(machine, Request(only_uplinks=True), time.clock).traffic
    lost = {**first, "00000000002000ff": first["0000000000200000"]}
    time.seconds += SECONDS
    found = subnet_check.look(machine, Request(only_uplinks=True, since=lost), time.clock).checks
    assert words(found) == ["unknown leaf1: it is in the subnet no more"]


def test_nothing_to_compare_with_is_no_pass(machine: SubnetMachine) -> None:
    found = subnet_check.look(machine, Request(only_uplinks=True, since={}), Time().clock).checks
    assert [check.verdict for check in found] == [Verdict.UNKNOWN]


def test_leaves_of_some_nodes(machine: SubnetMachine) -> None:
    assert words(look(machine, "half", nodes=["gpu003"]))[0].startswith("pass subnet: leaves: 1;")
    found = look(machine, "balanced", nodes=["gpu003", "gpu099"])
    assert [check.verdict for check in found] == [Verdict.UNKNOWN, Verdict.PASS]
    assert "has the name of gpu099; there are gpu001, gpu002, gpu003, gpu004" in found[0].found


@pytest.mark.parametrize("nodes", [[], ["gpu003"]])
def test_a_leaf_with_one_uplink_left_does_not_hide_behind_the_others(
    machine: SubnetMachine, nodes: list[str]
) -> None:
    """Half of the uplinks carry all traffic if the other half is down, and a port without a link has no
    other end that would show what it was for."""
    down = re.compile(r'"\s*leaf2" +3 +[456]\[|==> .* 3 +[456]\[  \] "leaf2"')
    lines = captured("uplinks.links").splitlines(keepends=True)
    text = "".join(
        re.sub(r"==\(.*", '==(                Down/ Polling)==>             [  ] "" ( )', line)
        if down.search(line)
        else line
        for line in lines
    )
    machine.says["iblinkinfo"] = Finished(0, text, "")
    leaf2, *others = look(machine, "balanced", nodes=nodes)
    assert words([leaf2]) == ["unknown leaf2: uplinks that are up: 1; other leaves have up to 4"]
    assert [check.verdict for check in others] == [Verdict.SKIP if nodes else Verdict.PASS]


@pytest.mark.parametrize(("kept", "found"), [(0, "reports no link"), (12, "at one end only")])
def test_a_report_of_links_that_breaks_off(machine: SubnetMachine, kept: int, found: str) -> None:
    lines = captured("uplinks.links").splitlines(keepends=True)
    machine.says["iblinkinfo"] = Finished(0, "".join(lines[:kept]), "")
    [check] = look(machine, "balanced")
    assert (check.name, check.verdict) == ("links", Verdict.UNKNOWN)
    assert found in check.found


def test_a_subnet_without_two_ways_up(machine: SubnetMachine) -> None:
    lines = captured("uplinks.links").splitlines(keepends=True)
    machine.says["iblinkinfo"] = Finished(0, "".join(line for line in lines if "spine" not in line), "")
    [check] = look(machine, "balanced")
    assert (check.verdict, check.found) == (Verdict.SKIP, "leaves: 0, none with two ways up")


@cases.table
def test_a_first_reading_that_is_none(raw: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="since: expected `traffic`"):
        traffic.parse("since", raw)


# -- the rule by itself --------------------------------------------------------------------


def judged(*uses: tuple[float, int], seconds: float = 10.0) -> list[Check]:
    """Of a leaf, by the rate of each uplink in Gb/s and what it sent and received in bytes."""
    cables = [
        Cable(Port("1", number), Port("2", number), f"leaf/{number}", f"spine/{number}", gbits)
        for number, (gbits, _sent) in enumerate(uses)
    ]
    before = Reading("leaf", 0.0, 0.0, {cable: Counters(0, 0, 64, 0) for cable in cables})
    words = {cable: Counters(sent // 4, sent // 4, 64, 0) for cable, (_gbits, sent) in zip(cables, uses)}
    after = Reading("leaf", seconds, seconds, words)
    return balance.checks({"1": before}, {"1": after})


@pytest.mark.parametrize(
    ("least", "verdict"), [(80_000_000_000, "pass"), (79_999_999_996, "fail"), (100_000_000_000, "pass")]
)
def test_a_fifth_is_the_limit(least: int, verdict: str) -> None:
    assert [str(check.verdict) for check in judged((400, 100_000_000_000), (400, least))] == [verdict]


def test_a_link_at_half_its_rate_has_half_of_the_share() -> None:
    assert judged((400, 100_000_000_000), (200, 50_000_000_000))[0].verdict is Verdict.PASS
    assert judged((400, 100_000_000_000), (200, 100_000_000_000))[0].verdict is Verdict.FAIL


def test_what_is_enough_to_judge() -> None:
    assert judged((400, 50_000_000_000), (400, 50_000_000_000))[0].verdict is Verdict.PASS
    assert judged((400, 50_000_000_000), (400, 49_999_999_996))[0].verdict is Verdict.UNKNOWN


@given(st.lists(st.integers(0, 12_500_000_000), min_size=2, max_size=8), st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_a_pass_means_that_each_uplink_was_seen_and_is_within_a_fifth(words: list[int], unread: int) -> None:
    """An uplink that cannot be read never makes a leaf better."""
    whole = [(400.0, word * 4) for word in words]
    [check] = judged(*whole, seconds=2.0)
    if check.verdict is Verdict.PASS:
        assert min(words) >= max(words) * 0.8
    elif check.verdict is Verdict.FAIL:
        assert min(words) < max(words) * 0.8
    # The rise of a link at a fraction of its rate is not believed.
    known = [
        (0.001, sent) if at == unread and sent > 2_500_000 else (gbits, sent)
        for at, (gbits, sent) in enumerate(whole)
    ]
    if known != whole:
        assert judged(*known, seconds=2.0)[0].verdict is not Verdict.PASS


@pytest.mark.parametrize("name", ["first-leaf1.wide", "half-leaf1.wide", "first-leaf1.narrow"])
def test_what_perfquery_wrote_is_read_whole_or_not_at_all(name: str) -> None:
    text = captured(f"uplinks/{name}")
    found = traffic.counters(text)
    assert [*found] == [3, 4, 5, 6]
    assert {one.bits for one in found.values()} == {64 if name.endswith("wide") else 32}
    for line in text.splitlines():
        with pytest.raises(SubnetError):
            traffic.counters(text.replace(line, f"{line} x"))
