# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option effect_by, and settings that cannot be compared."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import screening
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


def row(status: str, origin: str | None = "0", runtime: str | None = "1") -> dict[str, str | None]:
    return {"key": "a", "status": status, "origin": origin, "runtime": runtime, "reason": "EIO"}


@pytest.mark.parametrize(
    ("setting", "original", "differs"),
    [
        (row("drifted"), "reverted", True),
        (row("ok"), "declared", True),
        # Its value was the declared one before the first run.
        (row("ok", "1"), "declared", False),
        (row("ok", None), "reverted", False),
        # A file has no value before the first run that a row would have.
        (row("ok", None), "declared", True),
        (row("ok", None, None), "declared", True),
        (row("unknown"), "declared", False),
        (row("unsupported"), "reverted", False),
    ],
)
def test_settings_that_differ_from_before_the_first_run(
    setting: dict[str, str | None], original: str, differs: bool
) -> None:
    assert screening._differs(setting, original) is differs


@pytest.mark.parametrize(
    ("statuses", "why"),
    [
        (["ok", "ok"], "changes nothing on these nodes"),
        (["ok", "unsupported"], "is unsupported on these nodes (a: EIO)"),
        # A setting that cannot be read may change something.
        (["unsupported", "unknown"], "is unknown on these nodes (a: EIO)"),
        ([], "has no settings on these nodes"),
    ],
)
def test_reasons_for_which_an_area_is_left_out(statuses: list[str], why: str) -> None:
    assert screening._why([row(status) for status in statuses]) == why
