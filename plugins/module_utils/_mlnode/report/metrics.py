# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics in the text format of Prometheus, version 0.0.4.

Without timestamps: node_exporter rejects a file that contains any, because Prometheus uses the time of the
scrape. Names, units and types follow https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

from typing import Iterable, Mapping

from ..model.record import NamedTuple

GAUGE, COUNTER = "gauge", "counter"

#: A longer label adds nothing, and Prometheus may be configured to drop the whole scrape for it
#: (label_value_length_limit)
_LONGEST = 200

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """One series."""

    value: float
    labels: Mapping[str, str] = {}


class Family(NamedTuple):
    """One metric. help: one line."""

    name: str
    type: str
    help: str
    samples: tuple[Sample, ...]


def render(families: Iterable[Family]) -> str:
    """The file. Families without samples are left out: a name without a value looks like a mistake."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            help_text = family.help.translate(_ESCAPES).replace(r"\"", '"')
            lines += [f"# HELP {family.name} {help_text}", f"# TYPE {family.name} {family.type}"]
            lines += [
                f"{family.name}{_labels(sample.labels)} {_number(sample.value)}" for sample in family.samples
            ]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    """Any text as valid UTF-8: a parser rejects a whole file for one invalid byte in a kernel's value."""
    plain = value.encode("utf-8", "backslashreplace").decode("utf-8")
    # Other line ends and control characters are legal, and some readers split lines at them.
    plain = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in plain)
    cut = plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
    return cut.translate(_ESCAPES)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
