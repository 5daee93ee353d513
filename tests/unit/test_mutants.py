# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/mutants.py on a small library of its own."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

LIBRARY = """\
LIMIT = 3

def over(value):
    return value > LIMIT

def unused(value):
    return not value
"""
TESTS = """\
from plugins.plugin_utils import small

def test_over():
    assert small.over(4) and not small.over(3)
"""
FILE = "plugins/plugin_utils/small.py"
KILLED = [f"killed {FILE}:: 3 -> 4", f"killed {FILE}:over: return value > LIMIT -> None"]
KILLED += [f"killed {FILE}:over: value > LIMIT -> value >= LIMIT"]
MISSED = [f"missed {FILE}:unused: no `not` in not value", f"missed {FILE}:unused: return not value -> None"]


@pytest.fixture
def library(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("mutants.py", "covered.py"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        shutil.copy(f"{ROOT}/tools/{name}", tmp_path / "tools")
    for path, text in ((FILE, LIBRARY), ("tests/unit/plugins/plugin_utils/test_small.py", TESTS)):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\npythonpath = ["."]\nmarkers = ["long"]\n'
    )
    return tmp_path


def _tried(library: pathlib.Path, *arguments: str) -> list[str]:
    command = [sys.executable, str(library / "tools/mutants.py"), "--count=0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=library)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_mutants_are_killed_or_missed_in_and_outside_of_functions(library: pathlib.Path) -> None:
    assert _tried(library) == KILLED + MISSED


def test_an_earlier_result_is_tried_again_where_lines_moved(library: pathlib.Path) -> None:
    (library / "before").write_text("\n".join(KILLED))
    (library / FILE).write_text("# moved\n\n" + LIBRARY.replace("LIMIT = 3", "LIMIT = 5"))
    assert _tried(library, "--of", "before", "--paths", FILE) == [
        "missed " + line.partition(" ")[2] for line in KILLED[1:]
    ]
