# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour as its reader follows it, after the README's first run."""

from __future__ import annotations

import os
import pathlib

import pytest

TOUR = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], "docs/guide/tour.md")
KEY = "net.core.somaxconn"
#: Exit status of commands that find the drift
DRIFT = {"ansible-playbook mlnode.tuning.drift": 2, "mlnode check": 3, "mlnode apply --dry-run": 3}


@pytest.fixture(scope="session")
def walk(walked, installed):
    del installed
    return walked(TOUR.read_text(encoding="utf-8"))


def rows(output: str) -> set[str]:
    """Rows of tables about the value, and announcements, with single blanks."""
    lines = (" ".join(line.split()) for line in output.splitlines())
    return {line for line in lines if line.startswith((f"{KEY} ", "1 of 3 ", "would "))}


def test_every_command_ends_as_the_tour_says(walk):
    assert len(walk.done) == 11
    for done in walk.done:
        assert done.status == DRIFT.get(done.command, 0), f"{done.command}\n{done.output[-3000:]}"


def test_the_tour_quotes_what_the_commands_print(walk):
    quoting = [done for done in walk.done if rows(done.quoted)]
    assert len(quoting) == 5
    for done in quoting:
        assert rows(done.quoted) <= rows(done.output), f"{done.command}\n{done.output[-3000:]}"


def test_an_explanation_has_the_lines_of_the_tour(walk):
    explained = walk.of("mlnode explain")
    facts, quoted = (
        [line.split()[0] for line in text.splitlines()] for text in (explained.output, explained.quoted)
    )
    assert quoted == facts


def test_nothing_is_left(walk, host):
    del walk
    assert host.run("find /etc /usr/local -name '*mlnode*'").stdout == ""
