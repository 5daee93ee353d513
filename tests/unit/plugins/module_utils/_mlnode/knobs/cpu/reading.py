# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of the kind cpu by the name of what is declared, for the tests of its files."""

from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPUFREQ
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine.kind import Context, Facts
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.model.setting import BOTH_LAYERS, Layer, Reading

PREFERENCE = "energy_performance_preference"


def readings(
    machine: Machine,
    spec: dict[str, Any],
    layers: tuple[Layer, ...] = BOTH_LAYERS,
    agent: bool = False,
    origins: dict[str, str] | None = None,
) -> dict[str, Reading]:
    settings = door.parse("cpu", spec)
    claims = {setting.key: setting.claim for setting in settings}
    context = Context(
        machine, Facts(machine), layers=layers, agent=agent, on_disk=claims, origins=origins or {}
    )
    return {
        setting.key.partition(".")[2].partition("[")[0]: found
        for setting, found in zip(settings, cpu.read(settings, context))
    }


def reading(machine: Machine, spec: dict[str, Any], **how: Any) -> Reading:
    """The last of the settings of a spec."""
    return [*readings(machine, spec, **how).values()][-1]


def policy(number: int, file: str = "scaling_governor") -> str:
    return f"{CPUFREQ}/policy{number}/{file}"
