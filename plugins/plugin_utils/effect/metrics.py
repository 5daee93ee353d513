# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of a command: read from its output by a path in its JSON or by a regular expression, or its wall
time or exit status.

A path is a part of RFC 9535: names after dots, ["name"], [0], [-1] and [*] for all elements.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.host import alarm
from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import StoreError, printable
from .interval import HIGHER, LOWER

#: Samples → their value. A percentile is one of the samples (nearest rank).
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}

#: Least number of samples: with fewer, a percentile is their maximum
_SAMPLES = {"mean": 1, "p50": 2, "p90": 10, "p99": 100, "last": 1}

#: Seconds for one regular expression on one output. Python's takes exponential time for some, such as (a+)+b
_SECONDS = 5.0

#: Tool of a metric that is an exit status, which has no digits to round
STATUS = "exit status"

#: No metric is as large, and the sum of a million such numbers is a number
_GREATEST = 1e100

#: Length of a name or a unit, of a path or an expression, and number of metrics
_NAME, _TEXT, _METRICS = 100, 1000, 20

#: Begin of a line of JSON and of no log, such as [INFO]
_OF_JSON = re.compile(r'\s*(?:\{|\[\s*[\[{"])')

#: Rest of a number after the part that an expression such as ([0-9.]+) takes: of 50,404, 1:02.5 or 1e5
_REST = re.compile(r"(?:[.,_:'\u2019\u00a0\u202f]?\d+)*(?:[eE][-+]?\d+)?")

#: Begin of a number before such a part, as an expression may begin within it: ([0-9.]+) ms in 1,234.5 ms
_BEGIN = re.compile(
    r"(?:(?<![\w.-])[-\u2212])?"
    r"(?:\d|(?<=\d)(?:[.,_:'\u2019\u00a0\u202f]|[eE][-+]?)(?=\d|$)|(?<![\w.])\.(?=\d|$))*$"
)

#: Characters before a part in which its number may begin, and those that it may have there
_LONGEST = 40
_OF_NUMBER = "0123456789.,_:'\u2019\u00a0\u202feE+-\u2212"

#: Characters of a line before a number in which its unit may be
_LINE = 200

#: Known units: after a space, or in brackets, other words are none
_KNOWN = (
    r"(?:(?:[fpnu\u00b5\u03bcmkKMGTPE]i?|milli|micro|nano|[kK]ilo|[mM]ega|[gG]iga|[tT]era)?"
    r"(?:s|secs?|seconds?|[bB](?:ytes?|its?|ps)?|Hz|FLOPS?|[fF]lops?|W)|mins?|minutes?|h|hrs?|hours?|days?"
    r"|[kKMGT](?:[oO]ps|OPS|IOPS|iops|pps|reqs?|UPS|T(?=/s))|thousand|million|billion|[kKMGTP])(?![^\W_])"
)

#: Unit after a number: letters that touch it, and after a space known units only: 980 MB/s, 1.1 GB/s
_UNIT = re.compile(rf"[^\W\d_]+|%|[ \t\u00a0\u202f]{{1,4}}{_KNOWN}|[ \t]*[(\[]{_KNOWN}")

#: Unit in brackets before a number, as fio prints: lat (usec): min=4, avg=9.1. [W] may be the level of a log.
_BRACKETS = re.compile(rf"[(\[](?![A-Zbk][)\]])({_KNOWN})(?:/s)?[)\]]")

#: A duration in several units, the larger one first, as Go prints: 1m2.5s
_TIMES = ("d|days?", "h|hrs?|hours?", "m|mins?|minutes?", "s|secs?|seconds?", "[mu\u00b5\u03bc]s")
_AND = r"[ \t]?(?:,[ \t]|and[ \t])?"
_DURATION = re.compile(
    r"(?<![0-9.])0*[1-9][0-9]*[ \t]?(?:"
    + "|".join(
        rf"(?:{large})(?:{_AND}[0-9][0-9.]*[ \t]?(?:{'|'.join(_TIMES[at:])})(?![^\W\d_]))+"
        for at, large in enumerate(_TIMES[:-1], 1)
    )
    + ")"
)

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][\w-]*)|\["(?P<quoted>[^"\\]+)"\]|\[(?P<index>-?\d{1,9})\]|\[(?P<all>\*)\]"""
)


class Metric(NamedTuple):
    """One metric of a run. kind: of effect_kinds. better: HIGHER or LOWER."""

    kind: str
    name: str
    unit: str
    better: str


class Source(NamedTuple):
    """Place of a metric in the results of a command. One of path, expression and measure is given. path:
    names, indices and None for all elements. take: the value of the samples, "" for a single value."""

    metric: Metric
    path: tuple[str | int | None, ...] | None
    expression: re.Pattern[str] | None
    measure: str
    take: str


