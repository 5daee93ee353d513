# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import pathlib
import re
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import amd_machine, cases
from ansible_collections.mlnode.tuning.tests.unit.amd_machine import KFD, PCI, AmdMachine
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks.audit import devices
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.drivers.gpu import amd_metrics, amd_speed, topics
from mlnode.drivers.gpu.amd import Amd
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.linux import jobs
from mlnode.model.errors import HostError
from mlnode.topology import hardware

FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
GPU = f"{PCI}/{SECOND}"
NAMES = {topic.name for topic in topics.ALL}


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AmdMachine:
    monkeypatch.setattr(amd_speed, "_BETWEEN", 0.0)
    return AmdMachine.with_gpus(str(tmp_path / "node"))


def look(node: AmdMachine) -> dict[tuple[str, str], Check]:
    node.forget()
    return {
        (check.name, check.target): check for check in checks(devices.LOOKS, node, hardware.topology(node))
    }


def of_gpu(node: AmdMachine, name: str, target: str = f"GPU {SECOND}") -> Check:
    return look(node)[name, target]


def test_a_machine_that_is_well(node: AmdMachine) -> None:
    seen = look(node)
    assert {name for name, _target in seen} >= NAMES
    for (name, _target), check in seen.items():
        expected = Verdict.SKIP if name in ("imex", "gpu_nodes", "pcie_link") else Verdict.PASS
        assert check.verdict is expected, check
        assert check.found
        assert check.source
    assert (
        seen["gpu_fabric", f"GPU {SECOND}"].found
        == "hive of 2 GPUs, 2 of them here; 1 links, 1 active, 16 lanes wide"
    )
    assert seen["gpu_versions", "node"].found == "amdgpu 6.12.12; mec 0x000000af, vbios 113-M3000100-102"


def test_no_file_with_a_side_effect_is_read(node: AmdMachine) -> None:
    """xgmi_error clears its register."""
    node.put(f"{GPU}/xgmi_error", "0\n")
    assert not [path for path in reads(node) if path.endswith("xgmi_error")]


@cases.table
def test_files(
    node: AmdMachine, name: str, files: dict[str, str], verdict: str, severity: str, found: str
) -> None:
    for path, text in files.items():
        node.put(f"{GPU}/{path}", f"{text}\n")
    check = of_gpu(node, name, "node" if name == "gpu_versions" else f"GPU {SECOND}")
    assert (str(check.verdict), str(check.severity), check.found) == (verdict, severity, found)


# -- presence ------------------------------------------------------------------------------


def test_a_gpu_that_does_not_compute(node: AmdMachine) -> None:
    node.put(f"{KFD}/topology/nodes/2/gpu_id", "0\n")
    check = of_gpu(node, "gpu_answering", "node")
    assert (check.verdict, check.found) == (Verdict.FAIL, f"1 of 2 on PCI, and not {SECOND}")


def test_a_gpu_without_a_card(node: AmdMachine) -> None:
    node.remove(f"{GPU}/drm/card2/dev")
    pathlib.Path(f"{node.root}{GPU}/drm/card2").rmdir()
    assert of_gpu(node, "gpu_answering", "node").verdict is Verdict.FAIL


def test_a_gpu_of_a_guest_is_not_missed(node: AmdMachine) -> None:
    node.add("0000:1d:00.0", "0x1002", "vfio-pci")
    seen = look(node)
    assert seen["gpu_answering", "node"].found == "2 of 2 on PCI; 1 with another driver"
    assert not [check for check in seen.values() if check.name in NAMES and "0000:1d" in check.target]
    assert seen["gpu_versions", "node"].verdict is Verdict.PASS, "it shows no firmware"


def test_a_node_whose_gpus_are_all_a_guests(tmp_path: pathlib.Path) -> None:
    node = AmdMachine.with_gpus(str(tmp_path / "node"), 0)
    for gpu in (FIRST, SECOND):
        node.add(gpu, "0x1002", "vfio-pci")
    seen = [check for (name, _target), check in look(node).items() if name in NAMES]
    assert {(check.verdict, check.found) for check in seen} == {
        (Verdict.SKIP, "no GPU here belongs to amdgpu")
    }


