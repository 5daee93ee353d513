# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy preferences on amd-pstate: the order that makes them stick, and EBUSY told before it happens.

Governors over a reboot are part of the story in test_training.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection, Played
from .machine import Machine

POLICY = "/sys/devices/system/cpu/cpufreq/policy{}/{}"
PREFERENCE = "energy_performance_preference"


def both(machine: Machine, name: str) -> list[str]:
    return [machine.read(POLICY.format(number, name)) for number in (0, 1)]


def declare(machine: Machine, collection: Collection, **cpu: Any) -> Played:
    return collection.play("site", machine, "--tags", "cpu", node_cpu=cpu)


def test_governor_and_preference_are_set_in_an_order_that_works(epp: Machine, collection: Collection) -> None:
    # Under this governor the kernel takes no other preference, so that only the right order gets there.
    for number in (0, 1):
        epp.write(POLICY.format(number, "scaling_governor"), "performance")
    wanted = {"governor": "powersave", PREFERENCE: "balance_power"}
    assert declare(epp, collection, **wanted).status == 0
    assert both(epp, "scaling_governor") == ["powersave"] * 2
    assert both(epp, PREFERENCE) == ["balance_power"] * 2
    assert facts.wrong(epp) == {}
    assert declare(epp, collection, **wanted).changed == 0


def test_a_preference_that_the_kernel_would_refuse_is_explained_and_nothing_is_written(
    epp: Machine, collection: Collection
) -> None:
    played = declare(epp, collection, governor="performance", **{PREFERENCE: "power"})
    assert played.status != 0
    assert "EBUSY" in played.output
    assert both(epp, "scaling_governor") == ["powersave"] * 2
    assert both(epp, PREFERENCE) == ["balance_power"] * 2


@pytest.mark.long
def test_both_come_back_after_a_reboot_and_a_revert_brings_the_first_ones(
    epp: Machine, collection: Collection
) -> None:
    epp.reboot()
    assert both(epp, "scaling_governor") == ["powersave"] * 2
    assert both(epp, PREFERENCE) == ["balance_power"] * 2
    assert facts.wrong(epp) == {}
    assert collection.play("revert", epp).status == 0
    assert both(epp, "scaling_governor") == ["performance"] * 2
    assert both(epp, PREFERENCE) == ["performance"] * 2
