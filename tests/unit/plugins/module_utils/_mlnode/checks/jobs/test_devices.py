# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, control_groups
from ansible_collections.mlnode.tuning.tests.unit.job_machine import process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import run
from mlnode.checks.model import Verdict
from mlnode.host import namespaces
from mlnode.linux.inside import Network

from .looking import FIRST, OWN_NET, SCOPE, SECOND, look, named, refuse, see

MODE = "/sys/module/ib_core/parameters/netns_mode"
UVERBS = {"infiniband/uverbs0": "231:192", "infiniband/uverbs1": "231:193"}
GPUS = {"nvidia0": "195:0", "nvidia1": "195:1"}
NDEVS = "/sys/class/infiniband/{}/ports/1/gid_attrs/ndevs/{}"
VF = "0000:14:00.2"


@pytest.fixture
def node(trainer: Machine) -> Machine:
    for number, address in enumerate(("0000:14:00.0", "0000:94:00.0")):
        uverbs(trainer, number, f"mlx5_{number}", address)
    trainer.put(MODE, "Y\n")
    return trainer


def uverbs(machine: Machine, number: int, device: str, address: str) -> None:
    folder = f"/sys/devices/verbs/{address}/infiniband_verbs/uverbs{number}"
    machine.put(f"{folder}/ibdev", f"{device}\n")
    machine.put(f"{folder}/dev", f"231:{192 + number}\n")
    machine.link(f"/sys/class/infiniband_verbs/uverbs{number}", folder)


def job(machine: Machine, *devices: str, environment: tuple[str, ...] = (), own_net: bool = True) -> None:
    process(
        machine, 20, "python", *devices or ("/dev/nvidia0", "/dev/nvidia1"), cgroup=SCOPE,
        namespaces=OWN_NET if own_net else None, environment=environment,
    )  # fmt: skip


# -- rails ---------------------------------------------------------------------------------


@cases.table
def test_rails(
    node: Machine, monkeypatch: pytest.MonkeyPatch, seen: list[str], gpus: list[int], environment: list[str],
    verdict: str, found: str, value: str,
) -> None:  # fmt: skip
    see(monkeypatch, {**GPUS, **{name: UVERBS[name] for name in seen}})
    job(node, *(f"/dev/nvidia{gpu}" for gpu in gpus), environment=tuple(environment))
    jobs = look(node)
    check = named(jobs, "job_rails")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert jobs.places[0].values["rails visible"] == value
    assert ("docker run --device=/dev/infiniband" in check.advice) is (verdict in ("warn", "fail"))
    assert jobs.places[0].values["gpus visible"] == "2"


@pytest.mark.parametrize(
    ("files", "devices", "verdict"),
    [({}, (), "skip"), (GPUS, (), "warn"), ({}, ("/dev/infiniband/uverbs0",), "warn")],
)
def test_helpers_of_a_pod_need_no_rail(
    node: Machine,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    devices: tuple[str, ...],
    verdict: str,
) -> None:
    see(monkeypatch, files)
    process(node, 20, "pause", *devices, cgroup=SCOPE, namespaces=OWN_NET)
    node.forget()
    jobs = run.look(node, {"pid": [20]})
    assert str(named(jobs, "job_rails").verdict) == verdict
    assert jobs.places[0].values["gpus visible"] == str(len(files))


