# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch of each minute: a governor that changes while a job runs, and counters of RDMA ports."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import time

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree as captured
from ansible_collections.mlnode.tuning.tests.unit import nodes
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.agent.test_metrics import (
    FILE as CHECK_FILE,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.agent.test_metrics import (
    apply,
    export,
    series,
)
from mlnode.agent import cli, metrics, ports, watch
from mlnode.engine import revert, units
from mlnode.host import places
from mlnode.host.host import Host
from mlnode.linux import node_exporter
from mlnode.model.errors import HostError

FILE = f"{node_exporter.DEBIAN}/{node_exporter.WATCH_FILE}"
CHANGED = "mlnode_governor_changed_during_job_timestamp_seconds"
RETRANSMISSIONS = 'mlnode_rdma_retransmissions_total{device="mlx5_0",port="1"}'
PORT = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> nodes.Node:
    """With the timers, at 1,000 s after its boot, and a job that began at 500 s."""
    node = nodes.made(nodes.CASES["metrics"], tmp_path / "node")
    nodes.install(node)
    apply(node)
    export(node)
    for policy in (0, 1):
        put(node, policy, "performance")
    node.put("/proc/1/comm", "systemd\n")
    node.put("/proc/1/fd/.keep", "")
    job(node, 500)
    at(node, 1000)
    return node


def put(node: Machine, policy: int, governor: str) -> None:
    node.put(f"/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor", f"{governor}\n")


def at(node: Machine, uptime: int) -> None:
    node.put("/proc/uptime", f"{uptime}.00 1.00\n")


def job(node: Machine, started: int) -> None:
    node.put("/proc/900/comm", "python\n")
    node.put("/proc/900/stat", f"900 (python) R {' '.join(['1'] * 18)} {started * 100} 1\n")
    os.makedirs(f"{node.root}/proc/900/fd", exist_ok=True)
    if not os.path.lexists(f"{node.root}/proc/900/fd/5"):
        node.link("/proc/900/fd/5", "/dev/nvidia0")


def watched(node: nodes.Node) -> dict[str, float]:
    """The series after one more minute."""
    node.forget()
    assert watch.export(node)
    return series(node.text(FILE))


# -- the governor --------------------------------------------------------------------------


def test_a_governor_that_stays(node: nodes.Node) -> None:
    for uptime in (1000, 1060, 1120):
        at(node, uptime)
        assert watched(node)[CHANGED] == 0


@pytest.mark.parametrize(("changes", "to"), [((0,), "powersave"), ((0, 1), "powersave")])
def test_a_governor_that_changes_while_a_job_runs(
    node: nodes.Node, changes: tuple[int, ...], to: str
) -> None:
    watched(node)
    for policy in changes:
        put(node, policy, "powersave")
    at(node, 1060)
    begun, name = time.time(), f'{CHANGED}{{governor="{to}"}}'
    found = watched(node)[name]
    assert found >= begun - 1
    at(node, 1120)
    assert watched(node)[name] == found, "it stays"


def test_policies_that_change_to_different_governors(node: nodes.Node) -> None:
    watched(node)
    put(node, 0, "powersave")
    put(node, 1, "schedutil")
    assert f'{CHANGED}{{governor="{watch.MIXED}"}}' in watched(node)


def test_a_prolog_sets_it_before_its_job(node: nodes.Node) -> None:
    """The job of before has ended, and the new one began after the last look."""
    watched(node)
    job(node, 1030)
    put(node, 0, "powersave")
    at(node, 1060)
    assert watched(node)[CHANGED] == 0


def test_no_job_runs(node: nodes.Node) -> None:
    watched(node)
    shutil.rmtree(f"{node.root}/proc/900")
    put(node, 0, "powersave")
    assert watched(node)[CHANGED] == 0


def test_a_policy_that_comes_and_one_that_goes(node: nodes.Node) -> None:
    watched(node)
    put(node, 2, "powersave")
    shutil.rmtree(f"{node.root}/sys/devices/system/cpu/cpufreq/policy1")
    assert watched(node)[CHANGED] == 0
    put(node, 1, "powersave")
    assert watched(node)[CHANGED] == 0


def test_one_that_cannot_be_read_has_not_changed(node: nodes.Node) -> None:
    watched(node)
    path = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    node.unreadable[path] = errno.EBUSY
    assert watched(node)[CHANGED] == 0
    del node.unreadable[path]
    assert watched(node)[CHANGED] == 0
    node.unreadable[path] = errno.EBUSY
    watched(node)
    put(node, 0, "powersave")
    del node.unreadable[path]
    assert f'{CHANGED}{{governor="powersave"}}' in watched(node), "what was known of it stays"


def test_a_node_without_governors_has_no_series_of_it(node: nodes.Node) -> None:
    shutil.rmtree(f"{node.root}/sys/devices/system/cpu/cpufreq")
    found = watched(node)
    assert not [name for name in found if name.startswith(CHANGED)]
    assert "mlnode_watch_timestamp_seconds" in found


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "uptime": "x"}', b"\xff"])
def test_a_damaged_state_begins_afresh(node: nodes.Node, text: str | bytes) -> None:
    node.put(places.WATCHED, text)
    assert watched(node)[CHANGED] == 0
    put(node, 0, "powersave")
    at(node, 1060)
    assert f'{CHANGED}{{governor="powersave"}}' in watched(node)


