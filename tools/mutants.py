# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the library in small ways and report the changes that no test notices.

No file is changed. One process collects the tests. For each mutant it forks, replaces the code of the
imported functions, and runs the tests that are known to run the changed line (tools/covered.py). A mutant
outside of functions gets a new process that imports the mutant instead of its module. Some mutants have the
same meaning as the original, so a missed mutant is not always a gap.

A line of the result is `killed|missed FILE:FUNCTION: CHANGE`. It has no line number, so `comm` can compare
two results even if lines have moved, and `--of RESULT` tries the same mutants again.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import os
import pathlib
import random
import resource
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import covered
import pytest
from covered import ROOT

LIBRARY = "plugins/module_utils/_mlnode"
AREAS = (f"{LIBRARY}/engine", f"{LIBRARY}/knobs", f"{LIBRARY}/checks", "plugins/plugin_utils")

#: Limits that only stop what never ends: CPU time and time of a test (it takes 3 s at most), and memory (a
#: process takes 300 MiB)
CPU_SECONDS, SECONDS, BYTES = 30, 120, 4 << 30

_PAIRS = (
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub)),
)
_OTHER: dict[type[ast.AST], Any] = {sign: other for pair in _PAIRS for sign, other in (pair, pair[::-1])}
_DROPPED = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


class Mutant(NamedTuple):
    path: str  # from the root of the collection
    at: int  # number of the change in the file, counted from 1
    line: int
    function: str  # its qualified name, and "" outside of functions
    change: str

    def __str__(self) -> str:
        return f"{self.path}:{self.function}: {self.change}"


class Changer(ast.NodeTransformer):
    """Makes change number `at`, or finds all changes if at is 0."""

    def __init__(self, path: str, tree: ast.Module, at: int = 0) -> None:
        self.path, self.at = path, at
        self.functions = {id(node): name for node, name in covered.functions(tree)}
        self.seen: Counter[tuple[str, str]] = Counter()
        self.found: list[Mutant] = []

    def _chosen(self, node: ast.AST, words: str) -> bool:
        function, change = self.functions.get(id(node), ""), " ".join(words.split())
        self.seen[function, change] += 1
        if self.seen[function, change] > 1:
            change += f" #{self.seen[function, change]}"
        line = getattr(node, "lineno", 0)
        self.found.append(Mutant(self.path, len(self.found) + 1, line, function, change))
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


def mutants(path: str, text: str) -> list[Mutant]:
    """All changes of a file."""
    tree = ast.parse(text)
    changer = Changer(path, tree)
    changer.visit(tree)
    return changer.found


def compiled(path: str, at: int, name: str) -> CodeType:
    """The code of a module with one change."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    changed = Changer(path, tree, at).visit(tree)
    assert isinstance(changed, ast.Module)
    return compile(ast.fix_missing_locations(changed), name, "exec", dont_inherit=True)


class Run(NamedTuple):
    """Tests with a mutant, or without any."""

    mutant: Mutant | None
    tests: tuple[str, ...]


class Trial:
    """A pytest plugin that runs mutants instead of the tests."""

    def __init__(self, chosen: list[Mutant], jobs: int, count: int) -> None:
        self.chosen, self.jobs, self.count = chosen, jobs, count
        self.coverage = covered.Coverage()
        #: Mutant → the test that noticed it, "crash" if a test did not end, "" if no test failed
        self.killers: dict[Mutant, str] = {}

    def files(self) -> list[str]:
        """The files of all tests that may be run."""
        every = {test.partition("::")[0] for mutant in self.chosen for test in self._tests(mutant)}
        return sorted(path for path in every if (ROOT / path).exists())

    def _tests(self, mutant: Mutant) -> list[str]:
        return self.coverage.tests(mutant.path, mutant.function, mutant.line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.functions = _functions()
        gc.freeze()
        broken: set[str] = set()
        proven = {"", "crash"}
        left = self.chosen
        while left:
            self.killers.update(self._tried(left, broken))
            # A test that fails in this way of running it without any mutant has noticed none.
            new = {self.killers[mutant] for mutant in left} - proven
            failing = {run.tests[0] for run, by in self._runs([Run(None, (test,)) for test in new]) if by}
            broken |= failing
            proven |= new
            left = [mutant for mutant in left if self.killers[mutant] in failing]
        for test in sorted(broken):
            print(f"left out, as it fails without any mutant: {test}", file=sys.stderr)
        return True

    def _tried(self, left: Iterable[Mutant], broken: set[str]) -> Iterator[tuple[Mutant, str]]:
        runs = []
        for mutant in left:
            tests = [test for test in self._tests(mutant) if test in self.items and test not in broken]
            runs.append(Run(mutant, tuple(tests[: self.count])))
        for number, (run, by) in enumerate(self._runs(runs), 1):
            assert run.mutant
            print(f"{number}/{len(runs)} {run.mutant} | {len(run.tests)} | {by or 'missed'}", file=sys.stderr)
            yield run.mutant, by

    def _runs(self, waiting: list[Run]) -> Iterator[tuple[Run, str]]:
        running: dict[int, tuple[Run, tempfile.TemporaryDirectory[str]]] = {}
        waiting = waiting[::-1]
        while waiting or running:
            while waiting and len(running) < self.jobs:
                run, own = waiting.pop(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
                if (pid := os.fork()) == 0:
                    self._child(run, pathlib.Path(own.name))
                running[pid] = run, own
            pid, status = os.wait()
            run, own = running.pop(pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            by = pathlib.Path(own.name, "killer")
            yield run, by.read_text() if by.exists() else "crash" if status else ""
            own.cleanup()

    def _child(self, run: Run, own: pathlib.Path) -> None:
        """Run tests until one fails, and end."""
        try:
            if not run.tests:
                os._exit(0)
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            os.environ["MLNODE_KILLER"] = str(own / "killer")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if run.mutant and not self._changed(run.mutant):
                _allow(CPU_SECONDS * 10)
                _start(run, own)
            factory = self.session.config._tmp_path_factory  # type: ignore[attr-defined]  # as xdist sets it
            factory._given_basetemp, factory._basetemp = own / "tests", None
            self.session.config.pluginmanager.unregister(name="terminalreporter")
            items = [self.items[test] for test in run.tests]
            for item, following in zip(items, [*items[1:], None]):
                _allow(CPU_SECONDS)
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.session.testsfailed:
                    os._exit(1)
            os._exit(0)
        finally:
            os._exit(3)

    def _changed(self, mutant: Mutant) -> bool:
        """True if the imported functions have the changed code now. A function that ran while its module was
        imported, or with other variables of outer functions, cannot be changed."""
        if not mutant.function or self.coverage.at_import(mutant.path, mutant.function):
            return False
        path = str(ROOT / mutant.path)
        for code in _codes(compiled(mutant.path, mutant.at, path)):
            functions = self.functions[path, mutant.function, code.co_firstlineno]
            if code.co_qualname == mutant.function and functions:
                if any(function.__code__.co_freevars != code.co_freevars for function in functions):
                    return False
                for function in functions:
                    function.__code__ = code
                return True
        return False


def _allow(seconds: int) -> None:
    """Let this process use that much more CPU time."""
    soft = int(sum(os.times()[:2])) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _start(run: Run, own: pathlib.Path) -> None:
    """Become a pytest that imports a mutant."""
    assert run.mutant
    named = {
        "MLNODE_MUTANT": f"{run.mutant.path}:{run.mutant.at}",
        "PYTHONPATH": str(ROOT / "tools"),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutants", *_OPTIONS]
    command += ["--basetemp", str(own / "tests"), *run.tests]
    os.execve(sys.executable, command, {**os.environ, **named})


_OPTIONS = (
    *("-p", "no:cacheprovider", "--hypothesis-seed=0", f"--rootdir={ROOT}"),
    *("-o", f"faulthandler_timeout={SECONDS}", "-o", "faulthandler_exit_on_timeout=true"),
)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and (path := os.environ.get("MLNODE_KILLER")):
        pathlib.Path(path).write_text(report.nodeid)


def _functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions of this process, by file, qualified name and line."""
    real = lru_cache(None)(os.path.realpath)
    functions = defaultdict(list)
    for function in gc.get_objects():
        if isinstance(function, FunctionType):
            code = function.__code__
            functions[real(code.co_filename), code.co_qualname, code.co_firstlineno].append(function)
    return functions


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


