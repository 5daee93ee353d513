# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of all_reduce_perf of nccl-tests or rccl-tests, from its JSON (option -J), or else its table.

Its JSON writer (src/util.cu) has texts instead of true and false, "nan" as a text, and infinity as a word
that JSON lacks. It takes another name if its file exists already, and ends with 0 if it has written no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import StoreError
from ..answer_forms import Maybe, Table, amount, count, fields, list_of, made, or_null, tree, word

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
    hostname: str


class Reading(NamedTuple):
    """source: json or table. out_of_bounds: rows with wrong results, by nccl-tests' own count. nccl: version
    of the library as a number, such as 23003; 0 if unknown. errors: the last error of NCCL
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
    """Measurements of one run. Raises ValueError if its result is incomplete.

    content: of the file `path` that was requested with -J, and had to be a new one; None if the file is
    missing.
    """
    stdout = _unlabelled(stdout)
    written = re.findall(r"^# Writing JSON output to (.*)$", stdout, re.MULTILINE)
    if written and written != [path]:
        others = strict_json.shown(", ".join(written))
        raise ValueError(f"expected nccl-tests to write {path}, got {others}; {path} is from another run")
    reading = _table(stdout) if content is None and not written else _json(content, path)
    _consistent(reading)
    return reading


#: Process of a line: mpirun --tag-output of Open MPI 4 and 5 (`[1,0]<stdout>:`, `[prterun-a@1,0]<stdout>: `)
#: and srun --label (`0: `, with blanks or zeros before it)
_LABEL = re.compile(r"(?:\[[^][\n]{0,200}[0-9],[0-9]+\]<std(?:out|err)>:| *[0-9]{1,7}:(?= |$)) ?")


def _unlabelled(stdout: str) -> str:
    """The text without the launcher's label, if every line has one."""
    lines = [line for line in stdout.split("\n") if line.strip()]
    if not all(map(_LABEL.match, lines)):
        return stdout
    return "\n".join(_LABEL.sub("", line, count=1) for line in lines)


# -- JSON -----------------------------------------------------------------------------------------


def _wrong(where: str, value: Any) -> float | None:
    return None if value in (None, UNCHECKED) else amount(where, value)


_some_text = word(r"[^\n]+")
_MEASURE: Table = {**dict.fromkeys(("time", "alg_bw", "bus_bw"), amount), "nwrong": Maybe(_wrong)}
#: With one process nccl-tests writes no times.
_TIMES = Maybe(or_null(fields({"per_process_max_times_us": Maybe(or_null(list_of(list_of(amount))))})))
_PLACES = ("out_of_place", "in_place")
_SIZE: Table = {
    "size": count,
    **dict.fromkeys(_PLACES, fields(_MEASURE)),
    **dict.fromkeys((f"{name}_per_iter" for name in _PLACES), _TIMES),
}
_DEVICES = list_of(made(Device, {"rank": count, "hostname": _some_text}))
_RUN: Table = {
    "args": list_of(tree),
    "end_time": _some_text,
    "config": fields({"devices": _DEVICES, "nthreads": count, "ngpus": count}),
    "out_of_bounds": fields({"count": count, "okay": word("true|false")}),
    "results": list_of(fields(_SIZE)),
    "version": count,
    "nccl_version": Maybe(count),
    "errors": list_of(tree),
}


def _json(content: str | None, path: str) -> Reading:
    if content is None:
        raise ValueError(f"nccl-tests says that it wrote {path}, which is not there")
    try:
        whole = strict_json.loads(content, path, most=MOST)
    except StoreError as error:
        raise ValueError(str(error)) from error
    run = fields(_RUN)("", whole)
    if path not in run["args"]:
        raise ValueError(f"{path} was written by another run: it is not among its own args")
    config, bounds = run["config"], run["out_of_bounds"]
    if (bounds["okay"] == "true") != (bounds["count"] == 0):
        raise ValueError(f"out_of_bounds says {bounds['count']}, and that this is {bounds['okay']}")
    return Reading(
        source="json",
        rows=tuple(map(_row, run["results"])),
        # Only the first of a process's GPUs is listed.
        ranks=len(config["devices"]) * config["nthreads"] * config["ngpus"],
        devices=tuple(config["devices"]),
        out_of_bounds=bounds["count"],
        version=f"format {run['version']}",
        nccl=run.get("nccl_version", 0),
        errors=tuple(str(text)[:_ERROR] for text in run["errors"] if text),
    )


