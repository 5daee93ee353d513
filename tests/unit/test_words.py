# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/words.py in a small repository: words that it refuses, and text that it leaves alone."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
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


@pytest.mark.parametrize(
    ("path", "content", "lines"),
    [
        ("docs/a.md", "Fine.\nIt tells Nobody.\n", ["docs/a.md:2: tells", "docs/a.md:2: Nobody"]),
        ("a.yml", "# is no number, are no numbers\n", ["a.yml:1: is no number", "a.yml:1: are no numbers"]),
        ("a.py", "told = 1  # it is told\n", ["a.py:1: told"]),
        ("a.py", '"""One.\n\nMade anew.\n"""\n', ["a.py:3: anew"]),
        ("a.py", 'a = f"{whoever} of ours"\n', ["a.py:1: ours"]),
        ("a.md", "the umask of who runs this\n", ["a.md:1: of who"]),
        ("a.md", "What beats it,\nfor whom.\n", ["a.md:1: What beats", "a.md:2: for whom"]),
        ("a.py", 'def f():\n    """What it is."""\n', ['a.py:2: """What']),
        ("a.py", 'r"""One.\n\nAn error, in words.\n"""\n', ["a.py:3: in words"]),
    ],
)
def test_words_are_named_with_file_and_line(
    repository: pathlib.Path, path: str, content: str, lines: list[str]
) -> None:
    assert check(repository, path, content) == (1, lines)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("docs/a.md", "There is no such file, there are no others, and it is no longer needed.\n"),
        ("docs/a.md", "retold, yours, mlnode_ours\n"),
        ("a.py", "def told(ours: str) -> str:\n    return ours\n"),
        ("tests/unit/a.md", "told\n"),
        ("a.py", 'for a in words: print("What it is, in words")  # What it is, in words\n'),
        ("a.py", 'def f():\n    """Whatever it is, in wordsmiths."""\n'),
        ("a.md", "What it is, that is who\n"),
        ("requirements/test.txt", "told\n"),
        ("a.png", "told\0\n"),
        ("playbooks/fabric_check.yml", "{{ fabric_check_report.told }}\n"),
    ],
)
def test_other_text_is_left_alone(repository: pathlib.Path, path: str, content: str) -> None:
    assert check(repository, path, content) == (0, [])


def test_an_exception_holds_for_its_own_text_alone(repository: pathlib.Path) -> None:
    path = "playbooks/fabric_check.yml"
    assert check(repository, path, "{{ fabric_check_report.told }}  # told\n") == (1, [f"{path}:1: told"])
