# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in containers, against the area containers."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, UID, declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import run, sysctls
from mlnode.checks.jobs.model import Node
from mlnode.engine import declared
from mlnode.linux import inside
from mlnode.linux.inside import Network, Storage
from mlnode.model.setting import Value

GROUPS = {
    "podman": f"/machine.slice/libpod-{CONTAINER}.scope",
    "docker": f"/docker/{CONTAINER}",
    "crio": f"/kubepods/pod{UID}/crio-{CONTAINER}",
    "containerd": f"/kubepods/pod{UID}/{CONTAINER}",
}
IPC = {"ipc": 4026532002}
KEY = "net.core.somaxconn"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return job_machine.node(str(tmp_path / "node"))


def verdicts(node: Machine, name: str) -> list[tuple[str, str]]:
    """Verdict and expected value of each check of a name."""
    return [(str(check.verdict), check.expected) for check in run.look(node, {}).checks if check.name == name]


@pytest.mark.parametrize(
    ("runtime", "containers", "checks"),
    [
        ("podman", {"ulimits": {"nofile": "1024:4096"}}, [("pass", "1024:4096")]),
        ("docker", {"ulimits": {"nofile": "1024:4096"}}, [("pass", "1024:4096")]),
        ("crio", {"ulimits": {"nofile": "1024:4096"}}, [("pass", "1024:4096")]),
        # Exact: more is a difference as well
        ("docker", {"ulimits": {"nofile": 1024}}, [("fail", "1024")]),
        ("docker", {"ulimits": {"nofile": 1024}, "runtimes": ["podman"]}, [("fail", ">= 65536")]),
        # containerd takes the limits of its service
        ("containerd", {"ulimits": {"nofile": "1024:4096"}}, [("fail", ">= 65536")]),
        # The limits of services, and not those of logins, as without the area
        ("podman", {"ulimits": "auto"}, [("fail", ">= 65536")]),
        ("podman", {"shm_size": "1GiB"}, [("pass", ">= 1024")]),
    ],
)
def test_declared_limits_of_containers_count(
    node: Machine, runtime: str, containers: dict[str, Any], checks: list[tuple[str, str]]
) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=GROUPS[runtime], nofile="1024 4096 ", namespaces=IPC)
    limits = {"nofile": {"login": 1024, "services": 65536}}
    declare(node, limits=limits, containers=containers)
    assert verdicts(node, "job_limit") == checks


@pytest.mark.parametrize(
    ("runtime", "namespaces", "check"),
    [
        ("podman", IPC, ("fail", ">= 1 GiB")),
        ("docker", IPC, ("fail", ">= 1 GiB")),
        ("docker", {}, ("skip", "")),
        ("crio", IPC, ("skip", "")),
    ],
)
def test_a_declared_size_of_shared_memory_counts_for_one_rank(
    node: Machine,
    monkeypatch: pytest.MonkeyPatch,
    runtime: str,
    namespaces: dict[str, int],
    check: tuple[str, str],
) -> None:
    monkeypatch.setattr(run.gather, "Storage", lambda *_given: Storage("tmpfs", 64 << 20, 64 << 20))
    process(node, 20, "python", "/dev/nvidia0", cgroup=GROUPS[runtime], namespaces=namespaces)
    declare(node, containers={"shm_size": "1GiB"})
    assert verdicts(node, "job_shm") == [check]


@pytest.mark.parametrize(
    ("runtime", "own", "want"),
    [
        ("podman", ("net",), "1024"),
        ("crio", ("net",), "1024"),
        ("docker", ("net",), "65535"),
        ("podman", ("mnt",), "65535"),
    ],
)
def test_declared_sysctls_of_containers_count_in_their_namespace(
    node: Machine, monkeypatch: pytest.MonkeyPatch, runtime: str, own: tuple[str, ...], want: str
) -> None:
    path = "/proc/sys/net/core/somaxconn"
    monkeypatch.setattr(inside, "network_of", lambda _answer, paths: _network(paths, want))
    monkeypatch.setattr(inside, "network_here", lambda _host, paths: _network(paths, want))
    process(
        node, 20, "python", "/dev/nvidia0", cgroup=GROUPS[runtime], namespaces=dict.fromkeys(own, 4026532003)
    )
    declare(node, sysctl={"settings": {KEY: 65535}}, containers={"sysctls": {KEY: 1024}})
    assert path in sysctls.paths(Node(node, declared.load_all(node, []), []))
    assert verdicts(node, "job_sysctl") == [("pass", "as declared")]


_FILES = {
    "podman": "/etc/containers/containers.conf.d/zz-mlnode-node.conf",
    "docker": "/etc/docker/daemon.json",
    "crio": "/etc/crio/crio.conf.d/zz-mlnode-node.conf",
}


@pytest.mark.parametrize("runtime", [*_FILES])
def test_a_container_may_be_older_than_its_defaults(node: Machine, runtime: str) -> None:
    declare(node, limits={"nofile": 65536}, containers={"ulimits": {"nofile": 65536}})
    node.put(_FILES[runtime], "")
    changed = int(node.changed(_FILES[runtime]) or 0)
    node.put("/proc/stat", "btime 1000\n")
    for seconds, older in ((-60, True), (60, False)):
        ticks = (changed + seconds - 1000) * 100
        process(node, 20, "python", "/dev/nvidia0", cgroup=GROUPS[runtime], nofile="1 1 ", started=ticks)
        node.forget()
        [check] = [check for check in run.look(node, {}).checks if check.name == "job_limit"]
        assert check.advice.startswith("create it again: ") is older
    process(node, 20, "python", "/dev/nvidia0", cgroup=GROUPS[runtime], nofile="1 1 ", started=0)
    for content, error in (("btime 1000\n", errno.EIO), ("", 0), ("btime \n", 0), (b"\xff", 0)):
        node.put("/proc/stat", content)
        node.unreadable = {"/proc/stat": error} if error else {}
        node.forget()
        [check] = [check for check in run.look(node, {}).checks if check.name == "job_limit"]
        assert "create it again" not in check.advice, "its age is not known"


def _network(paths: list[str], text: str) -> Network:
    return Network({path: Value(text=text) for path in paths}, ())
