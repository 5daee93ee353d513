# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions and variables of the product are named by the noun of what they hold."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]
#: Words that fit everything, and so name nothing
NAMELESS = {"one", "found", "of"}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of functions, arguments and variables; not of fields, which may be keys of documents."""
    fields = {
        statement.target for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        for statement in node.body if isinstance(statement, ast.AnnAssign)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.lineno, node.id


def test_every_name_is_a_noun() -> None:
    nameless = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in ("plugins", "scripts", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if name in NAMELESS
    ]
    assert nameless == []


def test_a_nameless_variable_is_seen_and_a_field_is_not() -> None:
    text = "class A:\n    found: int\n\ndef of(one):\n    found = [one for one in one]\n"
    assert sorted(names(ast.parse(text))) == [(4, "of"), (4, "one"), (5, "found"), (5, "one")]
