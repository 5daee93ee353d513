# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of dcb(8) and mlnx_qos, as fields of text. Pure functions. ValueError for invalid output.

Eight values form one word, 0/0/0/1/0/0/0/0, without commas: a list of numbers would be taken for the set 0,1.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Collection, Iterable, Mapping

from ...model.record import regex
from .device import CLASSES, DSCPS, NONE

#: Names that dcb uses (dcb/dcb_ets.c: tsa_names)
TSAS = ("strict", "cbs", "ets", "vendor")
#: dcb/dcb_apptrust.c: selector_names
SELECTORS = ("ethtype", "stream-port", "dgram-port", "port", "dscp", "pcp")
#: dcb/dcb_dcbx.c: dcb_dcbx_flags, name in JSON → name as argument
_DCBX = {"host": "host", "lld_managed": "lld-managed", "cee": "cee", "ieee": "ieee", "static": "static"}

#: struct dcbnl_buffer stores a size in 32 bits
_SIZES = range(1 << 32)
_PERCENT = range(101)


def numbers(values: Iterable[int]) -> str:
    """`3,4`, or none."""
    return ",".join(str(number) for number in sorted(values)) or NONE


def row(values: Iterable[object]) -> str:
    """Eight values as one word."""
    return "/".join(str(value) for value in values)


# -- dcb -j --------------------------------------------------------------------------------


def pfc(text: str) -> dict[str, str]:
    document = _document(text)
    bits = _eight(document, "prio_pfc", _switch)
    enabled = numbers(number for number in CLASSES if bits[number])
    return {"prio-pfc": enabled, "pfc-cap": str(_number(document.get("pfc_cap"), range(256)))}


def ets(text: str) -> dict[str, str]:
    document = _document(text)
    return {
        "prio-tc": row(_eight(document, "prio_tc", _class)),
        "tc-tsa": row(_eight(document, "tc_tsa", lambda raw: _word(raw, TSAS))),
        "tc-bw": row(_eight(document, "tc_bw", lambda raw: _number(raw, _PERCENT))),
        "ets-cap": str(_number(document.get("ets_cap"), range(256))),
    }


def buffer(text: str) -> dict[str, str]:
    document = _document(text)
    return {
        "prio-buffer": row(_eight(document, "prio_buffer", _class)),
        "buffer-size": row(_eight(document, "buffer_size", lambda raw: _number(raw, _SIZES))),
        "total-size": str(_number(document.get("total_size"), _SIZES)),
    }


def dscp_prio(text: str) -> dict[str, str]:
    """Priorities of every DSCP. If a DSCP has several, most drivers use the last."""
    priorities: dict[int, set[int]] = {}
    entries = _document(text).get("dscp_prio", [])
    if not isinstance(entries, list):
        raise ValueError(f"dscp_prio is {_short(entries)}, no list")
    for entry in entries:
        # iproute2 6.15 puts the separating blank of its text output into each entry.
        if not isinstance(entry, list) or len(entry) < 2 or entry[2:] not in ([], [" "]):
            raise ValueError(f"{_short(entry)} is not a DSCP with a priority")
        priorities.setdefault(_number(entry[0], DSCPS), set()).add(_class(entry[1]))
    return by_dscp(priorities)


def by_dscp(priorities: Mapping[int, Collection[int]]) -> dict[str, str]:
    return {str(dscp): numbers(priorities.get(dscp, ())) for dscp in DSCPS}


def order(text: str) -> str:
    """Sources of a packet's priority, in their order: dscp+pcp."""
    selectors = _document(text).get("order")
    if not isinstance(selectors, list):
        raise ValueError(f"order is {_short(selectors)}, no list")
    return "+".join(_word(raw, SELECTORS) for raw in selectors) or NONE


def dcbx(text: str) -> dict[str, str]:
    document = _document(text)
    return {"mode": " ".join(_DCBX[name] for name in _DCBX if document.get(name) is True) or NONE}


def _document(text: str) -> Mapping[str, Any]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_short(text)} is not JSON ({type(error).__name__})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{_short(document)} is not a JSON object")
    return document


def _eight(document: Mapping[str, Any], name: str, convert: Callable[[Any], Any]) -> list[Any]:
    raw = document.get(name)
    if not isinstance(raw, list) or len(raw) != len(CLASSES):
        raise ValueError(f"{name} is {_short(raw)}, no list of eight")
    return [convert(item) for item in raw]


def _switch(raw: Any) -> bool:
    if raw in ("on", "off"):
        return bool(raw == "on")
    if not isinstance(raw, bool):
        raise ValueError(f"{_short(raw)} is neither on nor off")
    return raw


def _class(raw: Any) -> int:
    return _number(raw, CLASSES)


def _number(raw: Any, allowed: range) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw not in allowed:
        raise ValueError(f"{_short(raw)} is not a number from {allowed.start} to {allowed.stop - 1}")
    return raw


def _word(raw: Any, known: Collection[str]) -> str:
    if not isinstance(raw, str) or raw not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {_short(raw)}")
    return raw


