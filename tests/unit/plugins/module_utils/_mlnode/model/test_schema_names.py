# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import registry
from mlnode.model import schema
from mlnode.model.errors import DeclarationError


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_names_what_it_does_not_know_and_what_it_knows(kind: str) -> None:
    with pytest.raises(DeclarationError, match=r"surprise: unknown; known are"):
        door.parse(kind, {"surprise": 1})


def test_an_unknown_name_is_told_with_its_place() -> None:
    schema.refuse_unknown("thp", ["enabled"], ("enabled", "defrag"))
    words = r"^thp\.enabeld: unknown; known are enabled, defrag; did you mean enabled\?$"
    with pytest.raises(DeclarationError, match=words):
        schema.refuse_unknown("thp", ["enabled", "enabeld"], ("enabled", "defrag"))


@cases.table
def test_a_guard_stops_what_is_not_allowed(reason: str, allow: tuple[str, ...], refusal: str) -> None:
    assert schema.unless_allowed("dog", reason, allow) == refusal


def test_a_missing_file_is_an_empty_text(tmp_path: pathlib.Path) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    assert machine.text("/etc/no.such") == ""
    machine.put("/etc/some", "text\n")
    assert machine.text("/etc/some") == "text\n"