class MetricError(ValueError):
    """A metric is declared wrongly, or an output does not have it."""


# -- declarations ---------------------------------------------------------------------------------


def sources(declared: Sequence[Mapping[str, Any]]) -> list[Source]:
    """Read the option effect_metrics; an empty one means the wall time. Raises MetricError."""
    given = declared or [{"name": "wall time", "unit": "s", "better": LOWER, "measure": "seconds"}]
    if len(given) > _METRICS:
        raise MetricError(f"effect_metrics: expected at most {_METRICS} metrics, got {len(given)}")
    made = [source for about in given for source in _sources(about)]
    names = [source.metric.name for source in made]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise MetricError(f"effect_metrics: expected one metric of each name, got two: {printable(twice[0])}")
    return made


def _sources(about: Mapping[str, Any]) -> Iterator[Source]:
    name, unit = (str(about.get(field) or "") for field in ("name", "unit"))
    where = f"effect_metrics, {printable(name[:_NAME]) or 'a metric without a name'}"
    if not name or max(len(name), len(unit)) > _NAME or printable(name + unit) != name + unit:
        raise MetricError(f"{where}: expected a printable name and unit of at most {_NAME} characters")
    if about.get("better") not in (HIGHER, LOWER):
        raise MetricError(f"{where}: expected better: {HIGHER} or {LOWER}, got {about.get('better')}")
    ways = [way for way in ("json", "regex", "measure") if about.get(way)]
    if len(ways) != 1:
        raise MetricError(
            f"{where}: expected one of json, regex and measure, got {', '.join(ways) or 'none'}"
        )
    given = str(about[ways[0]])
    if len(given) > _TEXT:
        raise MetricError(f"{where}: expected {ways[0]} of at most {_TEXT} characters, got {len(given)}")
    path = _path(where, given) if ways == ["json"] else None
    expression = _expression(where, given) if ways == ["regex"] else None
    takes = [*dict.fromkeys(about.get("take") or [""])]
    for take in takes:
        metric = Metric("command", f"{name} {take}" if len(takes) > 1 else name, unit, about["better"])
        yield Source(metric, path, expression, given if ways == ["measure"] else "", take)


def _path(where: str, text: str) -> tuple[str | int | None, ...]:
    rest = text[1:] if text.startswith("$") else text if text[:1] in (".", "[") else f".{text}"
    steps: list[str | int | None] = []
    while rest:
        match = _STEP.match(rest)
        if match is None:
            example = "$.latency.p99 or runs[*].tokens"
            raise MetricError(f"{where}: json: expected a path such as {example}, got {printable(text)}")
        name = match["name"] or match["quoted"]
        steps.append(name if name else int(match["index"]) if match["index"] else None)
        rest = rest[match.end() :]
    return tuple(steps)


