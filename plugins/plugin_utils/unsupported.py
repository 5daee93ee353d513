# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that an operator declared, and a node has not: a profile may ask for more than each node has, and
what an inventory asks for by name was expected there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..module_utils._mlnode.agent import registry
from ..module_utils._mlnode.model import schema
from ..module_utils._mlnode.model.errors import MlnodeError
from ..module_utils._mlnode.model.setting import Status
from . import profile

#: In the result of an action, for the fleet report
FIELD = "unsupported_overrides"


def is_cause(warning: str) -> bool:
    """True if a node warns of settings that it has not (agent/declare.py: _message)."""
    return f" {Status.UNSUPPORTED}: " in warning


def lines(answer: Mapping[str, Any], declarations: Iterable[tuple[Any, Mapping[str, Any]]]) -> list[str]:
    """`KEY: reason` of each. declarations: the profile of one and its areas with all overrides."""
    found = {
        (str(setting["kind"]), str(setting["key"])): f"{setting['key']}: {setting['reason']}"
        for setting in _settings(answer)
        if setting["status"] == Status.UNSUPPORTED
    }
    if not found:
        return []
    known: set[tuple[str, str]] = set()
    for profiles, areas in declarations:
        known |= _own({area for area, _key in found}, profiles, areas)
    return [line for name, line in found.items() if name in known]


def _settings(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    of_areas = [area.get("settings", ()) for area in answer.get("areas", {}).values()]
    return [setting for part in (answer.get("settings", ()), *of_areas) for setting in part]


def _own(kinds: set[str], profiles: Any, areas: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Area and key of the settings that the profile alone does not declare, or declares otherwise."""
    base = profile.areas(profiles or "", {})
    own: set[tuple[str, str]] = set()
    for area in kinds & {*areas}:
        of_profile, of_all = _claims(area, base.get(area)), _claims(area, areas[area])
        own |= {(area, key) for key, claim in of_all.items() if of_profile.get(key) != claim}
    return own


def _claims(area: str, spec: Any) -> dict[str, str]:
    if not spec:
        return {}
    try:
        checked = schema.checked(area, spec, registry.options(area))
        return {setting.key: setting.claim for setting in registry.KINDS[area].parse(checked, None)}
    except MlnodeError:  # which the node has reported
        return {}
