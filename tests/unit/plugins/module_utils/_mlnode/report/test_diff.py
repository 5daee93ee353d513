# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.engine import test_many_files
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.engine.test_many_files import (
    CONFIG,
    MADE,
    Vectors,
    applied,
    request,
    vector,
)
from mlnode.engine import engine
from mlnode.engine.steps import FileWrite, KernelWrite, LinkWrite, LoadModule, Step
from mlnode.model.setting import KnobFile
from mlnode.report import diff

many, told = test_many_files.many, test_many_files.told

SWAPPINESS = "/proc/sys/vm/swappiness"
ARCHIVE = b"#!/usr/bin/env python3\nPK\0\1"


def pair(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": before, "after": after}


def write(value: str = "1", before: str = "60") -> KernelWrite:
    return KernelWrite("vm.swappiness", KnobFile(0, SWAPPINESS, before, value, ()))


@pytest.mark.parametrize(
    "steps, expected",
    [
        ([], []),
        ([write()], [pair("runtime", "vm.swappiness = 60\n", "vm.swappiness = 1\n")]),
        ([write("", "a")], [pair("runtime", "vm.swappiness = a\n", 'vm.swappiness = ""\n')]),
        ([write("a", "")], [pair("runtime", 'vm.swappiness = ""\n', "vm.swappiness = a\n")]),
        ([LoadModule("k", "tcp_bbr")], [pair("runtime", "", "module tcp_bbr loaded\n")]),
        ([FileWrite("/etc/a", "/etc/a", b"new\n")], [pair("/etc/a", "", "new\n")]),
        ([FileWrite("/etc/a", "/etc/a", b"new\n", b"old\n")], [pair("/etc/a", "old\n", "new\n")]),
        ([FileWrite("/etc/a", "/etc/a", None, b"old\n")], [pair("/etc/a", "old\n", "")]),
        ([FileWrite("/etc/a", "/etc/a", b"\xff", b"")], [pair("/etc/a", "", "\ufffd")]),
        ([LinkWrite("/etc/l", "/etc/l", "/etc/t")], [pair("/etc/l", "", "link to /etc/t\n")]),
        (
            [LinkWrite("/etc/l", "/etc/l", "/etc/t", "/etc/old")],
            [pair("/etc/l", "link to /etc/old\n", "link to /etc/t\n")],
        ),
        (
            [FileWrite("/bin/x", "/bin/x", ARCHIVE)],
            [pair("/bin/x", "", f"{len(ARCHIVE)} bytes, sha256 {hashlib.sha256(ARCHIVE).hexdigest()}\n")],
        ),
        (
            [FileWrite("/etc/a", "/etc/a", b"new\n"), write(), LoadModule("k", "tcp_bbr")],
            [
                pair("runtime", "vm.swappiness = 60\n", "vm.swappiness = 1\nmodule tcp_bbr loaded\n"),
                pair("/etc/a", "", "new\n"),
            ],
        ),
    ],
)
def test_diff_has_one_pair_for_the_kernel_and_one_per_file(
    steps: list[Step], expected: list[dict[str, str]]
) -> None:
    assert diff.diff(steps) == expected


def test_the_terminal_of_a_controller_obeys_no_file() -> None:
    hostile = "\x1b[2J\x9b\u202ea\tb"
    [found] = diff.diff([FileWrite("/etc/a", "/etc/a", None, f"{hostile}\nx\n".encode())])
    assert found["before"] == "\\x1b[2J\\x9b\\u202ea\tb\nx\n"


def test_a_diff_shows_many_files_in_one_line(many: Machine, told: list[str]) -> None:
    many.put(vector(41), "2-3\n")
    many.put(vector(42), "1-2\n")
    found = engine.preview(many, [request(Vectors())])
    (declaration,) = diff.diff(found.shared)
    (runtime,) = diff.diff(found.outcomes[0].steps)
    assert runtime["before"] == "vectors.all = 0-7: 40,43; 1-2: 42\n"
    assert runtime["after"] == "vectors.all = 2-3\n"
    assert declaration["before"] == ""
    assert told == []


def test_a_diff_says_that_somebody_has_to_be_told_again(many: Machine, told: list[str]) -> None:
    kind = Vectors(at_boot=True)
    applied(many, kind)
    many.put(MADE, "by hand\n")
    (pair,) = diff.diff(engine.evaluate(many, request(kind)).steps)
    assert pair["before_header"] == CONFIG
    assert pair["after"] == "as declared; the thing reads it again\n"
    assert told == ["2-3"]


def test_a_diff_counts_files_whose_numbers_say_nothing() -> None:
    parts = [
        KnobFile(number, f"/sys/{nic}/{number}", "0", str(number + 1), ())
        for nic in "ab"
        for number in (0, 1)
    ]
    (pair,) = diff.diff([KernelWrite("irq.nics.rps", part) for part in parts])
    assert pair["before"] == "irq.nics.rps = 0 (4 files)\n"
    assert pair["after"] == "irq.nics.rps = 1 (2 files); 2 (2 files)\n"