def test_a_gpu_of_another_model_has_its_own_firmware_and_links(node: AmdMachine) -> None:
    """Such as a graphics card beside: it has fewer files, and is in no hive."""
    address = "0000:41:00.0"
    node.add(address, "0x1002", "amdgpu")
    folder = f"{PCI}/{address}"
    node.put(f"{folder}/device", "0x744a\n")
    node.put(f"{folder}/vbios_version", "113-D7070100-101\n")
    seen = look(node)
    assert (seen["gpu_versions", "node"].verdict, seen["gpu_versions", "node"].found) == (
        Verdict.PASS,
        "amdgpu 6.12.12; mec 0x000000af, vbios 113-M3000100-102, vbios 113-D7070100-101",
    )
    assert seen["gpu_fabric", f"GPU {address}"].verdict is Verdict.SKIP
    assert seen["gpu_fabric", f"GPU {FIRST}"].verdict is Verdict.PASS


def test_partitions_of_one_gpu_are_one_gpu(node: AmdMachine) -> None:
    """With CPX the compute driver has several nodes for a GPU; their number is in the highest bits."""
    node.put(f"{KFD}/topology/nodes/3/gpu_id", "1007\n")
    node.put(f"{KFD}/topology/nodes/3/properties", f"location_id {1 << 28 | 0x1C00}\ndomain 0\n")
    assert of_gpu(node, "gpu_answering", "node").found == "2 of 2 on PCI"


def test_without_the_driver_nothing_is_judged(node: AmdMachine) -> None:
    node.remove("/sys/module/amdgpu/version")
    pathlib.Path(f"{node.root}/sys/module/amdgpu").rmdir()
    assert {check.verdict for (name, _target), check in look(node).items() if name in NAMES} == {Verdict.SKIP}


# -- clocks --------------------------------------------------------------------------------


@cases.table
def test_tables_of_clocks(
    node: AmdMachine, make: str, given: dict[str, Any], verdict: str, found: str
) -> None:
    node.put(f"{GPU}/gpu_metrics", getattr(amd_machine, make)(**given))
    check = of_gpu(node, "gpu_clocks")
    assert (str(check.verdict), check.found) == (verdict, found)


@pytest.mark.parametrize("make", [amd_machine.residencies, amd_machine.listed])
def test_clocks_that_are_lower_now(node: AmdMachine, make: Any) -> None:
    path = f"{GPU}/gpu_metrics"
    node.put(path, make())
    before = make(cycles=1000, prochot=10)
    node.tables[path] = [before, make(cycles=1100, prochot=20)]
    check = of_gpu(node, "gpu_clocks")
    assert check.verdict is Verdict.FAIL
    assert check.found == "active: prochot; since the driver was loaded: prochot 1.00% of the time"
    node.tables[path] = [before, make(cycles=1100, prochot=10)]
    assert of_gpu(node, "gpu_clocks").verdict is Verdict.PASS
    node.tables[path] = [before, before]
    assert of_gpu(node, "gpu_clocks").verdict is Verdict.UNKNOWN, "the firmware has counted nothing"
    node.tables[path] = [make(cycles=0, prochot=10), make(cycles=1100, prochot=20)]
    assert of_gpu(node, "gpu_clocks").verdict is Verdict.UNKNOWN, "the firmware had counted nothing"
    node.tables[path] = [before, b""]
    assert of_gpu(node, "gpu_clocks").verdict is Verdict.UNKNOWN


def test_a_counter_that_starts_again(node: AmdMachine) -> None:
    path = f"{GPU}/gpu_metrics"
    node.tables[path] = [
        amd_machine.residencies(cycles=(1 << 32) - 10, vr_thermal=(1 << 32) - 2),
        amd_machine.residencies(cycles=90, vr_thermal=3),
    ]
    check = of_gpu(node, "gpu_clocks")
    assert (check.verdict, str(check.severity)) == (Verdict.WARN, "medium")
    assert check.found.startswith("active: vr_thermal")


THROTTLE = {f"{name}_violation_status": "NOT ACTIVE" for name in amd_machine.REASONS}
BDFS = [{"gpu": 0, "bdf": FIRST}, {"gpu": 1, "bdf": SECOND.upper()}]


@cases.table
def test_answers_of_the_tool(node: AmdMachine, metric: Any, verdict: str, found: str) -> None:
    """If the table has no reasons. Versions of the tool differ in the form of their answers."""
    node.put(f"{GPU}/gpu_metrics", amd_machine.without_reasons())
    node.smi = {"list": BDFS, "metric": metric}
    check = of_gpu(node, "gpu_clocks")
    assert (str(check.verdict), check.found) == (verdict, found)


