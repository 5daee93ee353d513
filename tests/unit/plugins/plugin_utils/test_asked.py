# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.context_objects import CLIArgs
from ansible_collections.mlnode.tuning.plugins.plugin_utils import areas, asked
from ansible_collections.mlnode.tuning.tests.unit import cases

ROOT = pathlib.Path(asked.__file__).resolve().parents[2]
GROUPS = {
    "all": ["gpu001", "gpu002", "web001"],
    "training": ["gpu001", "gpu002"],
    "web": ["web001"],
    "empty": [],
}


def tags(by_area: bool, run: str = "all", skip: str = "") -> str:
    known = [*areas.AREAS, "verify"] if by_area else []
    return "; ".join(asked.wrong_tags("play", run.split(), skip.split(), known, "do this"))


@cases.table
def test_tags_that_leave_something_are_right(run: str, skip: str) -> None:
    assert tags(True, run, skip) == ""


@pytest.mark.parametrize(
    ("run", "skip", "words"),
    [
        ("sysct", "", "--tags sysct: neither an area nor a tag of play.yml; did you mean sysctl?"),
        ("thp sysct", "", "--tags sysct: "),
        ("all", "nicc", "--skip-tags nicc: neither an area nor a tag of play.yml; did you mean nic?"),
        ("web", "", "--tags web: neither an area nor a tag of play.yml; known are services"),
        ("all", "always", "--tags all --skip-tags always: play.yml would have nothing to do"),
        ("all", "all", "would have nothing to do"),
        ("thp", "thp", "would have nothing to do"),
        ("verify", "verify", "would have nothing to do"),
        ("untagged", "", "would have nothing to do"),
        ("always", "", "would have nothing to do"),
        ("never", "", "would have nothing to do"),
        ("all", " ".join(areas.AREAS), "would have nothing to do"),
    ],
)
def test_tags_that_leave_nothing_are_named(run: str, skip: str, words: str) -> None:
    assert words in tags(True, run, skip)


@cases.table
def test_a_playbook_without_areas_takes_no_tags(run: str, skip: str) -> None:
    assert tags(False, run, skip).endswith("; do this")
    assert tags(False) == tags(False, "all", "never") == ""


@cases.table
def test_every_part_of_a_limit_has_a_host(limit: str, wrong: list[str]) -> None:
    found = asked.wrong_limit(limit, GROUPS, DataLoader())

    assert len(found) == len(wrong)
    assert all(words in line for words, line in zip(wrong, found))


def test_a_limit_may_be_in_a_file(tmp_path: pathlib.Path) -> None:
    """As those of --limit @site.retry."""
    path = tmp_path / "site.retry"
    path.write_text("# failed\ngpu001\n\ngpu009\n", encoding="utf-8")

    [found] = asked.wrong_limit(f"@{path}", GROUPS, DataLoader())
    assert found.startswith("--limit gpu009: ")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (str(ROOT / "playbooks/drift.yml"), "drift"),
        ("site.yml", ""),
        ("/etc/ansible/site.yml", ""),
    ],
)
def test_a_playbook_of_the_collection_is_known_by_its_place(name: str, own: str) -> None:
    assert asked.own_playbook([name]) == own


@cases.table
def test_an_extra_variable_that_is_nearly_known_is_named(
    monkeypatch: pytest.MonkeyPatch, names: list[str], wrong: list[str]
) -> None:
    given: dict[str, Any] = dict.fromkeys(names)
    monkeypatch.setattr(asked, "load_extra_vars", lambda _loader: given)

    found = asked.wrong_variables(None)

    assert len(found) == len(wrong)
    assert all(words in line for words, line in zip(wrong, found))


@cases.table
def test_a_file_of_a_misspelt_group_is_named(
    tmp_path: pathlib.Path, files: list[str], wrong: list[str]
) -> None:
    (tmp_path / "group_vars").mkdir()
    for name in files:
        (tmp_path / "group_vars" / name).touch()

    for source in (tmp_path, tmp_path / "hosts.yml"):
        found = asked.wrong_files([str(source)], [*GROUPS, "rack1"])
        assert len(found) == len(wrong)
        assert all(words in line for words, line in zip(wrong, found))


def test_a_tag_that_a_task_of_the_running_playbook_has_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({}))
    path = tmp_path / "own.yml"
    path.write_text(
        "- hosts: localhost\n  tasks:\n    - block:\n        - debug: {}\n          tags: [service]\n",
        encoding="utf-8",
    )

    def wrong(*run: str) -> list[str]:
        return asked.misspelt_tags(run, (), [str(path)], DataLoader())

    assert wrong("service", "web", "thp") == []
    [found] = wrong("servics")
    assert found == "tag servics: neither an area nor a tag of this playbook; did you mean services?"
