# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of amd-smi as JSON, for values that the kernel's sysfs does not show.

Forms of its versions (amdsmi_logger.py, CHANGELOG.md of amdsmi): a list of GPUs, or an object whose gpu_data
is that list; numbers alone, with a unit in one text, or as an object of value and unit.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping

from ...host.host import Host
from ...host.system import USUAL_SECONDS
from ...model.errors import HostError, printable
from ...model.record import regex

TOOL = "amd-smi"
LIST = (TOOL, "list", "--json")
METRIC = (TOOL, "metric", "--json")

#: Twice the usual: it asks each GPU for all values
_SECONDS = 2 * USUAL_SECONDS
_NUMBER = regex(r"\s*([0-9]{1,19})(?:\s*[%A-Za-z/]{0,8})?\s*\Z", re.ASCII)
_ADDRESS = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)


def metrics(host: Host) -> Mapping[str, Mapping[str, Any]]:
    """Address → metrics of the GPU. Raises HostError, without another run for the next GPU: the tool may have
    hung."""
    answer = host.once("metrics of amd-smi", lambda: _answer(host))
    if isinstance(answer, HostError):
        raise answer
    return answer


def _answer(host: Host) -> Mapping[str, Mapping[str, Any]] | HostError:
    try:
        return _metrics(host)
    except HostError as error:
        return error


def _metrics(host: Host) -> dict[str, Mapping[str, Any]]:
    numbers = {number: _address(gpu) for number, gpu in _gpus(host, LIST).items()}
    return {numbers[number]: gpu for number, gpu in _gpus(host, METRIC).items() if number in numbers}


def _address(gpu: Mapping[str, Any]) -> str:
    address = str(gpu.get("bdf", "")).lower()
    if not _ADDRESS.match(address):
        raise HostError("understand", TOOL, None, f"a GPU has the bdf {printable(address[:40])!r}")
    return address


def _gpus(host: Host, command: tuple[str, ...]) -> dict[int, Mapping[str, Any]]:
    """Number → the object of each GPU. Raises HostError."""
    done = host.run(command, _SECONDS)
    if done.rc != 0:
        lines = [line for line in (done.err + "\n" + done.out).splitlines() if line.strip()]
        words = printable(lines[0].strip()[:160]) if lines else f"exit status {done.rc}"
        raise HostError("run", TOOL, None, words)
    try:
        answer = json.loads(done.out)
    except (ValueError, RecursionError) as error:
        raise HostError("understand", TOOL, None, f"invalid JSON: {error}") from error
    listed = answer.get("gpu_data") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        raise HostError("understand", TOOL, None, "its answer has no list of GPUs")
    gpus = {}
    for gpu in listed:
        number = gpu.get("gpu") if isinstance(gpu, dict) else None
        if not isinstance(number, int):
            raise HostError("understand", TOOL, None, "a GPU of its answer has no number")
        gpus[number] = gpu
    return gpus


def section(gpu: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = gpu.get(name)
    return part if isinstance(part, dict) else {}


def number(value: Any) -> int | None:
    """A count in any of the forms; None for N/A and other texts."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    match = _NUMBER.match(str(value))
    return int(match.group(1)) if match else None
