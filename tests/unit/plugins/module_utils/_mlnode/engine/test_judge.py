# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one status of a setting, of every sort of reading."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine.judge import differs, judge, waits_for_boot
from mlnode.engine.kind import Context, Facts, Info, Row
from mlnode.model.cause import SET, Cause, sentence
from mlnode.model.record import replace
from mlnode.model.setting import Boot, Layer, Reading, Setting, Severity, Status, Value

HOST = Machine("/nonexistent")
WANTED = Setting("sysctl", "vm.x", "/x", "2", "2")
FLOOR = replace(WANTED, raise_only=True)
ONE, TWO, THREE = (Value(text=text) for text in "123")
LAYERS = {"runtime": (Layer.RUNTIME,), "boot": (Layer.BOOT,), "both": (Layer.RUNTIME, Layer.BOOT)}
#: Right in both layers
RIGHT = Reading("/x", TWO, Boot(TWO, "file:1"), want="2")
WRONG = RIGHT._replace(runtime=ONE)
GONE = Boot(Value(absent="no file sets it"))


def right(**changes: Any) -> Reading:
    return RIGHT._replace(**changes)


def wrong(**changes: Any) -> Reading:
    return WRONG._replace(**changes)


@pytest.mark.parametrize(
    ("reading", "layers", "status", "words"),
    [
        (right(), "both", Status.OK, []),
        (right(note="beside"), "both", Status.OK, ["beside"]),
        (right(runtime=Value(absent="lacks")), "both", Status.UNSUPPORTED, ["lacks"]),
        (right(runtime=Value(absent="lacks"), missing=True), "both", Status.DRIFTED, ["lacks"]),
        (right(runtime=Value(unreadable="EIO")), "both", Status.UNKNOWN, ["EIO"]),
        (wrong(invalid="never"), "both", Status.REFUSED, ["never"]),
        (wrong(managed="kept"), "both", Status.MANAGED, ["kept"]),
        (wrong(blocked="container"), "both", Status.UNSUPPORTED, ["container"]),
        (right(blocked="container"), "both", Status.OK, []),
        (wrong(refusal="guard"), "both", Status.REFUSED, ["guard"]),
        (right(refusal="guard"), "both", Status.OK, []),
        (right(refusal="guard"), "boot", Status.REFUSED, ["guard"]),
        (wrong(), "both", Status.DRIFTED, ["runtime is 1"]),
        (wrong(runtime=Value(text="")), "both", Status.DRIFTED, ['runtime is ""']),
        (wrong(barred="closed"), "both", Status.DRIFTED, ["runtime is 1", "closed"]),
        (wrong(boot=GONE), "both", Status.DRIFTED, ["runtime is 1", "boot: no file sets it"]),
        (wrong(boot=GONE), "runtime", Status.DRIFTED, ["runtime is 1"]),
        (wrong(note="beside"), "both", Status.DRIFTED, ["runtime is 1", "beside"]),
        (wrong(), "boot", Status.OK, []),
        (right(boot=GONE), "both", Status.DRIFTED, ["boot: no file sets it"]),
        (right(boot=GONE), "runtime", Status.OK, []),
        (right(boot=Boot(ONE, "file:1")), "both", Status.DRIFTED, ["boot: file:1 sets 1"]),
        (right(boot=Boot(ONE, "file:1", foreign=True)), "both", Status.OVERRIDDEN, ["boot: file:1 sets 1"]),
        (right(boot=Boot(Value(unreadable="EIO"))), "both", Status.UNKNOWN, ["EIO"]),
        (right(boot=Boot(Value(absent="stopped"), row="agent.boot")), "both", Status.OK, ["see agent.boot"]),
        (right(boot=Boot(Value(absent="stopped"), row="agent.boot")), "runtime", Status.OK, []),
        (right(want=None, boot=Boot(THREE)), "both", Status.OK, []),
        (right(clamped="3, not 4"), "both", Status.CLAMPED, ["3, not 4"]),
        (right(clamped="3, not 4", note="beside"), "both", Status.CLAMPED, ["3, not 4", "beside"]),
        (right(clamped="3, not 4"), "boot", Status.OK, []),
        (wrong(at_boot=True), "both", Status.PENDING_REBOOT, ["runtime is 1", "the next boot brings 2"]),
        (wrong(at_boot=True, boot=GONE), "both", Status.DRIFTED, ["runtime is 1", "boot: no file sets it"]),
        (
            wrong(at_boot=True, boot=Boot(Value(absent="stopped"), row="agent.boot")),
            "both",
            Status.DRIFTED,
            ["runtime is 1", "boot: see agent.boot"],
        ),
        (
            right(runtime=Value(absent="lacks"), boot=Boot(Value(absent="lacks"))),
            "boot",
            Status.UNSUPPORTED,
            ["lacks"],
        ),
    ],
)
def test_every_reading_has_one_status(
    reading: Reading, layers: str, status: Status, words: list[str]
) -> None:
    context = Context(HOST, Facts(HOST), layers=LAYERS[layers])
    found, causes = judge(WANTED, reading, context)
    reason = sentence(causes)
    assert found is status
    parts = reason.split("; ") if reason else []
    assert len(parts) == len(words)
    assert [word for word, part in zip(words, parts) if word not in part] == []


