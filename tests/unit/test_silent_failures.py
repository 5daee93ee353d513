# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools for tuning are known to do and not to notice: a file is written, a command ends well, and the
node is not what was meant. Here each is a status with its reason."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DROP_INS, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import disk
from mlnode.agent import node, node_report
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import Status
from mlnode.report import table


def request(kind: str, spec: dict[str, Any]) -> Request:
    return door.request("site", kind, spec)


def look(machine: Machine, kind: str, spec: dict[str, Any]) -> dict[str, Row]:
    machine.forget()
    return {row.setting.key: row for row in engine.evaluate(machine, request(kind, spec)).rows}


def applied(machine: Machine, kind: str, spec: dict[str, Any]) -> dict[str, Row]:
    machine.forget()
    door.apply(machine, request(kind, spec))
    return look(machine, kind, spec)


def debian(folder: pathlib.Path) -> Machine:
    machine = Machine.debian(str(folder))
    machine.enable_agent()
    return machine


def test_a_drop_in_on_the_wrong_unit(tmp_path: pathlib.Path) -> None:
    """Slurm's daemon is slurmd: systemd reads slurm.service.d for a unit that does not exist."""
    machine = LimitsMachine.node(str(tmp_path))
    machine.unit("slurmd")
    machine.put("/etc/systemd/system/slurm.service.d/memlock.conf", "[Service]\nLimitMEMLOCK=infinity\n")
    found = look(machine, "limits", {"memlock": "unlimited", "services": ["slurmd"], "defaults": False})
    row = found["limits.services.memlock"]
    assert row.status is Status.DRIFTED
    assert "slurmd" in row.reason
    assert "slurm.service.d" not in row.reason


def test_a_drop_in_that_a_later_one_takes_back(tmp_path: pathlib.Path) -> None:
    machine = LimitsMachine.node(str(tmp_path))
    machine.unit("slurmd")
    spec = {"memlock": "unlimited", "services": ["slurmd"], "defaults": False}
    later = "/etc/systemd/system/slurmd.service.d/zzz.conf"
    machine.put(later, "[Service]\nLimitMEMLOCK=8M\n")
    row = applied(machine, "limits", spec)["limits.services.memlock"]
    assert row.status is Status.OVERRIDDEN
    assert f"{later}:2" in row.reason


def test_a_huge_page_size_that_the_kernel_does_not_have(tmp_path: pathlib.Path) -> None:
    """A kernel with pages of 64 KiB has 2 MiB, 512 MiB and 16 GiB, and drops hugepagesz=1G."""
    machine = debian(tmp_path)
    for size in ("2048kB", "524288kB", "16777216kB"):
        machine.put(f"/sys/devices/system/node/node0/hugepages/hugepages-{size}/nr_hugepages", "0\n")
    key = "vm.nr_hugepages@node0/1048576kB"
    row = look(machine, "sysctl", {"settings": {key: 8}})[key]
    assert row.status is Status.UNSUPPORTED
    assert "hugepages-1048576kB" in row.reason
    row = look(machine, "thp", {"sizes": {"128kB": {"enabled": "madvise"}}})["thp.hugepages-128kB.enabled"]
    assert row.status is Status.UNSUPPORTED
    assert "sizes here: 2048kB, 64kB" in row.reason


