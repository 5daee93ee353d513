# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.plugin_utils import areas

ALL = [*KINDS]


@pytest.mark.parametrize(
    ("run", "skip", "own", "found"),
    [
        (None, None, ["always"], ALL),
        (["all"], [], ["always"], ALL),
        (["tagged"], [], ["always"], ALL),
        (["thp"], [], ["always"], ["thp"]),
        # In the order in which they are applied
        (["sysctl", "thp"], [], ["always"], ["thp", "sysctl"]),
        (["no_such_tag"], [], ["always"], []),
        (["untagged"], [], ["always"], []),
        (["always"], [], ["always"], []),
        (["all"], ["nic", "irq"], ["always"], [area for area in ALL if area not in ("nic", "irq")]),
        (["thp", "nic"], ["nic"], ["always"], ["thp"]),
        (["all"], ["tagged"], ["always"], []),
        # Of a play or a role around it, which all of its areas then have
        (["tune"], [], ["always", "tune"], ALL),
        (["tune", "thp"], ["nic"], ["always", "tune"], [area for area in ALL if area != "nic"]),
        (["thp"], [], ["always", "tune"], ["thp"]),
        # A task without `always`, which Ansible has chosen by its own tag
        (["thp"], [], ["thp"], ALL),
    ],
)
def test_tags_choose_areas(run: list[str], skip: list[str], own: list[str], found: list[str]) -> None:
    assert areas.selected(run, skip, own) == found
