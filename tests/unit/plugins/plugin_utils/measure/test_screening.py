# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option effect_by."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import MeasureError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.screening import compared

#: Of the role node on one node, of the role fabric, and of another node
DECLARED = [
    {
        "sysctl": {"settings": {"vm.swappiness": 1}, "sizing": {"rtt_us": 100}},
        "thp": {"enabled": "madvise"},
        "nic": {"rules": {"rails": {"rings": {"rx": "max"}}}},
    },
    {"sysctl": {"settings": {"net.core.somaxconn": 4096}}},
    {},
]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["area"], ["thp", "sysctl", "nic"]),
        (["nic", "thp"], ["nic", "thp"]),
        (["sysctl.net.core.somaxconn", "thp.enabled"], ["sysctl.net.core.somaxconn", "thp.enabled"]),
        (["nic.rules.rails.rings", "nic.rules.rails.rings"], ["nic.rules.rails.rings"]),
        (["sysctl.settings.vm.swappiness", "sysctl.vm"], None),
    ],
)
def test_areas_and_settings_are_found_by_name(given: list[str], names: list[str] | None) -> None:
    if names is None:
        with pytest.raises(MeasureError, match=r"effect_by: sysctl\.vm: no node declares it"):
            compared(given, DECLARED)
    else:
        assert compared(given, DECLARED) == names


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["thq"], "such as sysctl.vm.swappiness, got thq; known are services, modules, thp"),
        (["area", "thp"], "area stands for all declared areas; name it alone"),
        ([""], "got ; "),
        (["gpu\x1b"], "got gpu\\x1b; did you mean gpu?"),
        (["thp", "gpu"], "gpu: no node declares it; declared areas are thp, sysctl, nic"),
        (["thp.defrag"], "thp.defrag: no node declares it"),
        (["thp."], "thp.: no node declares it"),
        (["thp", "thp.enabled"], "thp.enabled is part of thp; name one of them"),
    ],
)
def test_names_that_cannot_be_compared(given: list[str], words: str) -> None:
    with pytest.raises(MeasureError) as raised:
        compared(given, DECLARED)
    assert words in str(raised.value)
