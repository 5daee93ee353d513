# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of inputs and results in YAML, side by side."""

from __future__ import annotations

import functools
import inspect
import pathlib
from typing import Any, Callable, TypeVar

import pytest
import yaml

Test = TypeVar("Test", bound=Callable[..., None])


class _Loader(yaml.SafeLoader):
    """`!tuple [a, b]` is a tuple of Python. Long values are computed: `!times [a, 5000, b]` is 5000 times a,
    followed by b, and `!power [10, 5000]` is a number."""


def _times(loader: _Loader, node: yaml.SequenceNode) -> str:
    unit, count, end = loader.construct_sequence(node)
    return str(unit * count + end)


def _power(loader: _Loader, node: yaml.SequenceNode) -> int:
    base, exponent = loader.construct_sequence(node)
    return int(base**exponent)


def _tuple(loader: _Loader, node: yaml.SequenceNode) -> tuple[Any, ...]:
    return tuple(loader.construct_sequence(node, deep=True))


_Loader.add_constructor("!times", _times)
_Loader.add_constructor("!tuple", _tuple)
_Loader.add_constructor("!power", _power)


def load(path: pathlib.Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


@functools.lru_cache(maxsize=None)
def _tables(path: pathlib.Path) -> Any:
    return load(path)


def table(test: Test) -> Test:
    """Parametrize a test with the list under its name in test_x.yml, next to test_x.py. Each case is a
    dictionary of arguments."""
    path = pathlib.Path(inspect.getfile(test)).with_suffix(".yml")
    cases = _tables(path)[test.__name__]
    names = [*cases[0]]
    assert all([*case] == names for case in cases), f"{path}, {test.__name__}: cases of other arguments"
    values = [pytest.param(*case.values()) for case in cases]
    made: Test = pytest.mark.parametrize(names, values)(test)
    return made
