# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Algorithms and in-network reduction, by lines as each version of NCCL prints them (src/enqueue.cc)."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import Verdict
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import algorithms, scripts
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests.algorithms import Choice
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests.test_read import (
    CAPTURED,
    captured,
)

ROOT = pathlib.Path(__file__).parents[5]

INFO = "a:1000:1003 [0] NCCL INFO"
DECLARED = f"{INFO} NCCL_COLLNET_ENABLE set by environment to 1.\n"
TREE = f"{INFO} AllReduce: 1048576 Bytes -> Algo TREE proto SIMPLE channel{{Lo..Hi}}={{0..15}}\n"
SHARP = f"{INFO} AllReduce: 1048576 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{{Lo..Hi}}={{0..15}}\n"
CONNECTED = f"{INFO} CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA\n"
MIB = 1 << 20

OLD_INTERFACE = (
    "NET/Plugin: Failed to find ncclCollNetPlugin symbol (>= v5). "
    "ncclCollNetPlugin symbols v4 and lower are not supported."
)
NO_PLUGIN = (
    "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory "
    "No plugin found (libnccl-net.so), using internal implementation"
)


@pytest.mark.parametrize(
    ("line", "size", "choice"),
    [
        ("1048576 Bytes -> Algo 1 proto 2 time 43.250000", MIB, Choice("RING", "SIMPLE", 0)),  # 2.20 to 2.22
        ("AllReduce: 8 Bytes -> Algo 0 proto 0 time 12.340000", 8, Choice("TREE", "LL", 0)),  # 2.23
        ("AllReduce: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..0}", 8,
         Choice("NVLS_TREE", "SIMPLE", 1)),  # 2.24
        ("AllReduce: 8 Bytes -> Algo 5 proto 1 time 12.3", 8, Choice("NVLS_TREE", "LL128", 0)),
        ("AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLLMC_R nchannels 2 nthreads 512 nWorks 1", 8,
         Choice("SYMMETRIC", "AllReduce_AGxLLMC_R", 2)),  # 2.28
        ("AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 nthreads 512", 8,
         Choice("SYMMETRIC", "AllReduce_AGxLL_R", 1)),  # 2.27
    ],
)  # fmt: skip
def test_each_version_is_read(line: str, size: int, choice: Choice) -> None:
    log = algorithms.read([f"{INFO} {line}\n"])

    assert log.choices == {size: (choice,)}
    assert algorithms.read([line]) == log  # as it comes from a node


def test_captured_logs_are_read() -> None:
    numbers, names = (algorithms.read([captured(f"tuning_{kind}.log")]) for kind in ("numbers", "names"))

    assert numbers.choices == {262144: (Choice("TREE", "LL128", 0),)}
    assert names.choices == {4: (Choice("RING", "SIMPLE", 1),), 32 * MIB: (Choice("RING", "SIMPLE", 32),)}


def on_the_node(log: str, folder: pathlib.Path) -> str:
    """What the playbook leaves of a log."""
    program = scripts.COLLECT.partition("awk '")[2].partition('\' "$@"')[0]
    path = folder / "nccl.log"
    path.write_text(log, "utf-8")
    return subprocess.run(["awk", program, path], capture_output=True, text=True, check=True).stdout


SAID = f"""\
{INFO} NCCL_ALGO set by environment to RING
{DECLARED}{TREE}{TREE}{SHARP}{CONNECTED}
{INFO} NVLS multicast support is not available on dev 1
{INFO} Init timings - ncclCommInitRank: rank 9 nranks 16 total 2.61 (kernels 0.13, rest 0.00)
{INFO} {OLD_INTERFACE}
{INFO} {NO_PLUGIN}
{INFO} NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.
{INFO} SHARP: Group size:2 is less than threshold:4. fallback to non-sharp
{INFO} Communicator has 4 nodes which is less than CollNet node threshold 8, disabling CollNet
[0] init.cc:1 NCCL WARN CollNet currently only supports up to 8 GPUs per node, disabling CollNet
[0] init.cc:1 NCCL WARN Detected mixed local CollNet device counts across ranks (min 7, max 8). Set
[0] nvls.cc:288 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 9 : CUDA error 1 'x'.
[0] sharp_plugin.c:447 NCCL WARN sharp_coll_caps_query failed : x(-1)
"""


@pytest.mark.parametrize(
    "log",
    [SAID, *(captured(path.name) for path in sorted(CAPTURED.glob("*.log")))],
)
def test_nothing_is_lost_on_the_way_from_the_node(log: str, tmp_path: pathlib.Path) -> None:
    whole, left = algorithms.read([log]), algorithms.read([on_the_node(log, tmp_path)])

    assert left._replace(choices={}) == whole._replace(choices={})
    assert {size: {*found} for size, found in left.choices.items()} == {
        size: {*found} for size, found in whole.choices.items()
    }


