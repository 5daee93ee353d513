# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import node_clock
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks.campaign.clock import Answering, Offset, offset

SECONDS = st.floats(0, 1000)


@given(st.floats(-1e5, 1e5), SECONDS, SECONDS, SECONDS)
def test_the_true_offset_is_within_what_is_uncertain(
    ahead: float, way: float, work: float, back: float
) -> None:
    """Of a node whose clock is ahead by so much, whatever the delivery of question and answer takes."""
    asked = 1.7e9
    came = asked + way + ahead

    found = offset(asked, came, came + work, asked + way + work + back)

    assert found.uncertain == pytest.approx((way + back) / 2, abs=1e-5)
    assert abs(found.seconds - ahead) <= found.uncertain + 1e-5
    assert found.least <= abs(ahead) + 1e-5
    assert abs(ahead) <= found.most + 1e-5


def test_a_clock_that_is_set_while_it_answers_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = Answering()
    monkeypatch.setattr("time.time", lambda: 5.0)

    came, left = answering.times

    assert 0 <= left - came < 120
    # A step that was missed all the same is no certainty.
    assert offset(100.0, 100.0, 190.0, 101.0).least == 0


SCRIPT = """
import time
time.sleep(1)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign.clock import Answering
print(*Answering().times)
"""


def test_a_question_comes_when_the_process_for_it_starts() -> None:
    folder = pathlib.Path(__file__).resolve().parents[4] / ".ansible/collections"
    begin = time.time()

    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(folder)}
    )

    came, left = map(float, done.stdout.split())
    # SCRIPT sleeps for a second. A clock that NTP corrects may go back a little.
    assert begin - 0.5 < came < left - 0.5 < time.time()


@cases.table
def test_what_a_preflight_says_of_a_clock(seconds: float, uncertain: float, verdict: str) -> None:
    check = node_clock.judged(Offset(seconds, uncertain))

    assert str(check.verdict) == verdict
    assert f"{abs(seconds):.2f} s (+/- {uncertain:.2f} s)" in check.found
    assert bool(check.advice) == (verdict != "pass")


CHECK = {
    "name": "drift",
    "target": "node",
    "verdict": "pass",
    "expected": "",
    "found": "",
    "source": "",
    "advice": "",
}


def compared(module: str, ahead: float, fail_on: str = "unknown", **answer: Any) -> dict[str, Any]:
    times = {"clock": [1000.5 + ahead, 1001.0 + ahead]}
    return node_clock.compared(module, {"changed": False, **times, **answer}, fail_on, 1000.0, 1001.5)


def test_a_preflight_has_one_check_more() -> None:
    good, bad, silent = (
        compared("node_preflight", ahead, on, checks=[CHECK], seconds=0.5)
        for ahead, on in ((0.0, "unknown"), (400.0, "unknown"), (400.0, "never"))
    )

    assert good["summary"] == {"pass": 2}
    assert (good["seconds"], good["failures"], "clock" in good) == (0.5, [], False)
    assert bad["failed"]
    assert "node: clock_offset fail: 400.00 s (+/- 0.50 s) ahead of the controller's clock" in bad["msg"]
    assert "failed" not in silent
    assert silent["summary"] == {"fail": 1, "pass": 1}


def test_a_verdict_of_another_version_is_no_success() -> None:
    assert compared("node_preflight", 0.0, checks=[{**CHECK, "verdict": "fine"}])["failed"]


@cases.table
def test_a_node_with_a_wrong_clock_is_told_times_by_it(ahead: float, shift: float) -> None:
    found = compared("campaign", ahead, interfaces=["eth0"])

    assert found["shift"] == pytest.approx(shift)
    assert found["took"] == pytest.approx(1.5)
    assert ("clock_note" in found) == bool(shift)


def test_a_wrong_clock_that_is_not_known_to_a_second_is_refused() -> None:
    found = node_clock.compared("campaign", {"clock": [1040.0, 1040.0]}, "unknown", 1000.0, 1004.0)

    assert found["failed"]
    assert "shift" not in found
    assert "too uncertain for rounds" in found["msg"]


@pytest.mark.parametrize("clock", [None, [], [1.0], "soon"])
def test_a_node_that_tells_no_times_is_taken_to_be_right(clock: Any) -> None:
    found = node_clock.compared("campaign", {"clock": clock, "done": True}, "never", 1.0, 2.0)
    assert found == {"done": True, "shift": 0.0, "took": 1.0}
    failed = {"failed": True, "msg": "no"}
    assert node_clock.compared("campaign", {**failed, "clock": clock}, "never", 1.0, 2.0) == failed
    assert node_clock.compared("node_preflight", {"clock": clock, "checks": []}, "never", 1.0, 2.0) == {
        "checks": []
    }
