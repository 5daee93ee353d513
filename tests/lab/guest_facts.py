# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short questions to a lab machine, answered by its kernel and not by what is under test."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

from .machine import Machine

_NICS = pathlib.Path(__file__).with_name("nics.py")


def sysctl(machine: Machine, key: str) -> str:
    """The words of a value below /proc/sys, with single blanks between them."""
    return " ".join(machine.read(f"/proc/sys/{key.replace('.', '/')}").split())


def nic(machine: Machine, driver: str) -> str:
    """The name of the NIC of a driver."""
    found = machine.out(f"ls -d /sys/bus/*/drivers/{driver}/*/net/* | head -n 1")
    assert found, f"no NIC of {driver}"
    return found.rpartition("/")[2]


def nics(machine: Machine) -> dict[str, dict[str, str]]:
    """NIC → knob → value, as ethtool and ip print them."""
    found: dict[str, dict[str, str]] = json.loads(machine.run("python3 -", stdin=_NICS.read_text()).stdout)
    return found


def tried_nics(machine: Machine) -> dict[str, dict[str, Any]]:
    """NIC → what ethtool itself can set there to another value, see nics.py; it puts all back."""
    found: dict[str, dict[str, Any]] = json.loads(
        machine.run("python3 - try", stdin=_NICS.read_text(), seconds=600).stdout
    )
    return found


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
    return wrong_in(check(machine))


def wrong_in(report: dict[str, Any]) -> dict[str, str]:
    """The same of a report of check()."""
    return {
        item["key"]: f"{item['status']}: {item['reason']}"
        for item in report["settings"]
        if item["status"] not in ("ok", "unsupported", "clamped")
    }


GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy{}/scaling_governor"


def governors(machine: Machine) -> list[str]:
    """That of every policy."""
    return machine.out("cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor").split()


def queue_irqs(machine: Machine, driver: str) -> dict[int, set[int]]:
    """Interrupt of every queue of a driver's NIC → the CPUs that it really goes to."""
    name = nic(machine, driver)
    rows = machine.out(
        f"cd /proc/irq; for irq in $(ls /sys/class/net/{name}/device/msi_irqs); do "
        'for action in $irq/*-[rtT]x*; do [ -d "$action" ] && '
        "echo $irq $(cat $irq/smp_affinity_list) $(cat $irq/effective_affinity_list); done; done; true"
    )
    found = {}
    for row in rows.splitlines():
        irq, asked, real = row.split()
        found[int(irq)] = _cpus(asked) | _cpus(real)
    return found


def astray(machine: Machine, driver: str, allowed: set[int]) -> dict[int, set[int]]:
    """Those that go, or may go, to another CPU, or not to one alone. A NIC without any would be no answer."""
    found = queue_irqs(machine, driver)
    assert found, f"no queue of {driver} has an interrupt"
    return {irq: cpus for irq, cpus in found.items() if not cpus <= allowed or len(cpus) != 1}


def _cpus(text: str) -> set[int]:
    spans = [part.partition("-") for part in text.split(",")]
    return {cpu for first, _dash, last in spans for cpu in range(int(first), int(last or first) + 1)}


#: Only a failure takes so long: on an emulated machine beside two others, what needs a second has taken 40.
_PATIENCE_SECONDS = 180


def until(holds: Callable[[], bool], what: str, seconds: float = _PATIENCE_SECONDS) -> None:
    """Wait for something that a service in the machine does by itself."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)


def until_at_rest(machine: Machine) -> None:
    """Wait until no unit of mlnode is at work, whether it ends well or not."""
    working = "systemctl list-units --state=activating --plain --no-legend 'mlnode*'"
    until(lambda: machine.out(working) == "", "no unit of mlnode is at work")
