# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, nvidia_smi
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.audit import run as audit
from mlnode.checks.expect import Expectations
from mlnode.checks.model import Verdict
from mlnode.checks.rdma import node as rdma_node
from mlnode.drivers.gpu.nvidia import Nvidia
from mlnode.drivers.gpu.nvidia_query import TOPICS
from mlnode.host.system import Finished
from mlnode.model.errors import HostError
from mlnode.report.audit import report
from mlnode.topology import hardware

from .looking import look, one

FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
REASON = "clocks_event_reasons/clocks_event_reason_"
COUNTER = "clocks_event_reasons_counters/clocks_event_reasons_counters_"
PAGE = pathlib.Path(__file__).parents[7] / "docs/checks/audit.md"
UUID = "3482beb4-a3cd-48a4-9b6c-a6ba43bc59a4"


def elements(node: GpuMachine, **texts: str) -> None:
    """Of the second GPU; __ stands for a slash."""
    details = node.details[SECOND]
    assert details is not None
    details.update({path.replace("__", "/"): text for path, text in texts.items()})


# -- whether all answer --------------------------------------------------------------------


def test_a_gpu_that_does_not_answer(node: GpuMachine) -> None:
    assert one(node, "gpu_answering").found == "2 of 2 on PCI"
    node.details[SECOND] = None
    check = one(node, "gpu_answering")
    assert (check.verdict, check.found) == (Verdict.FAIL, f"1 of 2 on PCI, and not {SECOND}")
    assert ("gpu_clocks", f"GPU {SECOND}") not in look(node)


def test_a_gpu_of_a_guest_is_not_missed(node: GpuMachine) -> None:
    node.add("0000:1d:00.0", driver="vfio-pci")
    node.details["0000:1d:00.0"] = None
    check = one(node, "gpu_answering")
    assert (check.verdict, check.found) == (Verdict.PASS, "2 of 2 on PCI; 1 with another driver")


@cases.table
def test_an_answer_that_is_none(node: GpuMachine, text: str, words: str) -> None:
    node.answer = Finished(0, text, "")
    for topic in TOPICS:
        check = one(node, topic.name)
        assert check.verdict is Verdict.UNKNOWN
        assert words in check.found


@pytest.mark.parametrize("outputs", [("{}\n", ""), ("", "{}\n")])
def test_a_gpu_that_has_fallen_off_the_bus(node: GpuMachine, outputs: tuple[str, str]) -> None:
    """The tool complains on either of its outputs, and ends with a status of its own."""
    complaint = f"Unable to determine the device handle for GPU1: {SECOND}: Unknown Error"
    node.answer = Finished(15, *(text.format(complaint) for text in outputs))
    check = one(node, "gpu_answering")
    assert check.verdict is Verdict.FAIL
    assert complaint in check.found
    for name in ("gpu_clocks", "gpu_recovery", "imex"):
        assert one(node, name).verdict is Verdict.UNKNOWN
        assert complaint in one(node, name).found


def test_without_the_tool_nothing_is_judged(node: GpuMachine) -> None:
    node.installed = False
    for topic in TOPICS:
        check = one(node, topic.name)
        assert (check.verdict, check.found) == (Verdict.SKIP, "nvidia-smi is not installed")


def test_accelerators_of_another_vendor_are_not_passed_over(node: GpuMachine) -> None:
    node.add("0000:41:00.0", "0x1da3", "habanalabs")
    node.put("/sys/bus/pci/devices/0000:41:00.0/class", "0x120000\n")
    check = one(node, "gpu_answering", "Habana GPUs")
    assert (check.verdict, check.found) == (Verdict.SKIP, "nothing here reads this of GPUs of Habana")
    assert one(node, "gpu_answering").verdict is Verdict.PASS


# -- clocks --------------------------------------------------------------------------------


@cases.table
def test_reasons_for_lower_clocks(
    node: GpuMachine, name: str, verdict: str, severity: str, found: str
) -> None:
    elements(node, **{f"{REASON}{name}": nvidia_smi.ACTIVE})
    check = one(node, "gpu_clocks", f"GPU {SECOND}")
    assert (str(check.verdict), str(check.severity), check.found) == (verdict, severity, found)
    assert one(node, "gpu_clocks", f"GPU {FIRST}").verdict is Verdict.PASS


