# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the engine in small ways and report the changes that its tests do not catch.

No file is changed: pytest loads this as a plugin, which imports the mutant of a module in its place. Some
mutants mean the same as the original, so not each one that is missed is a gap.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
ENGINE = "plugins/module_utils/_mlnode/engine"

#: Module of the engine → its tests, those first that are likely to catch something
TESTS = {
    "judge": ("judge", "engine", "boot_service", "../knobs/test_conformance.py"),
    "transaction": ("transaction", "many_files", "engine", "left", "edited_file"),
    "restore": ("restore", "revert", "transaction", "many_files", "left", "edited_file"),
    "origin": ("origin", "origin_paths", "revert", "many_files", "left", "edited_file", "origin_lost"),
}

_PAIRS = (
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub)),
)
_OTHER: dict[type[ast.AST], Any] = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_DROPPED = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


class Mutant(ast.NodeTransformer):
    """Makes change number `at`, counted from 1, and finds all that there are where at is 0."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.found: list[str] = []

    def _chosen(self, node: ast.AST, words: str) -> bool:
        self.found.append(f"{getattr(node, 'lineno', 0)}: {words}")
        return len(self.found) == self.at

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        return next((other for other, words in _others(node) if self._chosen(node, words)), node)


def _others(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that could replace a node, and how each reads."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        changed = ast.Compare(node.left, [_OTHER[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield ast.copy_location(changed, node), f"{ast.unparse(node)} -> {ast.unparse(changed)}"
    elif isinstance(node, (ast.BoolOp, ast.BinOp)) and type(node.op) in _OTHER:
        yield _with(node, op=_OTHER[type(node.op)]()), f"operator of {ast.unparse(node)}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand, f"no `not` in {ast.unparse(node)}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield _with(node, value=value), f"{node.value} -> {value}"
    elif isinstance(node, (ast.If, ast.IfExp)):
        for value in (True, False):
            yield _with(node, test=ast.Constant(value)), f"if {ast.unparse(node.test)} -> if {value}"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield _with(node, value=ast.Constant(None)), f"{ast.unparse(node)} -> None"
    elif isinstance(node, _DROPPED) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.copy_location(ast.Pass(), node), f"without {ast.unparse(node)}"


def _with(node: ast.AST, **fields: object) -> ast.AST:
    kept = {name: getattr(node, name) for name in node._fields}
    return ast.copy_location(type(node)(**{**kept, **fields}), node)


def mutated(path: pathlib.Path, at: int) -> tuple[ast.Module, list[str]]:
    mutant = Mutant(at)
    tree = mutant.visit(ast.parse(path.read_text(encoding="utf-8")))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree), mutant.found


_get_code = SourceFileLoader.get_code


def _mutant(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """In the place of SourceFileLoader.get_code: of the file of the mutant nothing compiled is used."""
    name, at = os.environ["MLNODE_MUTANT"].split(":")
    path = ROOT / ENGINE / f"{name}.py"
    if os.path.realpath(loader.path) != str(path):
        return _get_code(loader, fullname)
    return compile(mutated(path, int(at))[0], loader.path, "exec", dont_inherit=True)


if "MLNODE_MUTANT" in os.environ:
    SourceFileLoader.get_code = _mutant  # type: ignore[method-assign,assignment]  # for this process


def caught(name: str, at: int) -> bool:
    environment = {**os.environ, "MLNODE_MUTANT": f"{name}:{at}", "PYTHONPATH": str(ROOT / "tools")}
    tests = [path if "/" in path else f"test_{path}.py" for path in TESTS[name]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutants", "-p", "no:cacheprovider", *tests]
    folder = ROOT / "tests/unit" / ENGINE
    with tempfile.TemporaryDirectory() as own:
        command += ["--basetemp", f"{own}/tests"]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, check=False, timeout=300
            )
        except subprocess.TimeoutExpired:
            return True
    # 1 is a test that failed, 2 a mutant that cannot be imported
    assert done.returncode < 3, done.stdout.decode()
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*TESTS], help="modules of the engine", metavar="MODULE")
    parser.add_argument("--count", type=int, default=60, help="how many mutants are tried; 0 for all")
    parser.add_argument("--seed", type=int, default=20, help="another one chooses others")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    words = {name: mutated(ROOT / ENGINE / f"{name}.py", 0)[1] for name in asked.names}
    every = [(name, at) for name in words for at in range(1, len(words[name]) + 1)]
    if failing := [name for name in words if caught(name, 0)]:
        sys.exit(f"the tests of {', '.join(failing)} fail without any change")
    chosen = sorted(random.Random(asked.seed).sample(every, min(asked.count or len(every), len(every))))
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = dict(zip(chosen, pool.map(lambda one: caught(*one), chosen)))
    for (name, at), was in found.items():
        if not was:
            print(f"missed: {name}.py:{words[name][at - 1]}", flush=True)
    print(f"{sum(found.values())} of {len(chosen)} caught ({len(every)} mutants in all)")


if __name__ == "__main__":
    main()