def _short(raw: Any) -> str:
    """A short form of a value for a message."""
    text = repr(raw)
    return text if len(text) <= 40 else f"{text[:40]}..."


# -- mlnx_qos -i NIC -a --------------------------------------------------------------------

#: Lines of mlnx_qos (mlnx-tools, python/mlnx_qos: pretty_print). Long lists of DSCPs take several lines.
_TRUST = regex(r"^Priority trust state: (\w+)\s*$", re.MULTILINE | re.ASCII)
_MODE = regex(r"^DCBX mode: (OS|Firmware) controlled\s*$", re.MULTILINE | re.ASCII)
_DSCP = regex(r"^\s*prio:([0-7])\s+dscp:([0-9,]+)\s*$", re.MULTILINE | re.ASCII)
_SIZE = regex(
    r"^Receive buffer size \(bytes\): ((?:[0-9]{1,10},){8})(?:(?:total_size|max_buffer_size)=([0-9]{1,10}))?",
    re.MULTILINE | re.ASCII,
)
_ENABLED = regex(r"^\s*enabled((?:\s+[01]){8})\s*$", re.MULTILINE | re.ASCII)
_BUFFER = regex(r"^\s*buffer((?:\s+[0-7]){8})\s*$", re.MULTILINE | re.ASCII)
_CLASS = regex(
    r"^tc: ([0-7]) ratelimit: [^,\n]*, tsa: (\w+)(?:, bw: ([0-9]{1,3})%)?\s*$", re.MULTILINE | re.ASCII
)
_UP = regex(r"^\s*priority:\s+([0-7])\s*$", re.ASCII)


def mlnx_qos(text: str, group: str) -> dict[str, str] | None:
    """The fields of a group; None if mlnx_qos reports that the driver lacks it."""
    return _MLNX_QOS[group](text)


def _mlnx_pfc(text: str) -> dict[str, str]:
    bits = _must(_ENABLED, text, "which priorities have PFC").group(1).split()
    enabled = numbers(number for number in CLASSES if bits[number] == "1")
    # It does not show how many priorities can have PFC at once: a driver without a limit reports 0.
    return {"prio-pfc": enabled, "pfc-cap": "0"}


def _mlnx_ets(text: str) -> dict[str, str]:
    tsa: dict[int, str] = {}
    share: dict[int, str] = {}
    classes: dict[int, int] = {}
    here: int | None = None
    for line in text.splitlines():
        head, priority = _CLASS.match(line), _UP.match(line)
        if head:
            here = int(head.group(1))
            tsa[here], share[here] = _word(head.group(2), TSAS), str(int(head.group(3) or 0))
        elif priority and here is not None:
            classes[int(priority.group(1))] = here
    if {*tsa} != {*CLASSES} or {*classes} != {*CLASSES}:
        raise ValueError("it does not show eight traffic classes with their priorities")
    return {
        "prio-tc": row(classes[number] for number in CLASSES),
        "tc-tsa": row(tsa[number] for number in CLASSES),
        "tc-bw": row(share[number] for number in CLASSES),
        "ets-cap": "0",
    }


def _mlnx_buffer(text: str) -> dict[str, str] | None:
    if "Buffers commands are not supported" in text:
        return None
    sizes = _must(_SIZE, text, "receive buffers")
    return {
        "prio-buffer": row(_must(_BUFFER, text, "buffers of priorities").group(1).split()),
        "buffer-size": row(int(size) for size in sizes.group(1).rstrip(",").split(",")),
        "total-size": str(int(sizes.group(2) or 0)),
    }


def _mlnx_trust(text: str) -> dict[str, str] | None:
    state = _must(_TRUST, text, "what is trusted").group(1)
    return None if state == NONE else {"state": _word(state, ("pcp", "dscp"))}


def _mlnx_dscp(text: str) -> dict[str, str] | None:
    """It lists the map only while DSCPs are trusted; otherwise the map has no effect."""
    if _mlnx_trust(text) is None:
        return None
    priorities: dict[int, set[int]] = {}
    for priority, listed in _DSCP.findall(text):
        for dscp in filter(None, listed.split(",")):
            if len(dscp) > 2 or int(dscp) not in DSCPS:
                raise ValueError(f"{_short(dscp)} is not a DSCP")
            priorities.setdefault(int(dscp), set()).add(int(priority))
    return by_dscp(priorities)


def _mlnx_dcbx(text: str) -> dict[str, str]:
    controlled = _must(_MODE, text, "the mode of DCBX").group(1)
    return {"mode": "host" if controlled == "OS" else "firmware"}


def _must(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.search(text)
    if match is None:
        raise ValueError(f"it does not show {what}")
    return match


_MLNX_QOS: Mapping[str, Callable[[str], dict[str, str] | None]] = {
    "pfc": _mlnx_pfc,
    "ets": _mlnx_ets,
    "buffer": _mlnx_buffer,
    "dscp-prio": _mlnx_dscp,
    "trust": _mlnx_trust,
    "dcbx": _mlnx_dcbx,
}
