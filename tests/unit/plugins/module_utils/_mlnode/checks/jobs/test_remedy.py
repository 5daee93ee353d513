# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies for each kind of job. tests/system/test_jobs.py follows the one that needs no runtime."""

from __future__ import annotations

import pytest
from mlnode.checks.jobs import remedy
from mlnode.checks.jobs.defaults import Defaults
from mlnode.checks.jobs.model import Place, Process
from mlnode.host.namespaces import Ids
from mlnode.knobs.limits.parse import LIMITS, Amount
from mlnode.linux.cgroup_names import Group, Job
from mlnode.linux.inside import Environment, Network, Storage
from mlnode.linux.job_processes import JobProcess
from mlnode.model.record import replace

ID = "3f2c" * 16


def place(
    kind: str, runtime: str = "", name: str = ID, *, own: tuple[str, ...] = ("net", "mnt", "ipc")
) -> Place:
    job = Job(kind, name, ID if runtime else "", runtime)
    process = JobProcess(20, "1", "python", (), Ids(0, 0, ()), Group("/", job), ("net:[1]",) * 5, "/")
    return Place((Process(process, Environment({})),), Network({}, ()), Storage("tmpfs", 1, 1), own)


@pytest.mark.parametrize(
    ("kind", "runtime", "sysctl", "limit", "shm", "nccl"),
    [
        ("container", "podman", "podman run --sysctl 'a.b=1 2'", "podman run --ulimit memlock=8:-1",
         "podman run --shm-size=1g or --ipc=host", "podman run -v /etc/nccl.conf"),
        ("container", "docker", "dockerd has no default", "docker run --ulimit memlock=8:-1",
         "docker run --shm-size=1g or --ipc=host", "docker run -v /etc/nccl.conf"),
        ("container", "containerd", "nerdctl run --sysctl", "nerdctl run --ulimit", "nerdctl run --shm-size",
         "nerdctl run -v"),
        ("container", "crio", 'default_sysctls = ["a.b=1 2"]', 'default_ulimits = ["memlock=8:-1"]',
         "emptyDir {medium: Memory}", "hostPath"),
        ("pod", "containerd", 'securityContext.sysctls of the pod: {name: a.b, value: "1 2"}',
         "LimitMEMLOCK=8:infinity for the runtime's service", "emptyDir {medium: Memory}", "hostPath"),
        ("slurm", "", "podman run --sysctl; now: nsenter --net=/proc/20/ns/net sysctl -w 'a.b=1 2'",
         "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, and LimitMEMLOCK=8:infinity for slurmd",
         "remount,size=1g", "enroot"),
        ("unit", "", "ExecStartPre=+ of the unit", "LimitMEMLOCK=8:infinity in the unit", "remount,size=1g",
         "enroot"),
        ("container", "lxc", "lxc.sysctl.a.b = 1 2 in its", "lxc.prlimit.memlock = 8:unlimited in its",
         "lxc.mount.entry = tmpfs dev/shm tmpfs size=1g", "lxc.mount.entry = /etc/nccl.conf"),
        ("container", "nspawn", "/etc/sysctl.d of the container: a.b = 1 2", "LimitMEMLOCK=8:infinity in [",
         "remount,size=1g", "BindReadOnly=/etc/nccl.conf"),
        ("session", "", "nsenter --net=/proc/20/ns/net sysctl -w 'a.b=1 2'", "log in again", "remount",
         "enroot"),
        ("other", "", "nsenter --net=/proc/20/ns/net sysctl -w 'a.b=1 2'", "log in again", "remount",
         "enroot"),
    ],
)  # fmt: skip
def test_a_remedy_is_in_the_words_of_the_runtime(
    kind: str, runtime: str, sysctl: str, limit: str, shm: str, nccl: str
) -> None:
    here = place(kind, runtime)
    assert sysctl in remedy.sysctl(here, "a.b", "1 2", "net")
    assert limit in remedy.limit(here, LIMITS["memlock"], Amount(8, None))
    assert shm in remedy.shm(here, "1g")
    assert nccl in remedy.nccl_file(here)


def test_podman_splits_values_at_commas() -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    for runtime, option in (("podman", f"""'"{key}=1,2 3"'"""), ("docker", f"'{key}=1,2 3'")):
        assert f"{runtime} run --sysctl {option};" in remedy.sysctl(
            place("container", runtime), key, "1,2 3", "net"
        )


