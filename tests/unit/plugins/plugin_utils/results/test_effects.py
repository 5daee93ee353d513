# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""mlnode-results effects: documents as effect.yml writes them, and others."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import (
    interval,
    report,
    screening_design,
    screening_report,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.metrics import Metric
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.readings import Reading
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import effects, page, table
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import Fleet
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import effects as results
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results.campaigns import campaign
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results.test_cli import call, schema

ABOUT = {"id": "spring", "ended": "2026-11-30T04:00:00+00:00", "before": "reverted", "nodes": ["a"]}


def written(folder: pathlib.Path, stopped: str = "", **parts: float) -> pathlib.Path:
    """A result of effect.yml. parts: metric → what B is of A; all are better if lower."""
    states = interval.order(3)
    phases = [
        {
            "state": state,
            "command": {
                Metric("command", name, "s", "lower"): {
                    "a": Reading((part if state == "B" else 1.0) * (1 + number / 1e6), nodes=("a",))
                }
                for name, part in parts.items()
            },
        }
        for number, state in enumerate(states)
    ]
    about = {**ABOUT, "duration_seconds": 4, "command": ["true"], "stopped": stopped}
    path = folder / "effect-spring.json"
    path.write_text(json.dumps(report.document(phases, {}, about)), encoding="utf-8")
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema("effect"))
    return path


def test_harm_is_first_and_fails(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, middle=1.0, gain=0.9, tail=1.1)

    status, out, _err = call(capsys, "effects", path)

    assert status == 3
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["METRIC", "tail", "gain", "middle"]
    assert "············│···········●  harms" in out
    status, out, _err = call(capsys, "effects", path, "--json")
    assert status == 3
    jsonschema.validate(json.loads(out), schema("effects"))


def test_no_harm_is_a_success_and_a_lost_phase_is_none(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "effects", written(tmp_path, middle=1.0, gain=0.9))[0] == 0

    status, out, _err = call(capsys, "effects", written(tmp_path, "phase 13 was lost", gain=0.9))

    assert status == 3
    assert out.splitlines()[-1] == "stopped: phase 13 was lost"


def areas(folder: pathlib.Path, **changes: Any) -> pathlib.Path:
    """A result with effect_by, of an area that harms and one that does nothing."""
    design = screening_design.design(["thp", "cpu"], 8, 0)
    metric = Metric("command", "rate", "1/s", "higher")
    rates = [(0.9 if "thp" in design.applied(number) else 1.0) * 1.0001**number for number in range(8)]
    phases = [{"command": {metric: {"a": Reading(rate, nodes=("a",))}}} for rate in rates]
    about = {
        "id": "spring", "ended": "2026-11-30T04:00:00+00:00", "nodes": ["a"], "duration_seconds": 4,
        "seed": 0, "least_percent": 1.0, "command": ["true"], "repeated": [], "stopped": "",
        "left_out": [{"area": "boot", "reason": "needs a boot"}],
    }  # fmt: skip
    document = screening_report.document(phases, {}, design, about)
    jsonschema.validate(document, schema("screening"))
    document["effect"].update(changes)
    path = folder / "effect-areas.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_areas_have_a_row_each_the_harmful_one_first(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = areas(tmp_path)

    status, out, _err = call(capsys, "effects", path)

    assert status == 3
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["AREA", "thp", "cpu"]
    assert lines[2].split()[:5] == ["thp", "rate", "1/s", "higher", "-10.00"]
    assert lines[2].endswith("harms")
    assert lines[3].endswith("no difference")
    assert lines[4:] == [
        "2 areas in 8 phases: the effect of each area is clear of interactions of two areas",
        "left out: boot: needs a boot",
    ]
    status, out, _err = call(capsys, "effects", path, "--json")
    jsonschema.validate(json.loads(out), schema("effects"))
    assert [result["area"] for result in json.loads(out)["effects"][0]["results"]] == ["thp", "cpu"]
    effect = results.read(json.loads(path.read_text(encoding="utf-8")), path)
    html = "".join(page.lines(Fleet("effect.yml", effects=[effect])))
    assert "left out: boot: needs a boot" in html
    assert "<td>thp</td><td>rate</td>" in html


