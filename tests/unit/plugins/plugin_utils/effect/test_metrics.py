# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of outputs, and outputs and declarations that have none."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import metrics
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.metrics import MetricError
from hypothesis import given
from hypothesis import strategies as st

SCORE = {"name": "score", "unit": "s", "better": "lower"}


def read(about: dict[str, Any], *outputs: str) -> dict[str, float]:
    runs = [{"rc": 3, "seconds": 1.5, "stdout": output} for output in outputs]
    return {
        source.metric.name: metrics.value(source, runs) for source in metrics.sources([{**SCORE, **about}])
    }


HUNDRED = json.dumps({"runs": [{"t": number} for number in range(100, 0, -1)]})

#: Place → its output, and the value
PLACES: list[tuple[dict[str, Any], str, float]] = [
    ({"json": "$.a.b[0]"}, '{"a": {"b": [3, 4]}}', 3.0),
    ({"json": "a.b[-1]"}, '{"a": {"b": [3, 4]}}', 4.0),
    ({"json": '$["a b"]'}, '{"a b": 5}', 5.0),
    ({"json": "[0]"}, "[6]", 6.0),
    ({"json": "a"}, 'loading\n{"a": 1}\n{"a": 7}\ndone', 7.0),
    ({"json": "a"}, '{"a": 7}\n[INFO] done', 7.0),
    ({"regex": "s: ([0-9.]+)"}, "s: 1e5", 1e5),
    ({"regex": "s,([0-9.]+),"}, "s,5,404", 5.0),
    ({"regex": "s: ([0-9.]+)"}, "s: 5, t: 6.", 5.0),
    ({"regex": r"^score: (\S+) s$"}, "scores\nscore: 1.5e1 s\n", 15.0),
    # The whole number of an expression that takes a part
    ({"regex": "s:.*([0-9.]+) ms"}, "s: 12.5 ms", 12.5),
    ({"regex": r"(\d+)$"}, "s: .5", 0.5),
    ({"regex": r"([\d.]+)x"}, "1e-5x", 1e-5),
    ({"regex": r"^\d+,([0-9.]+),"}, "7,5.2,9", 5.2),
    ({"regex": r"rank \d+:([0-9.]+)"}, "rank 3:5.2", 5.2),
    ({"regex": r"gpu-(\d+)"}, "gpu-3", 3.0),
    ({"regex": r"from [0-9.]+-([0-9.]+)"}, "from 2-5 ms", 5.0),
    ({"regex": r"m([0-9.]+)s$"}, "real\t0m59.8s", 59.8),
    ({"regex": "t: ([0-9.]+)"}, "t: 5 s 100 requests", 5.0),
    ({"regex": "t: ([0-9.]+)"}, "in 3 s, t: 5 ms", 5.0),
    # Columns, as of wrk
    ({"regex": "t +([0-9.]+)"}, "t   1.20s  300.00ms  2.10s", 1.2),
    ({"regex": "t +([0-9.]+)"}, "t   1s  2s  3s", 1.0),
    ({"measure": "seconds"}, "", 1.5),
    # Plus 1, as success is 0 and an effect is a ratio
    ({"measure": "exit"}, "", 4.0),
    ({"json": "runs[*].t", "take": ["p99"]}, HUNDRED, 99.0),
    ({"json": "runs[*].t", "take": ["p50"]}, HUNDRED, 50.0),
    ({"json": "runs[*].t", "take": ["mean"]}, HUNDRED, 50.5),
    ({"regex": "t: (.*)", "take": ["last"]}, "t: 9\nt: 8\n", 8.0),
]


@pytest.mark.parametrize(("about", "output", "value"), PLACES)
def test_a_place_has_a_value(about: dict[str, Any], output: str, value: float) -> None:
    assert read(about, output) == {"score": value}


def test_runs_have_a_mean_and_their_samples_are_pooled() -> None:
    assert read({"json": "a"}, '{"a": 1}', '{"a": 2}') == {"score": 1.5}
    halves = [json.dumps([*range(1, 51)]), json.dumps([*range(51, 101)])]
    assert read({"json": "[*]", "take": ["mean", "p99"]}, *halves) == {"score mean": 50.5, "score p99": 99.0}
    assert read({"json": "[*]", "take": ["last"]}, *halves) == {"score": 75.0}


def test_the_wall_time_is_the_metric_of_a_command_without_any() -> None:
    [source] = metrics.sources([])

    assert source.metric == ("command", "wall time", "s", "lower")


