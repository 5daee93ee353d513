# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of one's own that GRUB starts by default, which nothing we write can reach."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import MENU, GrubMachine, menu, sourced
from mlnode.agent import node
from mlnode.engine import engine
from mlnode.engine.kind import Row
from mlnode.knobs.boot import kind as boot
from mlnode.model.setting import Status

ENVIRONMENT = "/boot/grub/grubenv"
SET = 'set default="0"'
SAVED = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${saved_entry}"
fi"""
REQUEST = engine.Request("default", boot, {"parameters": {"iommu": "pt"}})


class Chosen(GrubMachine):
    """default: how 00_header begins."""

    default = SET

    def write_menu(self) -> None:
        self.updates += 1
        text = menu(*sourced(self.root))
        assert text.count(SET) == 1
        self.put(MENU, text.replace(SET, self.default))


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Chosen:
    found = Chosen.debian_with_grub(str(tmp_path / "node"))
    assert isinstance(found, Chosen)
    return found


def chosen(machine: Chosen, default: str, **environment: str) -> Row:
    """The row after a run, and after the reboot that it asks for."""
    machine.default = default
    lines = "".join(f"{name}={value}\n" for name, value in environment.items())
    machine.put(ENVIRONMENT, f"# GRUB Environment Block\n{lines}###")
    machine.write_menu()
    engine.apply(machine, REQUEST)
    machine.reboot()
    (row,) = engine.evaluate(machine, REQUEST).rows
    return row


def line_of_installer(machine: Chosen) -> str:
    lines = machine.read(MENU).splitlines()
    return f"{MENU}:{next(number for number, line in enumerate(lines, 1) if 'vmlinuz-installer' in line)}"


@pytest.mark.parametrize(
    ("default", "environment"),
    [
        ('set default="Installer"', {}),
        ('set default="4"', {}),
        (SAVED, {"saved_entry": "Installer"}),
        (SAVED, {"saved_entry": "0", "next_entry": "Installer"}),
    ],
    ids=["title", "number", "saved", "next"],
)
def test_an_entry_of_ones_own_overrides(machine: Chosen, default: str, environment: dict[str, str]) -> None:
    row = chosen(machine, default, **environment)
    assert row.status is Status.OVERRIDDEN
    assert row.reading.boot.foreign
    assert row.reading.boot.source == line_of_installer(machine)
    assert "have GRUB_DEFAULT (grub-set-default) name a generated entry" in (
        row.reading.boot.value.absent or ""
    )
    assert not node.survey(machine).compliant
    updates = machine.updates
    engine.apply(machine, REQUEST)
    assert machine.updates == updates, "a new menu would not help"


@pytest.mark.parametrize(
    ("default", "environment"),
    [
        (SET, {}),
        ('set default="Debian GNU/Linux"', {}),
        ('set default="gnulinux-simple-1111"', {}),
        ('set default="gnulinux-advanced-1111>gnulinux-6.12.0-advanced-1111"', {}),
        ('set default="1>0"', {}),
        ('set default="1>1"', {}),
        ('set default="Advanced options for Debian GNU/Linux>gnulinux-6.12.0-recovery-1111"', {}),
        ('set default="osprober-gnulinux-simple-2222"', {}),
        ('set default="Memory test (memtest86+x64.bin)"', {}),
        ('set default="gone since"', {}),
        ('set default="99999999999"', {}),
        ("", {}),
        (SAVED, {}),
        (SAVED, {"saved_entry": "0", "next_entry": ""}),
    ],
)
def test_a_generated_entry_is_what_we_write(
    machine: Chosen, default: str, environment: dict[str, str]
) -> None:
    assert chosen(machine, default, **environment).status is Status.OK


def test_an_entry_of_ones_own_that_has_the_words_is_right(machine: Chosen) -> None:
    class Given(Chosen):
        def write_menu(self) -> None:
            super().write_menu()
            self.put(MENU, self.read(MENU).replace("auto=true", "auto=true iommu=pt"))

    given = Given(machine.root)
    assert chosen(given, 'set default="Installer"').status is Status.OK
