# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import VERSION, GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.service_machine import UNITS, WANTS
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.gpu import nvidia_smi as nvidia
from mlnode.drivers.gpu.nvidia import Nvidia
from mlnode.engine import engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.knobs.gpu.kind import KEY
from mlnode.knobs.gpu.kind import kind as gpu
from mlnode.model.errors import HostError, RefusedError
from mlnode.model.setting import Layer, Status

DAEMON = Nvidia.DAEMON
FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
START = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> GpuMachine:
    return GpuMachine.of(str(tmp_path / "node"), 2)


def row(host: Host, persistence: bool = True, layers: tuple[Layer, ...] = tuple(Layer)) -> Row:
    host.forget()
    [found] = engine.evaluate(host, Request("training", gpu, {"persistence": persistence}, layers)).rows
    return found


def apply(host: Host, persistence: bool = True) -> engine.Outcome:
    host.forget()
    return door.apply(host, Request("training", gpu, {"persistence": persistence}))


def test_the_driver_keeps_the_mode_where_there_is_no_daemon(node: GpuMachine) -> None:
    node.modes[SECOND] = "Enabled"
    before = row(node)
    assert before.status is Status.DRIFTED
    assert before.reason.startswith("runtime is off: 0; on: 1")
    done = apply(node)
    [now] = done.rows
    assert (now.status, now.reading.boot.source) == (Status.CHANGED, "mlnode-apply.service")
    assert node.modes == {FIRST: "Enabled", SECOND: "Enabled"}
    assert [asked for asked in node.asked if "-pm" in asked] == [("nvidia-smi", "-i", FIRST, "-pm", "1")]
    assert not apply(node).changed
    revert.revert(node)
    assert node.modes == {FIRST: "Disabled", SECOND: "Enabled"}


def test_the_daemon_runs_where_it_is_installed(node: GpuMachine) -> None:
    node.install(DAEMON, enabled=False, runs=False, text=START)
    assert row(node).reading.runtime.text == "off; nvidia-persistenced is stopped"
    apply(node)
    assert node.runs(DAEMON)
    assert row(node).reading.boot.source == "mlnode-apply.service"
    revert.revert(node)
    assert not node.runs(DAEMON)
    assert {*node.modes.values()} == {"Disabled"}


@pytest.mark.parametrize(("option", "source"), [("", f"{WANTS}/{DAEMON}"), (" --no-persistence-mode", None)])
def test_a_daemon_that_is_enabled_brings_it_at_boot(
    node: GpuMachine, option: str, source: str | None
) -> None:
    node.install(DAEMON, text=f"{START}{option}\n")
    apply(node)
    assert row(node).reading.boot.source == (source or "mlnode-apply.service")


def test_off_while_the_daemon_brings_on(node: GpuMachine) -> None:
    node.install(DAEMON, text=START)
    found = row(node, False)
    assert found.status is Status.OVERRIDDEN
    assert found.reason == f"boot: {WANTS}/{DAEMON} sets on"


def test_a_masked_daemon_is_none(node: GpuMachine) -> None:
    node.install(DAEMON, runs=False, text=START)
    node.link(f"/etc/systemd/system/{DAEMON}", "/dev/null")
    apply(node)
    assert not node.runs(DAEMON)
    assert row(node).status is Status.OK


def test_what_is_no_such_node(tmp_path: pathlib.Path) -> None:
    bare = row(GpuMachine.of(str(tmp_path / "bare"), 0))
    assert (bare.status, bare.reason) == (Status.UNSUPPORTED, "there is no GPU here")
    other = row(GpuMachine.of(str(tmp_path / "other"), 1, "0x8086"))
    assert (other.status, other.reason) == (
        Status.UNSUPPORTED,
        "no way to keep GPUs of Intel awake is known",
    )


