# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A misspelled variable of a role is found, and named with the one that was meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlnode.tuning.plugins.filter.unknown_names import FilterModule, unknown_names
from ansible_collections.mlnode.tuning.tests.unit.roles import ROLES, ROOT, options

KNOWN = ["training_node_sysctl", "training_node_thp"]


def test_what_is_known_is_not_named() -> None:
    assert unknown_names([*KNOWN], KNOWN) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("training_node_sysctls", "training_node_sysctls; did you mean training_node_sysctl?"),
        ("training_node_sysclt", "training_node_sysclt; did you mean training_node_sysctl?"),
        ("somebody_elses", "somebody_elses"),
    ],
)
def test_a_mistaken_name_is_named_with_the_one_that_was_meant(name: str, words: str) -> None:
    assert unknown_names([name, *KNOWN], KNOWN) == [words]


def test_ansible_finds_it() -> None:
    assert [*FilterModule().filters()] == ["unknown_names"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_refuses_a_variable_that_it_does_not_know(role: str, tmp_path: Path) -> None:
    play = f"- {{hosts: localhost, connection: local, gather_facts: false, roles: [mlnode.tuning.{role}]}}\n"
    (tmp_path / "play.yml").write_text(play)
    known = next(name for name in options(role) if name.endswith("_defaults"))
    ansible = Path(sys.executable).parent / "ansible-playbook"
    words = [str(ansible), "--check", str(tmp_path / "play.yml"), "-e", f"{known}s=1", "--tags", "nothing"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert f"The role {role} knows no variable of this name" in said
    assert f"{known}s; did you mean {known}?" in said
