# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short questions to a lab machine, answered by its kernel and not by what is under test."""

from __future__ import annotations

import json
from typing import Any

from .machine import Machine


def sysctl(machine: Machine, key: str) -> str:
    """The words of a value below /proc/sys, with single blanks between them."""
    return " ".join(machine.read(f"/proc/sys/{key.replace('.', '/')}").split())


def nic(machine: Machine, driver: str) -> str:
    """The name of the NIC of a driver."""
    found = machine.out(f"ls -d /sys/bus/*/drivers/{driver}/*/net/* | head -n 1")
    assert found, f"no NIC of {driver}"
    return found.rpartition("/")[2]


def loaded(machine: Machine) -> set[str]:
    """The kernel modules that are loaded."""
    return set(machine.out("cut -d' ' -f1 /proc/modules").split())


def chosen(machine: Machine, path: str) -> str:
    """The word in brackets of a file that lists all there are."""
    return machine.read(path).partition("[")[2].partition("]")[0]


def check(machine: Machine) -> dict[str, Any]:
    """The report of `mlnode check`, and its exit status as `exit`."""
    done = machine.run("mlnode check --json", check=False)
    assert done.returncode in (0, 3), f"mlnode check ended with {done.returncode}: {done.stderr}"
    report: dict[str, Any] = {**json.loads(done.stdout), "exit": done.returncode}
    return report


def wrong(machine: Machine) -> dict[str, str]:
    """Key → status and reason of all that `mlnode check` finds wrong."""
    return {
        item["key"]: f"{item['status']}: {item['reason']}"
        for item in check(machine)["settings"]
        if item["status"] not in ("ok", "unsupported")
    }
