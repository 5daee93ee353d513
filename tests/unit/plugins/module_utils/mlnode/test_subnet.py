# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of infiniband-diags: what is read of them, and that half of one is never taken for all of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import subnet
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.subnet import Count, End, SubnetError
from ansible_collections.mlnode.tuning.tests.fixtures import infiniband
from hypothesis import given
from hypothesis import strategies as st

NDR = infiniband.ndr()
SICK = replace(
    NDR,
    counters={
        ("leaf1", 1): {"SymbolErrorCounter": 17, "LinkDownedCounter": 2},
        ("gpu003 mlx5_0", 1): {"PortRcvErrors": 5},
    },
)
LEAF = infiniband.switch_guid(1)

READERS: dict[str, Callable[[str], Any]] = {
    "ibnetdiscover": subnet.fabric,
    "iblinkinfo": subnet.links,
    "ibqueryerrors": lambda text: subnet.errors(text, 8),
    "sminfo": subnet.manager,
}

#: As a tool printed it of a simulated subnet, with a router, a chassis' port and a card that nobody named
REAL = """\
#
# Topology file: generated on Sat Nov 21 19:47:13 2026
#
# Initiated from node 0000000000100000 port 0000000000100001

vendid=0x2c9
devid=0xd2f2
sysimgguid=0x200000
switchguid=0x200000(200001)
Switch\t40 "S-0000000000200000"\t\t# "MF0;sw "1":MQM8700/U1" enhanced port 0 lid 4 lmc 0
[1]\t"H-0000000000100000"[1](100001) \t\t# "gpu001 mlx5_0" lid 1 4xHDR
[40]\t"R-0000000000300000"[1](300001) \t\t# "" lid 9 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x300000
rtguid=0x300000
Rt\t1 "R-0000000000300000"\t\t# ""
[1](300001) \t"S-0000000000200000"[40]\t\t# lid 9 lmc 0 "MF0;sw "1":MQM8700/U1" lid 4 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x100000
caguid=0x100000
Ca\t1 "H-0000000000100000"\t\t# "gpu001 mlx5_0"
[1](100001) \t"S-0000000000200000"[1]\t\t# lid 1 lmc 0 "MF0;sw "1":MQM8700/U1" lid 4 4xHDR
"""


def test_a_topology() -> None:
    found = subnet.fabric(REAL)

    switch, host, router = "0000000000200000", "0000000000100000", "0000000000300000"
    assert {guid: (node.kind, node.name) for guid, node in found.nodes.items()} == {
        switch: ("switch", 'MF0;sw "1":MQM8700/U1'),
        host: ("HCA", "gpu001 mlx5_0"),
        router: ("router", ""),
    }
    assert found.cables == [(End(host, 1), End(switch, 1)), (End(router, 1), End(switch, 40))]
    assert found.owners["0000000000200001"] == switch
    assert str(found) == "1 switches, 1 HCAs, 1 routers, 2 cables"


def test_a_topology_of_ndr() -> None:
    found = subnet.fabric(NDR.ibnetdiscover())
    assert str(found) == "4 switches, 4 HCAs, 8 cables"
    assert len(found.ends) == 16


def test_nodes_of_one_name_are_told_apart() -> None:
    fabric = subnet.fabric(NDR.ibnetdiscover().replace('"gpu002 mlx5_0"', '"gpu001 mlx5_0"'))
    names = subnet.names([fabric])
    assert names[infiniband.host_guid(1)] == "gpu001 mlx5_0 (0x946dae0300d40010)"
    assert names[infiniband.host_guid(2)] == "gpu001 mlx5_0 (0x946dae0300d40020)"
    assert names[infiniband.host_guid(3)] == "gpu003 mlx5_0"


