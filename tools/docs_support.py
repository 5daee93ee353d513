# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the features that each driver supports, and of the known accelerators, for docs/guide/support.md.

A driver is a module below drivers/, or a class in it, with SUPPORTS: feature → the interface or tool that it
uses. LACKS may give reasons for further features. A class without SUPPORTS may have LOOKS: topics of the
audit, with their sources.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode import drivers as every_driver
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model import accelerators

#: Titles of the folders below drivers/; any other folder has its name
TITLES = {"gpu": "GPUs", "roce": "RoCE"}
#: Cell of a driver that says nothing of a feature
_NONE = "–"


class Driver(NamedTuple):
    """noun: the folder below drivers/. supports: feature → interface. lacks: feature → reason."""

    noun: str
    name: str
    supports: Mapping[str, str]
    lacks: Mapping[str, str]

    def cell(self, feature: str) -> str:
        reason = self.lacks.get(feature, "")
        return self.supports.get(feature) or (f"unsupported: {reason}" if reason else _NONE)


def known(package: ModuleType = every_driver) -> Iterator[Driver]:
    """Every driver with features, by module."""
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        noun, _dot, stem = info.name[len(package.__name__) + 1 :].rpartition(".")
        own = [member for member in vars(module).values() if isinstance(member, type)]
        for owner in (module, *(member for member in own if member.__module__ == info.name)):
            supports = _supports(owner)
            if supports:
                yield Driver(noun or stem, stem, supports, getattr(owner, "LACKS", {}))


def _supports(owner: Any) -> Mapping[str, str]:
    looks = getattr(owner, "LOOKS", ()) if isinstance(owner, type) else ()
    topics = {topic.name: f"`{topic.source}`" for topics, _ask in looks for topic in topics}
    supports: Mapping[str, str] = getattr(owner, "SUPPORTS", None) or topics
    return supports


def features(drivers: Sequence[Driver]) -> str:
    """One row for each feature of one noun, one column for each driver."""
    rows = [["feature", *(driver.name for driver in drivers)], ["---"] * (1 + len(drivers))]
    names = dict.fromkeys(name for driver in drivers for name in (*driver.supports, *driver.lacks))
    rows += ([f"`{name}`", *(driver.cell(name) for driver in drivers)] for name in names)
    return _table(rows)


def vendors() -> str:
    """One row for each vendor of accelerators."""
    rows = [["vendor", "PCI vendor", "device files of jobs", "harmless services"], ["---"] * 4]
    for number, vendor in accelerators.VENDORS.items():
        files = ", ".join(f"`/dev/{readable(pattern)}`" for pattern, _path in vendor.files)
        services = ", ".join(f"`{name}`" for name, _why in vendor.services)
        rows.append([vendor.name, f"`{number:04x}`", files, services or _NONE])
    return _table(rows)


def readable(pattern: str) -> str:
    """A pattern of device files for people: N for a number, brackets for a part that may be missing."""
    text = pattern.replace("[0-9]{1,5}", "N").replace("(?:", "[").replace(")?", "]")
    return re.sub(r"(\w)\?", r"[\1]", text)


def tables() -> str:
    """All tables, with a heading for each noun."""
    nouns: dict[str, list[Driver]] = {}
    for driver in known():
        nouns.setdefault(driver.noun, []).append(driver)
    parts = [
        f"### {TITLES.get(noun, noun)}\n\n{features(drivers)}" for noun, drivers in sorted(nouns.items())
    ]
    return "\n".join([*parts, f"### Accelerators\n\n{vendors()}"])


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
