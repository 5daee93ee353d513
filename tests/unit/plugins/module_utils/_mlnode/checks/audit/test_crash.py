# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a crash kernel reads of this system."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.model import Verdict
from mlnode.engine import engine
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import Status

from .looking import one

UNIT = "/usr/lib/systemd/system/kdump-tools-dump.service"
SCRIPT = "/usr/share/initramfs-tools/scripts/local-bottom/kdump-sysctl"
SITE = "/etc/sysctl.d/50-site.conf"


@pytest.fixture
def kdump(tmp_path: pathlib.Path) -> Machine:
    """128 MiB are reserved, and the dump is written from the real root."""
    machine = Machine.debian(str(tmp_path / "node"))
    machine.enable_agent()
    machine.put("/sys/kernel/kexec_crash_loaded", "1\n")
    machine.put("/sys/kernel/kexec_crash_size", f"{128 << 20}\n")
    machine.put(UNIT, "[Service]\nExecStart=/etc/init.d/kdump-tools start\n")
    return machine


@cases.table
def test_what_files_set_aside_is_judged_by_the_reservation(
    kdump: Machine, line: str, overrides: str, broken: bool, verdict: str, found: str
) -> None:
    kdump.put(SITE, f"{line}\n")
    kdump.put("/etc/kdump/sysctl.conf", f"{overrides}\n")
    kdump.put(SCRIPT, f'find "$dirs" {"-maxdepth=1" if broken else "-maxdepth 1"} -name x\n')
    check = one(kdump, "crash_kernel")
    assert check.verdict.value == verdict
    assert found in check.found


@cases.table
def test_where_none_reads_them_there_is_nothing_to_judge(
    kdump: Machine, change: dict[str, Any], found: str
) -> None:
    kdump.put(SITE, "vm.min_free_kbytes = 1048576\n")
    for path, text in change.items():
        kdump.remove(path) if text is None else kdump.put(path, text)
    check = one(kdump, "crash_kernel")
    assert (check.verdict, check.found) == (Verdict.SKIP, found)


def test_a_masked_unit_reads_nothing(kdump: Machine) -> None:
    kdump.put(SITE, "vm.min_free_kbytes = 1048576\n")
    kdump.link(f"/etc/systemd/system/{UNIT.rpartition('/')[2]}", "/dev/null")
    assert one(kdump, "crash_kernel").verdict is Verdict.SKIP


def test_a_file_that_cannot_be_read_leaves_it_unknown(kdump: Machine) -> None:
    kdump.put(SCRIPT, "")
    kdump.unreadable[SCRIPT] = 5
    assert one(kdump, "crash_kernel").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("value", "verdict", "note"), [("auto", "pass", ""), (1048576, "fail", "declare auto")]
)
def test_a_declared_number_is_said_in_its_row_too(
    kdump: Machine, value: Any, verdict: str, note: str
) -> None:
    request = engine.Request("t", sysctl, {"settings": {"vm.min_free_kbytes": value}})
    door.apply(kdump, request)
    kdump.forget()
    (row,) = engine.evaluate(kdump, request).rows
    assert one(kdump, "crash_kernel").verdict.value == verdict
    assert row.status is Status.OK
    assert (note in row.reason) if note else not row.reason
