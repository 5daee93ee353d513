# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partial reports as one: every node of the inventory once, and none of them better than it was reported."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import (
    document,
    junit,
    merge,
    page,
    table,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import Fleet
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from mlnode.model.errors import MlnodeError

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/fleet.schema.json").read_text("utf-8"))
GROUPS = ["training"]


def told(fleet: Fleet) -> dict[str, Any]:
    """As JSON that is what its schema says, written and read."""
    found: dict[str, Any] = json.loads("".join(document.lines(fleet)))
    jsonschema.validate(found, SCHEMA)
    return found


def report(fleet: Fleet, name: str = "a.json") -> merge.Report:
    return merge.read(told(fleet), name)


def slice_of(*names: str, ended: str = "2026-01-31T10:00:20Z", **more: Any) -> Fleet:
    """A report about these hosts, each with a setting."""
    fleet = fleets.empty()
    fleet.ended = ended
    for name in names:
        fleet.take(fleet.host(name, GROUPS), {"settings": [fleets.setting(**more)]}, "node_drift")
    return fleet


def inventory(*names: str) -> dict[str, list[str]]:
    return dict.fromkeys(names, GROUPS)


@pytest.mark.parametrize(
    "fleet", [fleets.mixed(), fleets.link_and_governors(), fleets.synthetic(30), fleets.empty()]
)
def test_a_report_that_is_read_says_the_same(fleet: Fleet) -> None:
    first = told(fleet)

    again = told(report(fleet).fleet)

    assert again == {**first, "outliers": again["outliers"]}
    # How many have reported a setting is not in the file; those that are not as expected are.
    kept = ("kind", "key", "severity", "statuses", "hosts", "why")
    assert [{name: one[name] for name in kept} for one in again["outliers"]] == [
        {name: one[name] for name in kept} for one in first["outliers"]
    ]


def test_every_node_of_the_inventory_is_named_once() -> None:
    parts = [report(slice_of("n1", "n2")), report(slice_of("n3"), "b.json")]

    fleet = merge.merge(parts, inventory("n1", "n2", "n3", "n4", "n5"))

    found = told(fleet)
    assert Counter(host["name"] for host in found["hosts"]) == Counter(["n1", "n2", "n3", "n4", "n5"])
    assert found["states"] == {"never answered": 2, "ok": 3}
    assert found["counts"] == {"ok": {"medium": 3}}
    [gone] = [host for host in found["hosts"] if host["name"] == "n4"]
    assert (gone["state"], gone["groups"], gone["counts"]) == ("never answered", GROUPS, {})
    text = "\n".join(table.lines(fleet, 80))
    assert "5 hosts: 2 never answered, 3 ok" in text
    assert "Never answered\n  n4, n5" in text
    assert "".join(junit.lines(fleet)).count("no report has it") == 2


def test_of_a_node_in_two_reports_the_newest_counts_and_it_is_said() -> None:
    old = slice_of("n1", "n2", status="drifted")
    new = slice_of("n2", ended="2026-02-01T00:00:00Z")

    for parts in (
        [report(old, "old.json"), report(new, "new.json")],
        [report(new, "new.json"), report(old, "old.json")],
    ):
        fleet = merge.merge(parts, inventory("n1", "n2"))

        assert {host.name: host.state for host in fleet.ordered()} == {"n1": "differs", "n2": "ok"}
        found = told(fleet)
        assert [(part["report"], part["hosts"], part["superseded"]) for part in found["merged"]] == [
            ("new.json", 1, []),
            ("old.json", 1, ["n2"]),
        ]
        assert found["counts"] == {"drifted": {"medium": 1}, "ok": {"medium": 1}}
        text = "\n".join(table.lines(fleet, None))
        assert "old.json: 1 host on 2026-01-31T10:00:20Z; a newer report counts for n2" in text
        assert "a newer report counts for n2" in "".join(page.lines(fleet))


def test_times_of_other_zones_are_compared_as_times() -> None:
    late = told(slice_of("n1", status="drifted"))
    late["ended"] = "2026-01-31T09:30:00-02:00"

    fleet = merge.merge([report(slice_of("n1"), "a.json"), merge.read(late, "b.json")], inventory("n1"))

    assert fleet.merged[0].report == "b.json"
    assert fleet.ended == "2026-01-31T11:30:00Z"


