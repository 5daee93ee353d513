# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transport by logs of NCCL that were captured, and as they are counted on a node."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import Verdict
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import transport
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests.test_algorithms import (
    on_the_node,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests.test_read import captured

IB = captured("ib.log")
#: As uniq -c prints it
COUNTED = "     64 via NET/IB/0/GDRDMA\n     32 via P2P\n"


def test_channels_are_counted() -> None:
    assert transport.seen(IB) == transport.Seen({"IB": 4}, 4, {"P2P": 2})
    assert transport.seen(COUNTED) == transport.Seen({"IB": 64}, 64, {"P2P": 32})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("via NET/IB/2(3)/GDRDMA/Shared", transport.Seen({"IB": 1}, 1, {})),
        ("via NET/IB/0/GDRDMA(PCI)", transport.Seen({"IB": 1}, 1, {})),
        ("via NET/AWS Libfabric/1", transport.Seen({"AWS Libfabric": 1}, 0, {})),
        ("via SHM/direct/direct", transport.Seen({}, 0, {"SHM": 1})),
        ("via direct shared memory", transport.Seen({}, 0, {"SHM": 1})),
        ("via P2P/MNNVL", transport.Seen({}, 0, {"MNNVL": 1})),
        ("NET/IB : Using [0]mlx5_0:1/IB",
         transport.Seen({}, 0, {}, devices=(frozenset({"mlx5_0:1"}),))),
        ("NET/Socket : Using [0]eth0:10.0.0.1<0>", transport.Seen({}, 0, {})),
        ("10-90-43-152:1:2 [0] NCCL INFO Channel 02 : 2[c7000] -> 0[87000] [receive] via NET/IB/5",
         transport.Seen({"IB": 1}, 0, {})),
    ],
)  # fmt: skip
def test_words_of_nccl(line: str, found: transport.Seen) -> None:
    assert transport.seen(line) == found


@pytest.mark.parametrize(
    ("logs", "expected", "verdict", "words"),
    [
        ({"a": IB, "b": COUNTED}, "IB", Verdict.PASS, ""),
        ({"a": captured("ibext.log"), "b": captured("ibext.log")}, "IB", Verdict.PASS, ""),
        ({"a": captured("ibext.log"), "b": IB}, "IB", Verdict.FAIL, "one network: IBext_v8 on a; IB on b"),
        ({"a": IB, "b": captured("socket.log")}, "IB", Verdict.FAIL, "NET/Socket on b, where NET/IB"),
        ({"a": IB, "b": IB + captured("socket.log")}, "IB", Verdict.FAIL, "NET/Socket on b"),
        ({"a": IB, "b": IB}, "AWS Libfabric", Verdict.FAIL, "NET/IB on [ab]"),
        ({"a": captured("socket.log"), "b": captured("socket.log")}, "Socket", Verdict.WARN, "2 of 2"),
        ({"a": IB}, "IB", Verdict.UNKNOWN, "transport of b"),
        ({"a": IB, "b": ""}, "IB", Verdict.UNKNOWN, "transport of b"),
        ({"a": IB, "b": "32 via P2P\n"}, "IB", Verdict.UNKNOWN, "transport of b"),
        ({"a": IB, "b": "4 via NET/IB/0\n"}, "IB", Verdict.WARN, "4 of 8 channels without GPUDirect"),
        ({"a": "8 via P2P/MNNVL\n", "b": "8 via P2P/MNNVL\n"}, "IB", Verdict.PASS, ""),
        ({"a": f"{IB}Detected mixed local Net device counts across ranks (min 7, max 8). Ignoring", "b": IB},
         "IB", Verdict.FAIL, "min 7, max 8"),
    ],
)  # fmt: skip
def test_between_nodes(logs: dict[str, str], expected: str, verdict: Verdict, words: str) -> None:
    found = transport.judge(logs, ["a", "b"], expected)

    assert found.verdict is verdict
    assert words.replace("[ab]", "") in found.reason


GIB = "64 via NET/gIB/0/GDRDMA\nUsing network gIB\n"
ROCE = (
    "4 via NET/IB/0/GDRDMA\nUsing network IB\n"
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB e:1<0>\n"
)
USING = ("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB", "NET/IB : Using [0]mlx5_0:1/IB")
ONE = ROCE.replace(" [1]mlx5_1:1/RoCE", "")
HPCX = "4 via NET/NCCL RDMA Plugin v8/6/GDRDMA\nUsing network NCCL RDMA Plugin v8\n"
EFA, EXT = "Using network AWS Libfabric\n", "Using network IBext_v8\n"
BONDS = "NET/IB : Using [0]mlx5_bond_0:1/RoCE [1]mlx5_bond_1:1/RoCE [RO]; OOB bond0:10.0.0.1<0>\n"
JOINED = ROCE.replace("[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE", "[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}")
PLANES = ROCE.replace("mlx5_0:1/", "mlx5_0:1:0:1/")


