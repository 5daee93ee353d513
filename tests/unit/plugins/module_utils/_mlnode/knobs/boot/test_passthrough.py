# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""iommu: auto, on machines with and without what it is for."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.host.host import Host
from mlnode.knobs.boot.kind import kind as boot
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Layer, Status

AUTO = Request("default", boot, {"parameters": {"iommu": "auto"}})
SNP = "/sys/module/kvm_amd/parameters/sev_snp"


class OnHardware(GrubMachine):
    """GRUB's files in a folder, and the hardware of a fixture's machine. over: files that it has, too."""

    hardware: Host
    over: tuple[str, ...] = ()

    def real(self, path: str, follow: bool = True) -> str:
        theirs = path.startswith(("/sys/", "/proc/cpuinfo")) and path not in self.over
        return self.hardware.real(path, follow) if theirs else super().real(path, follow)


def node(folder: pathlib.Path, hardware: str, kernel: str = "") -> OnHardware:
    GrubMachine.debian_with_grub(str(folder))
    machine = OnHardware(str(folder))
    machine.hardware = Host(str(tree(hardware)))
    machine.enable_agent()
    if kernel:
        machine.put("/proc/sys/kernel/osrelease", f"{kernel}\n")
    return machine


def row(machine: OnHardware, request: Request = AUTO) -> Row:
    machine.forget()
    [found] = engine.evaluate(machine, request).rows
    return found


def test_bare_metal_with_a_gpu_and_rdma_boots_with_iommu_pt(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, "hgx")
    found = row(machine)
    assert (found.setting.claim, found.reading.want, found.status) == ("auto", "iommu=pt", Status.DRIFTED)
    [done] = door.apply(machine, AUTO).rows
    assert (done.status, machine.line()) == (Status.PENDING_REBOOT, "root=UUID=1111 ro iommu=pt quiet")
    machine.reboot()
    assert row(machine).status is Status.OK


def test_what_was_given_instead_is_taken_away(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, "hgx")
    machine.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=nopt quiet"\n')
    machine.write_menu()
    machine.reboot()
    door.apply(machine, AUTO)
    assert machine.line() == "root=UUID=1111 ro iommu=pt quiet"


@cases.table
def test_arm64_gets_its_own_word_since_its_iommu_can_do_both(
    tmp_path: pathlib.Path, kernel: str, status: str, words: str
) -> None:
    machine = node(tmp_path, "grace", kernel)
    found = row(machine)
    assert found.status is Status(status)
    assert not found.reading.elsewhere
    assert words in f"{found.reason} {found.reading.want}"
    door.apply(machine, AUTO)
    assert ("iommu.passthrough=1" in machine.line().split()) == (Status(status) is Status.DRIFTED)
    if Status(status) is Status.DRIFTED:
        machine.reboot()
        assert row(machine).status is Status.OK
        assert any("iommu.passthrough=1" in line for line in boot.boot_sources("boot.iommu", machine))


@cases.table
def test_what_a_host_decides_is_left_to_it(
    tmp_path: pathlib.Path, hardware: str, marker: str, words: str
) -> None:
    machine = node(tmp_path, hardware)
    if marker:
        machine.put("/run/systemd/container", marker)
    line = machine.line()
    [found] = door.apply(machine, AUTO).rows
    assert found.status is Status.UNSUPPORTED
    assert found.reading.elsewhere
    assert words in found.reason
    assert machine.line() == line


def test_without_a_gpu_beside_rdma_nothing_is_translated_that_counts(tmp_path: pathlib.Path) -> None:
    machine = GrubMachine.debian_with_grub(str(tmp_path))
    [found] = door.apply(machine, AUTO).rows
    assert (found.status, "no RDMA device on PCIe is here" in found.reason) == (Status.UNSUPPORTED, True)
    assert found.reading.elsewhere


def test_a_host_of_protected_guests_keeps_the_translation(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, "hgx")
    machine.over = (SNP,)
    machine.put(SNP, "Y\n")
    found = row(machine)
    assert (found.status, SNP in found.reason) == (Status.UNSUPPORTED, True)
    assert not found.reading.elsewhere


@pytest.mark.parametrize(("hardware", "word"), [("hgx", "iommu=pt"), ("grace", "iommu.passthrough=1")])
def test_a_gpu_or_nic_that_is_missing_once_takes_nothing_away(
    tmp_path: pathlib.Path, hardware: str, word: str
) -> None:
    machine = node(tmp_path, hardware, "6.14.0")
    door.apply(machine, AUTO)
    machine.reboot()
    machine.over = ("/sys/class/infiniband",)
    machine.forget()
    [found] = door.apply(machine, AUTO).rows
    assert (found.status, word in machine.line().split()) == (Status.UNSUPPORTED, True)


def test_two_declarations_cannot_have_it_and_what_it_becomes(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, "grace", "6.14.0")
    door.apply(machine, AUTO._replace(name="fabric"))
    line = machine.line()
    machine.forget()
    other = Request("node", boot, {"parameters": {"iommu.passthrough": 0}})
    with pytest.raises(DeclarationError, match=r"boot\.iommu\.passthrough .* and boot\.iommu .*fabric"):
        door.apply(machine, other)
    assert machine.line() == line


def test_both_may_be_declared_by_their_words() -> None:
    spec = {"parameters": {"iommu": "force", "iommu.passthrough": 1}}
    assert [setting.want for setting in door.parse("boot", spec)] == ["iommu=force", "iommu.passthrough=1"]


def test_an_image_leaves_it_to_the_agent_of_the_machine(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, "hgx")
    image = AUTO._replace(layers=(Layer.BOOT,))
    line = machine.line()
    [found] = door.apply(machine, image).rows
    assert found.reading.want is None
    assert (found.status, machine.line()) == (Status.CHANGED, line)


def test_a_word_of_the_kernel_that_is_auto_stays_one() -> None:
    [setting] = door.parse("boot", {"parameters": {"mitigations": "auto"}})
    assert setting.want == "mitigations=auto"
