# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in containers of Podman and Docker on a node for inference: one story, in the order of the file.

The remedies that `mlnode job` prints are followed as they stand there.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from . import guest_facts as facts
from . import job_containers, slurm
from .collection import Collection, Hosts, Played
from .job_containers import GPU, Look, Runtime
from .machine import Machine

pytestmark = pytest.mark.long

RUNTIMES = ("podman", "docker")

#: Declared beside the profile
NCCL = {"NCCL_IB_TIMEOUT": 22}
CONTAINERS = {"sysctls": "auto", "ulimits": "auto", "shm_size": "1GiB"}

#: Two ranks, both on this node
RANKS = ("-e LOCAL_WORLD_SIZE=2", "-e WORLD_SIZE=2")

#: Keys of the profile that begin with the kernel's default in a container (docs/knobs/sysctl.md)
OWN = (
    *("net.core.somaxconn", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_max_tw_buckets"),
    *("net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_tw_reuse"),
)


@dataclass(frozen=True)
class Fault:
    """As job_faults.yml has it."""

    steps: Sequence[Mapping[str, str]]
    options: Sequence[str] = ()
    program: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    prose: Mapping[str, str] = field(default_factory=dict)
    not_given: Sequence[str] = ()
    runtimes: Sequence[str] = RUNTIMES


TABLE = yaml.safe_load(pathlib.Path(__file__).with_name("job_faults.yml").read_text("utf-8"))
FAULTS = {name: Fault(**row) for name, row in TABLE.items()}


class Story:
    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        job_containers.prepare(machine)
        self.runtimes = {name: Runtime(machine, name) for name in RUNTIMES}
        self.born = {name: runtime.shown(OWN) for name, runtime in self.runtimes.items()}

    def play(self, name: str, *options: str, **variables: Any) -> Played:
        played = self.collection.play(name, Hosts.of(self.machine, "inference"), *options, **variables)
        assert played.status == 0
        return played

    def good(self, name: str) -> list[str]:
        """Options with which a container of a runtime is as declared: Docker has no defaults for all."""
        script = self.machine.out("mlnode render docker-run").replace("\\\n", " ")
        sysctls = script.rpartition("exec docker run ")[2].partition(" --ulimit ")[0]
        mount = "-v /etc/nccl.conf:/etc/nccl.conf:ro"
        return [*RANKS, mount, *([sysctls.strip()] if name == "docker" else [])]

    def wrong(self) -> Mapping[str, str]:
        """Settings of runtimes that are not as declared, and why."""
        found = facts.wrong(self.machine)
        return {key: why for key, why in found.items() if key.startswith("containers.")}

    def look(self, name: str) -> Look:
        return job_containers.look(self.machine, "--container", name)


@pytest.fixture(scope="module")
def story(runtimes: Machine, collection: Collection) -> Story:
    return Story(runtimes, collection)


def test_containers_of_a_tuned_node_lack_what_it_declares(story: Story) -> None:
    story.play("site", node_nccl=NCCL)
    for name, runtime in story.runtimes.items():
        runtime.start(f"before-{name}", RANKS)
        seen = story.look(f"before-{name}")
        assert seen.status == 3
        assert seen.names == {"job_sysctl", "job_limit", "job_nccl", "job_shm"}
        assert sorted(check["found"].split()[0] for check in seen.named("job_sysctl")) == sorted(OWN)
        done = story.machine.run(f"COLUMNS=300 mlnode job --container before-{name}", check=False)
        remedies = {
            line.partition(" ")[2].strip() for line in done.stdout.splitlines() if line.startswith("do ")
        }
        assert remedies == {check["advice"] for check in seen.bad}, done


def test_settings_of_new_containers_wait_for_dockers_restart(story: Story) -> None:
    story.play("site", "--tags", "containers", node_nccl=NCCL, node_containers=CONTAINERS)
    waiting = story.wrong()
    assert {*waiting} == {"containers.docker.shm_size", "containers.docker.ulimits"}
    restart = "systemctl restart docker"
    assert all(text.startswith("pending_reboot") and f"({restart})" in text for text in waiting.values())
    story.machine.run(restart)
    assert story.wrong() == {}


@pytest.mark.parametrize("name", RUNTIMES)
def test_nothing_is_wrong_in_a_new_container(story: Story, name: str) -> None:
    story.runtimes[name].start("after", story.good(name))
    seen = story.look("after")
    assert (seen.status, seen.bad) == (0, [])
    assert seen.places[0]["processes"][0]["devices"] == [GPU]
    story.runtimes[name].end("after")


def test_the_first_container_stays_as_it_is(story: Story) -> None:
    assert {"job_sysctl", "job_limit", "job_shm"} < story.look("before-podman").names


CASES = [(name, fault) for fault, row in FAULTS.items() for name in row.runtimes]


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_fault_is_found_and_its_remedy_mends_it(story: Story, name: str, fault: str) -> None:
    row, runtime, container = FAULTS[fault], story.runtimes[name], f"faulty-{name}"
    options = [word for word in (*story.good(name), *row.options) if word not in row.not_given]
    program = [*row.program]
    runtime.start(container, options, program)
    for step in row.steps:
        seen = story.look(container)
        assert seen.names == {*step}, seen.bad
        before = (*options, *program)
        for check in seen.bad:
            assert step[check["name"]] in check["found"], check
            command, words = runtime.followed(check["advice"], row.values)
            if command == "update":
                story.machine.run(f"{name} update {words} {container}")
            elif command == "run":
                options.append(words)
            else:
                [left_out] = [words for part, words in row.prose.items() if part in check["advice"]]
                options = [word for word in options if word != left_out]
                program = [word for word in program if word != left_out]
        if before != (*options, *program):
            runtime.start(container, options, program)
    seen = story.look(container)
    assert (seen.status, seen.bad) == (0, [])
    runtime.end(container)


def test_a_slurm_job(story: Story) -> None:
    """Limits of whoever submits it, and memory near that of the job. Control groups are of version 2."""
    machine, rank = story.machine, f"/usr/bin/python3 /opt/image/rank.py {GPU} --mebibytes"
    machine.run("mount -o remount,size=1g /dev/shm")
    slurm.configure(machine)
    job = slurm.start(machine, f"{rank} 140", "--mem=320", tasks=2)
    seen = job_containers.look(machine, "--slurm-job", job)
    assert seen.status == 3
    assert {place["job"]["kind"] for place in seen.places} == {"slurm"}
    assert {place["job"]["id"] for place in seen.places} == {job}
    # Slurm sets memory.high as well.
    assert seen.names == {"job_limit", "job_memory_high", "job_memory_limit"}
    for name in ("job_memory_high", "job_memory_limit"):
        [memory] = seen.named(name)
        assert "of 320 MiB" in memory["found"]
        assert "sbatch --mem" in memory["advice"]
    # The limits of slurmd itself are declared.
    advice = " ".join(check["advice"] for check in seen.named("job_limit"))
    limits = sorted(re.findall(r"PropagateResourceLimitsExcept=(\w+) in slurm.conf", advice))
    assert limits == ["MEMLOCK", "NOFILE"]
    slurm.end(machine, job)
    slurm.configure(machine, f"PropagateResourceLimitsExcept={','.join(limits)}")
    job = slurm.start(machine, f"{rank} 140", "--mem=800", tasks=2)
    seen = job_containers.look(machine, "--slurm-job", job)
    assert (seen.status, seen.bad) == (0, [])
    slurm.end(machine, job)
    machine.run("systemctl stop slurmd slurmctld munge; mount -o remount,size=50% /dev/shm")


def test_after_revert_new_containers_are_as_before(story: Story) -> None:
    story.play("revert")
    story.machine.run("systemctl restart docker")
    assert {name: runtime.shown(OWN) for name, runtime in story.runtimes.items()} == story.born