_get_code = SourceFileLoader.get_code


def _mutant(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """Replaces SourceFileLoader.get_code: compiled code of the mutant's file is not used."""
    path, at = os.environ["MLNODE_MUTANT"].split(":")
    if os.path.realpath(loader.path) != str(ROOT / path):
        return _get_code(loader, fullname)
    return compiled(path, int(at), loader.path)


if "MLNODE_MUTANT" in os.environ:
    SourceFileLoader.get_code = _mutant  # type: ignore[method-assign,assignment]  # for this process


def every(paths: Iterable[str]) -> list[Mutant]:
    files = sorted({file for path in paths for file in _files(path)})
    return [mutant for file in files for mutant in mutants(file, (ROOT / file).read_text(encoding="utf-8"))]


def _files(path: str) -> Iterator[str]:
    full = ROOT / path
    files = full.rglob("*.py") if full.is_dir() else full.parent.glob(full.name + "*")
    return (str(file.relative_to(ROOT)) for file in files if file.suffix == ".py")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--paths", nargs="+", default=AREAS, metavar="PREFIX", help="files or folders of them"
    )
    parser.add_argument("--count", type=int, default=100, help="how many mutants are tried; 0 for all")
    parser.add_argument("--seed", type=int, default=20, help="another one chooses others")
    parser.add_argument(
        "--of", type=argparse.FileType(), metavar="RESULT", help="the mutants of an earlier result"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", type=int, default=200, help="how many are tried for a mutant at most")
    asked = parser.parse_args()
    all_mutants = every(asked.paths)
    if asked.of:
        earlier = {line.rstrip("\n").partition(" ")[2] for line in asked.of}
        chosen = [mutant for mutant in all_mutants if str(mutant) in earlier]
        print(f"{len(chosen)} of {len(earlier)} mutants are still there", file=sys.stderr)
    else:
        chosen = random.Random(asked.seed).sample(
            all_mutants, min(asked.count or len(all_mutants), len(all_mutants))
        )
    covered.measure(asked.jobs)
    trial = Trial(chosen, asked.jobs, asked.tests)
    os.chdir(ROOT)
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main(
            ["-qq", "-m", "not long", *_OPTIONS, *trial.files()], plugins=[trial, sys.modules[__name__]]
        )
    if len(trial.killers) < len(chosen):
        sys.exit(f"the tests cannot be collected: pytest ended with {status}")
    for line in sorted(f"{'killed' if by else 'missed'} {mutant}" for mutant, by in trial.killers.items()):
        print(line)
    killed = sum(map(bool, trial.killers.values()))
    print(f"{killed} of {len(chosen)} killed ({len(all_mutants)} mutants in all)", file=sys.stderr)


if __name__ == "__main__":
    main()