@pytest.mark.parametrize(
    "change", [{"left_out": None}, {"left_out": [{"area": "boot"}]}, {"left_out": ["boot"]}, {"design": 3}]
)
def test_a_damaged_result_of_areas_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    status, _out, err = call(capsys, "effects", areas(tmp_path, **change))

    assert status == 1
    assert "expected a result of effect.yml: " in err


@pytest.mark.parametrize("results", [[{}], [{"areas": "thp"}], [{"areas": [{}]}], ["rate"]])
def test_damaged_effects_of_areas_are_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], results: list[Any]
) -> None:
    path = areas(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "results": results}), encoding="utf-8")

    status, _out, err = call(capsys, "effects", path)

    assert status == 1
    assert "expected a result of effect.yml: " in err


@pytest.mark.parametrize(
    ("ends", "cells"),
    [
        ((-1.0, 0.5, 2.0), "······──────┼──●─────────"),
        ((-9.0, 0.0, 9.0), "────────────●────────────"),
        ((1.0, 1.5, 1.8), "············│·····───●──·"),
    ],
)
def test_a_chart_has_the_ends_of_its_interval(ends: tuple[float, float, float], cells: str) -> None:
    assert effects.chart(ends, 2.0) == cells


#: Changes of a good document → the message
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": 2}, "expected format 3, got 2; measure again"),
    ({"effect": None}, "expected a result of effect.yml"),
    ({"results": [{"name": "x"}]}, "unit is"),
    ({"results": [{"name": "x", "unit": "", "better": "lower", "verdict": "best"}]}, "expected a verdict"),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
def test_another_document_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    path = written(tmp_path, gain=0.9)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")

    status, _out, err = call(capsys, "effects", path)

    assert status == 1
    assert f"{path}: expected a result of effect.yml: " in err
    assert words in err


#: Metric that claims more than its interval, and the field that another program may have changed
CLAIMS: list[dict[str, Any]] = [
    {"verdict": "helps", "effect": None},
    {"verdict": "helps", "better": "lower"},
    {"verdict": "harms"},
    {"verdict": "no difference"},
    {"better": "sideways"},
    {"effect": {"low_percent": 3.0, "value_percent": 2.0, "high_percent": 1.0}},
]


@pytest.mark.parametrize("claim", [{}, *CLAIMS])
@pytest.mark.parametrize("least", [1.0, 0.0])
def test_a_verdict_follows_from_its_interval(
    tmp_path: pathlib.Path, claim: dict[str, Any], least: float
) -> None:
    path = written(tmp_path, gain=0.9)
    fields = json.loads(path.read_text(encoding="utf-8"))
    interval = {"low_percent": 1.5, "value_percent": 2.0, "high_percent": 3.0}
    good = {"name": "x", "unit": "", "better": "higher", "verdict": "helps", "effect": interval}
    fields["effect"]["least_percent"] = least
    document = {**fields, "results": [{**good, **claim}]}

    if claim or not least:
        with pytest.raises(MlnodeError, match="expected a result of effect"):
            results.read(document, path)
    else:
        assert results.read(document, path).metrics[0].verdict == "helps"


def test_a_trend_of_campaigns_skips_it(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, gain=0.9)

    status, _out, err = call(capsys, "trend", tmp_path)

    # Without a campaign there is none.
    assert (status, err) == (1, f"mlnode-results: {tmp_path} holds no result of a campaign\n")
    (tmp_path / "1.json").write_text(json.dumps(campaign(4, 1)), encoding="utf-8")
    status, out, err = call(capsys, "trend", tmp_path)
    assert (out[:4], err) == ("tcp:", "")


def test_the_fleet_report_has_the_chart_in_its_table_and_on_its_page(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, middle=1.0, tail=1.1)
    effect = results.read(json.loads(path.read_text(encoding="utf-8")), path)
    fleet = Fleet("effect.yml", effects=[effect._replace(stopped="<b>\x1b[1m")])

    lines = table.lines(fleet, None)
    html = "".join(page.lines(fleet))

    assert lines[-5] == "Effect spring"
    assert "············│···········●  harms" in lines[-3]
    assert lines[-1] == "stopped: <b>\\x1b[1m"
    assert "············│···········●" in html
    assert '<span class="tag high">harms</span>' in html
    assert "<b>" not in html
