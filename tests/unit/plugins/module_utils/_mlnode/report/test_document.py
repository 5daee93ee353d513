# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from mlnode.engine.kind import Info, Row
from mlnode.model import errors
from mlnode.model.cause import Cause
from mlnode.model.setting import Boot, Layer, Reading, Setting, Severity, Status, Value
from mlnode.report import document


def row(status: Status = Status.DRIFTED, **reading: Any) -> Row:
    full: dict[str, Any] = {
        "path": "/proc/sys/vm/swappiness",
        "runtime": Value(text="60"),
        "boot": Boot(Value(text="30"), "/etc/sysctl.d/zzz.conf:1", foreign=True),
        "want": "1",
        **reading,
    }
    setting = Setting("sysctl", "vm.swappiness", "/proc/sys/vm/swappiness", "auto-or-1", "claim")
    return Row(
        setting,
        Reading(**full),
        status,
        (Cause(Layer.RUNTIME, "note", text="why"),),
        Info(Severity.HIGH, "purpose", "vm.rst"),
        "60",
    )


def test_one_setting_as_plain_data() -> None:
    assert row().document() == {
        "kind": "sysctl",
        "key": "vm.swappiness",
        "path": "/proc/sys/vm/swappiness",
        "declared": "claim",
        "want": "1",
        "runtime": "60",
        "boot": "30",
        "boot_source": "/etc/sysctl.d/zzz.conf:1",
        "origin": "60",
        "status": "drifted",
        "severity": "high",
        "reason": "why",
        "causes": [{"layer": "runtime", "code": "note", "file": "", "line": 0, "text": "why"}],
    }


def test_plain_data_holds_no_enum() -> None:
    data = row().document()

    assert {type(data["status"]), type(data["severity"]), type(data["causes"][0]["layer"])} == {str}


@pytest.mark.parametrize(
    "reading, expected",
    [
        ({"runtime": Value(absent="gone")}, {"runtime": None}),
        ({"runtime": Value(unreadable="EACCES")}, {"runtime": None}),
        ({"runtime": Value(text="")}, {"runtime": ""}),
        ({"boot": Boot(Value(absent="nobody"))}, {"boot": None, "boot_source": None}),
        ({"boot": Boot(Value(text=""), "x:1")}, {"boot": "", "boot_source": "x:1"}),
        # Not resolved yet: what the declaration asks for is still known.
        ({"want": None}, {"want": "auto-or-1"}),
        ({"want": ""}, {"want": ""}),
        # The file that really carries it, which may be another than the setting's own.
        ({"path": "/sys/kernel/debug/x"}, {"path": "/sys/kernel/debug/x"}),
    ],
)
def test_empty_and_missing_are_kept_apart(reading: dict[str, Any], expected: dict[str, Any]) -> None:
    data = row(**reading).document()

    assert {name: data[name] for name in expected} == expected


def test_summary_counts_each_status_in_a_fixed_order() -> None:
    rows = [row(status) for status in (Status.OK, Status.UNKNOWN, Status.OK, Status.DRIFTED)]

    assert list(document.summary(rows).items()) == [("drifted", 1), ("ok", 2), ("unknown", 1)]
    assert document.summary([]) == {}


@pytest.mark.parametrize(
    "value, text", [(None, "-"), ("", '""'), ("4096\t131072", "4096 131072"), ("1", "1"), (0, "0")]
)
def test_a_value_for_people(value: Any, text: str) -> None:
    assert errors.shown(value) == text