def test_a_host_that_the_inventory_lacks_is_left_out_and_named() -> None:
    fleet = merge.merge([report(slice_of("n1", "old"))], inventory("n1"))

    assert [*fleet.hosts] == ["n1"]
    assert told(fleet)["merged"][0]["foreign"] == ["old"]
    assert "not in the inventory: old" in "\n".join(table.lines(fleet, None))


def test_a_node_that_plays_on_itself_has_the_name_of_its_file() -> None:
    parts = [report(slice_of("localhost"), f"reports/{name}.json") for name in ("n1", "n2.example")]

    fleet = merge.merge(parts, inventory("n1", "n2.example", "n3"))

    assert {host.name: host.state for host in fleet.ordered()} == {
        "n1": "ok",
        "n2.example": "ok",
        "n3": "never answered",
    }


def test_what_was_merged_is_merged_again() -> None:
    names = inventory("n1", "n2", "n3")
    first = merge.merge([report(slice_of("n1"))], names)
    first.ended = "2026-03-01T00:00:00Z"

    fleet = merge.merge([report(first, "merged.json"), report(slice_of("n2"), "late.json")], names)

    # n2 has never answered in the newer one, and has in the older one.
    assert {host.name: host.state for host in fleet.ordered()} == {
        "n1": "ok",
        "n2": "ok",
        "n3": "never answered",
    }


def test_unreachable_failed_and_not_checked_stay_what_they_are() -> None:
    fleet = merge.merge([report(fleets.mixed())], inventory(*fleets.mixed().hosts))

    assert fleet.states() == fleets.mixed().states()
    assert fleet.hosts["gpu004"].unreachable == "Connection timed out"
    assert fleet.hosts["gpu005"].failures == ["Declare kernel settings: EINVAL"]


def test_areas_of_what_is_only_counted_are_not_known() -> None:
    fleet = merge.merge([report(fleets.mixed())], inventory(*fleets.mixed().hosts))

    lines = [line.split() for line in table.lines(fleet, 80)]
    assert ["1", "differs", "high", "1/?", "?", "gpu002"] in lines
    assert ["1", "ok", "-", "?", "?", "gpu001"] in lines


def test_a_host_that_differs_is_named_although_the_others_are_only_counted() -> None:
    fleet = fleets.empty()
    fleet.take(
        fleet.host("n1", GROUPS), {"settings": [fleets.drifted(), fleets.setting("vm.b")]}, "node_drift"
    )

    merged = merge.merge([report(fleet), report(slice_of("n2", "n3"), "b.json")], inventory("n1", "n2", "n3"))

    assert "1 of 3 differs in vm.swappiness (high, drifted): n1" in "\n".join(table.lines(merged, None))


def test_exceptions_are_added_up() -> None:
    fleet = fleets.empty()
    item = {"key": "vm.*", "reason": "known", "until": "2027-01-31", "state": "used"}
    for name in ("n1", "n2"):
        fleet.take(
            fleet.host(name, GROUPS), {"settings": [fleets.setting()], "exceptions": [item]}, "node_drift"
        )

    found = told(merge.merge([report(fleet), report(slice_of("n3"), "b.json")], inventory("n1", "n2", "n3")))

    assert [one["hosts"] for one in found["exceptions"]] == [{"used": 2}]


@cases.table
def test_another_document_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MlnodeError, match=words) as caught:
        merge.read({**told(fleets.mixed()), **change}, "x.json")
    assert str(caught.value).startswith("x.json is not a fleet report: ")


def test_a_host_twice_and_a_finding_of_a_host_that_is_missing_are_refused() -> None:
    twice, missing = told(fleets.mixed()), told(fleets.mixed())
    twice["hosts"].append(twice["hosts"][0])
    missing["hosts"] = missing["hosts"][:1]

    with pytest.raises(MlnodeError, match="the host 'gpu001' is there twice"):
        merge.read(twice, "x.json")
    with pytest.raises(MlnodeError, match="which is missing"):
        merge.read(missing, "x.json")


@pytest.mark.parametrize(
    "counts", [{"fine": {"high": 1}}, {"ok": 3}, {"ok": {"extreme": 1}}, {"ok": {"low": "1"}}]
)
def test_counts_that_nothing_is_known_of_are_refused(counts: Any) -> None:
    document_ = told(fleets.mixed())
    document_["hosts"][0]["counts"] = counts

    with pytest.raises(MlnodeError, match=r"x\.json is not a fleet report"):
        merge.read(document_, "x.json")
