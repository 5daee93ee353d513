# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that an operator declared, and a node has not: a profile may ask for more than each node has, and
what an inventory asks for by name was expected there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..module_utils._mlnode.agent import registry
from ..module_utils._mlnode.engine.partial import keys
from ..module_utils._mlnode.model.setting import Status
from .profile import Declared

#: In the result of an action, for the fleet report
FIELD = "unsupported_overrides"


def lines(answer: Mapping[str, Any], declarations: Iterable[Declared]) -> list[str]:
    """`KEY: reason` of each."""
    found = {
        (str(setting["kind"]), str(setting["key"])): f"{setting['key']}: {setting['reason']}"
        for setting in _settings(answer)
        if setting["status"] == Status.UNSUPPORTED
    }
    if not found:
        return []
    areas = {area for area, _key in found}
    own = {name for declared in declarations for name in _own(areas & {*declared.areas}, declared)}
    return [line for name, line in found.items() if name in own]


def _settings(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    of_areas = [area.get("settings", ()) for area in answer.get("areas", {}).values()]
    return [setting for part in (answer.get("settings", ()), *of_areas) for setting in part]


def _own(areas: set[str], declared: Declared) -> Iterator[tuple[str, str]]:
    """Area and key of the settings that are not the profile's."""
    for area in areas:
        all_of_it, of_profile = declared.areas[area] or {}, declared.profile.get(area) or {}
        if all_of_it != of_profile:
            # Only here: Ansible compiles it in the process of each host, and most nodes have no such area.
            kind = registry.KINDS[area]
            yield from ((area, key) for key in keys(kind, all_of_it) - keys(kind, of_profile))