@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}])
@pytest.mark.parametrize("count", [3, "3", {"value": 3, "unit": ""}])
def test_errors_that_only_the_tool_counts(node: AmdMachine, wrap: Any, count: Any) -> None:
    for block in amd_machine.BLOCKS:
        node.remove(f"{GPU}/ras/{block}_err_count")
    for name in ("features", "gpu_vram_bad_pages"):
        node.remove(f"{GPU}/ras/{name}")
    pathlib.Path(f"{node.root}{GPU}/ras").resolve().rmdir()
    assert of_gpu(node, "gpu_ecc").verdict is Verdict.UNKNOWN, "neither is here"
    ecc = {"total_correctable_count": 0, "total_uncorrectable_count": count}
    node.smi = {"list": wrap(BDFS), "metric": wrap([{"gpu": 0}, {"gpu": 1, "ecc": ecc}])}
    check = of_gpu(node, "gpu_ecc")
    assert (check.verdict, check.found.partition(" ")[0]) == (Verdict.FAIL, "3")
    answers = ("N/A", None, {"value": "N/A"}, -1, True, 1.5)
    for deferred in answers:
        known = {
            "total_uncorrectable_count": 0,
            "total_correctable_count": 0,
            "total_deferred_count": deferred,
        }
        node.smi = {"list": wrap(BDFS), "metric": wrap([{"gpu": 1, "ecc": known}])}
        assert of_gpu(node, "gpu_ecc").verdict is Verdict.UNKNOWN, deferred
    good = {"total_correctable_count": 0, "total_uncorrectable_count": 0}
    whole = json.dumps(wrap([{"gpu": 1, "ecc": good}]))
    node.smi = {"list": wrap(BDFS), "metric": Finished(0, whole, "")}
    assert of_gpu(node, "gpu_ecc").verdict is Verdict.PASS
    for done in (
        Finished(255, "", "AMDSMI_STATUS_NOT_INIT\n"),
        Finished(1, whole, ""),
        Finished(0, f"WARNING: no permission\n{whole}", ""),
        Finished(0, whole[:-3], ""),
        Finished(0, "[" * 100_000, ""),
        Finished(0, "", ""),
    ):
        node.smi = {"list": wrap(BDFS), "metric": done}
        assert of_gpu(node, "gpu_ecc").verdict is Verdict.UNKNOWN, done


