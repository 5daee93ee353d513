# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile raises: each of its sysctls is a least number, or is listed here with the reason why more is not
as good."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from mlnode.knobs.nic import parse as nic_parse
from mlnode.knobs.sysctl import info

#: Key → why more of it is not as good
EXACT: dict[str, str] = cases.load(pathlib.Path(__file__).with_name("profiles_raise.yml"))["exact"]


@pytest.mark.parametrize("name", ["training", "inference", "fabric"])
def test_each_value_of_a_profile_raises_or_is_exact_for_a_reason(name: str) -> None:
    settings = door.parse("sysctl", profile.combined(name, {}).areas["sysctl"])
    assert settings
    for setting in settings:
        assert setting.raise_only != (setting.key in EXACT), setting.key
        assert setting.raise_only or setting.key not in info.CAPACITIES, setting.key


#: Amounts of NICs that may lower, with the reason why more is not as good
BOUNDS = {
    ("ring", "at_most"): "of a full long ring the last packet is the late one",
    ("channels", "auto"): "more queues than cores only share them",
}


@pytest.mark.parametrize("name", ["training", "inference", "fabric"])
def test_numbers_of_devices_raise_or_are_bounds_for_a_reason(name: str) -> None:
    areas = profile.combined(name, {}).areas
    for setting in door.parse("nic", areas.get("nic", {})):
        assert isinstance(setting, nic_parse.NicSetting)
        if setting.amount is not None:
            bound = (setting.group, setting.amount.word) in BOUNDS
            assert setting.raise_only != bound, setting.key
    for setting in door.parse("storage", areas.get("storage", {})):
        assert setting.raise_only or not setting.key.endswith("read_ahead_kb"), setting.key
