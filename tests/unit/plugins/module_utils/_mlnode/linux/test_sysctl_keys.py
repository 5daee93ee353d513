# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of keys against the kernel of this machine, and values against its own verdict."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, netns
from mlnode.linux import sysctl_d, sysctl_keys, sysctl_values
from mlnode.model.errors import DeclarationError

PROC = pathlib.Path("/proc/sys")

#: What no table has: the scheduler's domains by CPU (until 5.13), mounted file systems, and what a virtual
#: machine's own kernel adds
OTHERS = ("kernel/sched_domain/", "fs/binfmt_misc/", "kernel/init_private", "dev/parport/", "kernel/spl/")


def here() -> list[str]:
    """All keys of the running kernel."""
    found = [str(path.relative_to(PROC)) for path in PROC.rglob("*") if path.is_file()]
    assert len(found) > 100
    return [key for key in found if not key.startswith(OTHERS)]


def test_the_table_has_every_key_of_this_kernel() -> None:
    assert [key for key in here() if not sysctl_keys.is_known(key)] == []


def test_no_key_of_this_kernel_is_taken_for_a_mistake() -> None:
    assert [key for key in here() if sysctl_keys.meant(key)] == []


@cases.table
def test_the_known_key_that_a_misspelt_one_means(path: str, meant: str) -> None:
    assert sysctl_keys.meant(path) == meant


@cases.table
def test_the_numbers_that_a_key_takes(
    path: str, release: str, possible: tuple[int, int] | None, taken: tuple[int, int] | None, unit: str
) -> None:
    assert sysctl_keys.numbers(path, release) == sysctl_keys.Numbers(possible, taken, unit)


#: Words, numbers at the ends of the types of the kernel, and vectors of other lengths
VALUES = (
    "ten", "5s", "1.5", "1,2", "1 x", "-1", "0", "1", "2", "100", "255", "256", "65535", "65536",
    "2147483647", "2147483648", "-2147483649", "4294967295", "4294967296", "18446744073709551615",
    "18446744073709551616", "1 2", "1 2 3", "4096 131072 6291456",
)  # fmt: skip

#: What is no number, or a number too many, for a file that shows one
NEVER = ("ten", "5s", "1.5", "1,2", "1 x", "1 2", "18446744073709551616")

#: Keys that are lists, bitmaps or words, and those that are rounded
_NOT_NUMBERS = ("/rps_default_mask", "/flow_limit_cpu_bitmap", "/stable_secret", "/tcp_fastopen_key")


def _is_right(path: str, text: str, present: str) -> bool:
    try:
        sysctl_values.require(sysctl_d.dotted(path), text, present, os.uname().release)
    except DeclarationError:
        return False
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace takes root")
def test_a_verdict_is_that_of_the_kernel() -> None:
    """Every writable key of a new network namespace, and each value: what the kernel keeps is right, and what
    is no number for a file of numbers is not."""
    tried = numbers = 0
    for path, present, answers in netns.answers(VALUES, _NOT_NUMBERS):
        for text, kept in answers.items():
            tried += 1
            ours = _is_right(path, text, present)
            assert ours or not kept, (path, text, present)
            if text in NEVER and sysctl_values.number(present) is not None and "ports" not in path:
                numbers += 1
                assert not ours or kept, (path, text, present)
    assert tried > 1000
    assert numbers > 300
