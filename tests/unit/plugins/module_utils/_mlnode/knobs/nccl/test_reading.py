# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How NCCL understands values, held against the C library's own strtoll()."""

from __future__ import annotations

import ctypes
import pathlib

import pytest
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


@pytest.mark.parametrize(
    ("name", "text", "words", "better"),
    [
        ("NCCL_BUFFSIZE", "4M", "NCCL reads 4", "4194304"),
        ("NCCL_BUFFSIZE", "8MiB", "NCCL reads 8", "8388608"),
        ("NCCL_BUFFSIZE", "1 G", "NCCL reads 1", "1073741824"),
        ("NCCL_IB_TC", "0106", "NCCL reads 70", "106"),
        ("NCCL_IB_TC", "08", "NCCL reads 0", "8"),
        ("NCCL_IB_DISABLE", "yes", "NCCL reads 0", "1"),
        ("NCCL_IB_DISABLE", "false", "NCCL reads 0", "0"),
        ("NCCL_IB_TIMEOUT", "99", "NCCL reads 99", ""),
        ("NCCL_BUFFSIZE", "9" * 30, "NCCL takes its default", ""),
        ("NCCL_NET_GDR_LEVEL", "0", "the old number of LOC", "LOC"),
        ("NCCL_NET_GDR_LEVEL", "2", "the old number of PXB", "PXB"),
        ("NCCL_P2P_LEVEL", "5", "the old number of SYS", "SYS"),
        ("NCCL_NET_GDR_LEVEL", "77", "the old number of SYS", "SYS"),
        ("SHARP_COLL_LOG_LEVEL", "WARN", "libsharp takes a number", "2"),
        ("NCCL_DEBUG", "VERBOSE", "NCCL ignores it", ""),
    ],
)
def test_what_is_misread_is_said_with_what_to_write(name: str, text: str, words: str, better: str) -> None:
    assert words in reading.misread(name, text)
    assert reading.instead(name, text) == better


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NCCL_IB_TC", "0x6a"),
        ("NCCL_DEBUG", "warn"),
        ("NCCL_ALGO", "Rings"),
        ("NCCL_BUFFSIZE", ""),
        ("X", "1"),
    ],
)
def test_what_nccl_takes_or_reports_is_not_misread(name: str, text: str) -> None:
    assert reading.misread(name, text) == ""
    assert reading.hint(name, text) == ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NCCL_NET_GDR_LEVEL", 2, "; NCCL takes it for the old number of PXB; write PXB"),
        ("SHARP_COLL_LOG_LEVEL", "WARN", "; libsharp takes a number; write 2"),
        ("NCCL_BUFFSIZE", "4M", "; NCCL reads 4; write 4194304"),
    ],
)
def test_a_declaration_says_why_it_is_refused_and_what_to_write(
    tmp_path: pathlib.Path, name: str, value: object, words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        plan(roce(str(tmp_path / "node")), **{name: value})


# -- lists of devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("mlx5_1", ["mlx5_1:1", "mlx5_10:1"]),
        ("=mlx5_1", ["mlx5_1:1"]),
        ("^mlx5_1", ["mlx5_0:1", "mlx5_0:2"]),
        ("^=mlx5_1", ["mlx5_0:1", "mlx5_0:2", "mlx5_10:1"]),
        ("mlx5_0:2", ["mlx5_0:2"]),
        ("mlx5_0:2,mlx5_10", ["mlx5_0:2", "mlx5_10:1"]),
        ("=mlx5_0:1:0:1", ["mlx5_0:1"]),
        ("mlx5_0:x", []),
        ("mlx5_7", []),
        ("MLX5", []),
        ("", ["mlx5_0:1", "mlx5_0:2", "mlx5_1:1", "mlx5_10:1"]),
        (",", ["mlx5_0:1", "mlx5_0:2", "mlx5_1:1", "mlx5_10:1"]),
        ("^", []),
        ("=^mlx5", []),
        (" mlx5_0", []),
    ],
)
def test_lists_mean_what_they_mean_to_nccl(text: str, taken: list[str]) -> None:
    ports = [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_10", 1)]
    pattern = matching.parse(text)

    assert [f"{name}:{port}" for name, port in ports if pattern.takes(name, port)] == taken


# -- meanings ----------------------------------------------------------------------------------------------


def test_all_documented_variables_have_a_meaning() -> None:
    documented = {name for name, one in names.KNOWN.items() if one.group in (names.SYSTEM, names.DEBUGGING)}

    assert documented == {*meanings.MEANINGS} - {"NCCL_CONF_FILE", "SHARP_COLL_LOG_LEVEL"}
    assert len(meanings.COMMON) >= 15
