# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that the kernel does not know or take, before the boot and after it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import CPU, GrubMachine
from mlnode.engine import engine
from mlnode.engine.kind import Row
from mlnode.knobs.boot.kind import kind as boot
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import BOTH_LAYERS, Layer, Status

BEGIN = "Linux version 6.12.0\n"


def row(machine: GrubMachine, spec: dict[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS) -> Row:
    machine.forget()
    (found,) = engine.evaluate(machine, engine.Request("site", boot, spec, layers)).rows
    return found


def booted(machine: GrubMachine, name: str, words: str, log: str) -> Row:
    """The row of a parameter that the menu and the running kernel have, with the kernel's log."""
    machine.put("/etc/default/grub", f'GRUB_CMDLINE_LINUX_DEFAULT="{words}"\n')
    machine.write_menu()
    machine.reboot()
    machine.put("/dev/kmsg.txt", log)
    return row(machine, {"parameters": {name: words.partition("=")[2]}})


@pytest.mark.parametrize("layers", [BOTH_LAYERS, (Layer.BOOT,)])
@cases.table
def test_a_misspelt_parameter_is_an_error_before_the_boot(
    node: GrubMachine, name: str, value: Any, words: str, layers: tuple[Layer, ...]
) -> None:
    before = node.tree()
    spec = {"parameters": {name: value}}
    assert words in row(node, spec, layers).reading.invalid
    with pytest.raises(DeclarationError) as raised:
        engine.apply_together(node, lambda: [engine.Request("site", boot, spec, layers)])
    assert words in str(raised.value)
    assert name in str(raised.value)
    assert node.tree() == before


@cases.table
def test_words_that_a_newer_kernel_may_have_are_no_mistakes(node: GrubMachine, name: str, value: str) -> None:
    assert row(node, {"parameters": {name: value}}).reading.invalid == ""


@pytest.mark.parametrize("name", ["nvme_core.io_timout", "nvme-core.io-timout"])
def test_a_parameter_of_a_module_is_compared_with_those_that_it_has(node: GrubMachine, name: str) -> None:
    node.put("/sys/module/nvme_core/parameters/io_timeout", "30\n")
    found = row(node, {"parameters": {name: 60}})
    assert "did you mean nvme_core.io_timeout?" in found.reading.invalid
    assert row(node, {"parameters": {"nvme_core.io_timeout": 60}}).reading.invalid == ""
    assert row(node, {"parameters": {"nvme_core.hidden_one": 60}}).reading.invalid == ""


@cases.table
def test_a_parameter_that_a_module_did_not_take_is_drifted(node: GrubMachine, log: str) -> None:
    found = booted(node, "nvme-core.io_limit", "nvme-core.io_limit=many", f"{BEGIN}{log}\n")
    assert found.status is Status.DRIFTED
    assert log in found.reason
    other = booted(node, "nvme-core.io_limit", "nvme-core.io_limit=many", f"{BEGIN}nvme: {log[11:]}\n")
    assert other.status is Status.OK


def test_one_that_is_to_be_taken_away_may_be_misspelt(node: GrubMachine) -> None:
    assert row(node, {"absent": ["transparent_hugepages"]}).reading.invalid == ""


@cases.table
def test_what_the_kernel_did_not_take_has_drifted_after_the_boot(
    node: GrubMachine, name: str, words: str, line: str
) -> None:
    found = booted(node, name, words, f"{BEGIN}{line} space.\n")
    assert found.status is Status.DRIFTED
    assert line in found.reason
    assert found.reading.boot.value.text is None
    # Nothing is written again and again for it, and no reboot is asked for.
    plan = engine.evaluate(
        node, engine.Request("site", boot, {"parameters": {name: words.partition("=")[2]}})
    )
    assert not [step for step in plan.steps if type(step).__name__ == "Notify"]


def test_what_the_kernel_took_is_right(node: GrubMachine) -> None:
    log = f'{BEGIN}Unknown kernel command line parameters "splash", will be passed to user space.\n'
    assert booted(node, "iommu", "iommu=pt", log).status is Status.OK
    assert booted(node, "splash", "splash", log).status is Status.OK


def test_a_name_that_only_this_kernel_has_is_no_mistake(node: GrubMachine) -> None:
    """The kernel has it on its command line, its log is whole, and names no unknown word."""
    assert booted(node, "isolcpu", "isolcpu=6-7", BEGIN).status is Status.OK
    assert booted(node, "isolcpu", "isolcpu=6-7", "").status is Status.UNKNOWN  # a log that forgot it all


def test_a_parameter_of_a_module_that_has_it_is_no_mistake(node: GrubMachine) -> None:
    spec = {"parameters": {"intel_idle.max_cstates": 1}}
    node.put("/sys/module/intel_idle/parameters/max_cstates", "1\n")
    assert row(node, spec).reading.invalid == ""


def test_a_kernel_without_that_line_hands_the_word_to_init(node: GrubMachine) -> None:
    node.put("/proc/1/environ", "HOME=/\0TERM=linux\0site_role=a\0")
    found = booted(node, "site_role", "site_role=a", "")
    assert found.status is Status.DRIFTED
    assert "/proc/1/environ" in found.reason


def test_isolated_cpus_are_held_against_the_kernels_own_list(node: GrubMachine) -> None:
    words = "isolcpus=domain,2-3,6-7"
    assert booted(node, "isolcpus", words, BEGIN).status is Status.OK
    node.put(f"{CPU}/isolated", "\n")
    found = row(node, {"parameters": {"isolcpus": "domain,2-3,6-7"}})
    assert (found.status, f"{CPU}/isolated is empty" in found.reason) == (Status.DRIFTED, True)
    node.started("/vmlinuz isolcpus=managed_irq,2-3")
    assert booted(node, "isolcpus", "isolcpus=managed_irq,2-3,6-7", BEGIN).status is Status.OK