def _row(row: Mapping[str, Any]) -> Row:
    out_of_place, in_place = (
        Measure(own["time"], own["alg_bw"], own["bus_bw"], own.get("nwrong"))
        for own in (row[name] for name in _PLACES)
    )
    times = [(row.get(f"{name}_per_iter") or {}).get("per_process_max_times_us") for name in _PLACES]
    for processes in times:
        if processes and (len({*map(len, processes)}) > 1 or [] in processes):
            raise ValueError("processes have different numbers of iterations")
    return Row(row["size"], out_of_place, in_place, tuple(part for part in times if part))


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
#: rccl-tests, and RCCL between its devices and its table: `rccl-tests: Version develop:448c4c7` and `RCCL
#: version : 2.22.3-HEAD:7d8d67c`
_RCCL_TESTS = re.compile(r"^(?:# ?)?rccl-tests: Version (\S+)", re.MULTILINE)
_RCCL = re.compile(r"^(?:# ?)?RCCL version ?: ?([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\b", re.MULTILINE)
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
    versions = _VERSION.findall(stdout) or [_rccl(stdout)]
    devices = [Device(int(rank), host) for rank, host in _DEVICE.findall(stdout)]
    return Reading(
        source="table",
        rows=tuple(_line(line, columns, places) for line in _ROW.findall(stdout)),
        ranks=len(devices),
        devices=tuple(devices),
        out_of_bounds=int(bounds[0][0]) or int(bounds[0][1] != "OK"),
        version=versions[0][0],
        nccl=int(_cell(versions[0][1])),
        errors=tuple(error[:_ERROR] for error in _SAID.findall(stdout)),
    )


def _rccl(stdout: str) -> tuple[str, str]:
    """Versions of rccl-tests and RCCL, the latter as a number like NCCL's; "" and 0 if unknown."""
    tests, library = _RCCL_TESTS.search(stdout), _RCCL.search(stdout)
    major, minor, patch = map(int, library.groups()) if library else (0, 0, 0)
    return (tests[1] if tests else ""), str(10_000 * major + 100 * minor + patch)


def _line(line: str, columns: Sequence[str], places: Sequence[int]) -> Row:
    words = line.split()
    if len(words) != len(columns):
        raise ValueError(f"a row has {len(words)} of {len(columns)} columns: {strict_json.shown(line)}")
    out_of_place, in_place = (_cells(words[place : place + 4]) for place in places)
    return Row(int(_cell(words[0])), out_of_place, in_place)


def _cells(words: Sequence[str]) -> Measure:
    time, algbw, busbw = (_cell(word) for word in words[:3])
    return Measure(time, algbw, busbw, None if words[3] == UNCHECKED else _cell(words[3]))


def _cell(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", text):
        raise ValueError(f"the table: expected a number, got {strict_json.shown(text)}")
    return amount("a number of the table", float(text))


# -- does it agree with itself? -----------------------------------------------------------------------

#: A printed bandwidth has two decimals, a printed time three or more significant digits.
_ROUNDED, _PART = 0.01, 0.01


def factor(ranks: int) -> float:
    """Bus bandwidth of an all-reduce over size by time: each byte leaves a rank 2(n - 1)/n times (nccl-tests,
    doc/PERFORMANCE.md)."""
    return 2 * (ranks - 1) / ranks


def _consistent(reading: Reading) -> None:
    if not reading.rows:
        raise ValueError("nccl-tests measured no size")
    numbers = [device.rank for device in reading.devices]
    if len({*numbers}) != len(numbers):
        raise ValueError(
            "two processes have the same rank: each ran by itself. Was nccl-tests built with MPI=1?"
        )
    if reading.ranks < 2:
        raise ValueError(f"{reading.ranks} GPUs took part: nothing was sent")
    sizes = [row.size for row in reading.rows]
    if len({*sizes}) != len(sizes):
        raise ValueError("a size is there twice")
    for row in reading.rows:
        for measure in (row.out_of_place, row.in_place):
            _plausible(row.size, measure, reading.ranks)


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
