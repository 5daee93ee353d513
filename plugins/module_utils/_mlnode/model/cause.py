# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for the status of a row, as data. Only the report makes sentences of them; no code parses those."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Iterable

from .record import NamedTuple, regex


class Layer(str, Enum):
    """Place of a setting: the running kernel or the next boot."""

    RUNTIME = "runtime"
    BOOT = "boot"


class Cause(NamedTuple):
    """One reason for the status of a row.

    code: one of the constants below, or a status; the same on all nodes. file, line: the place to edit; empty
    and 0 if unknown. text: the words after the place, or a sentence that contains the place.
    """

    layer: Layer
    code: str
    file: str = ""
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        if place and is_named(place, self.text):
            return self.text
        glue = "" if self.text.startswith((",", ";", ")")) else " "
        return glue.join(filter(None, (place, self.text)))

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "layer": self.layer.value}


#: The runtime value differs from the wanted one; a file sets it; a file may set it
DIFFERS, SET, MAY_SET = "differs", "set", "may_set"
#: For a known reason, the value cannot be written; would be lowered; exceeds the declared one
BARRED, LOWERS, MORE = "barred", "lowers", "more"
#: Another row has the reason; the value takes effect at the next boot; additional facts
SEE, WAITS, NOTE = "see", "waits", "note"

_PLACE = regex(r"(/.*?):([0-9]+)(?=\Z|[ ,;)]) ?(.*)", re.ASCII | re.DOTALL)


def placed(layer: Layer, code: str, source: str, text: str = "") -> Cause:
    """Cause at a source. source: `path:line`, optionally with more words, or words such as `kernel command
    line`."""
    match = _PLACE.match(source)
    file, line, rest = match.groups() if match else ("", "0", source)
    return Cause(layer, code, file, int(line), " ".join(filter(None, (rest, text))))


def is_named(place: str, text: str) -> bool:
    """True if the text contains this place as a whole word."""
    return place in text and bool(re.search(rf"(?<![\w/.-]){re.escape(place)}(?![0-9])", text))


def told(layer: Layer, code: str, source: str, text: str) -> Cause:
    """Cause with a whole sentence as text; with the place of the source if the sentence contains it."""
    place = placed(layer, code, source)
    if not place.line or not is_named(f"{place.file}:{place.line}", text):
        return Cause(layer, code, text=text)
    begun = placed(layer, code, text)
    return begun if begun[:4] == place[:4] else place._replace(text=text)


def sentence(causes: Iterable[Cause]) -> str:
    """All causes as one text for people."""
    text, layer = "", Layer.RUNTIME
    for cause in causes:
        beside = ", as " if cause.code in (SET, MAY_SET) else "; "
        label = "boot: " if cause.layer is Layer.BOOT and layer is not Layer.BOOT else ""
        text += f"{beside if text else ''}{label}{cause}"
        layer = cause.layer
    return text
