# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboots through Slurm, and its prolog, epilog and health check, with the real slurmctld and three slurmd.

The nodes are namespaces, and a stand-in reboots them; what they declare and how they drift is given.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.slurm_cluster import (
    NODES,
    PATIENCE,
    Cluster,
    Watch,
    unpacked,
)
from ansible_collections.mlnode.tuning.tests.unit.stub_site import FINE, Site, failed

pytestmark = [
    namespaces.needs_root,
    pytest.mark.skipif(not shutil.which("apt-get"), reason="takes Slurm from Debian's or Ubuntu's archive"),
]

#: A node as its namespaces. Not the local connection, which Ansible does not reboot.
_CONNECTION = '''\
import pathlib
import shlex

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: entered
short_description: a node
options:
  pipelining: {type: bool, default: true}
"""


class Connection(Local):
    transport = "entered"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        enter = (pathlib.Path(self._shell.get_option("remote_tmp")).parent / "enter").read_text()
        done = super().exec_command(f"{enter} sh -c {shlex.quote(cmd)}", in_data, sudoable)
        if done[0] in (-9, 137):
            raise AnsibleConnectionFailure("the node went down")
        return done
'''

#: A job that drains its node once Slurm is to reboot it, and lasts until there is a file
_DRAINS = """\
until scontrol --oneliner show node n1 | grep -q +REBOOT_REQUESTED; do sleep 0.2; done
scontrol update NodeName=n1 State=DRAIN Reason="RMA 4711"
until [ -e {ended} ]; do sleep 0.2; done
"""

WAITS: dict[str, Any] = {
    "changed": False,
    "settings": [{"key": "boot.iommu", "status": "pending_reboot"}],
    "reboot_required": True,
}


