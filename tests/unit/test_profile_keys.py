# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of sysctl keys against the profiles."""

from __future__ import annotations

import random

from ansible_collections.mlnode.tuning.tests.unit.roles import PROFILES, declaration
from mlnode.linux import sysctl_d, sysctl_keys


def test_the_table_has_every_key_of_the_profiles() -> None:
    for profile in PROFILES:
        for key in declaration(profile).get("sysctl", {}).get("settings", {}):
            if "@" not in key:
                assert sysctl_keys.is_known(sysctl_d.slashed(key)), key


def _misspelt(name: str, chance: random.Random) -> str:
    """One slip: a letter that is missing, doubled, exchanged with the next, or another one."""
    at = chance.randrange(1, len(name) - 1)
    return chance.choice(
        (
            name[:at] + name[at + 1 :],
            name[:at] + name[at] + name[at:],
            name[:at] + name[at + 1] + name[at] + name[at + 2 :],
            f"{name[:at]}z{name[at + 1 :]}",
        )
    )


def test_a_slip_in_any_key_of_the_profiles_is_found() -> None:
    keys = [
        sysctl_d.slashed(key)
        for profile in PROFILES
        for key in declaration(profile).get("sysctl", {}).get("settings", {})
        if "@" not in key
    ]
    for seed, key in enumerate(keys):
        folder, _slash, name = key.rpartition("/")
        wrong = f"{folder}/{_misspelt(name, random.Random(seed))}"
        assert sysctl_keys.is_known(wrong) or sysctl_keys.meant(wrong), (key, wrong)
