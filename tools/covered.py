# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which unit tests run a line of the library, as measured by coverage.

Each folder of tests is measured alone and kept in .cache/covered until its files change. Lines are stored by
function and text, so moved and unchanged lines can be found after an edit of the library.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from coverage import CoverageData

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = "tests/unit/plugins"
CACHE = ROOT / ".cache/covered"

#: Tests of one folder that are kept for a line; tests that run little else come first
_KEPT = 200


def functions(tree: ast.Module | ast.ClassDef, outer: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes in the bodies of functions, each with the qualified name of the outermost function."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{outer}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in node.body:
                yield from ((inner, outer + node.name) for inner in ast.walk(part))


@lru_cache(maxsize=None)
def _lines(path: str) -> dict[int, tuple[str, str]]:
    """Number of a line → the function that it is in, and its text."""
    text = (ROOT / path).read_text(encoding="utf-8")
    named = {getattr(node, "lineno", 0): name for node, name in functions(ast.parse(text))}
    return {at: (named.get(at, ""), line.strip()) for at, line in enumerate(text.splitlines(), 1)}


def measure(jobs: int) -> None:
    """Run the tests of all folders whose files have changed since their last measurement."""
    for folder in sorted({path.parent for path in (ROOT / TESTS).rglob("test_*.py")}):
        kept, digest = _cache(folder), _digest(folder)
        if not kept.exists() or json.loads(kept.read_text())["digest"] != digest:
            print(f"measuring {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"digest": digest, **_measured(folder, jobs)}))


def _cache(folder: pathlib.Path) -> pathlib.Path:
    return CACHE / (str(folder.relative_to(ROOT)).replace("/", ".") + ".json")


def _digest(folder: pathlib.Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _measured(folder: pathlib.Path, jobs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as own:
        settings = pathlib.Path(own, "settings")
        settings.write_text(f"[run]\nsource = {ROOT}/plugins\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long"]
        command += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
        command += [
            f"--numprocesses={jobs}",
            f"--basetemp={own}/tests",
            *map(str, sorted(folder.glob("test_*.py"))),
        ]
        environment = {**os.environ, "COVERAGE_FILE": f"{own}/data"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 5):
            sys.exit(done.stdout + done.stderr)
        data = CoverageData(f"{own}/data")
        data.read()
        return _read(data)


def _read(data: CoverageData) -> dict[str, Any]:
    runs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for name in data.measured_files():
        path = str(pathlib.Path(name).relative_to(ROOT))
        lines = _lines(path)
        for at, contexts in data.contexts_by_lineno(name).items():
            runs[(path, *lines.get(at, ("", "")))].update(context.rpartition("|")[0] for context in contexts)
    amounts = Counter(test for tests in runs.values() for test in tests)
    numbers = {test: number for number, test in enumerate(amounts)}
    return {
        "tests": list(amounts.items()),
        "lines": [
            [
                *line,
                [numbers[test] for test in sorted(tests, key=lambda test: (not test, amounts[test]))[:_KEPT]],
            ]
            for line, tests in runs.items()
            if tests != {""}
        ],
        "at_import": sorted({line[:2] for line, tests in runs.items() if "" in tests and line[1]}),
    }


class Coverage:
    """All that was measured."""

    def __init__(self) -> None:
        self._amounts: dict[str, int] = {}
        #: File, function and text of a line, or less of them, → the tests that run such lines
        self._runs: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._imported: set[tuple[str, str]] = set()
        for kept in CACHE.glob("*.json"):
            document = json.loads(kept.read_text())
            self._amounts.update(document["tests"])
            self._imported.update((path, function) for path, function in document["at_import"])
            for path, function, text, numbers in document["lines"]:
                tests = {document["tests"][number][0] for number in numbers} - {""}
                for line in ((path, function, text), (path, function), (path,), (os.path.dirname(path),)):
                    self._runs[line] |= tests

    def tests(self, path: str, function: str, line: int) -> list[str]:
        """The tests that run a line, or its function if the line is new. For a line outside of functions: the
        tests that run its file, or else its folder. The tests of that file come first, then those in its
        folder; in each group, tests that run the least come first."""
        exact = (path, function, _lines(path)[line][1]) if function else (path,)
        lines = (exact, (path, function), (path,), (os.path.dirname(path),))
        tests: set[str] = next((self._runs[place] for place in lines if self._runs[place]), set())
        folder, name = os.path.split(path)
        near = (f"tests/unit/{folder}/test_{name}::", f"tests/unit/{folder}/", "")
        return sorted(
            tests, key=lambda test: (list(map(test.startswith, near)).index(True), self._amounts[test], test)
        )

    def at_import(self, path: str, function: str) -> bool:
        """True if a function runs when its module is imported."""
        return (path, function) in self._imported
