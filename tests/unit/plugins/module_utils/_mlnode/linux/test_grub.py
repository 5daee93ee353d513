# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import MENU, GrubMachine
from mlnode.engine import handlers
from mlnode.linux import grub
from mlnode.model.errors import HostError

UPDATE = "/usr/sbin/update-grub"


@pytest.fixture
def node(tmp_path: Any) -> GrubMachine:
    return GrubMachine.debian_with_grub(str(tmp_path / "node"))


def test_the_menu_is_written_anew_by_the_distributions_own_program(node: GrubMachine) -> None:
    assert grub.command(node, MENU) == (UPDATE,)
    node.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=nosmt\n")
    handlers.run(node, "boot loader")
    assert (node.updates, node.line()) == (1, "root=UUID=1111 ro nosmt")


@cases.table
def test_each_distribution_has_its_names(
    tmp_path: Any, programs: list[str], menu: str, command: tuple[str, ...] | None
) -> None:
    machine = GrubMachine(str(tmp_path))
    assert grub.config(machine) is None
    for path in (*programs, menu):
        machine.put(path, "")
    assert grub.config(machine) == menu
    assert grub.command(machine, menu) == command


def test_a_menu_without_any_kernel_is_put_back(node: GrubMachine) -> None:
    """As where /boot is not mounted: update-grub says nothing, and the machine would not start again."""
    before = node.tree()
    node.forgetful = 1
    with pytest.raises(HostError, match="found no kernel, so the old menu was put back; is /boot mounted"):
        grub.regenerate(node)
    assert node.tree() == before


def test_what_the_program_says_is_passed_on(node: GrubMachine) -> None:
    node.broken = 1
    with pytest.raises(HostError) as caught:
        grub.regenerate(node)
    assert str(caught.value) == (
        f"cannot write {MENU} with {UPDATE}: Syntax errors are detected in generated GRUB config file."
    )


def test_a_menu_that_nothing_can_write_is_an_error(node: GrubMachine) -> None:
    node.remove(UPDATE)
    node.remove("/usr/sbin/grub-mkconfig")
    with pytest.raises(HostError, match="none of /usr/sbin/update-grub, /usr/sbin/grub-mkconfig"):
        grub.regenerate(node)


def test_where_grub_is_gone_nobody_is_to_be_told(node: GrubMachine) -> None:
    node.remove(MENU)
    grub.regenerate(node)
    assert not node.exists(MENU)