@pytest.mark.parametrize(("kind", "runtime"), [("container", "podman"), ("pod", "containerd")])
def test_shared_memory_of_the_node_has_its_size_there(kind: str, runtime: str) -> None:
    advice = remedy.shm(place(kind, runtime, own=("net", "mnt")), "1g")
    assert advice.startswith("it shares the node's /dev/shm: mount -o remount,size=1g")


def test_a_pod_of_crio_has_its_limits() -> None:
    advice = remedy.limit(place("pod", "crio"), LIMITS["memlock"], Amount(8, None))
    assert advice.startswith('default_ulimits = ["memlock=8:-1"]')


def test_a_scope_has_the_limits_of_its_caller() -> None:
    advice = remedy.limit(place("unit", "", "run-r1.scope"), LIMITS["memlock"], Amount(8, None))
    assert "log in again" in advice


@pytest.mark.parametrize("topic", ["sysctls", "ulimits", "shm_size"])
def test_a_declared_default_is_not_asked_for(topic: str) -> None:
    bare = place("container", "podman")
    here = replace(bare, defaults=Defaults(frozenset((topic,))))
    advice = {
        "sysctls": remedy.sysctl(here, "a.b", "1", "net"),
        "ulimits": remedy.limit(here, LIMITS["memlock"], Amount(8, None)),
        "shm_size": remedy.shm(here, "1g"),
    }
    for name, text in advice.items():
        assert ("the area containers is declared" in text) is (name == topic)
        assert ("declare the area containers" in text) is (name != topic)


def advice_of(here: Place) -> dict[str, str]:
    return {
        "sysctls": remedy.sysctl(here, "net.b", "1", "net"),
        "ulimits": remedy.limit(here, LIMITS["memlock"], Amount(8, None)),
        "shm_size": remedy.shm(here, "1g"),
    }


def in_group(here: Place, path: str) -> Place:
    about = here.first._replace(group=Group(path, here.first.job))
    return replace(here, processes=(Process(about, Environment({})),))


UNIT_GROUP = f"/system.slice/vllm.service/libpod-payload-{ID}"


@pytest.mark.parametrize("topic", ["sysctls", "ulimits", "shm_size"])
def test_a_container_from_before_a_declared_default_is_created_again(topic: str) -> None:
    here = replace(place("container", "podman"), defaults=Defaults(frozenset((topic,))), older=True)
    for name, text in advice_of(here).items():
        assert text.startswith("create it again: ") is (name == topic)
        assert ("declare the area containers" in text) is (name != topic)
    again = advice_of(in_group(here, UNIT_GROUP))[topic]
    assert again.startswith("create it again, by a restart of its unit: ")


def test_a_container_of_quadlet_has_its_options_in_a_unit() -> None:
    advice = advice_of(in_group(place("container", "podman"), UNIT_GROUP))
    assert advice["sysctls"].startswith("PodmanArgs=--sysctl net.b=1 in the Quadlet file of its unit, or ")
    assert advice["ulimits"].startswith("PodmanArgs=--ulimit memlock=8:-1 in the Quadlet")
    assert advice["shm_size"].startswith("PodmanArgs=--shm-size=1g in the Quadlet")


@pytest.mark.parametrize(
    ("group", "is_pod"),
    [
        (f"/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope", True),
        (f"/libpod_parent/{ID}/libpod-{ID}", True),
        (f"/user.slice/user-7.slice/user@7.service/user.slice/user-libpod_pod_{ID}.slice/libpod-{ID}.scope",
         True),
        (f"/machine.slice/libpod-{ID}.scope", False),
        (f"/libpod_parent/libpod-{ID}", False),
        (f"/docker/{ID}/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope", False),
    ],
)  # fmt: skip
def test_a_pod_of_podman_has_namespaces_of_its_own(group: str, is_pod: bool) -> None:
    advice = advice_of(in_group(place("container", "podman"), group))
    verb = "pod create" if is_pod else "run"
    assert advice["sysctls"].startswith(f"podman {verb} --sysctl net.b=1")
    assert advice["shm_size"].startswith(f"podman {verb} --shm-size=1g")
    assert advice["ulimits"].startswith("podman run --ulimit"), "limits are of each container"


def test_the_namespace_of_a_value_is_entered() -> None:
    assert "nsenter --ipc=/proc/20/ns/ipc sysctl -w a=1" in remedy.sysctl(place("session"), "a", "1", "ipc")


POD_GROUP = f"/kubepods.slice/kubepods-pod{ID[:32]}.slice"


