# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/english.py: its patterns, the texts that it reads, and its limits, in a small repository."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tools import english

GOOD = "A value is set and verified.\n\n"
BAD = "It keeps what it has.\n\n"
FLAGGED = "[what as a noun] It keeps what it has."


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def put(repository: pathlib.Path, path: str, content: str) -> None:
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


@cases.table
def test_a_sentence_matches_its_pattern(pattern: str, sentence: str) -> None:
    assert pattern in english.matches(sentence)


@cases.table
def test_a_sentence_of_a_manual_matches_none(sentence: str) -> None:
    assert english.matches(sentence) == []


def test_a_long_sentence_is_flagged() -> None:
    assert english.matches("word " * 35) == []
    assert english.matches("word " * 36) == ["more than 35 words"]


@cases.table
def test_a_text_is_read_with_its_line(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str], path: str, content: str, lines: list[str]
) -> None:
    put(repository, path, content)
    english.main(["--list"], repository)

    printed = capsys.readouterr().out.splitlines()
    flagged = [line for line in printed if line.startswith(f"{path}:")]
    found = [line.removeprefix(f"{path}:").replace("[what as a noun] ", "") for line in flagged]
    assert found == lines


@pytest.mark.parametrize("good, status", [(33, 0), (32, 1)])
def test_a_file_has_at_most_three_percent(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str], good: int, status: int
) -> None:
    put(repository, "a.md", BAD + good * GOOD)
    put(repository, "b.md", 100 * GOOD)

    assert english.main([], repository) == status

    printed = capsys.readouterr().out
    assert (f"a.md:1: {FLAGGED}" in printed) is bool(status)
    assert ("expected at most 3 %" in printed) is bool(status)


@pytest.mark.parametrize("good, status", [(147, 0), (146, 1)])
def test_all_files_have_at_most_two_percent(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str], good: int, status: int
) -> None:
    """Three of 150 sentences; no file is above its own limit."""
    for name in ("a", "b", "c"):
        put(repository, f"{name}.md", BAD + good // 3 * GOOD)
    put(repository, "d.md", good % 3 * GOOD)

    assert english.main([], repository) == status

    printed = capsys.readouterr().out
    assert (f"c.md:1: {FLAGGED}" in printed) is bool(status)


def test_only_the_named_kinds_and_paths_are_read(repository: pathlib.Path) -> None:
    put(repository, "docs/a.md", GOOD)
    put(repository, "b.md", BAD)
    put(repository, "c.yml", "# It keeps what it has.\n")
    put(repository, "d.py", "print('It keeps what it has.')\n# A value is set and verified.\n")

    assert english.main(["--only", "docs"], repository) == 0
    assert english.main(["--only", "markdown", "docs"], repository) == 0
    for kind in ("markdown", "yaml", "messages"):
        assert english.main(["--only", kind], repository) == 1, kind


def test_an_unknown_kind_and_a_path_without_files_are_errors(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository, "a.md", GOOD)

    with pytest.raises(SystemExit) as ended:
        english.main(["--only", "prose"], repository)
    assert ended.value.code == 2
    assert "expected markdown, yaml, docs, messages, got 'prose'" in capsys.readouterr().err
    assert english.main(["nowhere"], repository) == 1
    assert "no file to read" in capsys.readouterr().out


def test_a_file_that_cannot_be_parsed_is_named(repository: pathlib.Path) -> None:
    put(repository, "a.yml", "a: [\n")

    with pytest.raises(SystemExit, match=r"a\.yml: cannot be parsed: while parsing"):
        english.main([], repository)
