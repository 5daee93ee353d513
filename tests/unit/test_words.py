# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/words.py in a small repository: words that it refuses, and text that it leaves alone."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/words.py", tmp_path / "tools/words.py")
    (tmp_path / "README.md").write_text("Plain text.\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def check(repository: pathlib.Path, path: str, content: str) -> tuple[int, list[str]]:
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    subprocess.run(["git", "add", "--all"], cwd=repository, check=True)
    command = [sys.executable, "tools/words.py"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@cases.table
def test_words_are_named_with_file_and_line(
    repository: pathlib.Path, path: str, content: str, lines: list[str]
) -> None:
    assert check(repository, path, content) == (1, lines)


@cases.table
def test_other_text_is_left_alone(repository: pathlib.Path, path: str, content: str) -> None:
    assert check(repository, path, content) == (0, [])