@pytest.fixture
def amd(tmp_path: pathlib.Path) -> GpuMachine:
    """Two GPUs whose driver has no tool for it: the kernel's runtime power management decides."""
    machine = GpuMachine.of(str(tmp_path / "amd"), 0)
    machine.put("/sys/module/amdgpu/initstate", "live\n")
    for address, mode in ((FIRST, "auto"), (SECOND, "on")):
        machine.add(address, "0x1002", "amdgpu")
        machine.put(f"/sys/bus/pci/devices/{address}/power/control", f"{mode}\n")
    return machine


def modes(machine: GpuMachine) -> list[str]:
    machine.forget()
    return [
        machine.text(f"/sys/bus/pci/devices/{address}/power/control").strip() for address in (FIRST, SECOND)
    ]


def test_power_management_of_the_kernel_is_set_and_undone(amd: GpuMachine) -> None:
    assert row(amd).reason.startswith("runtime is off: 0; on: 1")
    done = apply(amd)
    assert [now.status for now in done.rows] == [Status.CHANGED]
    assert modes(amd) == ["on", "on"]
    assert not apply(amd).changed
    assert row(amd).status is Status.OK
    assert apply(amd, False).changed
    assert modes(amd) == ["auto", "auto"]
    assert row(amd, False).reading.runtime.text == "off"
    revert.revert(amd)
    assert modes(amd) == ["auto", "on"]
    assert amd.asked == []


@pytest.mark.parametrize("text", ["", "sleep\n", "o", "\udcff\n", "on" * 40000])
def test_a_strange_word_of_power_management_is_unknown(amd: GpuMachine, text: str) -> None:
    amd.put(f"/sys/bus/pci/devices/{FIRST}/power/control", text.encode("utf-8", "surrogateescape"))
    assert row(amd).status is Status.UNKNOWN


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_power_management_that_cannot_be_read_is_unknown(amd: GpuMachine, number: int) -> None:
    amd.unreadable[f"/sys/bus/pci/devices/{FIRST}/power/control"] = number
    assert row(amd).status is Status.UNKNOWN


def test_gpus_of_two_vendors_are_one_row(amd: GpuMachine) -> None:
    amd.put("/proc/driver/nvidia/version", VERSION)
    amd.add("0000:2b:00.0")
    amd.modes = {"0000:2b:00.0": "Disabled"}
    assert apply(amd).changed
    assert (modes(amd), amd.modes) == (["on", "on"], {"0000:2b:00.0": "Enabled"})
    amd.installed = False
    assert row(amd).reason == "nvidia-smi is not installed"


@pytest.mark.parametrize("agent", [True, False])
def test_a_daemon_brings_nothing_for_gpus_of_another_vendor(amd: GpuMachine, agent: bool) -> None:
    amd.put("/proc/driver/nvidia/version", VERSION)
    amd.add("0000:2b:00.0")
    amd.modes = {"0000:2b:00.0": "Enabled"}
    amd.install(DAEMON, text=START)
    apply(amd)
    if not agent:
        amd.remove("/etc/systemd/system/multi-user.target.wants/mlnode-apply.service")
    on, off = row(amd), row(amd, False)
    assert on.status is (Status.OK if agent else Status.DRIFTED)
    assert off.reading.boot.source == f"{WANTS}/{DAEMON}"


def test_without_driver_tool_or_mode(node: GpuMachine) -> None:
    node.modes = {FIRST: "[N/A]", SECOND: "[N/A]"}
    found = row(node)
    assert found.status is Status.UNSUPPORTED
    assert found.reason == f"GPU {FIRST} has no persistence mode; GPU {SECOND} has no persistence mode"
    node.installed = False
    assert row(node).reason == "nvidia-smi is not installed"
    node.remove("/proc/driver/nvidia/version")
    assert row(node).reason == "/proc/driver/nvidia/version does not exist: NVIDIA's driver is not loaded"


def test_one_without_the_mode_beside_others_is_said(node: GpuMachine) -> None:
    node.modes[SECOND] = "[N/A]"
    apply(node)
    assert row(node).reason == f"GPU {SECOND} has no persistence mode"


def test_a_gpu_that_the_tool_does_not_show_is_unknown(node: GpuMachine) -> None:
    del node.modes[SECOND]
    found = row(node)
    assert found.status is Status.UNKNOWN
    assert found.reason == (
        f"nvidia-smi does not show GPU {SECOND}: it may have failed (look for Xid in dmesg)"
    )