def test_time_with_lower_clocks_is_reported_and_not_judged(node: GpuMachine) -> None:
    elements(node, **{f"{COUNTER}hw_therm_slowdown": "12500000 us", f"{COUNTER}sw_power_cap": "99999999 us"})
    check = one(node, "gpu_clocks", f"GPU {SECOND}")
    assert check.verdict is Verdict.PASS
    assert check.found == "active: gpu_idle; hw_therm_slowdown 12 s since the driver was loaded"


def test_a_driver_without_reasons(node: GpuMachine) -> None:
    node.details[SECOND] = {"product_name": "Tesla K80"}
    assert one(node, "gpu_clocks", f"GPU {SECOND}").verdict is Verdict.UNKNOWN
    assert one(node, "gpu_fabric", f"GPU {SECOND}").verdict is Verdict.SKIP
    assert one(node, "gpu_recovery", f"GPU {SECOND}").verdict is Verdict.SKIP


# -- NVLink's fabric -----------------------------------------------------------------------


@cases.table
def test_the_registration_with_the_fabric(
    node: GpuMachine, texts: dict[str, str], verdict: str, found: str
) -> None:
    paths = {f"fabric/{name}".replace("fabric/../", ""): text for name, text in texts.items()}
    elements(node, **paths)
    check = one(node, "gpu_fabric", f"GPU {SECOND}")
    assert (str(check.verdict), check.found) == (verdict, found)


def test_a_fabric_manager_that_runs_is_not_named(node: GpuMachine) -> None:
    elements(node, fabric__state="Not Started")
    node.put("/sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs", "77\n")
    assert one(node, "gpu_fabric", f"GPU {SECOND}").found == "Not Started"


# -- what waits for a reset ----------------------------------------------------------------


@cases.table
def test_what_waits_for_a_reset(node: GpuMachine, path: str, text: str, verdict: str, severity: str) -> None:
    elements(node, **{path: text})
    check = one(node, "gpu_recovery", f"GPU {SECOND}")
    assert (str(check.verdict), str(check.severity)) == (verdict, severity)
    assert text in check.found


def test_pages_of_a_gpu_without_rows_or_an_action(node: GpuMachine) -> None:
    """As V100 and T4."""
    for text, verdict in (("No", Verdict.PASS), ("Yes", Verdict.WARN)):
        node.details[SECOND] = {"product_name": "Tesla V100", "retired_pages/pending_retirement": text}
        check = one(node, "gpu_recovery", f"GPU {SECOND}")
        assert (check.verdict, check.found) == (verdict, f"no action reported, pending_retirement {text}")


@cases.table
def test_the_words_of_an_older_driver(node: GpuMachine, name: str, verdict: str, found: str) -> None:
    node.details[SECOND] = dict(nvidia_smi.OLDER)
    elements(node, **({f"gpu_reset_status/{name}": "Yes"} if name else {}))
    check = one(node, "gpu_recovery", f"GPU {SECOND}")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert one(node, "gpu_clocks", f"GPU {SECOND}").found == "none active"
    elements(node, clocks_throttle_reasons__clocks_throttle_reason_hw_slowdown=nvidia_smi.ACTIVE)
    assert one(node, "gpu_clocks", f"GPU {SECOND}").verdict is Verdict.FAIL


@cases.table
def test_the_power_cap_of_a_driver_before_530(node: GpuMachine, cap: str, verdict: str, found: str) -> None:
    elements(node, power_readings__power_limit=cap, power_readings__default_power_limit="400.00 W")
    elements(node, **dict.fromkeys(_POWER, "N/A"))
    check = one(node, "gpu_power_cap", f"GPU {SECOND}")
    assert (str(check.verdict), check.found) == (verdict, found)


#: Elements that such a driver lacks
_POWER = ("gpu_power_readings__current_power_limit", "gpu_power_readings__default_power_limit")


def test_a_normal_reason_that_a_driver_no_longer_reports(node: GpuMachine) -> None:
    elements(node, **{f"{REASON}applications_clocks_setting": "Requested functionality has been deprecated"})
    assert one(node, "gpu_clocks", f"GPU {SECOND}").verdict is Verdict.PASS
    elements(node, **{f"{REASON}hw_slowdown": "Requested functionality has been deprecated"})
    assert one(node, "gpu_clocks", f"GPU {SECOND}").verdict is Verdict.UNKNOWN