#: Output → why it has no metric
UNFIT: list[tuple[dict[str, Any], str, str]] = [
    ({"json": "a"}, "no JSON", "expected JSON in the output, got none"),
    ({"json": "a"}, '{"a": NaN}', "NaN is not a number of JSON"),
    ({"json": "a"}, '{"a": 1e999}', "1e999"),
    # The result after lines of progress
    ({"json": "a"}, '{"a": 1}\n{"a": NaN}\n', "NaN is not a number of JSON"),
    ({"json": "a"}, '{"a": 1}\n{"a": 1', "the output"),
    # A line of a document over several lines, after a log
    (
        {"json": "a"},
        'INFO\n{\n "a": 5,\n "runs": [\n  {"a": 7},\n  {"a": 8}\n ]\n}\n',
        "a part of a longer one",
    ),
    ({"json": "[0].a"}, '[{"a": 1}]\n[{"a": 1', "the output"),
    ({"regex": "s: ([0-9.]+)"}, "s: 50,404", "expected a number above 0, got '50,404'"),
    ({"regex": "([0-9.]+) s"}, "1,234.5 s", "expected a number above 0, got '1,234.5'"),
    ({"regex": "([0-9.]+)elapsed"}, "1:02.34elapsed", "expected a number above 0, got '1:02.34'"),
    ({"regex": "s: ([0-9.]+)"}, "s: 1:02.34", "expected a number above 0, got '1:02.34'"),
    ({"regex": "([0-9]+) s"}, "1\u202f234 s", "expected a number above 0, got '1\\u202f234'"),
    ({"regex": "([0-9.]+) s"}, "t=-3.5 s", "expected a number above 0, got -3.5"),
    ({"regex": "([0-9.]+) s"}, "\u22123.5 s", "expected a number above 0, got '\\u22123.5'"),
    # Durations of Go, and of time
    ({"regex": "s: ([0-9.]+)"}, "s: 1m2.5s", "expected a number above 0, got '1m2.5s'"),
    ({"regex": "s: ([0-9.]+)"}, "s: 1h0m2s", "expected a number above 0, got '1h0m2s'"),
    ({"regex": "s: ([0-9.]+)"}, "s: 1 min 5.2 s", "expected a number above 0, got '1 min 5.2 s'"),
    ({"regex": "s: ([0-9.]+)"}, "s: 2 hours, 5 minutes", "got '2 hours, 5 minutes'"),
    ({"regex": "m([0-9.]+)s"}, "1h0m2s", "got '1h0m2s'"),
    ({"regex": "([0-9.]+)s$"}, "real 1m0.2s", "expected a number above 0, got '1m0.2s'"),
    ({"json": "a"}, '{"b": 1}', 'expected "a" at $, got'),
    ({"json": "a[1]"}, '{"a": [1]}', "expected 1 at $.a, got"),
    ({"json": "a[*]"}, '{"a": 1}', "expected a list at $.a, got 1"),
    ({"json": "a[*]", "take": ["mean"]}, '{"a": []}', "expected a value in the output, got none"),
    ({"json": "a"}, '{"a": 0}', "expected a number above 0, got 0"),
    ({"json": "a"}, '{"a": -1}', "expected a number above 0, got -1"),
    ({"json": "a"}, '{"a": true}', "expected a number above 0, got"),
    ({"json": "a"}, '{"a": "12"}', "expected a number above 0, got"),
    ({"json": "a"}, '{"a": "\\u001b[31m"}', r"\x1b[31m"),
    ({"json": "a"}, "[" * 10000, "the output"),
    ({"regex": "s: (.*)"}, "t: 1", "expected a value in the output, got none"),
    ({"regex": "s: (.*)"}, "s: inf", "expected a number below 1e+100, got inf"),
    ({"json": "a[*]", "take": ["mean"]}, '{"a": [1e308, 1e308]}', "below 1e+100, got 1e+308"),
    ({"regex": "s: (.*)"}, "s: 50,404", "expected a number above 0, got '50,404'"),
    ({"regex": "s: (.*)"}, "s: 1\ns: 2", "expected one value, got 2; add take"),
    ({"regex": "s(x)?"}, "s", "expected a number above 0"),
    ({"json": "[*]", "take": ["p99"]}, "[1, 2]", "expected 100 samples for p99, got 2"),
]


@pytest.mark.parametrize(("about", "output", "words"), UNFIT)
def test_an_output_without_the_metric_is_no_value(about: dict[str, Any], output: str, words: str) -> None:
    with pytest.raises(MetricError) as raised:
        read(about, output)

    assert words in str(raised.value)
    assert str(raised.value).isprintable()


