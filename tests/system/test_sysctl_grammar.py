# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of values against the kernel: texts are written to real keys in new namespaces, and what these
show afterwards is compared with what the rules say."""

from __future__ import annotations

import os
import random

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system import sysctl_namespace as namespace
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from mlnode.linux import sysctl_d, sysctl_values

pytestmark = namespaces.needs_root

#: 20,000 with the usual EFFORT of `make robustness`
TEXTS = 1000 * EFFORT
#: Share of the texts whose effect may be unknown: more would be no test of the rules
UNKNOWN = 0.12


def _pairs(count: int) -> list[tuple[str, str]]:
    """Each key is tried about as often."""
    chance = random.Random(39 if EFFORT == 1 else None)
    keys = namespace.keys()
    assert len(keys) > 300
    present = {found.key: found.before or "" for found in namespace.write((key, "x") for key in keys)}
    chance.shuffle(keys)
    return [(key, namespace.text(chance, present[key])) for key in (keys * (count // len(keys) + 1))[:count]]


def _difference(found: namespace.Written, effect: sysctl_values.Effect) -> str:
    """Difference between the rules and the kernel; empty if there is none, or nothing is said."""
    if effect.unknown:
        return ""
    if effect.refused:
        return "" if found.error and found.after == found.before else "refused"
    if found.after is None or effect.text is None:
        return "unreadable"
    return "" if found.after.split() == effect.text.split() else f"shows {effect.text!r}"


def test_what_the_kernel_shows_after_a_text() -> None:
    release = os.uname().release
    unknown, differences = 0, []
    for found in namespace.write(_pairs(TEXTS)):
        key = sysctl_d.dotted(found.key)
        effect = sysctl_values.effect(key, found.text, before=found.before, release=release)
        unknown += bool(effect.unknown)
        difference = _difference(found, effect)
        if difference:
            differences.append((difference, found))
    print(f"{TEXTS} texts, {unknown} of them unknown, {len(differences)} differ")
    assert differences == []
    assert unknown < UNKNOWN * TEXTS


@pytest.mark.parametrize("text", ["1 # comment", "1 2", "0x1", "01", "1\t;"])
def test_the_number_before_a_blank_counts(text: str) -> None:
    (found,) = namespace.write([("net/ipv4/conf/all/rp_filter", text)])
    assert (found.after, found.error) == ("1", 0)