@pytest.mark.parametrize(
    ("logs", "expected", "verdict", "words"),
    [
        ((GIB, GIB), "gIB", Verdict.PASS, ""),
        # the plugin is missing in the container of one node: NCCL takes its own
        ((GIB, ROCE), "gIB", Verdict.FAIL, "NET/IB on b, where NET/gIB was expected"),
        ((GIB, IB), "", Verdict.FAIL, "one network: gIB on a; IB on b"),
        ((ROCE, ROCE + "Using network Socket\n"), "IB", Verdict.FAIL, "IB, Socket on b"),
        ((ROCE, ROCE), "IB", Verdict.PASS, ""),
        ((HPCX, HPCX), "IB", Verdict.PASS, ""),
        ((HPCX, HPCX), "gIB", Verdict.FAIL, "where NET/gIB was expected"),
        ((HPCX, IB), "IB", Verdict.FAIL, "one network: NCCL RDMA Plugin v8 on a; IB on b"),
        (("4 via NET/Libfabric/0/GDRDMA\nUsing network Libfabric\n",) * 2, "AWS Libfabric", Verdict.PASS, ""),
        ((ROCE, JOINED), "IB", Verdict.PASS, ""),
        ((ROCE, PLANES), "IB", Verdict.PASS, ""),
        ((ROCE, ONE), "IB", Verdict.FAIL, "as many devices: mlx5_0:1, mlx5_1:1 on a; mlx5_0:1 on b"),
        # on one rank of a node
        ((ROCE, ROCE + ONE), "IB", Verdict.FAIL, "as many devices"),
        ((f"2 {USING[0]}\n4 {USING[1]}\n2 Using network IB\n4 via NET/IB/0/GDRDMA\n",) * 2, "IB",
         Verdict.PASS, ""),  # a plugin writes several lines for each rank
        ((f"6 {USING[0]}\n2 {USING[1]}\n8 Using network IB\n4 via NET/IB/0/GDRDMA\n",) * 2, "IB",
         Verdict.FAIL, "as many devices"),
        # seven ranks of each node have a plugin, or its newer version, and one has not
        ((f"7 {EFA}1 {EFA.replace('AWS Libfabric', 'Socket')}",) * 2, "", Verdict.FAIL,
         "one network: AWS Libfabric, Socket on a, b"),
        ((f"7 {EXT}1 {EXT.replace('v8', 'v10')}",) * 2, "IB", Verdict.FAIL, "IBext_v8, IBext_v10 on a, b"),
        # the last HCA of one rank, bonded ports
        ((f"7 {BONDS}1 {BONDS[: BONDS.index(' [1]')]}\n8 Using network IB\n",) * 2, "IB", Verdict.FAIL,
         "as many devices: mlx5_bond_0:1, mlx5_bond_1:1 on a, b; mlx5_bond_0:1 on a, b"),
        # one device for each rank, by its GPU
        ((ONE + ONE.replace("mlx5_0", "mlx5_1"),) * 2, "IB", Verdict.PASS, ""),
        ((ROCE, ROCE.replace("mlx5_1", "mlx5_9")), "IB", Verdict.WARN, "mlx5_9:1 on b"),
        # a log that is cut off
        ((ROCE, "4 via NET/IB/0/GDRDMA\n"), "IB", Verdict.UNKNOWN, "names the devices of b"),
    ],
)  # fmt: skip
def test_all_ranks_have_one_network_and_its_devices(
    logs: tuple[str, str], expected: str, verdict: Verdict, words: str
) -> None:
    moved = transport.judge(dict(zip("ab", logs)), ["a", "b"], expected)

    assert (moved.verdict, moved.reason if not words else "") == (verdict, "")
    assert words in moved.reason


def test_the_lines_of_ranks_reach_the_controller(tmp_path: pathlib.Path) -> None:
    log = "".join(f"a:1:2 [0] NCCL INFO {line}\n" for line in (GIB + ROCE + JOINED).splitlines()[1:])
    kept = on_the_node(log, tmp_path)
    assert {*transport.seen(kept).networks} == {"gIB", "IB"}
    assert transport.seen(kept).devices == transport.seen(log).devices


@pytest.mark.parametrize(
    ("log", "verdict"),
    [("8 via P2P\n", Verdict.PASS), ("", Verdict.UNKNOWN), ("8 via P2P\n2 via SHM\n", Verdict.WARN),
     (captured("socket.log"), Verdict.WARN)],
)  # fmt: skip
def test_inside_of_a_node(log: str, verdict: Verdict) -> None:
    assert transport.judge({"a": log}, ["a"], "IB").verdict is verdict