def _expression(where: str, text: str) -> re.Pattern[str]:
    try:
        expression = re.compile(text, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise MetricError(f"{where}: regex: {error}, got {printable(text)}") from error
    if expression.groups != 1:
        raise MetricError(
            f"{where}: regex: expected one group, such as 'tokens/s: ([0-9.]+)', got {expression.groups}"
        )
    return expression


# -- results --------------------------------------------------------------------------------------


def value(source: Source, runs: Sequence[Mapping[str, Any]], units: set[str] | None = None) -> float:
    """The metric over the counted runs of a phase: the mean of the runs, or of all their samples what take
    says. runs: of the module timed_command. units: printed after its numbers by earlier runs; these runs add
    their own. Raises MetricError, also for a second unit."""
    units = set() if units is None else units
    samples = [_values(source, run, units) for run in runs]
    if not samples:
        raise MetricError("expected a run of the command, got none")
    if len(units) > 1:
        both = " and ".join(strict_json.shown(unit) for unit in sorted(units)[:2])
        raise MetricError(f"expected one unit after its numbers, got {both}")
    numbers = [_positive(number) for values in samples for number in values]
    if not source.take:
        several = next((values for values in samples if len(values) > 1), None)
        if several:
            raise MetricError(
                f"expected one value, got {len(several)}; add take, such as [mean, p99], or select one"
            )
        return statistics.fmean(numbers)
    if source.take == "last":
        return statistics.fmean(_positive(values[-1]) for values in samples)
    if len(numbers) < _SAMPLES[source.take]:
        raise MetricError(f"expected {_SAMPLES[source.take]} samples for {source.take}, got {len(numbers)}")
    if source.take == "mean":
        return statistics.fmean(numbers)
    rank = math.ceil(len(numbers) * _PERCENTILES[source.take] / 100)
    return sorted(numbers)[rank - 1]


def _values(source: Source, run: Mapping[str, Any], units: set[str]) -> list[Any]:
    if source.measure:
        # Success is 0, which has no part: see _positive().
        return [run["seconds"] if source.measure == "seconds" else run["rc"] + 1]
    output = str(run["stdout"])
    values = (
        _matches(source.expression, output, units)
        if source.expression
        else [*_selected(_document(output), source.path or (), "$")]
    )
    if not values:
        raise MetricError("expected a value in the output, got none")
    return values


def _positive(given: Any) -> float:
    """An effect is a part of A, and so are the intervals: 0 has no part. Raises MetricError."""
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    number = float(given) if is_number else math.nan
    if not (0 < number < _GREATEST):
        wanted = f"below {_GREATEST:g}" if number > 0 else "above 0"
        raise MetricError(f"expected a number {wanted}, got {strict_json.shown(given)}")
    return number


def _document(output: str) -> Any:
    """The whole output, or its last line that is an object or a list: programs log before it."""
    given = [line for line in output.splitlines() if line.strip()]
    lines = [line for line in given if line.lstrip()[:1] in ("{", "[")]
    problem = ""
    for text in (output, *lines[:-4:-1]):
        try:
            document = strict_json.loads(text, "the output")
        except StoreError as error:
            problem = str(error)
        else:
            if text is output or not _is_part(given, text):
                return document
            problem = "expected JSON on one line, or as the whole output; got a part of a longer one"
        if text is not output and _OF_JSON.match(text):
            break  # It is cut off, or has NaN: the result is not one of an earlier line.
    if not lines:
        raise MetricError("expected JSON in the output, got none")
    raise MetricError(problem)


def _is_part(lines: Sequence[str], text: str) -> bool:
    """True for a line of a longer document, which the next line ends, as in util-linux: {"name": "sda"}, ]"""
    at = len(lines) - 1 - lines[::-1].index(text)
    return any(line.lstrip()[0] in "]}" for line in lines[at + 1 : at + 2])


def _selected(node: Any, path: Sequence[str | int | None], place: str) -> Iterator[Any]:
    if not path:
        yield node
        return
    step, rest = path[0], path[1:]
    if step is None and isinstance(node, list):
        for number, element in enumerate(node):
            yield from _selected(element, rest, f"{place}[{number}]")
    elif isinstance(step, str) and isinstance(node, dict) and step in node:
        yield from _selected(node[step], rest, f"{place}.{step}")
    elif isinstance(step, int) and isinstance(node, list) and -len(node) <= step < len(node):
        yield from _selected(node[step], rest, f"{place}[{step}]")
    else:
        wanted = "a list" if step is None else json.dumps(step)
        raise MetricError(printable(f"expected {wanted} at {place}, got {strict_json.shown(node)}"))


def _matches(expression: re.Pattern[str], output: str, units: set[str]) -> list[Any]:
    # Python looks for signals while it matches.
    late = MetricError(f"regex: no end within {_SECONDS:g} s; avoid repetitions within repetitions")
    with alarm.limited(_SECONDS, late):
        texts = [_whole(match, units) for match in expression.finditer(output)]
    return [_number(text) for text in texts]


def _whole(match: re.Match[str], units: set[str]) -> str | None:
    """The group of a match, with the rest of its number unless that is part of the expression. Its unit is
    added to units."""
    if match[1] is None:
        return None
    text, (begin, end) = match.string, match.span(1)
    before = text[max(0, begin - _LONGEST) : begin]
    first = len(before.rstrip(_OF_NUMBER))
    # Within digits it is cut, also if the expression has them: as .* takes as much as it can.
    is_cut = first < len(before) and (match.start() == begin or before.rstrip(".")[-1:].isdigit())
    start = _BEGIN.search(before, first) if is_cut and match[1].lstrip(".")[:1].isdigit() else None
    rest = _REST.match(text, end) if match[1] and match.end() == end else None
    end = rest.end() if rest else end
    durations = _DURATION.finditer(text, begin - len(before), end + _LONGEST)
    whole = next((part[0] for part in durations if part.start() <= begin < part.end()), "")
    unit = _UNIT.match(text, end)
    line = text[max(0, begin - _LINE) : begin].rpartition("\n")[2]
    words = [*_BRACKETS.findall(line), *([unit[0].strip(" \t\u00a0\u202f([")] if unit else ())]
    # One second is as many seconds.
    units.add(" ".join(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words))
    return whole or f"{start[0] if start else ''}{text[begin:end]}"


def _number(text: str | None) -> Any:
    """The group of a match as a number, or as it is for the message."""
    try:
        return float(text or "")
    except ValueError:
        return text