def test_a_tool_that_hangs_is_waited_for_once(node: AmdMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked about all GPUs, for two topics."""
    for gpu in (FIRST, SECOND):
        node.put(f"{PCI}/{gpu}/gpu_metrics", amd_machine.without_reasons())
        ras = pathlib.Path(f"{node.root}{PCI}/{gpu}/ras").resolve()
        ras.rename(ras.with_name("gone"))
    asked: list[str] = []
    run = AmdMachine.run

    def hanging(self: AmdMachine, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "amd-smi":
            return run(self, command, seconds)
        asked.append(command[1])
        raise HostError("run", command[0], None, "it took longer than 120 s")

    monkeypatch.setattr(AmdMachine, "run", hanging)
    seen = look(node)
    assert asked == ["list"]
    for name in ("gpu_ecc", "gpu_clocks"):
        for gpu in (FIRST, SECOND):
            assert seen[name, f"GPU {gpu}"].verdict is Verdict.UNKNOWN
            assert "120 s" in seen[name, f"GPU {gpu}"].found


# -- links ---------------------------------------------------------------------------------


def test_a_gpu_in_no_hive(node: AmdMachine) -> None:
    hive = pathlib.Path(f"{node.root}{GPU}/xgmi_hive_info").resolve()
    hive.rename(hive.with_name("gone"))
    assert of_gpu(node, "gpu_fabric").found == "in no hive, and others are"
    assert of_gpu(node, "gpu_fabric").verdict is Verdict.FAIL


def test_without_links_at_all(tmp_path: pathlib.Path) -> None:
    node = AmdMachine.with_gpus(str(tmp_path / "one"), 1)
    hive = pathlib.Path(f"{node.root}{PCI}/{FIRST}/xgmi_hive_info").resolve()
    hive.rename(hive.with_name("gone"))
    assert of_gpu(node, "gpu_fabric", f"GPU {FIRST}").verdict is Verdict.SKIP


def test_eight_gpus_and_a_link_that_is_down(tmp_path: pathlib.Path) -> None:
    node = AmdMachine.with_gpus(str(tmp_path / "eight"), 8)
    assert (
        of_gpu(node, "gpu_fabric").found == "hive of 8 GPUs, 8 of them here; 7 links, 7 active, 16 lanes wide"
    )
    node.put(f"{GPU}/gpu_metrics", amd_machine.residencies(links=(1, 1, 0, 1, 1, 1, 1, 0)))
    check = of_gpu(node, "gpu_fabric")
    assert check.verdict is Verdict.FAIL
    assert check.found == "hive of 8 GPUs, 8 of them here; 7 links, 6 active, and not 2, 7, 16 lanes wide"
    node.put(f"{GPU}/xgmi_num_links", "01 00 01 01 01 01 00 01 \n")
    assert of_gpu(node, "gpu_fabric").verdict is Verdict.FAIL, "fewer links than the others"


@pytest.mark.parametrize(
    ("states", "verdict", "words"),
    [
        ((1,) * 7 + (2,), Verdict.PASS, "7 active"),
        ((1,) * 6 + (0xFFFF, 0), Verdict.UNKNOWN, "6 active, and not 7, 1 unknown"),
        ((0,) + (1,) * 5 + (0, 2), Verdict.FAIL, "5 active, and not 0, 6, 1 unknown"),
        ((2,) * 8, Verdict.UNKNOWN, "gpu_metrics does not show their states"),
    ],
)
def test_a_link_of_unknown_state_hides_no_other(
    tmp_path: pathlib.Path, states: tuple[int, ...], verdict: Verdict, words: str
) -> None:
    node = AmdMachine.with_gpus(str(tmp_path / "eight"), 8)
    node.put(f"{GPU}/gpu_metrics", amd_machine.residencies(links=states))
    check = of_gpu(node, "gpu_fabric")
    assert check.verdict is verdict
    assert words in check.found


def test_a_table_without_links_is_no_proof_of_them(node: AmdMachine) -> None:
    node.put(f"{GPU}/gpu_metrics", amd_machine.residencies(minor=6))
    check = of_gpu(node, "gpu_fabric")
    assert check.verdict is Verdict.UNKNOWN
    assert "gpu_metrics does not show their states" in check.found


# -- the kernel's log ------------------------------------------------------------------------


@cases.table
def test_messages(node: AmdMachine, text: str, severity: str, found: str) -> None:
    node.put("/proc/uptime", "3600.00 900.00\n")
    node.log = f"[    0.500000] Linux version 6.12.0\n[ 3000.000000] {text}\n"
    checked = look(node)
    if not severity:
        assert checked["gpu_messages", "node"].verdict is Verdict.PASS
        return
    check = checked["gpu_messages", f"GPU {SECOND}"]
    assert (str(check.severity), check.found) == (severity, f"{found}, 10 min ago")
    assert check.verdict in (Verdict.FAIL, Verdict.WARN)
    assert check.advice


# -- against the fleet ---------------------------------------------------------------------


def test_nodes_are_compared_by_driver_firmware_and_partition(node: AmdMachine) -> None:
    cards = hardware.topology(node).gpus
    words = Amd().alike(node, cards)
    assert re.fullmatch(
        r"amdgpu 6\.12\.12, vbios 113-M3000100-102, all firmware [0-9a-f]{8}, SPX/NPS1", words
    )
    node.put(f"{GPU}/fw_version/mec_fw_version", "0x000000ae\n")
    assert Amd().alike(node, cards).split(", ")[2] != words.split(", ")[2]
    node.put(f"{GPU}/current_compute_partition", "CPX\n")
    assert Amd().alike(node, cards).endswith(", CPX/NPS1, SPX/NPS1")
    node.unreadable = {f"{GPU}/vbios_version": errno.EIO}
    with pytest.raises(HostError):
        Amd().alike(node, cards)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma1 timeout, signaled seq=8, emitted seq=9",
         "ring timeout"),
        ("amdgpu: qcm fence wait loop timeout expired", "queue preemption failed"),
        ("kfd kfd: amdgpu: The cp might be in a state due to an unsuccessful queues preemption",
         "queue preemption failed"),
        (f"amdgpu {SECOND}: [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, signaled seq=1",
         "ring timeout"),
    ],
)  # fmt: skip
def test_a_hang_without_an_address_is_a_hang(node: AmdMachine, text: str, title: str) -> None:
    """As kernels before the current ones write it."""
    node.put("/proc/uptime", "3600.00 900.00\n")
    node.log = f"[    0.500000] Linux version 5.15.0\n[ 3000.000000] {text}\n"
    check = look(node)["gpu_messages", f"GPU {SECOND}" if SECOND in text else "a GPU"]
    assert (check.verdict, check.found) == (Verdict.FAIL, f"{title} (hang), 10 min ago")


# -- files that cannot be read, or say nothing ------------------------------------------------


def reads(node: AmdMachine) -> list[str]:
    """Files of the second GPU and of its compute node that a look reads."""
    seen: set[str] = set()
    outer = AmdMachine.read_bytes

    def read_bytes(self: AmdMachine, path: str) -> bytes:
        seen.add(path)
        return outer(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AmdMachine, "read_bytes", read_bytes)
        look(node)
    own = (GPU, f"{KFD}/topology/nodes/2", "/sys/module/amdgpu")
    # Files of every PCI device are the topology's.
    common = (
        "/vendor",
        "/device",
        "/class",
        "/numa_node",
        "/config",
        "_link_width",
        "_link_speed",
        "/resource",
    )
    return sorted(path for path in seen if path.startswith(own) and not path.endswith(common))


def test_a_file_that_cannot_be_read_is_never_well(node: AmdMachine) -> None:
    healthy = look(node)
    paths = [path for path in reads(node) if node.exists(path)]
    assert len(paths) > 15
    for path in paths:
        for number in (errno.EACCES, errno.EIO, errno.ENODEV):
            node.unreadable = {path: number}
            changed = [check for key, check in look(node).items() if healthy.get(key) != check]
            assert changed, (path, number)
            assert {check.verdict for check in changed} <= {Verdict.UNKNOWN, Verdict.FAIL, Verdict.WARN}, (
                path, number, changed)  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff\xfe\x00", b"1" * 300, b"N/A\n", b"-1\n"])
def test_a_file_that_says_nothing_is_never_well(node: AmdMachine, text: bytes) -> None:
    healthy = look(node)
    for path in reads(node):
        if not node.exists(path) or (path.endswith("bad_pages") and not text.strip()):
            continue  # a GPU without bad pages has an empty list
        if text.strip() and path.endswith(("_fw_version", "vbios_version", "amdgpu/version")):
            continue  # any text may be a version
        before = node.read_bytes(path)
        node.put(path, text)
        changed = [check for key, check in look(node).items() if healthy.get(key) != check]
        node.put(path, before)
        assert changed, path
        assert {check.verdict for check in changed} <= {Verdict.UNKNOWN, Verdict.FAIL, Verdict.WARN}, (
            path,
            changed,
        )


@given(st.binary(max_size=400), st.sampled_from([3, 5, 6, 7, 8, 9]))
def test_any_table_is_understood_or_refused(body: bytes, minor: int) -> None:
    table = struct.pack("<HBB", min(len(body) + 4, 400), 1, minor) + body
    try:
        metrics = amd_metrics.parse("gpu_metrics", table)
    except HostError:
        return
    assert metrics.version == f"1.{minor}"
    assert {*metrics.links} <= {amd_metrics.DOWN, amd_metrics.UP, amd_metrics.UNCLEAR}


# -- processes -----------------------------------------------------------------------------


def test_processes_and_their_gpus(node: AmdMachine) -> None:
    """A process opens the files of all GPUs, and has memory on some."""
    for pid, first, second in ((70, 0, 4096), (71, 4096, 4096), (72, 0, 0)):
        node.put(f"{KFD}/proc/{pid}/vram_1000", f"{first}\n")
        node.put(f"{KFD}/proc/{pid}/vram_1001", f"{second}\n")
        node.put(f"{KFD}/proc/{pid}/pasid", "32769\n")
    assert Amd().computing(node) == {70: (SECOND,), 71: (FIRST, SECOND)}
    node.unreadable = {f"{KFD}/proc/70/vram_1001": errno.EIO}
    node.forget()
    assert Amd().computing(node) == {}


def test_services_of_the_vendor_are_no_jobs(node: AmdMachine) -> None:
    for pid, name in ((70, "rdcd"), (71, "gpuagent"), (72, "python3")):
        node.put(f"/proc/{pid}/comm", f"{name}\n")
        node.put(f"/proc/{pid}/cmdline", "")
        node.put(f"/proc/{pid}/status", "Uid:\t997\t997\t997\t997\n")
        node.link(f"/proc/{pid}/fd/3", "/dev/dri/renderD129")
        node.link(f"/proc/{pid}/fd/4", "/dev/kfd")
    assert [holder.name for holder in jobs.holders(node).found] == ["python3"]


@pytest.mark.parametrize("name", ["mi300x", "mi355x"])
def test_whole_machines_are_judged(name: str) -> None:
    host = Host(build.tree(name), hardware.MOUNTS)
    found = checks(devices.LOOKS, host, hardware.topology(host))
    verdicts = {(check.name, check.verdict) for check in found if check.name in NAMES}
    expected = {(topic.name, Verdict.PASS) for topic in topics.ALL if topic.name != "imex"}
    assert verdicts == {*expected, ("imex", Verdict.SKIP)}