#: Outputs of two runs, and the units that they print
UNITS = [
    ("t: 12.5ms", "t: 1.1s", "'ms' and 's'"),
    ("t: 980", "t: 1.2k", "'' and 'k'"),
    ("t: 980.5 MB/s", "t: 1.1 GB/s", "'GB' and 'MB'"),
    ("t: 941 Mbits/sec", "t: 9.41 Gbits/sec", "'Gbit' and 'Mbit'"),
    ("t: 59 seconds", "t: 1 minute", "'minute' and 'second'"),
    ("t: 850.2 us\nt: 990 us", "t: 1.2 ms", "'ms' and 'us'"),
    ("t: 1.2 ms\nt: 850 \u00b5s", "t: 1 ms", "'ms' and '\\xb5s'"),
    ("t: 50%", "t: 0.5", "'' and '%'"),
    ("t: 980 Mbps", "t: 1.2 Gbps", "'Gbp' and 'Mbp'"),
    ("t: 980 Gflops", "t: 1.2 Tflops", "'Gflop' and 'Tflop'"),
    ("t: 980 Kops/s", "t: 1.2 Mops/s", "'Kop' and 'Mop'"),
    ("t: 980 thousand", "t: 1.2 million", "'million' and 'thousand'"),
    ("t: 980  us", "t: 1.2  ms", "'ms' and 'us'"),
    ("t: 980 (us)", "t: 1.2 (ms)", "'ms' and 'us'"),
    # fio
    ("lat (usec): min=44, at: 998.2", "lat (msec): min=1, at: 1.2", "'msec' and 'usec'"),
    ("rate[MB/s] at: 980", "rate[GB/s] at: 1.2", "'GB' and 'MB'"),
]


@pytest.mark.parametrize(("first", "second", "units"), UNITS)
@pytest.mark.parametrize("expression", ["t: ([0-9.]+)", "t: ([0-9.]+) ?(?:[a-zA-Z%/]*)"])
def test_a_number_with_another_unit_is_another_metric(
    first: str, second: str, units: str, expression: str
) -> None:
    [source] = metrics.sources([{**SCORE, "regex": expression, "take": ["mean"]}])
    phases = [[{"rc": 0, "seconds": 1.5, "stdout": output}] for output in (first, second)]
    before: set[str] = set()

    with pytest.raises(MetricError) as raised:
        [metrics.value(source, phase, before) for phase in phases]

    assert str(raised.value) == f"expected one unit after its numbers, got {units}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("t: 1 second", "t: 2 seconds"),
        ("t: 5 in a", "t: 5 for b"),
        ("t: 5,", "t: 5."),
        ("[W] t: 5", "[I] t: 5"),
    ],
)
def test_words_after_a_number_are_no_units(first: str, second: str) -> None:
    assert read({"regex": "t: ([0-9.]+)"}, first, second)["score"] > 0


def test_an_expression_that_would_take_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGALRM)

    with pytest.raises(MetricError, match=r"regex: no end within 0\.2 s"):
        read({"regex": "((?:a+)+)$"}, "a" * 60 + "b")

    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_time_limit_of_the_task_goes_on_afterwards() -> None:
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        assert read({"regex": "t: (.*)"}, "t: 9") == {"score": 9.0}
        left, _interval = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # Longer than the limit of an expression
    assert left > metrics._SECONDS


#: Declarations → the message
WRONG: list[tuple[list[dict[str, Any]], str]] = [
    ([SCORE], "effect_metrics, score: expected one of json, regex and measure, got none"),
    ([{**SCORE, "json": "a", "regex": "(b)"}], "got json, regex"),
    ([{**SCORE, "json": "a..b"}], "json: expected a path such as"),
    ([{**SCORE, "json": "a[?(@.b)]"}], "json: expected a path such as"),
    ([{**SCORE, "regex": "("}], "regex: "),
    ([{**SCORE, "regex": "a"}], "regex: expected one group"),
    ([{**SCORE, "regex": "(a)(b)"}], "regex: expected one group"),
    ([{**SCORE, "regex": "(a)" + "b" * 1000}], "expected regex of at most 1000 characters"),
    ([{**SCORE, "json": "a", "name": "\x1b[1m"}], "expected a printable name"),
    ([{**SCORE, "json": "a", "better": "faster"}], "expected better: higher or lower, got faster"),
    ([{**SCORE, "json": "a"}, {**SCORE, "json": "b"}], "expected one metric of each name, got two: score"),
    ([{**SCORE, "json": "a"}] * 21, "expected at most 20 metrics, got 21"),
]


@pytest.mark.parametrize(("declared", "words"), WRONG)
def test_a_wrong_declaration_is_named(declared: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(MetricError) as raised:
        metrics.sources(declared)

    assert words in str(raised.value)


@given(st.text(max_size=60), st.sampled_from(["a", "a[*]", "$", "[0].b"]), st.sampled_from(["", "mean"]))
def test_any_output_gives_a_number_or_a_reason(output: str, path: str, take: str) -> None:
    for text in (output, json.dumps({"a": output}), json.dumps([{"b": output}])):
        values, reason = {}, ""
        try:
            values = read({"json": path, "take": [take] if take else []}, text)
        except MetricError as error:
            reason = str(error)
        assert bool(values) != bool(reason)
        assert reason.isprintable()
        assert all(value > 0 for value in values.values())
