# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns against glob(3) of the C library, as systemd calls it."""

from __future__ import annotations

import ctypes
import os
import pathlib
import random

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from mlnode.linux import glob3

#: glob.h of the C library
GLOB_NOSORT, GLOB_BRACE = 1 << 2, 1 << 10

NAMES = (
    "a",
    "b",
    "ab",
    "ac",
    "abc",
    "0",
    "a0",
    "a-b",
    "[",
    "]",
    "!",
    "{a}",
    "{}",
    "a,b",
    ":",
    "A",
    "b]",
    "[a",
)
PIECES = (
    *("a", "b", "c", "0", "-", "*", "?", "[", "]", "!", "^", "{", "}", ",", "\\", "[:alpha:]", "[:digit:]"),
    *(
        "[[:lower:]]",
        "[![:digit:]]",
        "[[:digit:]-b]",
        "[.a.]",
        "[[=b=]]",
        "[ab]",
        "[!a]",
        "{a,b}",
        "[a-c]",
        "[c-a]",
        "{,a}",
        "{}",
    ),
)


class _Found(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_size_t),
        ("paths", ctypes.POINTER(ctypes.c_char_p)),
        ("rest", ctypes.c_byte * 80),
    )


def real(pattern: str) -> set[str]:
    libc, found = ctypes.CDLL(None), _Found()
    failed = libc.glob(os.fsencode(pattern), GLOB_BRACE | GLOB_NOSORT, None, ctypes.byref(found))
    paths = set() if failed else {os.fsdecode(found.paths[at]) for at in range(found.count)}
    libc.globfree(ctypes.byref(found))
    return paths


def test_a_pattern_names_what_glob_finds(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    chance = random.Random(39 if EFFORT == 1 else None)
    matched = 0
    for _pattern in range(400 * EFFORT):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 6)))
        found = {name for name in NAMES if glob3.matches(pattern, name)}
        assert found == real(pattern) & {*NAMES}, pattern
        matched += bool(found)
    assert matched > 50 * EFFORT


@cases.table
def test_no_sign_but_a_list_goes_over_a_slash(pattern: str, path: str, matches: bool) -> None:
    assert glob3.matches(pattern, path) is matches


@pytest.mark.parametrize("name", ["-0", "a0", "z0", "eth0"])
def test_a_class_is_no_end_of_a_range(name: str) -> None:
    """It and the sign are members, as in glibc."""
    found = glob3.matches("net/ipv4/conf/[[:cntrl:]-z]*/rp_filter", f"net/ipv4/conf/{name}/rp_filter")
    assert found is (name[0] in "-z")