# -- alike ---------------------------------------------------------------------------------


@cases.table
def test_gpus_that_are_alike(node: GpuMachine, name: str, texts: list[str], verdict: str, found: str) -> None:
    """texts: an element of the first GPU, its text, and that of the second."""
    path, first, second = texts
    for details, text in zip(node.details.values(), (first, second)):
        assert details is not None
        details.update({"gpu_power_readings/default_power_limit": "700.00 W", path: text})
    check = one(node, name, "node" if name == "gpu_versions" else f"GPU {SECOND}")
    assert (str(check.verdict), check.found) == (verdict, found)


#: What the tool prints for a value that the driver did not get
_NO_VALUE = "Unknown Error"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpu_clocks", "clocks_event_reasons/clocks_event_reason_hw_slowdown"),
        ("gpu_recovery", "gpu_recovery_action"),
        ("gpu_recovery", "gpu_reset_status/reset_required"),
        ("gpu_recovery", "remapped_rows/remapped_row_failure"),
        ("gpu_recovery", "remapped_rows/remapped_row_pending"),
        ("gpu_recovery", "retired_pages/pending_retirement"),
        ("gpu_recovery", "ecc_errors/channel_repair_pending"),
        ("gpu_recovery", "ecc_errors/unrepairable_memory"),
        ("gpu_power_cap", "gpu_power_readings/current_power_limit"),
        ("gpu_partition", "mig_mode/current_mig"),
        ("gpu_versions", "vbios_version"),
    ],
)
@pytest.mark.parametrize("text", [_NO_VALUE, "ERR!", "\u0662"])
def test_a_value_that_the_driver_did_not_get_is_unknown(
    node: GpuMachine, name: str, path: str, text: str
) -> None:
    for details in node.details.values():
        assert details is not None
        if path.startswith("gpu_reset_status/"):
            del details["gpu_recovery_action"]
            details["gpu_reset_status/drain_and_reset_recommended"] = "No"
        details[path] = text
    check = one(node, name, "node" if name == "gpu_versions" else f"GPU {SECOND}")
    assert check.verdict is Verdict.UNKNOWN, check.found


def test_a_gpu_of_another_model_has_its_own_firmware(node: GpuMachine) -> None:
    """Such as one for a monitor."""
    elements(node, vbios_version="94.02.00.00.01")
    assert one(node, "gpu_versions").verdict is Verdict.WARN
    elements(node, product_name="NVIDIA T400")
    check = one(node, "gpu_versions")
    assert (check.verdict, check.found) == (
        Verdict.PASS,
        "vbios 96.00.61.00.01 (1), 94.02.00.00.01 (1)",
    )


def test_nodes_are_compared_without_the_tool(node: GpuMachine) -> None:
    for address, bios in ((FIRST, "96.00.61.00.01"), (SECOND, "96.00.61.00.02")):
        text = f"Model: \t\t NVIDIA H100 80GB HBM3\nVideo BIOS: \t {bios}\nDevice Minor: \t 0\n"
        node.put(f"/proc/driver/nvidia/gpus/{address}/information", text)
    words = "nvidia 570.86.15, vbios 96.00.61.00.01, 96.00.61.00.02"
    assert Nvidia().alike(node, []) == words
    assert node.asked == []
    node.put("/proc/driver/nvidia/version", "NVRM version: none\n")
    with pytest.raises(HostError, match="it names no version"):
        Nvidia().alike(node, [])


def test_a_vendor_without_its_driver_hides_no_versions_of_another(node: GpuMachine) -> None:
    node.add("0000:41:00.0", "0x1002", "vfio-pci")
    text = "Model: \t\t NVIDIA H100 80GB HBM3\nVideo BIOS: \t 96.00.61.00.01\n"
    node.put(f"/proc/driver/nvidia/gpus/{FIRST}/information", text)
    checks = rdma_node.checks(node, hardware.topology(node), Expectations())
    (check,) = [check for check in checks if check.name == "gpu_versions"]
    assert check.value == (
        "nvidia 570.86.15, vbios 96.00.61.00.01; "
        "/sys/module/amdgpu does not exist: AMD's driver is not loaded"
    )