def causes_of(reading: Reading) -> list[Cause]:
    return [*judge(WANTED, reading, Context(HOST, Facts(HOST)))[1]]


def test_a_cause_has_its_layer_a_word_and_a_place() -> None:
    beaten = wrong(boot=Boot(THREE, "/etc/x y.conf:12 (a = 3)", foreign=True), note="beside")

    assert causes_of(beaten) == [
        Cause(Layer.RUNTIME, "differs", text="runtime is 1"),
        Cause(Layer.BOOT, "overridden", "/etc/x y.conf", 12, "(a = 3) sets 3"),
        Cause(Layer.RUNTIME, "note", text="beside"),
    ]
    assert sentence(causes_of(beaten)) == "runtime is 1; boot: /etc/x y.conf:12 (a = 3) sets 3; beside"
    by_kernel = right(boot=Boot(THREE, "kernel command line", foreign=True))
    assert causes_of(by_kernel) == [Cause(Layer.BOOT, "overridden", text="kernel command line sets 3")]


def test_the_line_that_has_set_a_value_is_a_cause() -> None:
    line = Cause(Layer.RUNTIME, SET, "/run/a.rules", 4, "sets x = 1")
    causes = causes_of(wrong(setter=line))

    assert causes[1] == line
    assert sentence(causes) == "runtime is 1, as /run/a.rules:4 sets x = 1"


@pytest.mark.parametrize(("value", "status"), [(THREE, Status.OK), (TWO, Status.OK), (ONE, Status.DRIFTED)])
def test_a_floor_is_reached_by_more(value: Value, status: Status) -> None:
    context = Context(HOST, Facts(HOST))
    assert judge(FLOOR, right(boot=Boot(value, "file:1")), context)[0] is status


@cases.table
def test_a_fault_in_a_sentence_has_the_place_that_it_names(
    text: str, source: str, file: str, line: int, rest: str
) -> None:
    (cause,) = causes_of(right(boot=Boot(Value(absent=text), source)))
    assert cause == Cause(Layer.BOOT, "drifted", file, line, rest)
    assert sentence([cause]) == f"boot: {text}"


def test_what_has_no_want_or_no_value_does_not_differ() -> None:
    assert differs(WRONG)
    assert not differs(RIGHT)
    assert not differs(wrong(want=None))
    assert not differs(wrong(runtime=Value(unreadable="EIO")))


@pytest.mark.parametrize(
    ("status", "reading", "waits"),
    [
        (Status.PENDING_REBOOT, WRONG, True),
        (Status.DRIFTED, wrong(at_boot=True), True),
        (Status.DRIFTED, right(at_boot=True), False),
        (Status.DRIFTED, WRONG, False),
        (Status.OK, wrong(at_boot=True), False),
    ],
)
def test_who_waits_for_a_boot(status: Status, reading: Reading, waits: bool) -> None:
    row = Row(WANTED, reading, status, (), Info(Severity.LOW, "", ""))
    assert waits_for_boot([row._replace(status=Status.OK, reading=RIGHT), row]) is waits
    assert waits_for_boot([]) is False
