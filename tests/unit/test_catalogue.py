# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What catalogue.yml lists is found in the product: in a profile, as something to opt for, or refused."""

from __future__ import annotations

import fnmatch
import functools
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, declaration, load
from mlnode.model.errors import DeclarationError, RefusedError

ROWS: list[dict[str, Any]] = load("tests/unit/catalogue.yml")


def rows(word: str) -> list[Any]:
    return [pytest.param(row, id=row["key"]) for row in ROWS if word in row]


@functools.lru_cache(maxsize=None)
def declared(profile: str) -> frozenset[str]:
    """The keys of all that it declares."""
    specs = declaration(profile).items()
    return frozenset(item.key for kind, spec in specs for item in door.parse(kind, spec))


def test_every_row_says_one_thing() -> None:
    assert len(ROWS) > 100
    assert [row["key"] for row in ROWS if len({"default", "opt_in", "refused"} & {*row}) != 1] == []


@pytest.mark.parametrize("row", rows("default"))
def test_a_default_is_in_these_profiles(row: dict[str, Any]) -> None:
    lacking = [name for name in row["default"] if not fnmatch.filter(declared(name), row["key"])]
    assert lacking == []


@pytest.mark.parametrize("row", rows("opt_in"))
def test_what_may_be_opted_for_is_understood(row: dict[str, Any]) -> None:
    [(kind, spec)] = row["opt_in"].items()
    assert door.parse(kind, spec)


@pytest.mark.parametrize("row", rows("refused"))
def test_what_is_refused_is_declared_at_most(row: dict[str, Any], tmp_path: pathlib.Path) -> None:
    [(kind, spec)] = row["refused"].items()
    machine = GrubMachine.debian_with_grub(tmp_path / "machine")
    before = machine.tree()
    with pytest.raises((DeclarationError, RefusedError)):
        door.apply(machine, door.request("default", kind, spec))
    after = machine.tree()
    # The declaration is kept, as all that is declared; neither the kernel nor a file of the system has it.
    changed = {path for path in {**before, **after} if before.get(path) != after.get(path)}
    assert changed <= {"/etc/mlnode", "/etc/mlnode/declared.d", "/etc/mlnode/declared.d/default.json"}


@pytest.mark.parametrize("row", [param for word in ("opt_in", "refused") for param in rows(word)])
def test_what_is_no_default_has_its_words_for_users(row: dict[str, Any]) -> None:
    file, words = row["words"]
    assert words in (ROOT / file).read_text(encoding="utf-8")
