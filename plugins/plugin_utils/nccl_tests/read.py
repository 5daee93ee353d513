# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of all_reduce_perf of nccl-tests, from its JSON (option -J), or else from its table.

Its writer of JSON (src/util.cu) has no true and false but texts, writes what is not a number as the text
"nan" and infinity as a word that JSON does not have, and takes another name where its file is there already.
It ends with 0 where it has written no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import StoreError
from ..answer_forms import GREATEST

#: Characters of one file. Times of each iteration and process are most of it: 20 iterations of 1,024
#: processes at 31 sizes, in place and not, are 1.3 million numbers of some 12 characters.
MOST = 1 << 25

#: In the place of a number of wrong elements: nothing was checked
UNCHECKED = "N/A"
#: Characters of an error of NCCL
_ERROR = 200


class Measure(NamedTuple):
    """Time of one operation in µs, bandwidths in GB/s as printed. wrong: number of wrong elements, None if
    they were not checked. It is a count, but nccl-tests writes a floating-point number: 0.5 is not 0."""

    time: float
    algbw: float
    busbw: float
    wrong: float | None


class Row(NamedTuple):
    """Measurements of one size, in bytes. processes: µs of each iteration of each process (option -I), of
    both measurements; empty where nccl-tests had not written them."""

    size: int
    out_of_place: Measure
    in_place: Measure
    processes: tuple[Sequence[Sequence[float]], ...] = ()


class Device(NamedTuple):
    rank: int
    host: str


class Reading(NamedTuple):
    """source: json or table. out_of_bounds: rows with wrong results, by nccl-tests' own count. nccl: version
    of the library as a number, such as 23003; 0 where it is not said. errors: the last error of NCCL
    (ncclGetLastError), which nccl-tests reports even if all numbers are good."""

    source: str
    rows: tuple[Row, ...]
    ranks: int
    devices: tuple[Device, ...]
    out_of_bounds: int
    version: str = ""
    nccl: int = 0
    errors: tuple[str, ...] = ()


def read(stdout: str, content: str | None, path: str) -> Reading:
    """Raises ValueError where there is no whole result of this one run.

    content: of the file `path` that was asked for with -J, which had to be a new one; None where it is not
    there.
    """
    written = re.findall(r"^# Writing JSON output to (.*)$", stdout, re.MULTILINE)
    if written and written != [path]:
        raise ValueError(
            f"nccl-tests wrote {_short(', '.join(written))}, and not {path}: what is there is not of this run"
        )
    found = _table(stdout) if content is None and not written else _json(content, path)
    _consistent(found)
    return found


def _short(text: str) -> str:
    return strict_json.shown(text)


# -- JSON -----------------------------------------------------------------------------------------


def _json(content: str | None, path: str) -> Reading:
    if content is None:
        raise ValueError(f"nccl-tests says that it wrote {path}, which is not there")
    try:
        whole = strict_json.loads(content, path, most=MOST)
    except StoreError as error:
        raise ValueError(str(error)) from error
    fields = _fields(whole, "the document")
    if path not in _list(fields, "args"):
        raise ValueError(f"{path} was written by another run: it is not among its own args")
    _text(fields, "end_time")
    config = _fields(fields.get("config"), "config")
    devices = [_fields(one, "a device") for one in _list(config, "devices")]
    bounds = _fields(fields.get("out_of_bounds"), "out_of_bounds")
    count = _whole(bounds, "count")
    if _truth(bounds, "okay") != (count == 0):
        raise ValueError(f"out_of_bounds says {count}, and that this is {bounds['okay']}")
    return Reading(
        source="json",
        rows=tuple(_row(one) for one in _list(fields, "results")),
        # Of a process with several GPUs only the first is listed.
        ranks=len(devices) * _whole(config, "nthreads") * _whole(config, "ngpus"),
        devices=tuple(Device(_whole(one, "rank"), _text(one, "hostname")) for one in devices),
        out_of_bounds=count,
        version=f"format {_whole(fields, 'version')}",
        nccl=_whole(fields, "nccl_version") if "nccl_version" in fields else 0,
        errors=tuple(str(one)[:_ERROR] for one in _list(fields, "errors") if one),
    )


def _row(value: Any) -> Row:
    fields = _fields(value, "a result")
    names = ("out_of_place", "in_place")
    one, other = (_measure(fields, name) for name in names)
    times = [_processes(fields.get(f"{name}_per_iter")) for name in names]
    return Row(_whole(fields, "size"), one, other, tuple(part for part in times if part))


def _measure(fields: Mapping[str, Any], name: str) -> Measure:
    own = _fields(fields.get(name), f"{name} of {fields.get('size')} bytes")
    wrong = None if own.get("nwrong") in (None, UNCHECKED) else _number(own, "nwrong")
    return Measure(_number(own, "time"), _number(own, "alg_bw"), _number(own, "bus_bw"), wrong)


def _processes(value: Any) -> Sequence[Sequence[float]]:
    """Empty where there is none: with one process nccl-tests writes none either."""
    if value is None:
        return ()
    fields = _fields(value, "the times of iterations")
    rows = fields.get("per_process_max_times_us") or ()
    times = [[_amount(one, "a time") for one in _items(row, "times of a process")] for row in rows]
    if len({len(row) for row in times}) > 1 or [] in times:
        raise ValueError("processes have different numbers of iterations")
    return times


