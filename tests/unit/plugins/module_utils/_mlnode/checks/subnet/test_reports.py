# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of infiniband-diags: the checks that they become, and that half of one never passes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import captured
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks.model import Check, Verdict
from mlnode.checks.subnet import reports as subnet
from mlnode.checks.subnet.reports import SubnetError

READERS: dict[str, Callable[[str], Any]] = {
    "whole.nodes": subnet.nodes,
    "whole.links": subnet.links,
    "whole-switch.diff": lambda text: subnet.topology(text, "x"),
    "errors.errors": lambda text: subnet.errors(text, 8),
    "whole.manager": subnet.manager,
}

#: As NDR looks, with a port of a chassis and a name with quotes and brackets
NDR = """\
0x946dae0300d40011 "                 gpu001 mlx5_0"      2    1[  ] ==( {mine})==>  \
0xfc6a1c0300b80040      1    1[ 3] "MF0;sw "1" (x):MQM/U1" ({could})
0xfc6a1c0300b80040 "        MF0;sw "1" (x):MQM/U1"      1    1[ 3] ==( {other})==>  \
0x946dae0300d40011      2    1[  ] "gpu001 mlx5_0" ({could})
0xfc6a1c0300b80040 "        MF0;sw "1" (x):MQM/U1"      1    2[ 3] ==( {last}
"""
UP = "4X        106.25 Gbps Active/  LinkUp"
EMPTY = '               Down/ Polling)==>             [  ] "" ( )'


def ndr(mine: str = UP, other: str = UP, could: str = " ", last: str = EMPTY) -> list[Check]:
    return subnet.links(NDR.format(mine=mine, other=other, could=could, last=last))


def short(checks: list[Check]) -> list[tuple[str, Verdict]]:
    return [(check.target, check.verdict) for check in checks]


def test_nodes_by_their_kind() -> None:
    text = captured("whole.nodes") + 'Router\t : 0x0000000000300000 ports 1 devid 0x0 vendid 0x0 ""\n'
    assert subnet.counts(subnet.nodes(text)) == {"switches": 4, "hcas": 4, "routers": 1}


@cases.table
def test_a_link_that_either_end_reports_as_bad_is_one_failure(
    mine: str, other: str, could: str, expected: str
) -> None:
    [check] = ndr(mine, other, could)
    assert {*check.target.split(" - ")} == {"gpu001 mlx5_0/1", 'MF0;sw "1" (x):MQM/U1/1'}
    assert (check.verdict, check.expected) == (Verdict.FAIL, expected)
    assert "0x946dae0300d40011" in check.found
    assert "0xfc6a1c0300b80040" in check.found


def test_a_port_without_a_cable_is_no_error_and_one_without_an_answer_is_unknown() -> None:
    assert short(ndr()) == [("subnet", Verdict.PASS)]
    assert "1 cables" in ndr()[0].found
    [check] = ndr(last=f'{UP})==>      "Port not available"')
    assert (check.target, check.verdict) == ('MF0;sw "1" (x):MQM/U1/2', Verdict.UNKNOWN)


@cases.table
def test_each_cable_that_changed_is_one_check(pair: str, expected: list[tuple[str, Verdict]]) -> None:
    assert short(subnet.topology(captured(f"{pair}.diff"), "x")) == expected


def test_a_card_that_was_exchanged_is_gone_and_new() -> None:
    old = captured("whole-host.diff").splitlines()
    new = [line.replace("0100005", "0999995") for line in captured("host-whole.diff").splitlines()[1:]]
    found = subnet.topology("\n".join([old[0], old[1], *new]), "x")
    assert short(found) == [
        ("leaf2/1 - gpu003 mlx5_0/1", Verdict.FAIL),
        ("gpu003 mlx5_0/1 - leaf2/1", Verdict.WARN),
    ]
    assert "0x0000000000999995" in found[0].found
    assert found[1].expected == "no such node"


def test_both_ends_are_gone() -> None:
    lines = captured("whole-switch.diff").splitlines()
    found = subnet.topology("\n".join(line for line in lines if line.startswith("< ")), "x")
    assert [(check.verdict, check.found) for check in found] == [(Verdict.FAIL, "no such node")] * 2


def test_counters_beyond_a_threshold_warn() -> None:
    found = subnet.errors(captured("errors.errors"), 8)
    assert [(check.target, check.verdict, check.found) for check in found] == [
        ("gpu003 mlx5_0/1", Verdict.WARN, "GUID 0x100005 port 1: [PortRcvErrors == 5]"),
        (
            "leaf1/1",
            Verdict.WARN,
            "GUID 0x200000 port 1: [SymbolErrorCounter == 17] [LinkDownedCounter == 2]",
        ),
    ]
    assert short(subnet.errors(captured("whole.errors"), 8)) == [("subnet", Verdict.PASS)]