@cases.table
def test_captured_reasons_are_found(name: str, words: str) -> None:
    found = algorithms.sharp(algorithms.read([DECLARED, captured(name), TREE]), [MIB], 4, False)

    assert found is not None
    assert (found.verdict, words in found.reason) == (Verdict.FAIL, True)


def test_a_captured_collnet_was_connected() -> None:
    assert algorithms.read([captured("collnet.log")]).collnet == ("SHARP",)


@cases.table
def test_other_lines_are_no_choice(line: str) -> None:
    assert not algorithms.read([f"{INFO} {line}\n"]).choices


def test_a_size_may_have_two_algorithms() -> None:
    log = algorithms.read([TREE + TREE + SHARP])

    assert log.algorithm(MIB) == "TREE+COLLNET_DIRECT"
    assert log.algorithm(8) == ""


def test_nvlink_sharp_is_available_only_if_all_gpus_have_it() -> None:
    there = f"{INFO} NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 24)\n"
    lacking = f"{INFO} NVLS multicast support is not available on dev 1\n"

    assert algorithms.read([there]).nvls is True
    assert algorithms.read([there, lacking]).nvls is False
    assert algorithms.read([TREE]).nvls is None


def test_the_slowest_rank_is_found() -> None:
    line = (
        "Init timings - ncclCommInitRank: rank {} nranks 16 total {} (kernels 0.13, alloc 0.04, "
        "bootstrap 2.05, allgathers 0.00, topo 0.36, graphs 0.00, connections 0.02, rest 0.00)\n"
    )
    old = "Init timings: rank 2 nranks 16 total 0.50 (kernels 0.13, bootstrap 0.30, rest 0.07)\n"  # 2.22

    slowest = algorithms.read([line.format(0, "0.60") + line.format(9, "2.61") + old]).slowest

    assert slowest is not None
    assert str(slowest).startswith("rank 9 took 2.61 s to make the communicator (kernels 0.13,")


# -- SHARP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "asked", "verdict", "words"),
    [
        (TREE, False, None, ""),
        (DECLARED + CONNECTED + SHARP, False, Verdict.PASS, ""),
        (CONNECTED + SHARP, True, Verdict.PASS, ""),
        (TREE, True, Verdict.FAIL, "no log line says NCCL_COLLNET_ENABLE=1"),
        (DECLARED + TREE, False, Verdict.FAIL, "all sizes used TREE: no CollNet was connected"),
        (DECLARED + CONNECTED + TREE, False, Verdict.FAIL, "a plugin is connected (SHARP)"),
        (DECLARED, False, Verdict.UNKNOWN, "the log names no algorithm"),
        (DECLARED + f"{INFO} NCCL_ALGO set by environment to RING\n" + TREE.replace("TREE", "RING"), False,
         Verdict.UNKNOWN, "NCCL_ALGO=RING left no choice"),
    ],
)  # fmt: skip
def test_sharp_is_proven_by_the_log(log: str, asked: bool, verdict: Verdict | None, words: str) -> None:
    found = algorithms.sharp(algorithms.read([log]), [MIB], 4, asked)

    assert (found and found.verdict) == verdict
    assert words in (found.reason if found else "")


@pytest.mark.parametrize(
    "line",
    [
        "NET/IB : SHARP coll init error: Cannot connect to SHArPD(-8)",
        "SHARP group create: Resource not available(-11)",
        "SHARP: Group size:2 is less than threshold:4. fallback to non-sharp",
        "Communicator has 4 nodes which is less than CollNet node threshold 8, disabling CollNet",
        "CollNet currently only supports up to 8 GPUs per node, disabling CollNet",
        OLD_INTERFACE,
        "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
        NO_PLUGIN,
        "Cannot initialize CollNet, using point-to-point network instead",
    ],
)
def test_the_line_that_says_why_is_in_the_reason(line: str) -> None:
    warning = f"\n[2026-11-25 04:00:00] a:1000:1003 [0] transport.cc:385 NCCL WARN {line}\n"

    found = algorithms.sharp(algorithms.read([DECLARED + warning + TREE]), [MIB], 4, False)

    assert found is not None
    assert found.verdict is Verdict.FAIL
    assert line.removeprefix("NET/IB : ") in found.reason


def test_an_old_interface_that_is_not_found_is_no_reason_if_another_one_is() -> None:
    lines = (
        "NET/Plugin: Failed to find ncclCollNetPlugin_v10 symbol.\n"
        "NET/Plugin: Loaded collnet plugin SHARP (v9)\n"
    )

    assert not algorithms.read([lines]).reasons


def test_nvls_over_nodes_is_sharp_only_with_a_plugin() -> None:
    nvls = TREE.replace("TREE", "NVLS")

    assert algorithms.in_network(algorithms.read([CONNECTED + nvls]), MIB)
    assert not algorithms.in_network(algorithms.read([nvls]), MIB)


def test_one_node_needs_no_sharp() -> None:
    assert algorithms.sharp(algorithms.read([DECLARED + TREE]), [MIB], 1, True) is None