def test_a_gpu_with_several_files_is_one(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for minor, address in enumerate(("0000:13:00.0", "0000:93:00.0", "0000:02:00.0"), 128):
        node.link(f"/sys/class/drm/renderD{minor}", f"../../devices/pci0/{address}/drm/renderD{minor}")
    render = {f"dri/renderD{minor}": f"226:{minor}" for minor in (128, 129, 130)}
    see(monkeypatch, {**GPUS, **render})
    job(node)
    jobs = look(node)
    assert jobs.places[0].values["gpus visible"] == "2"
    assert named(jobs, "job_gpus").found == "2 of 2 GPUs are in its /dev"
    # The runtime gave the second GPU the name of the first.
    see(monkeypatch, {"nvidia0": "195:1", "dri/renderD129": "226:129"})
    assert look(node).places[0].values["gpus visible"] == "1"


@pytest.mark.parametrize(("own", "number", "cpus"), [("0", "195:1", "4-7"), ("1", "195:0", "0-3")])
def test_a_device_with_another_name_is_next_to_its_own_cpus(
    node: Machine, monkeypatch: pytest.MonkeyPatch, own: str, number: str, cpus: str
) -> None:
    see(monkeypatch, {f"nvidia{own}": number})
    process(node, 20, "python", f"/dev/nvidia{own}", cgroup=SCOPE, namespaces={"mnt": 77}, cpus=cpus)
    assert str(named(look(node), "job_cpu_node").verdict) == "pass"


@pytest.mark.parametrize(("own", "number", "cpus"), [("128", "226:129", "4-7"), ("129", "226:128", "0-3")])
def test_a_render_node_with_another_name_is_next_to_its_own_cpus(
    node: Machine, monkeypatch: pytest.MonkeyPatch, own: str, number: str, cpus: str
) -> None:
    for minor, address in enumerate((FIRST, SECOND), 128):
        node.link(f"/sys/class/drm/renderD{minor}", f"../../devices/pci0/{address}/drm/renderD{minor}")
    see(monkeypatch, {f"dri/renderD{own}": number})
    process(node, 20, "python", f"/dev/dri/renderD{own}", cgroup=SCOPE, namespaces={"mnt": 77}, cpus=cpus)
    jobs = look(node)
    assert str(named(jobs, "job_cpu_node").verdict) == "pass"
    assert jobs.places[0].values["gpus visible"] == "1"


def test_a_whole_device_is_a_gpu_only_if_it_is_an_accelerator(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver in the job owns it: libtpu, or a network stack."""
    for group, address, vendor, kind in (
        ("7", "0000:13:00.0", "0x10de", "0x030200"),
        ("8", "0000:3b:00.0", "0x15b3", "0x020000"),
    ):
        node.put(f"/sys/kernel/iommu_groups/{group}/devices/{address}/x", "")
        node.put(f"/sys/devices/pci0000:10/{address}/vendor", f"{vendor}\n")
        node.put(f"/sys/devices/pci0000:10/{address}/class", f"{kind}\n")
        if not node.is_link(f"/sys/bus/pci/devices/{address}"):
            node.link(f"/sys/bus/pci/devices/{address}", f"/sys/devices/pci0000:10/{address}")
    see(monkeypatch, {"vfio/7": "245:0", "vfio/8": "245:1", "vfio/vfio": "10:196"})
    job(node, "/dev/vfio/7")
    assert look(node).places[0].values["gpus visible"] == "1"


def test_accelerators_without_a_place_in_sysfs_count_by_their_files(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("neuron0", "neuron15", "davinci0", "davinci_manager", "rngd/npu0pe0-3", "rngd/npu0mgmt", "kfd")
    see(monkeypatch, {name: f"250:{number}" for number, name in enumerate(files)})
    job(node, "/dev/neuron0")
    assert look(node).places[0].values["gpus visible"] == "4"


def test_a_name_alone_is_no_device(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, {"infiniband/uverbs0": "1:3", "infiniband/uverbs1": "", "nvidia0": ""})
    job(node)
    jobs = look(node)
    assert jobs.places[0].values["rails visible"] == "0"
    assert jobs.places[0].values["gpus visible"] == "0"


def test_a_virtual_function_is_of_its_rail(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    uverbs(node, 2, "mlx5_2", VF)
    functions = f"/sys/devices/pci0000:10/{VF}"
    for name, text in (("vendor", "0x15b3"), ("device", "0x101e"), ("class", "0x020000"), ("numa_node", "0")):
        node.put(f"{functions}/{name}", f"{text}\n")
    node.link(f"/sys/bus/pci/devices/{VF}", functions)
    node.link(f"{functions}/physfn", "../0000:14:00.0")
    see(monkeypatch, {"infiniband/uverbs2": "231:194"})
    job(node, "/dev/nvidia0")
    assert named(look(node), "job_rails").verdict is Verdict.PASS


def test_a_device_cgroup_of_version_1_denies(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, UVERBS)
    job(node)
    control_groups.mount(node, "devices")
    control_groups.old_group(node, "devices", SCOPE, {"devices.list": "c 1:3 rwm\nc 231:192 rwm"})
    node.put("/proc/20/cgroup", f"5:devices:{SCOPE}\n0::{SCOPE}\n")
    check = named(look(node), "job_rails")
    assert check.verdict is Verdict.WARN
    assert check.found == "1 of 2 rails, not mlx5_1; its device cgroup denies mlx5_1"


def test_a_device_cgroup_that_cannot_be_read_is_unknown(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, UVERBS)
    job(node)
    control_groups.mount(node, "devices")
    control_groups.old_group(node, "devices", SCOPE)
    node.put("/proc/20/cgroup", f"5:devices:{SCOPE}\n0::{SCOPE}\n")
    node.unreadable[f"{control_groups.folder(SCOPE, 'devices')}/devices.list"] = errno.EACCES
    assert named(look(node), "job_rails").verdict is Verdict.UNKNOWN


def test_a_dev_that_does_not_answer_is_unknown(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "names", refuse)
    job(node)
    jobs = look(node)
    assert named(jobs, "job_rails").verdict is Verdict.UNKNOWN
    assert named(jobs, "job_gpus").verdict is Verdict.UNKNOWN
    assert {"gpus visible", "rails visible", "rdma devices visible"} <= {*jobs.places[0].unknown}


def test_a_dev_of_a_program_is_not_touched(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """FUSE, whose reads may never end."""
    monkeypatch.setattr(namespaces, "names", None)
    mounts = "30 1 0:30 / / rw - overlay overlay rw\n33 30 0:33 / /dev rw - fuse.evil evil rw\n"
    process(node, 20, "python", "/dev/nvidia0", cgroup=SCOPE, mounts=mounts)
    check = named(look(node), "job_rails")
    assert check.verdict is Verdict.UNKNOWN
    assert "fuse.evil, which is not touched" in check.found


# -- namespaces ----------------------------------------------------------------------------


@cases.table
def test_namespaces_of_rdma(
    node: Machine, monkeypatch: pytest.MonkeyPatch, mode: str, own_net: bool, verdict: str, rails: str
) -> None:
    node.put(MODE, f"{mode}\n")
    see(monkeypatch, UVERBS)
    job(node, own_net=own_net)
    jobs = look(node)
    check = named(jobs, "job_rdma_namespace")
    assert (str(check.verdict), str(named(jobs, "job_rails").verdict)) == (verdict, rails)
    for known in (check, named(jobs, "job_rails")):
        assert ("rdma dev set mlx5_0 netns /proc/20/ns/net" in known.advice) is (verdict == "fail")


def test_a_device_that_was_moved_may_be_the_jobs(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In exclusive mode the node's sysfs does not show it, apart from its uverbs."""
    node.put(MODE, "N\n")
    uverbs(node, 2, "mlx5_2", VF)
    see(monkeypatch, {"infiniband/uverbs2": "231:194"})
    job(node)
    jobs = look(node)
    assert named(jobs, "job_rails").verdict is Verdict.UNKNOWN
    assert named(jobs, "job_rdma_namespace").verdict is Verdict.SKIP


def test_a_mode_that_is_not_known(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    node.unreadable[MODE] = errno.EACCES
    see(monkeypatch, UVERBS)
    job(node)
    jobs = look(node)
    assert named(jobs, "job_rdma_namespace").verdict is Verdict.UNKNOWN
    assert named(jobs, "job_rails").verdict is Verdict.UNKNOWN
    assert "rdma namespaces" in jobs.places[0].unknown


# -- GIDs ----------------------------------------------------------------------------------


@cases.table
def test_gids_of_the_own_network_namespace(
    node: Machine, monkeypatch: pytest.MonkeyPatch, owners: list[list[str]], inside: list[str], verdict: str,
    found: str,
) -> None:  # fmt: skip
    see(monkeypatch, UVERBS)
    for number, names in enumerate(owners):
        for index, name in enumerate(names):
            node.put(NDEVS.format(f"mlx5_{number}", index), f"{name}\n")
    monkeypatch.setattr(
        "mlnode.linux.inside.network_of", lambda *_given: Network({}, None if not inside else tuple(inside))
    )
    job(node)
    check = named(look(node), "job_gids")
    assert (str(check.verdict), check.found) == (verdict, found)


def test_a_node_without_rdma(trainer: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(f"{trainer.root}/sys/class/infiniband")
    see(monkeypatch, GPUS)
    job(trainer)
    jobs = look(trainer)
    assert named(jobs, "job_rails").found == "the node has no RDMA device"
    assert named(jobs, "job_gpus").found == "2 of 2 GPUs are in its /dev"
