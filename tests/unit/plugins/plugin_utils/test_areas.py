# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools

import pytest
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible_collections.mlnode.tuning.plugins.plugin_utils import areas
from mlnode.agent.registry import KINDS

ALL = [*KINDS]


@pytest.mark.parametrize(
    ("run", "own", "found"),
    [
        (None, ["always"], ALL),
        (["sysctl", "thp"], ["always"], ["thp", "sysctl"]),  # in the order in which they are applied
        (["no_such_tag"], ["always"], []),
        # A task without `always`, which Ansible has chosen by its own tag
        (["thp"], ["thp"], ALL),
    ],
)
def test_tags_choose_areas(run: list[str] | None, own: list[str], found: list[str]) -> None:
    assert areas.selected(run, None, own) == found


WORDS = ["all", "tagged", "untagged", "always", "never", "thp", "nic", "tune"]


@pytest.mark.parametrize("own", [[], ["tune"], ["never"], ["tune", "never"]])
def test_an_area_is_chosen_as_ansible_chooses_a_task_with_its_name_as_a_tag(own: list[str]) -> None:
    """Every pair of words after --tags and after --skip-tags."""
    pairs = [[], *([one] for one in WORDS), *(list(pair) for pair in itertools.combinations(WORDS, 2))]
    tasks = {area: Task(block=Block(play=Play())) for area in ("thp", "nic", "irq")}
    for area, task in tasks.items():
        task.tags = [area, *own]
    for run, skip in itertools.product(pairs, pairs):
        found = areas.selected(run, skip, ["always", *own])

        for area, task in tasks.items():
            expected = task.evaluate_tags(run or ["all"], skip, {})
            assert (area in found) is expected, (area, own, run, skip)
