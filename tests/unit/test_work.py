# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import sys
import time

import pytest
from ansible_collections.mlnode.tuning.tests.unit.work import calls, is_linear
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SIZES = (100, 200, 400)


def once() -> None:
    """Called as often as the work is large."""


def work(times: int) -> None:
    for _time in range(times):
        once()


def test_calls_of_functions_are_counted_and_the_profiler_is_put_back() -> None:
    before = sys.getprofile()
    # Beside them, that of work() itself and what ends the count.
    assert calls(lambda: work(50)) - calls(lambda: work(20)) == 30
    assert sys.getprofile() is before


def test_the_profiler_is_put_back_after_an_error() -> None:
    before = sys.getprofile()
    with pytest.raises(ZeroDivisionError):
        calls(lambda: 1 // 0)
    assert sys.getprofile() is before


def test_one_function_of_the_interpreter_can_be_counted() -> None:
    assert calls(lambda: [sys.getprofile(), sys.getprofile(), len("")], "getprofile") == 2


@pytest.mark.parametrize("fixed", [0, 100_000])
def test_work_that_grows_with_the_square_is_not_linear(fixed: int) -> None:
    assert is_linear(SIZES, lambda size: work(fixed + 10 * size))
    assert not is_linear(SIZES, lambda size: work(fixed + size * size // 100))
    # One call for each pair, beside a hundred for each one.
    assert not is_linear(SIZES, lambda size: work(fixed + 100 * size + size * size // 2))


@settings(max_examples=2)
@given(st.just(0.3))
def test_no_example_has_a_time_to_be_done_in(seconds: float) -> None:
    time.sleep(seconds)  # longer than the 200 ms that hypothesis allows by itself


def test_no_example_has_a_time_to_be_made_in() -> None:
    assert HealthCheck.too_slow in settings().suppress_health_check
