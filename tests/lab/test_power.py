# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power fails in the middle of the work: nothing is torn, and all can be finished or undone."""

from __future__ import annotations

import json
import pathlib
import subprocess
import time

import pytest

from . import claims
from . import guest_facts as facts
from .born import Born
from .collection import Collection
from .conftest import AGENT, BORN, Lab
from .machine import Machine

pytestmark = pytest.mark.long

CUT = pathlib.Path(__file__).with_name("cut.py")
TUNED = "tuned"
DECLARED = "/etc/mlnode/declared.d/node.json"
ORIGIN = "/var/lib/mlnode/origin.json"
OFFERED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control: "
DROP_IN = "/etc/sysctl.d/zz-mlnode-node.conf"

#: What `mlnode apply` has to mend, so that it has files and values to write
DAMAGE = f"""
rm {DROP_IN} /etc/modules-load.d/mlnode-node.conf
sysctl -w vm.swappiness=60 net.core.somaxconn=128 net.ipv4.tcp_congestion_control=cubic
echo always >/sys/kernel/mm/transparent_hugepage/enabled
sync
"""


@pytest.fixture(scope="module")
def born(cloud: Machine, lab: Lab, collection: Collection) -> Born:
    """Of a machine that is now tuned, and saved so."""
    before = Born.of(cloud)
    assert lab.machine("cloud", AGENT) is cloud
    claims.converge(collection, cloud, node_sysctl=claims.WITH_MODULES)
    cloud.save(TUNED)
    return before


def assert_whole(machine: Machine) -> None:
    """No file of ours is torn."""
    for path in machine.out(f"ls {DECLARED} {ORIGIN} 2>/dev/null || true").split():
        json.loads(machine.read(path))
    text = machine.out(f"cat {DROP_IN} 2>/dev/null || true")
    assert not text or text.startswith("# Written by mlnode.tuning"), f"torn: {text}"
    assert all(line.startswith("#") or " = " in line for line in text.splitlines()), f"torn: {text}"


def assert_undone(machine: Machine, collection: Collection, born: Born) -> None:
    """A revert leaves nothing behind."""
    assert collection.play("revert", machine).status == 0
    # The SSH connection itself may hold the module that it began with.
    assert born.left(machine, apart_from=OFFERED) == []


@pytest.mark.parametrize(("point", "number"), [("kernel", 3), ("fsync", 3)])
def test_power_fails_in_mlnode_apply(
    point: str, number: int, cloud: Machine, born: Born, collection: Collection
) -> None:
    cloud.load(TUNED)
    cloud.run(DAMAGE)
    seen = len(cloud.console())
    words = cloud.ssh("root@127.0.0.1", f"python3 - {point} {number}")
    with CUT.open() as source, subprocess.Popen(words, stdin=source, stdout=subprocess.DEVNULL) as working:
        _wait_for("CUT HERE", cloud, seen, working)
        cloud.cut_power()
    cloud.start()
    assert facts.wrong(cloud) == {}, "the agent finishes the work at boot"
    assert_whole(cloud)
    assert_undone(cloud, collection, born)


def _wait_for(words: str, machine: Machine, seen: int, working: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while words not in machine.console()[seen:]:
        assert working.poll() is None, f"ended before it came there: {working.returncode}"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_playbook_that_a_power_cut_ended_finishes_the_second_time(
    cloud: Machine, born: Born, collection: Collection
) -> None:
    cloud.load(BORN)
    playing = collection.start("site", cloud, node_sysctl=claims.WITH_MODULES)
    cloud.run(f"until test -s {DECLARED}; do sleep 0.1; done", seconds=300)
    cloud.cut_power()
    playing.communicate(timeout=300)
    assert playing.returncode != 0
    cloud.start()
    assert_whole(cloud)
    claims.converge(collection, cloud, node_sysctl=claims.WITH_MODULES)
    assert facts.wrong(cloud) == {}
    assert_undone(cloud, collection, born)