@pytest.mark.parametrize(
    ("kind", "runtime", "group", "cpu", "memory"),
    [
        ("container", "podman", f"/machine.slice/libpod-{ID}.scope", "podman update --cpus=N",
         "podman update --memory=SIZE"),
        ("container", "docker", f"/system.slice/docker-{ID}.scope/inner", "docker update --cpus=N",
         "docker update --memory=SIZE"),
        ("container", "containerd", f"/system.slice/nerdctl-{ID}.scope", "nerdctl update --cpus=N",
         "nerdctl update --memory=SIZE"),
        ("container", "docker", "/system.slice", "CPUQuota= of system.slice", "MemoryMax= of system.slice"),
        ("container", "docker", f"/docker/{'ab' * 32}", "raise the limit of the group /docker/abab",
         "raise the limit of the group /docker/abab"),
        ("pod", "containerd", f"{POD_GROUP}/cri-containerd-{ID}.scope", "resources.limits.cpu of the pod",
         "resources.limits.memory of the pod"),
        ("pod", "containerd", POD_GROUP, "resources.limits.cpu of the pod", "resources.limits.memory"),
        ("pod", "containerd", "/kubepods.slice", "CPUQuota= of kubepods.slice", "of kubepods.slice"),
        ("slurm", "", "/system.slice/slurmstepd.scope/job_7/step_0", "raise the limit of the group",
         "sbatch --mem"),
        ("unit", "", "/system.slice/vllm.service", "CPUQuota= of vllm.service", "of vllm.service"),
        ("session", "", "/x/\x1b[2J.slice", "CPUQuota= of \\x1b[2J.slice", "of \\x1b[2J.slice"),
    ],
)  # fmt: skip
def test_a_limit_is_raised_where_it_is_set(
    kind: str, runtime: str, group: str, cpu: str, memory: str
) -> None:
    names = {"pod": ID[:32], "slurm": "7", "unit": "vllm.service"}
    here = place(kind, runtime, names.get(kind, ID))
    assert cpu in remedy.cpu_quota(here, group)
    assert memory in remedy.memory(here, group)


@pytest.mark.parametrize(
    ("kind", "runtime", "group", "advice"),
    [
        ("container", "podman", f"/machine.slice/libpod-{ID}.scope/container",
         "podman run --cgroup-conf=memory.high=BYTES"),
        ("container", "docker", f"/system.slice/docker-{ID}.scope", f"MemoryHigh= of docker-{ID}.scope"),
        ("container", "podman", "/machine.slice", "MemoryHigh= of machine.slice"),
        ("pod", "containerd", POD_GROUP, "memoryThrottlingFactor of the kubelet"),
        ("slurm", "", "/system.slice/lab_slurmstepd.scope/job_7", "sbatch --mem"),
    ],
)  # fmt: skip
def test_memory_high_is_raised_where_it_is_set(kind: str, runtime: str, group: str, advice: str) -> None:
    names = {"pod": ID[:32], "slurm": "7"}
    found = remedy.memory_high(place(kind, runtime, names.get(kind, ID)), group)
    assert advice in found
    assert "update" not in found, "it changes memory.max alone"


@pytest.mark.parametrize(
    ("kind", "runtime", "cpus", "rdma", "gids"),
    [
        ("container", "podman", "--cpuset-cpus=LIST --cpuset-mems=1", "podman run --device=/dev/infiniband",
         "podman run --network=host, without --sysctl net.*"),
        ("container", "docker", "--cpuset-cpus=LIST --cpuset-mems=1", "docker run --device=/dev/infiniband",
         "docker run --network=host, without --sysctl net.*"),
        ("pod", "crio", "topologyManagerPolicy: single-numa-node", "device plugin", "hostNetwork: true"),
        ("slurm", "", "srun --cpus-per-task=COUNT", "MELLANOX_VISIBLE_DEVICES=all", "node's network"),
        ("unit", "", "NUMAMask=1 in the unit", "DeviceAllow=char-infiniband_verbs rw", "node's network"),
        ("other", "", "numactl --cpunodebind=1 --membind=1", "bind /dev/infiniband", "node's network"),
    ],
)  # fmt: skip
def test_hardware_in_the_words_of_the_runtime(
    kind: str, runtime: str, cpus: str, rdma: str, gids: str
) -> None:
    here = place(kind, runtime)
    assert cpus in remedy.cpus(here, [1])
    assert rdma in remedy.rdma_devices(here)
    assert gids in remedy.gids(here)