def test_an_argument_of_the_kernel_that_is_there_twice(tmp_path: pathlib.Path) -> None:
    """A search finds the wanted one, and the kernel takes the last."""
    machine = GrubMachine.debian_with_grub(str(tmp_path))
    spec = {"parameters": {"transparent_hugepage": "madvise"}}
    applied(machine, "boot", spec)
    late = f"{DROP_INS}/zzz-cloud.cfg"
    machine.put(late, 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX transparent_hugepage=always"\n')
    machine.write_menu()
    machine.reboot()
    assert "transparent_hugepage=madvise" in machine.now("/proc/cmdline").split()
    row = look(machine, "boot", spec)["boot.transparent_hugepage"]
    assert row.status is Status.OVERRIDDEN
    assert "runtime is transparent_hugepage=madvise transparent_hugepage=always" in row.reason
    assert f"{late}:1" in row.reason


def test_every_argument_twice_with_one_value_is_right_and_said(tmp_path: pathlib.Path) -> None:
    machine = GrubMachine.debian_with_grub(str(tmp_path))
    spec = {"parameters": {"numa_balancing": "disable"}}
    assert applied(machine, "boot", spec)["boot.numa_balancing"].status is Status.PENDING_REBOOT
    machine.reboot()
    row = look(machine, "boot", spec)["boot.numa_balancing"]
    assert (row.status, row.reason) == (Status.OK, "")
    machine.put("/proc/cmdline", f"{machine.now('/proc/cmdline')} numa_balancing=disable\n")
    reason = "given 2 times in /proc/cmdline"
    row = look(machine, "boot", spec)["boot.numa_balancing"]
    assert (row.status, row.reason) == (Status.OK, reason)
    # As `mlnode check --json` and `mlnode status` have it
    settings = node_report.settings(node.survey(machine))
    assert [(one["key"], one["status"], one["reason"]) for one in settings] == [
        ("boot.numa_balancing", "ok", reason)
    ]
    assert f"  ok      {reason}" in table.render(settings, None)


def test_parameters_that_are_declared_with_several_words_are_not_said_to_repeat(
    tmp_path: pathlib.Path,
) -> None:
    machine = GrubMachine.debian_with_grub(str(tmp_path))
    spec = {"parameters": {"console": ["tty0", "ttyS0"]}}
    applied(machine, "boot", spec)
    machine.reboot()
    row = look(machine, "boot", spec)["boot.console"]
    assert (row.status, row.reason) == (Status.OK, "")


def test_a_file_of_a_cloud_image_that_wins_at_boot(tmp_path: pathlib.Path) -> None:
    """`sysctl -p` and `sysctl -w` end well, the value is there, and the next boot takes it back."""
    machine = debian(tmp_path)
    machine.put("/etc/sysctl.d/zzz-cloud.conf", "# image\nvm.swappiness = 60\n")
    row = applied(machine, "sysctl", {"settings": {"vm.swappiness": 1}})["vm.swappiness"]
    assert machine.now("/proc/sys/vm/swappiness") == "1"
    assert row.status is Status.OVERRIDDEN
    assert "/etc/sysctl.d/zzz-cloud.conf:2 sets 60" in row.reason


def test_a_value_that_the_kernel_takes_and_does_not_keep(tmp_path: pathlib.Path) -> None:
    machine = debian(tmp_path)
    machine.ignores.add("/proc/sys/vm/swappiness")
    spec = {"settings": {"vm.swappiness": 1}}
    with pytest.raises(MlnodeError, match="the write was accepted, but the kernel now shows '60'"):
        door.apply(machine, request("sysctl", spec))
    assert look(machine, "sysctl", spec)["vm.swappiness"].status is Status.DRIFTED


def test_a_name_that_the_kernel_has_no_more(tmp_path: pathlib.Path) -> None:
    """EEVDF took kernel.sched_* away; `sysctl --system` has a line about it that no play reads."""
    key = "kernel.sched_min_granularity_ns"
    row = look(debian(tmp_path), "sysctl", {"settings": {key: 10000000}})[key]
    assert row.status is Status.UNSUPPORTED
    assert "/proc/sys/kernel/sched_min_granularity_ns" in row.reason


def test_a_governor_on_a_virtual_machine_without_cpufreq(tmp_path: pathlib.Path) -> None:
    """cpupower sets what there is, which is nothing."""
    row = look(CpuMachine.bare(str(tmp_path), "0-3"), "cpu", {"governor": "performance"})["cpu.governor"]
    assert row.status is Status.UNSUPPORTED
    assert "no cpufreq driver is loaded, as in most virtual machines" in row.reason


def test_a_governor_that_some_of_the_policies_did_not_take(tmp_path: pathlib.Path) -> None:
    """A check of cpu0 is a check of cpu0."""
    machine = CpuMachine.acpi(str(tmp_path))
    machine.enable_agent()
    applied(machine, "cpu", {"governor": "performance"})
    machine.put("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n")
    row = look(machine, "cpu", {"governor": "performance"})["cpu.governor"]
    assert (row.status, row.reason) == (Status.DRIFTED, "runtime is performance: 0; powersave: 2")


def test_a_parameter_of_a_module_that_was_loaded_before_its_file(tmp_path: pathlib.Path) -> None:
    machine = debian(tmp_path)
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "kernel/ib_core.ko:\n")
    machine.put("/sys/module/ib_core/parameters/netns_mode", "Y\n")
    row = applied(machine, "modules", {"options": {"ib_core": {"netns_mode": 0}}})[
        "module.ib_core.netns_mode"
    ]
    assert (row.status, row.reason) == (Status.PENDING_REBOOT, "runtime is Y; the next boot brings 0")


def test_a_scheduler_of_an_older_kernel(tmp_path: pathlib.Path) -> None:
    """`elevator=noop` has done nothing since Linux 5.0, and is still in guides."""
    machine = debian(tmp_path)
    disk(machine, "nvme0n1", "nvme")
    spec = {"rules": [{"name": "nvme", "devices": {"types": ["nvme"]}, "scheduler": "noop"}]}
    row = look(machine, "storage", spec)["storage.nvme.scheduler"]
    assert row.status is Status.REFUSED
    assert "does not offer 'noop', but none, mq-deadline" in row.reason


def test_a_value_that_cannot_be_read_is_neither_right_nor_wrong(tmp_path: pathlib.Path) -> None:
    machine = debian(tmp_path)
    applied(machine, "sysctl", {"settings": {"vm.swappiness": 1}})
    machine.unreadable["/proc/sys/vm/swappiness"] = 13
    row = look(machine, "sysctl", {"settings": {"vm.swappiness": 1}})["vm.swappiness"]
    assert row.status is Status.UNKNOWN
    assert "/proc/sys/vm/swappiness" in row.reason