@cases.table
def test_counters_of_a_part_are_none(text: str, words: str) -> None:
    *kept, check = subnet.errors(text, 8)
    assert (check.target, check.verdict) == ("subnet", Verdict.UNKNOWN)
    assert words in check.found
    assert len(kept) == text.count("port 1: [")


def test_a_manager_is_the_master_or_a_failure() -> None:
    text = captured("whole.manager")
    for report in (text, text.replace("3 SMINFO_MASTER", "2 SMINFO_STANDBY"), captured("silent.manager")):
        [check] = subnet.manager(report)
        assert check.verdict is (Verdict.PASS if report is text else Verdict.FAIL)
        assert check.found == " ".join(report.split())


@pytest.mark.parametrize("name", ["whole.nodes", "whole.links", "whole.manager"])
def test_no_report_is_refused(name: str) -> None:
    with pytest.raises(SubnetError):
        READERS[name]("")


def test_a_cable_at_one_end_only_is_half_a_report() -> None:
    lines = captured("whole.links").splitlines()
    for number in range(len(lines)):
        if '"" ( )' not in lines[number]:
            with pytest.raises(SubnetError, match="at one end only"):
                subnet.links("\n".join(lines[:number] + lines[number + 1 :]))


def test_a_port_that_is_reported_twice_is_refused() -> None:
    text = captured("whole.links")
    with pytest.raises(SubnetError, match="twice"):
        subnet.links(text + text.splitlines()[0])


def test_a_name_with_half_a_link_in_it_is_a_name() -> None:
    name = 'leaf "q" 5    1[  ] ==(  x'
    line = (
        f'0x{1:016x} "{name:>30}"     12   34[  ] ==( {UP})==>  0x{2:016x}     18    2[  ] "gpu mlx5_0" ( )'
    )
    [(port, link)] = subnet.ports([line]).items()
    assert (port.number, link.name, link.is_up) == (34, name, True)


def test_a_name_cannot_hide_its_neighbours_link() -> None:
    """A node description has 64 bytes of its owner's choice."""
    bad = 'x" 1 1[  ] ==(4X Active/LinkUp)==>  [  ] "'
    text = NDR.format(mine=UP, other=UP.replace("Active", "Armed"), could=" ", last=EMPTY)
    [check] = subnet.links(text.replace('"gpu001 mlx5_0"', f'"{bad}"'))
    assert check.verdict is Verdict.FAIL


@pytest.mark.parametrize("name", READERS)
@given(text=st.text(max_size=200), place=st.integers(0, 4000))
def test_hostile_text_is_refused_or_read_and_never_more(name: str, text: str, place: int) -> None:
    whole = captured(name)
    for report in (text, whole[:place] + text + whole[place:]):
        with contextlib.suppress(SubnetError):
            READERS[name](report)


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("mad (DR path slid 0; dlid 0; 0,1,4 Attr 0xff90:1) bad status 0xc", None),
        ("umad (DR path slid 0; dlid 0; 0,1,4 Attr 0xff90:1) bad status 110; Connection timed out", "0,1,4"),
        ("mad (DR path slid 0; dlid 0; 0,1,4 Attr 0x15:1) bad status 0x1c", "0,1,4"),
        ("mad (Lid 7 Attr 0x11:0) bad status 0xc", ""),
    ],
)
def test_a_refused_query_of_a_vendor_costs_no_port(said: str, path: str | None) -> None:
    """Nodes that are not Mellanox's may refuse it (libibnetdisc: mlnx_ext_port_info_err())."""
    queries = subnet.unanswered("ibnetdiscover", f"./libibnetdisc/query_smp.c:190; {said}\n")
    assert [query.path for query in queries] == ([] if path is None else [path])


@pytest.mark.parametrize(
    ("said", "costs"),
    [
        (
            "ibnetdisc.c:660; Duplicate Port: Port with guid 0x0c42a103008b1a2e already exists in ports DB",
            False,
        ),
        (
            "ibnetdisc.c:375; Error Occurred when trying to insert new port guid 0x0c42a103008b1a2e to DB",
            False,
        ),
        ("ibnetdisc.c:134; add port 3 to DR path failed; DR path slid 0; dlid 0; 0,1", True),
        ("query_smp.c:177; Failed to find matching smp for trid (5f)", True),
        ("query_smp.c:168; umad_recv failed: -5", True),
    ],
)
def test_a_port_that_answers_twice_costs_nothing(said: str, costs: bool) -> None:
    complaint = f"/usr/src/rdma-core-57.0/libibnetdisc/{said}\n"
    if costs:
        with pytest.raises(SubnetError, match="could not look at all of it"):
            subnet.unanswered("ibnetdiscover", complaint)
    else:
        assert not subnet.unanswered("ibnetdiscover", complaint)