def test_links() -> None:
    slow = replace(
        NDR,
        could={("leaf1", 1): "Could be 4X Could be 106.25 Gbps"},
        states={("leaf1", 2): ("Initialize", "LinkUp"), ("spine1", 6): ("Down", "Disabled")},
        silent=frozenset({("leaf2", 3)}),
    )
    found = subnet.links(slow.iblinkinfo())

    assert len(found) == 4 * infiniband.SWITCH_PORTS + 4
    first = found[LEAF, 1]
    assert (first.width, first.speed, first.could, first.up) == ("4X", "106.25 Gbps", "4X 106.25 Gbps", True)
    assert first.other == ("946dae0300d40011", 1)
    assert str(found[LEAF, 2]) == "4X 106.25 Gbps Initialize/LinkUp"
    assert not found[LEAF, 2].up
    empty = found[LEAF, 4]
    assert (empty.state, empty.physical, empty.other, empty.width) == ("Down", "Polling", None, "")
    assert found[infiniband.switch_guid(3), 6].physical == "Disabled"
    assert not found[infiniband.switch_guid(2), 3].answers


def test_a_link_of_fdr10() -> None:
    found = subnet.links(
        '0x0000000000200002 "                         leaf2"      2    1[ 3] ==( 4X  10.0 Gbps (FDR10) '
        'Active/  LinkUp)==>  0x0000000000100005     13    1[  ] "a (b) "c"" ( )\n'
    )
    link = next(iter(found.values()))
    assert len(found) == 1
    assert (link.speed, link.up, link.could) == ("10.0 Gbps (FDR10)", True, "")


@pytest.mark.parametrize("wide", [False, True])
def test_counters(wide: bool) -> None:
    found = subnet.errors(replace(SICK, wide=wide).ibqueryerrors(), 8)
    assert found == {
        (LEAF, 1): {"SymbolErrorCounter": Count(17, wide), "LinkDownedCounter": Count(2, wide)},
        ("946dae0300d40031", 1): {"PortRcvErrors": Count(5, wide)},
    }
    assert subnet.errors(NDR.ibqueryerrors(), 8) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not say how many nodes it has asked"),
        (NDR.ibqueryerrors().replace("8 nodes", "7 nodes"), "has asked 7 nodes"),
        (SICK.ibqueryerrors().replace("2 ports have", "3 ports have"), "3 ports with errors, of 8 and 2"),
        (NDR.ibqueryerrors() + "##          2 PMA query failures\n", "had no answer to 2 queries"),
        (SICK.ibqueryerrors().replace("== 17", "== x"), "which are no counters"),
        ("discover failed\n" + NDR.ibqueryerrors(), "'discover failed', which is no line of counters"),
    ],
)
def test_counters_of_a_part_are_none(text: str, words: str) -> None:
    with pytest.raises(SubnetError, match=words):
        subnet.errors(text, 8)


def test_a_manager() -> None:
    found = subnet.manager(NDR.sminfo())
    assert (found.guid, found.priority, found.master) == ("946dae0300d40041", 14, True)
    assert not subnet.manager(NDR.sminfo("SMINFO_STANDBY", 2)).master


@pytest.mark.parametrize("tool", ["ibnetdiscover", "ibqueryerrors", "sminfo"])
def test_what_was_cut_off_anywhere_is_refused(tool: str) -> None:
    """After any line. Those of iblinkinfo are compared with ibnetdiscover's, see test_subnet_check.py."""
    whole = getattr(SICK, tool)()
    lines = whole.splitlines(keepends=True)
    ends = [len("".join(lines[:number])) for number in range(len(lines))]
    if tool == "ibqueryerrors":
        ends = [end for end in ends if "ports checked" not in whole[:end]]
    for end in ends:
        with pytest.raises(SubnetError):
            READERS[tool](whole[:end])


@pytest.mark.parametrize("tool", READERS)
@given(text=st.text(max_size=200), place=st.integers(0, 4000))
def test_hostile_text_is_refused_or_read_and_never_more(tool: str, text: str, place: int) -> None:
    whole = getattr(SICK, tool)()
    for said in (text, whole[:place] + text + whole[place:]):
        with contextlib.suppress(SubnetError):
            READERS[tool](said)
