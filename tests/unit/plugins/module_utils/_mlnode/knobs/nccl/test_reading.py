# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How NCCL understands values, held against the C library's own strtoll()."""

from __future__ import annotations

import ctypes
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.nccl import matching, meanings, names, reading
from mlnode.model.errors import DeclarationError

from .node import plan, roce

_C = ctypes.CDLL(None, use_errno=True)
_C.strtoll.restype = ctypes.c_longlong
_C.strtoll.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)


def of_c(text: str) -> int | None:
    ctypes.set_errno(0)
    number = int(_C.strtoll(text.encode(), None, 0))
    return None if ctypes.get_errno() else number


@given(st.text("0123456789abcdefxX+- \tkMG", max_size=24))
def test_numbers_are_read_as_the_c_library_does(text: str) -> None:
    assert reading.strtoll(text) == of_c(text)


@cases.table
def test_what_is_misread_is_said_with_what_to_write(name: str, text: str, words: str, better: str) -> None:
    assert words in reading.misread(name, text)
    assert reading.instead(name, text) == better


@cases.table
def test_what_nccl_takes_or_reports_is_not_misread(name: str, text: str) -> None:
    assert reading.misread(name, text) == ""
    assert reading.hint(name, text) == ""


@cases.table
def test_a_declaration_says_why_it_is_refused_and_what_to_write(
    tmp_path: pathlib.Path, name: str, value: object, words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        plan(roce(str(tmp_path / "node")), **{name: value})


# -- lists of devices ------------------------------------------------------------------------------------


@cases.table
def test_lists_mean_what_they_mean_to_nccl(text: str, taken: list[str]) -> None:
    ports = [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_10", 1)]
    pattern = matching.parse(text)

    assert [f"{name}:{port}" for name, port in ports if pattern.takes(name, port)] == taken


# -- meanings ----------------------------------------------------------------------------------------------


def test_all_documented_variables_have_a_meaning() -> None:
    documented = {name for name, one in names.KNOWN.items() if one.group in (names.SYSTEM, names.DEBUGGING)}

    assert documented == {*meanings.MEANINGS} - {"NCCL_CONF_FILE", "SHARP_COLL_LOG_LEVEL"}
    assert len(meanings.COMMON) >= 15
