# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns over network namespaces whose controller or nodes fail on the way."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.campaign_net import (
    RATE,
    STATE,
    Net,
    document,
    left,
    made,
    slow_nodes,
)
from ansible_collections.mlnode.tuning.tests.system.namespaces import command_of, run

pytestmark = [pytest.mark.system, namespaces.needs_root, pytest.mark.long]


@pytest.fixture
def net(request: pytest.FixtureRequest) -> Iterator[Net]:
    yield from made(request.param)


#: Short rounds of a machine on which other things run as well
GIVEN = {"campaign_allow": ["busy"], "campaign_duration": 2, "campaign_streams": 2}


def begun(net: Net, timeout: float = 90) -> float:
    """The end of the campaign that nodes were told the start of."""
    end = time.time() + timeout
    while time.time() < end:
        files = [json.loads(path.read_text()) for path in net.files(STATE)]
        starts = [one["until"] for one in files if one["start"] is not None]
        if starts:
            return max(starts)
        time.sleep(0.3)
    raise AssertionError("no campaign has begun")


@pytest.mark.parametrize("net", [3], indirect=True)
def test_nothing_runs_on_the_nodes_when_their_controller_was_killed(net: Net, tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor() as threads:
        played = threads.submit(net.campaign, tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 2}))
        until = begun(net)
        # All of the controller: its forks have its command line.
        for pid in controllers(tmp_path):
            os.kill(pid, signal.SIGKILL)
        assert played.result().returncode == -signal.SIGKILL
    assert net.pids(), "the nodes go on"
    time.sleep(max(0.0, until - time.time()) + 3)

    assert [command_of(pid) for pid in net.pids()] == []
    files = net.files(STATE)
    assert len(files) == 3
    assert all(json.loads(path.read_text())["done"] for path in files)
    # The next campaign takes their place.
    assert document_of(net.campaign(tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 2})), tmp_path)
    assert not left(net)


def controllers(folder: pathlib.Path) -> list[int]:
    """The processes of the playbook that has its inventory in this folder."""
    wanted = str(folder / "inventory.json").encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def document_of(done: subprocess.CompletedProcess[str], folder: pathlib.Path) -> dict[str, Any]:
    assert done.returncode in (0, 2), done.stdout + done.stderr
    return document(folder)


def gbits(content: dict[str, Any]) -> dict[frozenset[str], float | None]:
    """Pair of nodes → its result in any look."""
    found: dict[frozenset[str], float | None] = {}
    for pair in content["pairs"]:
        names = frozenset(end["node"] for end in pair["ends"])
        found[names] = found.get(names) or pair["gbits"]
    return found


@pytest.mark.parametrize("net", [10], indirect=True)
def test_each_fault_of_ten_nodes_is_seen_and_none_passes(net: Net, tmp_path: pathlib.Path) -> None:
    net.shape("node02", 10, RATE * 85 // 100)
    net.ip("switch", "link set node04 mtu 1400")
    net.loses("node06", 3)
    net.drops("node08", "tcp dport 18600-18700")

    done = net.campaign(tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 6}))

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    verdicts = {node["name"]: node["verdict"] for node in content["nodes"]}
    measured = gbits(content)
    bad = {"node02", "node04", "node06", "node08"}
    good = [value for names, value in measured.items() if not names & bad]
    assert all(good), done.stdout
    usual = statistics.median(value for value in good if value)
    assert verdicts["node04"] != "pass", done.stdout
    assert verdicts["node08"] != "pass", done.stdout
    slow = [value for names, value in measured.items() if "node02" in names and value]
    assert slow, done.stdout
    # 15 % less, with what a busy machine adds and takes
    assert statistics.median(slow) < 0.93 * usual, done.stdout
    assert all(not value for names, value in measured.items() if "node04" in names), done.stdout
    # Each fault is a finding, and no healthy node is.
    losing = {end["node"] for one in content["losing"] if len(one["ends"]) == 1 for end in one["ends"]}
    paths = {frozenset(end["node"] for end in one["ends"]) for one in content["losing"] + content["paths"]}
    assert verdicts["node02"] == "fail", done.stdout
    assert {"node04", "node08"} <= losing, done.stdout
    assert "node06" in losing or any("node06" in names for names in paths), done.stdout
    assert not {*slow_nodes(content)} - bad, done.stdout
    assert not left(net)


@pytest.mark.parametrize("net", [4], indirect=True)
def test_one_of_four_nodes_at_six_tenths_is_named(net: Net, tmp_path: pathlib.Path) -> None:
    """Half of all pairs are low."""
    net.shape("node02", 10, RATE * 60 // 100)

    done = net.campaign(tmp_path, "-e", json.dumps({**GIVEN, "campaign_rounds": 0}))

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    assert slow_nodes(content) == ["node02"], done.stdout
    assert not left(net)


@pytest.mark.parametrize("net", [6], indirect=True)
def test_a_node_that_dies_in_the_third_round_blocks_no_other(net: Net, tmp_path: pathlib.Path) -> None:
    given = {**GIVEN, "campaign_rounds": 5, "campaign_timeout": 20, "campaign_second_look": False}
    with ThreadPoolExecutor() as threads:
        played = threads.submit(net.campaign, tmp_path, "-e", json.dumps(given))
        until = begun(net)
        time.sleep(max(0.0, until - 2.5 * 10 - time.time()))
        net.ip("node05", "link set eth0 down")
        for pid in run("ip", "netns", "pids", f"{net.prefix}node05").split():
            os.kill(int(pid), signal.SIGKILL)
        # Nor can it be managed.
        run("ip", "netns", "delete", f"{net.prefix}node05")
        net.names.remove("node05")
        done = played.result()

    assert done.returncode == 2, done.stdout + done.stderr
    content = document(tmp_path)
    [dead] = [node for node in content["nodes"] if node["name"] == "node05"]
    assert dead["verdict"] != "pass"
    assert dead["reason"]
    measured = gbits(content)
    assert all(value for names, value in measured.items() if "node05" not in names), done.stdout


@pytest.mark.parametrize("net", [3], indirect=True)
def test_a_node_whose_clock_is_wrong_takes_part(net: Net, tmp_path: pathlib.Path) -> None:
    """A time namespace has no other wall clock, so that the node's Python is given one."""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "sitecustomize.py").write_text(
        "import time\nreal = time.time\ntime.time = lambda: real() + 40\n"
    )
    hosts = {name: {"campaign_addresses": [net.address(name)]} for name in net.nodes}
    shell = f"ip netns exec {net.prefix}node02 env PYTHONPATH={wrong} /bin/sh"
    hosts["node02"] = {**hosts["node02"], "ansible_shell_executable": shell}
    words = ("-e", json.dumps({**GIVEN, "campaign_rounds": 2, "campaign_results": str(tmp_path)}), "-f", "3")

    done = net.play(tmp_path, "campaign.yml", "training", hosts, *words, seconds=450)

    assert all(gbits(document_of(done, tmp_path)).values()), done.stdout
    assert re.search(r"node02: its clock is (39|40|41)\.", " ".join(done.stdout.split())), done.stdout
