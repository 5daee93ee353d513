# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the library that Ansible sends along with a module: those that its import statements name,
be it in a function, and those that a file which is sent names (ansible.executor.module_common)."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator

TUNING = pathlib.Path(__file__).parents[2]
MODULES = TUNING / "plugins/modules"
LIBRARY = TUNING / "plugins/module_utils"
_NAME = "ansible_collections.mlnode.tuning.plugins.module_utils"


def of(module: pathlib.Path) -> frozenset[str]:
    """Their names below module_utils, such as _mlnode.knobs.thp.kind, without the empty files of packages."""
    return frozenset(name for name in _closure(_named(module, "")) if _file(name).stat().st_size)


def of_library(name: str) -> frozenset[str]:
    """The same for a part of the library, itself included."""
    return frozenset(_closure(iter((name,))))


def source(name: str) -> ast.Module:
    return ast.parse(_file(name).read_text(encoding="utf-8"))


def _closure(names: Iterator[str]) -> set[str]:
    found: set[str] = set()
    todo = [*names]
    while todo:
        name = todo.pop()
        if name and name not in found:
            found.add(name)
            todo += [name.rpartition(".")[0], *imported(name)]
    return found


@functools.cache
def imported(name: str) -> tuple[str, ...]:
    return tuple(_named(_file(name), name))


def _named(path: pathlib.Path, name: str) -> Iterator[str]:
    """What the import statements of a file name of the library."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            for alias in node.names if base is not None else ():
                whole = f"{base}.{alias.name}".strip(".")
                yield whole if _is_there(whole) else str(base)
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith(_NAME) for alias in node.names), path


def _base(node: ast.ImportFrom, package: str) -> str | None:
    """What it imports from, below module_utils; None for what is not of the library."""
    module = node.module or ""
    if node.level:
        parts = package.split(".")
        return ".".join(part for part in (*parts[: len(parts) - node.level + 1], module) if part)
    return module[len(_NAME) + 1 :] if f"{module}.".startswith(f"{_NAME}.") else None


def _is_there(name: str) -> bool:
    path = LIBRARY.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def _file(name: str) -> pathlib.Path:
    path = LIBRARY.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
