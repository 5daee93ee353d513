# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard that is shipped. Its queries are run by tests/system/test_observability.py."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tools import dashboard

RULES = ROOT / "observability/rules"
SHIPPED: dict[str, Any] = json.loads(dashboard.PATH.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = SHIPPED["panels"]
EXPRESSIONS: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]]
#: A dashboard of Grafana is so many columns wide.
COLUMNS = 24


def test_it_is_what_make_dashboard_writes() -> None:
    assert dashboard.PATH.read_text(encoding="utf-8") == dashboard.text()


def test_every_panel_says_what_it_shows() -> None:
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    assert all(panel["description"] for panel in PANELS)
    assert all(panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


def test_no_panel_covers_another_or_leaves_the_grid() -> None:
    cells = [
        set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        for at in (panel["gridPos"] for panel in PANELS)
    ]
    assert sum(map(len, cells)) == len(set().union(*cells))
    assert max(x for x, _y in set().union(*cells)) == COLUMNS - 1


def test_the_server_and_the_job_are_chosen_by_its_reader() -> None:
    assert {one["name"] for one in SHIPPED["templating"]["list"]} == {"datasource", "job"}
    asked = [one["datasource"]["uid"] for panel in PANELS for one in (panel, *panel["targets"])]
    assert {*asked} == {"${datasource}"}
    limits = [one for one in EXPRESSIONS if "$job" not in one]
    assert all(one.startswith("mlnode:config_") for one in limits)


def test_what_it_asks_for_is_recorded() -> None:
    """A query for a name that no rule records has no answer, and is no error to Prometheus."""
    rules = [
        rule
        for path in RULES.glob("*.yml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]
    recorded = {rule.get("record") for rule in rules}
    asked = {name for one in EXPRESSIONS for name in re.findall(r"(?<!\$)\b\w+:\w+(?::\w+)?", one)}
    assert asked
    assert asked <= recorded


def test_the_metrics_of_mlnode_have_these_names() -> None:
    """In rules, in the dashboard and in the tables of the guide: a name that no node exports is silent."""
    agent = ROOT / "plugins/module_utils/_mlnode/agent"
    exported = {
        found
        for path in agent.glob("*.py")
        for found in re.findall(r'"(mlnode_[a-z_]+)"', path.read_text(encoding="utf-8"))
    }
    texts = [path.read_text(encoding="utf-8") for path in RULES.glob("*.yml")]
    name = re.compile(r"(?<![:\w])mlnode_\w+\b(?!:)")
    asked = {found for one in (*texts, *EXPRESSIONS) for found in name.findall(one)}
    guide = (ROOT / "docs/guide/watching.md").read_text(encoding="utf-8")
    told = {*re.findall(r"^\| `(mlnode_\w+)` \|", guide, re.M)}
    assert len(asked) > 10
    assert len(told) > 10
    assert asked | told <= exported