def test_two_looks_are_a_minute_apart_under_any_systemd() -> None:
    """FixedRandomDelay= is of systemd 247: before it, a delay by chance doubles the longest time."""
    timer = units.WATCH_TIMER_UNIT
    assert "\nOnCalendar=minutely\nAccuracySec=1s\n" in timer
    assert "RandomizedDelaySec" not in timer


# -- counters ------------------------------------------------------------------------------


def test_the_counters_of_a_port_in_one_sum(node: nodes.Node) -> None:
    for name, value in {"packet_seq_err": 3, "local_ack_timeout_err": 2, "out_of_sequence": 41}.items():
        node.put(f"{PORT}/{name}", f"{value}\n")
    found = watched(node)
    assert found[RETRANSMISSIONS] == 5
    assert found['mlnode_rdma_out_of_sequence_total{device="mlx5_0",port="1"}'] == 41


def test_a_sum_that_lacks_a_part_is_no_sum(node: nodes.Node) -> None:
    """It would look like a reset, after which all is counted once more."""
    node.put(f"{PORT}/packet_seq_err", "3\n")
    node.put(f"{PORT}/local_ack_timeout_err", "2\n")
    node.unreadable[f"{PORT}/packet_seq_err"] = errno.EIO
    assert RETRANSMISSIONS not in watched(node)
    del node.unreadable[f"{PORT}/packet_seq_err"]
    node.put(f"{PORT}/packet_seq_err", "no number\n")
    assert RETRANSMISSIONS not in watched(node)


def test_every_port_of_a_node_with_rails() -> None:
    retransmissions, out_of_sequence = ports.counters(Host(captured("roce8")))
    assert {one.value for one in retransmissions.samples} == {2}
    assert {one.value for one in out_of_sequence.samples} == {41}
    devices = [one.labels["device"] for one in retransmissions.samples]
    assert len(devices) == len({*devices}) > 1


# -- the file and what is kept -------------------------------------------------------------


def test_nothing_before_the_first_check(node: nodes.Node) -> None:
    node.remove(node_exporter.NOTE)
    node.forget()
    assert not watch.export(node)
    assert not node.exists(FILE)
    assert not node.exists(places.WATCHED)


def test_both_files_go_with_the_declaration(node: nodes.Node) -> None:
    watched(node)
    apply(node, sysctl={"settings": {"vm.swappiness": 10}})
    assert not node.exists(FILE)
    assert not {*places.TIMED_UNITS} & {*node.active}


def test_all_goes_with_a_revert(node: nodes.Node) -> None:
    watched(node)
    node.forget()
    revert.revert(node)
    for path in (FILE, CHECK_FILE, places.WATCHED, "/run/mlnode", "/var/lib/mlnode"):
        assert not node.exists(path), path


def test_another_folder(node: nodes.Node) -> None:
    watched(node)
    apply(node, metrics={"textfile_directory": "/srv/metrics"})
    node.forget()
    metrics.export(node)
    assert not node.exists(FILE)
    assert not node.exists(CHECK_FILE)
    assert watch.export(node)
    assert {"mlnode.prom", node_exporter.WATCH_FILE} <= {*node.names("/srv/metrics")}


def test_a_look_writes_nothing(node: nodes.Node) -> None:
    before = node.state()
    watch.look(node)
    assert node.state() == before


def test_only_root_writes(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(node), "is_superuser", lambda _self: False)
    with pytest.raises(HostError, match="root is needed"):
        watch.export(node)


def test_the_command_prints(node: nodes.Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["metrics", "--watch", "--root", node.root]) == 0
    printed = capsys.readouterr().out
    assert f"{CHANGED} 0" in printed
    assert "mlnode_check_success" not in printed
    assert cli.main(["metrics", "--watch", "--json", "--root", node.root]) == 2
    assert "use --print" in capsys.readouterr().err
