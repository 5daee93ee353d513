# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library's packages import in one direction, and few of its files deal with the operating system."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import graphlib
import pytest
from ansible_collections.mlnode.tuning.tests.unit import shipped

LIBRARY = shipped.LIBRARY / "_mlnode"

#: From the ground floor up: what is in one layer may import the layers before it, and its own package
LAYERS = (
    {"model"},
    {"host"},
    {"drivers", "linux"},
    {"loader", "topology"},
    {"engine"},
    {"knobs"},
    {"checks"},
    {"report"},
    {"agent"},
)

#: Of Python's own, what reaches the operating system
_SYSTEM = {"ctypes", "fcntl", "glob", "pathlib", "shutil", "signal", "socket", "subprocess", "tempfile"}

#: Names of `os` that are constants, or work on texts alone
_WORDS = re.compile(r"devnull|environ|fsdecode|fsencode|path|strerror|urandom|getpid|[A-Z]+_[A-Z]+")

#: Outside of host/, each with its reason
MAY_TOUCH = {
    "agent/cli.py": "signals that end a run",
    "agent/output.py": "the terminal's width, and an output that is closed or full",
    "checks/campaign/clock.py": "the age of its own process, and the ticks in which the kernel has it",
    "checks/campaign/run.py": "the alarm and the CPUs of the process that measures",
    "checks/path_mtu.py": "forms of addresses, no packet",
    "checks/preflight/connect.py": "the listener, and connections to peers",
    "checks/subnet/check.py": "a folder for what ibnetdiscover writes",
    "drivers/ethtool/ioctls.py": "the driver: ioctl(2) of sockets",
    "engine/confirm.py": "ends the process that waits to undo a change",
    "engine/lock.py": "flock(2)",
    "engine/origin.py": "statvfs(2): a file system that is mounted read-only",
    "linux/kernel_clock.py": "adjtimex(2), which Python does not have",
    "linux/perftest.py": "the CPUs of a measurement",
    "linux/timeout.py": "the number of a signal",
}


def files() -> list[pathlib.Path]:
    return sorted(path for path in LIBRARY.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: pathlib.Path) -> str:
    parts = path.relative_to(shipped.LIBRARY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: pathlib.Path) -> Iterator[str]:
    """Modules of the library, also those that are imported in a function, or for types only."""
    yield from (name for name in shipped.imported(name_of(path)) if name.count("."))


def test_every_package_is_in_a_layer() -> None:
    folders = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").exists()}
    assert folders == set().union(*LAYERS)
    assert {path.name for path in LIBRARY.glob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_file_imports_its_own_package_and_those_below(path: pathlib.Path) -> None:
    floor = {package: number for number, layer in enumerate(LAYERS) for package in layer}
    own = path.relative_to(LIBRARY).parts[0]
    if own == "__init__.py":
        return
    for name in imported(path):
        package = name.split(".")[1]
        assert package == own or floor[package] < floor[own], f"{path.relative_to(LIBRARY)} imports {name}"


def test_no_package_imports_itself_through_another() -> None:
    graph: dict[str, set[str]] = {}
    for path in files():
        own = str(path.parent.relative_to(LIBRARY))
        for name in imported(path):
            target = shipped.LIBRARY.joinpath(*name.split("."))
            folder = target if target.is_dir() else target.parent
            graph.setdefault(own, set()).add(str(folder.relative_to(LIBRARY)))
    order = graphlib.TopologicalSorter({one: {*found} - {one, "."} for one, found in graph.items()})
    assert [*order.static_order()]


def test_no_file_imports_itself_through_another() -> None:
    graph = {name_of(path): {*imported(path)} - {name_of(path)} for path in files()}
    assert [*graphlib.TopologicalSorter(graph).static_order()]


def test_few_files_reach_the_operating_system_past_host() -> None:
    found = set()
    for path in files():
        where = path.relative_to(LIBRARY).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            calls = (
                isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
            )
            reaches = calls and not _WORDS.fullmatch(node.attr)
            if reaches or {name.partition(".")[0] for name in names} & _SYSTEM:
                found.add(where)
    assert {where for where in found if not where.startswith("host/")} == {*MAY_TOUCH}
