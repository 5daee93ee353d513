# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of one's own that GRUB starts by default, which nothing we write can reach."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import MENU, GrubMachine, menu, sourced
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node
from mlnode.engine import engine
from mlnode.engine.judge import waits_for_boot
from mlnode.engine.kind import Row
from mlnode.knobs.boot.kind import kind as boot
from mlnode.linux import last_boot
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
    door.apply(machine, REQUEST)
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
    door.apply(machine, REQUEST)
    assert machine.updates == updates, "a new menu would not help"


@cases.table
def test_a_generated_entry_is_what_we_write(
    machine: Chosen, default: str, environment: dict[str, str]
) -> None:
    assert chosen(machine, default, **environment).status is Status.OK


# -- files that grub.cfg sources -------------------------------------------------------------

CUSTOM = "/boot/grub/custom.cfg"
#: As 41_custom has it
SOURCES = """
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
elif [ -z "${config_directory}" -a -f  $prefix/custom.cfg ]; then
  source $prefix/custom.cfg
fi"""
PROMISED = "runtime is absent; the next boot brings iommu=pt"


class Sourcing(Chosen):
    def write_menu(self) -> None:
        super().write_menu()
        self.put(MENU, self.read(MENU) + SOURCES)


def row(machine: Chosen) -> tuple[str, str]:
    machine.forget()
    (found,) = engine.evaluate(machine, REQUEST).rows
    return str(found.status), found.reason


@pytest.fixture
def sourcing(machine: Chosen) -> Sourcing:
    found = Sourcing(machine.root)
    found.put("/proc/stat", "cpu 1\nbtime 0\n")
    door.apply(found, REQUEST)
    assert row(found) == ("pending_reboot", PROMISED)
    return found


@cases.table
def test_a_custom_file_that_chooses_nothing_else(sourcing: Sourcing, text: str) -> None:
    sourcing.put(CUSTOM, text)
    assert row(sourcing) == ("pending_reboot", PROMISED)


@cases.table
def test_an_entry_that_a_custom_file_chooses(
    sourcing: Sourcing, files: dict[str, str], where: str, place: str
) -> None:
    for path, text in files.items():
        sourcing.put(path, text)
    status, reason = row(sourcing)
    assert status == "overridden"
    assert f"{where}, the entry that GRUB starts by default ({place}), is not made by" in reason
    updates = sourcing.updates
    outcome = door.apply(sourcing, REQUEST)
    assert (sourcing.updates, waits_for_boot(outcome.rows)) == (updates, False)
    sourcing.remove(CUSTOM)
    assert row(sourcing) == ("pending_reboot", PROMISED)


@cases.table
def test_another_system_brings_nothing(sourcing: Sourcing, text: str, title: str, line: int) -> None:
    sourcing.put(CUSTOM, text)
    status, reason = row(sourcing)
    words = (
        f"GRUB starts '{title}' by default ({CUSTOM}:{line}), which starts none of this system's kernels: "
    )
    assert status == "overridden"
    assert reason.startswith(f"runtime is absent; boot: {words}")
    sourcing.reboot()  # someone has chosen this system by hand
    assert row(sourcing) == ("ok", "")


# -- a boot that did not bring it ------------------------------------------------------------


def test_a_boot_that_did_not_bring_what_was_promised_is_said_once(sourcing: Sourcing) -> None:
    """No file of GRUB says why: another disk may come first in the firmware's order."""
    sourcing.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz-other root=UUID=9 ro\n")
    sourcing.put("/proc/stat", "cpu 1\nbtime 4102444800\n")
    status, reason = row(sourcing)
    assert status == "overridden"
    assert reason.startswith(f"runtime is absent; boot: {MENU}:16 had it before the last boot, which did not")
    assert "starts another entry (BOOT_IMAGE=/vmlinuz-other). Look which one" in reason
    updates = sourcing.updates
    outcome = door.apply(sourcing, REQUEST)
    assert (sourcing.updates, waits_for_boot(outcome.rows)) == (updates, False), "no reboot would help"
    # A menu that was changed since may be the repair.
    sourcing.put("/proc/stat", "cpu 1\nbtime 0\n")
    assert row(sourcing) == ("pending_reboot", PROMISED)


def test_a_change_in_this_boot_waits_for_the_next(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/boot/grub/a", "")
    made = machine.changed("/boot/grub/a")
    assert made is not None

    def older(boot: float) -> bool:
        machine.put("/proc/stat", f"cpu 1\nbtime {int(boot)}\nprocesses 5\n")
        return last_boot.is_older(machine, ["/boot/grub/a", "/boot/grub/gone"])

    assert older(made + 60)
    assert not older(made - 60)
    # The clock went forward by an hour since it was written: the kernel moves its boot time along.
    machine.put("/run/systemd/notify", "")
    early = machine.changed("/run/systemd/notify")
    assert early is not None
    os.rename(machine.real("/boot/grub/a"), machine.real("/boot/grub/b"))
    os.rename(machine.real("/boot/grub/b"), machine.real("/boot/grub/a"))  # its time is later now
    assert not older(made + 3600)
    machine.remove("/proc/stat")
    assert not last_boot.is_older(machine, ["/boot/grub/a"])


def test_an_entry_of_ones_own_that_has_the_words_is_right(machine: Chosen) -> None:
    class Given(Chosen):
        def write_menu(self) -> None:
            super().write_menu()
            self.put(MENU, self.read(MENU).replace("auto=true", "auto=true iommu=pt"))

    given = Given(machine.root)
    assert chosen(given, 'set default="Installer"').status is Status.OK
