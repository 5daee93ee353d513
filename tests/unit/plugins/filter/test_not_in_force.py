# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was declared and is not in force at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.filter.not_in_force import FilterModule, not_in_force
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.status import Status

FILE = "/etc/sysctl.d/zzz.conf:2"


def setting(key: str, status: str, severity: str = "high", **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "status": status,
        "severity": severity,
        "want": "1",
        "runtime": "1",
        "boot": "30",
        "reason": f"boot: {FILE} sets 30",
        **more,
    }


def test_a_line_has_the_value_and_what_is_in_the_way() -> None:
    found = not_in_force([{"settings": [setting("vm.swappiness", "overridden")]}])
    assert found == [f"vm.swappiness: overridden, want 1, runtime 1, boot 30 (high): boot: {FILE} sets 30"]


@pytest.mark.parametrize("status", Status)
def test_what_differs_counts_and_what_waits_for_a_reboot_does_not(status: Status) -> None:
    found = not_in_force([{"settings": [setting("a", str(status))]}], "low")
    assert bool(found) is (status.is_drift and status is not Status.PENDING_REBOOT)


@pytest.mark.parametrize(
    ("fail_at", "named"),
    [("never", ""), ("high", "h"), ("medium", "hm"), ("low", "hml")],
)
def test_the_severity_decides(fail_at: str, named: str) -> None:
    rows = [setting(one[0], "unknown", one) for one in ("high", "medium", "low")]
    assert "".join(line[0] for line in not_in_force([{"settings": rows}], fail_at)) == named


def test_an_exception_counts_until_its_day() -> None:
    rows = [setting("vm.swappiness", "drifted"), setting("vm.dirty_bytes", "drifted")]
    known = {"key": "vm.sw*", "reason": "OPS-1", "until": "2099-12-31"}
    over = {"key": "vm.d*", "reason": "OPS-2", "until": "2020-12-31"}
    (line,) = not_in_force([{"settings": rows}], "high", [known, over])
    assert line.startswith("vm.dirty_bytes: drifted")
    assert line.endswith("(the exception for it ended on 2020-12-31: OPS-2)")


def test_a_skipped_task_says_nothing() -> None:
    assert not_in_force([{"skipped": True, "changed": False}, {"settings": [setting("a", "ok")]}]) == []


@pytest.mark.parametrize("strange", ["", "fine", "OK", None])
def test_a_status_of_another_version_is_no_success(strange: Any) -> None:
    assert not_in_force([{"settings": [setting("a", strange)]}]) != []


@pytest.mark.parametrize("severity", ["", "critical", None])
def test_nor_is_a_severity_that_is_not_known(severity: Any) -> None:
    assert not_in_force([{"settings": [setting("a", "drifted", severity)]}]) != []
    assert not_in_force([{"settings": [setting("a", "drifted", severity)]}], "never") == []


@pytest.mark.parametrize(
    ("fail_at", "ignore", "words"),
    [
        ("hihg", [], "'hihg' is none of high, medium, low, never"),
        ("high", [{"key": "a", "reason": "b", "until": "soon"}], "until is 'soon'"),
        ("high", [{"key": "a"}], "reason"),
    ],
)
def test_a_wrong_word_is_named(fail_at: str, ignore: list[dict[str, str]], words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        not_in_force([], fail_at, ignore)


def test_ansible_finds_it() -> None:
    assert [*FilterModule().filters()] == ["not_in_force"]