@pytest.fixture(scope="module")
def usr(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return unpacked(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def cluster(tmp_path: pathlib.Path, usr: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A new one, as slurmctld is slow to ask a node again that was out of service. Options of it come from
    `parametrize`."""
    (tmp_path / "slurm").mkdir()
    made = Cluster(tmp_path / "slurm", usr, getattr(request, "param", {}))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def site(folder: pathlib.Path, cluster: Cluster, **given: Any) -> Site:
    """All nodes have a setting that waits for a reboot."""
    made = Site(folder)
    for name in NODES:
        answers = {"areas": {"boot": WAITS}, "drift": {**FINE, "settings": []}}
        made.host(name, answers, ansible_connection="entered")
        (folder / name / "enter").write_text(" ".join(cluster.enter(name)))
    (folder / "connection").mkdir()
    (folder / "connection/entered.py").write_text(_CONNECTION)
    made.settings["connection_plugins"] = str(folder / "connection")
    made.everywhere = {
        "node_reboot": "slurm",
        "node_reboot_at_once": 1,
        "node_reboot_timeout": PATIENCE,
        **given,
    }
    return made


def test_one_node_after_the_other_reboots_and_no_job_ends(tmp_path: pathlib.Path, cluster: Cluster) -> None:
    """Jobs run all the time; their nodes are drained by Slurm alone, and are all in service at the end."""
    play = site(tmp_path, cluster)
    before = {name: cluster.boots(name) for name in NODES}
    jobs = [
        cluster.submit("sleep 4", f"--nodelist={name}", "--no-requeue") for name in NODES for _ in range(2)
    ]

    with Watch(cluster) as watch:
        code, output = play.play()
    assert (code, failed(output)) == (0, set()), f"{cluster.told()}\n{output}"
    states = [cluster.ended(job) for job in jobs]
    assert {name: cluster.boots(name) - before[name] for name in NODES} == dict.fromkeys(NODES, 1)
    assert states == ["COMPLETED"] * len(jobs)
    assert {cluster.job(job, "Restarts") for job in jobs} == {"0"}
    assert watch.most_out() == 1
    cluster.wait(dict.fromkeys(NODES, "IDLE"))


@pytest.mark.long
def test_a_drain_of_others_stays_and_a_missing_parameter_fails(
    tmp_path: pathlib.Path, cluster: Cluster
) -> None:
    """An administrator, here a job, drains n1 before its reboot; one drains n2 after it. n3 lacks the
    parameter."""
    before = {name: cluster.boots(name) for name in NODES}
    job = cluster.submit(_DRAINS.format(ended=cluster.folder / "ended"), "--nodelist=n1", "--no-requeue")
    cluster.wait({"n1": "ALLOCATED"})
    cluster.set("n2", "boots", "drained")
    play = site(tmp_path, cluster, node_reboot_at_once=0)
    lacks = {"key": "boot.iommu", "status": "overridden", "reason": "the running kernel has iommu=off"}
    answers = {"areas": {"boot": WAITS}, "drift": {**FINE, "settings": [lacks]}}
    (tmp_path / "n3/answers.json").write_text(json.dumps(answers))

    code, output = play.play(mlnode_max_fail_percentage=100)
    (cluster.folder / "ended").touch()
    said = " ".join(output.split())

    assert (code != 0, failed(output)) == (True, {"n2", "n3"}), output
    assert "Not rebooted: n1, ALLOCATED+DRAIN, RMA 4711 [" in said
    assert "Slurm does not use the node after its reboot. In Slurm: n2, IDLE+DRAIN, RMA 4712 [" in said
    assert "run scontrol update NodeName=n2 State=RESUME" in said
    assert "the kernel still lacks boot.iommu: the running kernel has iommu=off" in said
    assert cluster.ended(job) == "COMPLETED"
    cluster.wait({"n1": "IDLE+DRAIN", "n2": "IDLE+DRAIN", "n3": "IDLE"})
    assert (cluster.reason("n1"), cluster.reason("n2")) == ("RMA 4711", "RMA 4712")
    assert {name: cluster.boots(name) - before[name] for name in NODES} == {"n1": 0, "n2": 1, "n3": 1}


@pytest.mark.long
@pytest.mark.parametrize("cluster", [{"ReturnToService": 1, "ResumeTimeout": 10}], indirect=True)
def test_nodes_that_do_not_reboot_are_named_and_none_stays_drained(
    tmp_path: pathlib.Path, cluster: Cluster
) -> None:
    before = {name: cluster.boots(name) for name in NODES}
    cluster.update("n1", "State=DRAIN Reason=RMA 4711")
    job = cluster.submit("sleep 600", "--nodelist=n2")
    cluster.wait({"n1": "IDLE+DRAIN", "n2": "ALLOCATED"})
    cluster.set("n3", "boots", "ignored")
    seconds = cluster.options["ResumeTimeout"] + 8
    play = site(tmp_path, cluster, node_reboot_at_once=0, node_reboot_timeout=seconds)

    code, output = play.play("--check")
    said = " ".join(output.split())
    assert code == 0, output
    assert "Not rebooted: it is out of service in Slurm, in state IDLE+DRAIN: RMA 4711" in said
    assert "Reboots n2 once its jobs have ended; its state is ALLOCATED" in said
    assert cluster.states() == {"n1": "IDLE+DRAIN", "n2": "ALLOCATED", "n3": "IDLE"}

    code, output = play.play(mlnode_max_fail_percentage=100)
    said = " ".join(output.split())
    assert failed(output) == {"n3"}, output
    # slurmctld notices its own limit within half a minute.
    assert re.search(
        r"In Slurm: n3, DOWN(\+DRAIN\+REBOOT_ISSUED)?, mlnode: kernel parameters : reboot issued", said
    )
    assert "its jobs did not end within node_reboot_timeout, and the request to Slurm is cancelled" in said
    assert {name: cluster.boots(name) for name in NODES} == before
    cluster.wait({"n1": "IDLE+DRAIN", "n2": "ALLOCATED", "n3": "DOWN"})
    assert (cluster.reason("n1"), cluster.job(job, "JobState")) == ("RMA 4711", "RUNNING")
    cluster.inside("ctl", "scancel", job)
    assert cluster.ended(job) == "CANCELLED"

    # The slurmd of n2 does not start after its reboot; n1 and n3 are still out of service.
    cluster.set("n2", "boots", "lost")
    code, output = play.play(mlnode_max_fail_percentage=100)
    said = " ".join(output.split())
    assert failed(output) == {"n2"}, output
    assert re.search(r"In Slurm: n2, DOWN\S*, mlnode: kernel parameters : reboot issued", said)
    assert "run scontrol update NodeName=n2 State=RESUME" in said
    cluster.wait({"n1": "IDLE+DRAIN", "n2": "DOWN", "n3": "DOWN"})


def test_scripts_drain_a_node_that_fails_and_none_if_the_agent_is_broken(cluster: Cluster) -> None:
    """The agent of all nodes is broken; preflight fails where a test has it fail."""
    assert cluster.ended(cluster.submit("true", "--nodelist=n3")) == "COMPLETED"

    cluster.set("n1", "fails", "prolog_slurmd")
    held = cluster.submit("true", "--nodelist=n1")
    cluster.wait({"n1": "IDLE+DRAIN"})
    assert (cluster.reason("n1"), cluster.job(held, "JobState")) == ("Prolog error", "PENDING")
    cluster.inside("ctl", "scancel", held)

    cluster.set("n2", "fails", "epilog_slurmd")
    assert cluster.ended(cluster.submit("true", "--nodelist=n2")) == "COMPLETED"
    cluster.wait({"n2": "IDLE+DRAIN"})
    assert cluster.reason("n2") == "mlnode preflight: fail: drift, node: vm.swappiness"

    assert cluster.states()["n3"] == "IDLE", "its agent is broken all the time"
    cluster.set("n3", "fails", "health")
    cluster.wait({"n3": "IDLE+DRAIN"})
    assert cluster.reason("n3") == "mlnode preflight: fail: drift, node: vm.swappiness"
