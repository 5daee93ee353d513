# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's lists of devices and interfaces (src/misc/utils.cc: parseStringList, matchIfList).

`^` at the beginning inverts the list, and `=` after it means whole names. Otherwise an entry is a prefix:
mlx5_1 also means mlx5_10. A port follows a colon; without one, or with an empty one, the entry means all
ports. An empty list means all devices.
"""

from __future__ import annotations

from typing import Sequence

from ...model.record import NamedTuple, regex

_ANY_PORT = -1
_PORT = regex(r"\s*([+-]?[0-9]+)")


class Entry(NamedTuple):
    """text: as written."""

    name: str
    port: int
    text: str


class Pattern(NamedTuple):
    negated: bool
    exact: bool
    entries: tuple[Entry, ...]

    def meets(self, entry: Entry, name: str, port: int = _ANY_PORT) -> bool:
        alike = name == entry.name if self.exact else name.startswith(entry.name)
        return alike and (_ANY_PORT in (port, entry.port) or port == entry.port)

    def takes(self, name: str, port: int = _ANY_PORT) -> bool:
        """True if NCCL uses a device, or one of its ports."""
        listed = not self.entries or any(self.meets(entry, name, port) for entry in self.entries)
        return listed is not self.negated

    def wider(self, all_names: Sequence[str]) -> dict[str, list[str]]:
        """Entries that are whole names, and other names that they match as well."""
        if self.exact:
            return {}
        wider_entries = {}
        for entry in self.entries:
            others = [name for name in all_names if name.startswith(entry.name) and name != entry.name]
            if entry.name in all_names and others:
                wider_entries[entry.text] = others
        return wider_entries


def parse(text: str) -> Pattern:
    """The parsed list. Never raises, as NCCL accepts any text."""
    negated = text.startswith("^")
    rest = text[1:] if negated else text
    exact = rest.startswith("=")
    entries = (_entry(item) for item in rest[exact:].split(","))
    return Pattern(negated, exact, tuple(entry for entry in entries if entry.name))


def _entry(text: str) -> Entry:
    name, _colon, places = text.partition(":")
    port = places.partition(":")[0]
    match = _PORT.match(port)
    # atoi() makes 0 of other text, and ports begin with 1.
    return Entry(name, (int(match[1]) if match else 0) if port else _ANY_PORT, text)