# -- memory that nodes share over NVLink ---------------------------------------------------


def domain(state: str, **nodes: str) -> str:
    """As nvidia-imex-ctl -N -j prints it, of nodes 10.0.0.N."""
    members = {
        str(number): {"status": status, "host": f"10.0.0.{number}", "connections": {}}
        for number, status in enumerate(nodes.values(), 1)
    }
    return json.dumps({"nodes": members, "timestamp": "9/4/2026 00:37:39.905", "status": state})


@pytest.fixture
def nvl(node: GpuMachine) -> GpuMachine:
    """A node of a domain of several, with its service and a channel."""
    elements(node, fabric__clusterUuid=UUID)
    node.imex = domain("UP", a="READY", b="READY")
    node.put("/dev/nvidia-caps-imex-channels/channel0", "")
    return node


def test_a_node_without_a_domain_needs_no_service(node: GpuMachine) -> None:
    assert one(node, "imex").found == "no GPU here shares an NVLink domain with other nodes"


@cases.table
def test_the_domain(nvl: GpuMachine, answer: str, verdict: str, found: str) -> None:
    nvl.imex = answer
    check = one(nvl, "imex")
    assert str(check.verdict) == verdict
    assert found in check.found


@pytest.mark.parametrize("state", ["UP", "DEGRADED"])
def test_unavailable_nodes_of_a_domain_are_named(nvl: GpuMachine, state: str) -> None:
    """A rack. Several daemons may have one address, and the state of the last does not hide the others'."""
    hosts = {str(number): f"rack7-n{number}" for number in range(1, 19)}
    members = {
        number: {"status": "UNAVAILABLE" if number in ("3", "17") else "READY", "host": host}
        for number, host in hosts.items()
    }
    members["4"] = {"status": "UNAVAILABLE", "host": "fd00::4", "version": "580.65.06"}
    members["18"] = {"status": "READY", "host": "fd00::4", "connections": {}}
    nvl.imex = json.dumps({"status": state, "nodes": members})
    check = one(nvl, "imex")
    assert check.verdict is Verdict.FAIL
    named = "not rack7-n3 UNAVAILABLE, fd00::4 UNAVAILABLE, rack7-n17 UNAVAILABLE"
    assert check.found == f"{state}, 15 of 18 nodes READY, and {named}"


def test_a_domain_without_a_channel(nvl: GpuMachine) -> None:
    nvl.remove("/dev/nvidia-caps-imex-channels/channel0")
    check = one(nvl, "imex")
    assert check.verdict is Verdict.FAIL
    assert check.found == "UP, 2 of 2 nodes READY; no channel is in /dev/nvidia-caps-imex-channels"
    assert "NVreg_CreateImexChannel0=1" in check.advice


def test_a_service_that_is_not_on_the_node_may_be_in_pods(nvl: GpuMachine) -> None:
    nvl.imex = None
    check = one(nvl, "imex")
    assert check.verdict is Verdict.SKIP
    assert "in the pods of jobs" in check.found


def test_the_page_shows_what_is_printed(tmp_path: pathlib.Path) -> None:
    node = GpuMachine.of(str(tmp_path / "eight"), 8)
    heat = {
        f"{REASON}hw_thermal_slowdown": nvidia_smi.ACTIVE, f"{COUNTER}hw_therm_slowdown": "5412000000 us",
    }  # fmt: skip
    for address, texts in {
        "0000:1e:00.0": heat,
        "0000:1f:00.0": {"fabric/state": "In Progress"},
        "0000:20:00.0": {"remapped_rows/remapped_row_pending": "Yes"},
    }.items():
        node.details[address] = {**nvidia_smi.WELL, **texts}
    node.details["0000:22:00.0"] = None
    names = {topic.name for topic in TOPICS}
    printed = report([check for check in audit.all_checks(node) if check.name in names], 110)
    blocks = [block for block in printed.split("\n\n") if block.startswith(("HIGH", "MEDIUM"))]
    assert len(blocks) == 4
    page = PAGE.read_text(encoding="utf-8")
    shown = [block.split()[1].rstrip(",") for block in blocks if block in page]
    assert shown == ["gpu_answering"]
