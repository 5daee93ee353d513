# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a declaration of rails in IP networks, as far as that is possible without a machine."""

from __future__ import annotations

from typing import Any, Mapping

from ...model.record import NamedTuple, dataclass
from ...model.schema import Checked
from ...model.setting import Setting
from .. import rules
from ..nics import selection
from ..nics.selection import ALL, Selection
from .schema import VALUES

KIND = "rail"

#: In the order of application
GROUPS = (*VALUES,)


class Rule(NamedTuple):
    """Data shared by a rule's settings."""

    name: str = ""
    nics: Selection = ALL


_NO_RULE = Rule()


@dataclass(frozen=True)
class RailSetting(Setting):
    """One knob of a rule. group: of GROUPS. text: wanted text of each interface's file."""

    rule: Rule = _NO_RULE
    group: str = ""
    text: str = ""


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    settings = [setting for rule in given.get("rules", ()) for setting in _settings(rule)]
    settings.sort(key=lambda setting: GROUPS.index(setting.group))
    return rules.unique(settings)


def _settings(given: Mapping[str, Any]) -> list[RailSetting]:
    where = f"{KIND}.{given['name']}"
    rule = Rule(given["name"], selection.parse(f"{where}.nics", given.get("nics", {})))
    return [_setting(rule, group, given[group]) for group in GROUPS if group in given]


def _setting(rule: Rule, group: str, given: Any) -> RailSetting:
    key = f"{KIND}.{rule.name}.{group}"
    path, claim = path_of("*", group), f"{given} ({rule.nics})"
    return RailSetting(KIND, key, path, None, claim, rule=rule, group=group, text=str(given))


def path_of(interface: str, group: str) -> str:
    """The kernel's file for a knob of an interface. The file of `all` affects every interface."""
    return f"/proc/sys/net/ipv4/conf/{interface}/{group}"