def test_a_gpu_of_a_guest_is_left_out(node: GpuMachine) -> None:
    node.add("0000:2b:00.0", driver="vfio-pci")
    del node.modes["0000:2b:00.0"]
    apply(node)
    assert row(node).reason == "GPU 0000:2b:00.0 belongs to vfio-pci"


@cases.table
def test_nonsense_and_failure_leave_it_unknown(node: GpuMachine, answer: list[Any], words: str) -> None:
    node.answer = Finished(*answer)
    found = row(node)
    assert found.status is Status.UNKNOWN
    assert words in found.reason


def test_a_tool_that_hangs(node: GpuMachine) -> None:
    node.hangs = True
    found = row(node)
    assert (found.status, found.reason) == (Status.UNKNOWN, "cannot run nvidia-smi: no answer in 60 s")


def test_what_one_gpu_refuses_the_others_have(node: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = node.run

    def run(command: Any, seconds: float = 60) -> Finished:
        if list(command[1:3]) == ["-i", SECOND]:
            return Finished(3, "", "Insufficient Permissions\n")
        return outer(command, seconds)

    monkeypatch.setattr(node, "run", run)
    with pytest.raises(RefusedError, match=f"{SECOND}.*Insufficient Permissions"):
        apply(node)
    assert sorted(node.modes.values()) == ["Disabled", *["Enabled"] * (len(node.modes) - 1)]


def test_in_a_container_it_is_the_hosts(node: GpuMachine) -> None:
    node.put("/run/systemd/container", "docker\n")
    found = row(node)
    assert found.status is Status.UNSUPPORTED
    assert "container's host" in found.reason


def test_a_captured_tree_has_the_answer_or_says_that_it_has_none(node: GpuMachine) -> None:
    found = row(captured(node.root, gpu.MOUNTS))
    assert found.status is Status.UNKNOWN
    assert "is a captured tree, not a machine" in found.reason
    node.put(nvidia.CAPTURED, f"0, 0000{FIRST.upper()}, Enabled\n1, 0000{SECOND.upper()}, Enabled\n")
    assert row(captured(node.root, gpu.MOUNTS)).reading.runtime.text == "on"


def test_the_files(node: GpuMachine) -> None:
    assert node.names("/gpu") == [FIRST, SECOND]
    assert node.names(f"/gpu/{FIRST}") == ["persistence"]
    assert node.exists(f"/gpu/{FIRST}/persistence")
    assert not node.exists("/gpu/0000:ff:00.0")
    assert node.value("/gpu/0000:ff:00.0/persistence").absent == "nvidia-smi shows no GPU 0000:ff:00.0"
    assert node.value(f"/gpu/{FIRST}/ecc").absent == f"/gpu/{FIRST}/ecc does not exist"
    with pytest.raises(HostError, match="EINVAL"):
        node.write_kernel(f"/gpu/{FIRST}/persistence", "maybe")
    with pytest.raises(HostError, match="does not exist"):
        node.write_kernel("/gpu/-h/persistence", "on")


def test_domains_of_both_spellings() -> None:
    text = "0, 00000000:1B:00.0, Enabled\n1, 0000:1C:00.0, Enabled\n2, 00010000:E1:00.0, Enabled\n\n"
    assert [*nvidia.rows(text, 1)] == [FIRST, SECOND, "10000:e1:00.0"]


@given(st.text(max_size=80))
def test_any_answer_is_a_table_or_an_error(text: str) -> None:
    try:
        found = nvidia.rows(text, 1)
    except HostError:
        return
    assert all(len(words) == 1 for words in found.values())


def test_an_explanation_tells_how_the_daemon_is_started(node: GpuMachine) -> None:
    node.install(DAEMON, text=START)
    assert gpu.boot_sources(KEY, node) == [
        f"{WANTS}/{DAEMON} starts it",
        f"{UNITS}/{DAEMON}:2: ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced",
    ]