def _fields(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {strict_json.shown(value)}, and not a dictionary")
    return value


def _items(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {strict_json.shown(value)}, and not a list")
    return value


def _list(fields: Mapping[str, Any], name: str) -> Sequence[Any]:
    return _items(fields.get(name), name)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not a text")
    return value


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not strict_json.is_of(value, int) or not 0 <= int(value or 0) <= GREATEST:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not a number from 0 on")
    return int(value or 0)


def _number(fields: Mapping[str, Any], name: str) -> float:
    return _amount(fields.get(name), name)


def _amount(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= GREATEST:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not an amount from 0 to {GREATEST:g}")
    return float(value)


def _truth(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value not in ("true", "false"):
        raise ValueError(f'{name} is {strict_json.shown(value)}, and neither "true" nor "false"')
    return bool(value == "true")


# -- the table --------------------------------------------------------------------------------------

_HEADER = re.compile(r"^#\s+size\s+count\s+type\b.*$", re.MULTILINE)
#: It begins with a size, a count and the name of a type.
_ROW = re.compile(r"^\s*[0-9]+\s+[0-9]+\s+[a-z].*$", re.MULTILINE)
_DEVICE = re.compile(
    r"^#\s+Rank\s+([0-9]+)\s+(?:Group\s+[0-9]+\s+)?Pid\s+[0-9]+ on\s+(\S+) device", re.MULTILINE
)
_BOUNDS = re.compile(r"^# Out of bounds values : ([0-9]+) (OK|FAILED)", re.MULTILINE)
#: The last error of NCCL, behind the table (writeErrors)
_SAID = re.compile(r"^# error: (\S.*)$", re.MULTILINE)
_VERSION = re.compile(r"^# nccl-tests version (\S+).* nccl-library=([0-9]+)", re.MULTILINE)
#: Columns of one measurement
_COLUMNS = ("time", "algbw", "busbw", "#wrong")


def _table(stdout: str) -> Reading:
    headers = _HEADER.findall(stdout)
    if not headers:
        raise ValueError("nccl-tests printed no table")
    if len(headers) > 1:
        raise ValueError(
            f"{len(headers)} tables: each process ran by itself. Was nccl-tests built with MPI=1?"
        )
    columns = headers[0].lstrip("#").split()
    places = [place for place, name in enumerate(columns) if name == "time"]
    if any(tuple(columns[place : place + 4]) != _COLUMNS for place in places) or len(places) != 2:
        raise ValueError(f"the table has the columns {' '.join(columns)}, and not {' '.join(_COLUMNS)} twice")
    bounds = _BOUNDS.findall(stdout)
    if len(bounds) != 1:
        raise ValueError("the table is cut off: its end says nothing of values that are out of bounds")
    versions = _VERSION.findall(stdout) or [("", "0")]
    devices = [Device(int(rank), host) for rank, host in _DEVICE.findall(stdout)]
    return Reading(
        source="table",
        rows=tuple(_line(line, columns, places) for line in _ROW.findall(stdout)),
        ranks=len(devices),
        devices=tuple(devices),
        out_of_bounds=int(bounds[0][0]) or int(bounds[0][1] != "OK"),
        version=versions[0][0],
        nccl=int(_cell(versions[0][1])),
        errors=tuple(one[:_ERROR] for one in _SAID.findall(stdout)),
    )


def _line(line: str, columns: Sequence[str], places: Sequence[int]) -> Row:
    words = line.split()
    if len(words) != len(columns):
        raise ValueError(f"a row has {len(words)} of {len(columns)} columns: {_short(line)}")
    one, other = (_cells(words[place : place + 4]) for place in places)
    return Row(int(_cell(words[0])), one, other)


def _cells(words: Sequence[str]) -> Measure:
    time, algbw, busbw = (_cell(word) for word in words[:3])
    return Measure(time, algbw, busbw, None if words[3] == UNCHECKED else _cell(words[3]))


def _cell(word: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", word):
        raise ValueError(f"the table has {_short(word)}, where a number belongs")
    return _amount(float(word), "a number of the table")


# -- does it agree with itself? -----------------------------------------------------------------------

#: A printed bandwidth has two digits after the point, and that of a printed time three or more in all.
_ROUNDED, _PART = 0.01, 0.01


def factor(ranks: int) -> float:
    """Bus bandwidth of an all-reduce over size by time: each byte leaves a rank 2(n - 1)/n times (nccl-tests,
    doc/PERFORMANCE.md)."""
    return 2 * (ranks - 1) / ranks


def _consistent(found: Reading) -> None:
    if not found.rows:
        raise ValueError("nccl-tests measured no size")
    numbers = [device.rank for device in found.devices]
    if len({*numbers}) != len(numbers):
        raise ValueError(
            "two processes have the same rank: each ran by itself. Was nccl-tests built with MPI=1?"
        )
    if found.ranks < 2:
        raise ValueError(f"{found.ranks} GPUs took part: nothing was sent")
    sizes = [row.size for row in found.rows]
    if len({*sizes}) != len(sizes):
        raise ValueError("a size is there twice")
    for row in found.rows:
        for measure in (row.out_of_place, row.in_place):
            _plausible(row.size, measure, found.ranks)


def _plausible(size: int, measure: Measure, ranks: int) -> None:
    if not size:
        raise ValueError("a size is 0 bytes")
    if not measure.time:
        raise ValueError(f"{size} bytes took no time")
    algbw = size / measure.time / 1000
    for name, said, known in (
        ("algbw", measure.algbw, algbw),
        ("busbw", measure.busbw, algbw * factor(ranks)),
    ):
        if abs(said - known) > _ROUNDED + _PART * known:
            raise ValueError(
                f"{name} of {size} bytes is {said:g} GB/s, and by its time {known:.4g} with {ranks} GPUs"
            )
