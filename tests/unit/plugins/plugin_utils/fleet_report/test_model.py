# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.finding import (
    BAD,
    NEITHER,
    STATUSES,
    findings,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import causes
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.checks.model import Verdict
from mlnode.model.setting import Status


def test_every_state_is_told_apart() -> None:
    fleet = fleets.mixed()

    assert {host.name: host.state for host in fleet.ordered()} == {
        "gpu001": "ok",
        "gpu002": "differs",
        "gpu003": "differs",
        "gpu004": "unreachable",
        "gpu005": "failed",
        "gpu006": "not checked",
    }
    assert fleet.states() == {"unreachable": 1, "failed": 1, "differs": 2, "not checked": 1, "ok": 1}


def test_words_of_every_module_are_known() -> None:
    told = {*map(str, Status), *map(str, Verdict)}

    assert told == {*STATUSES}
    assert {status for status in map(str, Status) if Status(status).is_drift} <= {*BAD}
    assert not {*BAD} & {*NEITHER}
    assert not {"ok", "pass", "changed"} & {*BAD, *NEITHER}


@pytest.mark.parametrize("status", ["", "fine", "OK", None, 7, ["ok"]])
def test_a_word_that_nobody_knows_is_no_success(status: Any) -> None:
    fleet = fleets.empty()

    fleet.take(fleet.host("a"), {"settings": [fleets.setting(status=status)]}, "x")
    fleet.take(fleet.host("b"), {"checks": [fleets.check(verdict=status)]}, "x")

    assert fleet.states() == {"differs": 2}


@pytest.mark.parametrize(("own", "severity"), [({}, "high"), ({"severity": "low"}, "low")])
def test_a_check_may_have_a_severity_of_its_own(own: dict[str, str], severity: str) -> None:
    fleet = fleets.empty()
    fleet.take(fleet.host("a"), {"checks": [fleets.check(**own)]}, "node_audit")
    assert [item.severity for item in fleet.outliers()] == [severity]


def test_a_later_word_about_a_setting_replaces_an_earlier_one() -> None:
    fleet = fleets.empty()
    host = fleet.host("a")

    fleet.take(host, {"settings": [fleets.drifted()]}, "sysctl_ml")
    fleet.take(host, {"settings": [fleets.setting()]}, "node_drift")

    assert host.state == "ok"
    assert len(host.findings) == 1


def test_what_is_ignored_is_told_and_does_not_count() -> None:
    fleet = fleets.empty()
    ignored = fleets.drifted(ignored="until 2027-01-31: new firmware")

    fleet.take(fleet.host("a"), {"settings": [ignored]}, "node_drift")

    assert fleet.states() == {"ok": 1}
    assert fleet.counts() == {("ignored", "high"): 1}
    assert fleet.outliers() == []


def test_outliers_are_the_severe_and_then_the_rare_ones() -> None:
    fleet = fleets.empty()
    for at in range(5):
        settings = [fleets.drifted("vm.low", severity="low")]
        settings.append(fleets.drifted("vm.rare") if at == 3 else fleets.setting("vm.rare"))
        settings.append(fleets.drifted("vm.often") if at else fleets.setting("vm.often"))
        fleet.take(fleet.host(f"n{at}"), {"settings": settings}, "node_drift")

    assert [(item.key, item.severity, item.hosts, item.of) for item in fleet.outliers()] == [
        ("vm.rare", "high", ("n3",), 5),
        ("vm.often", "high", ("n1", "n2", "n3", "n4"), 5),
        ("vm.low", "low", ("n0", "n1", "n2", "n3", "n4"), 5),
    ]


def test_the_rarest_trouble_of_a_severity_is_the_first_host() -> None:
    fleet = fleets.link_and_governors()
    for name, words in (("z1", "no route"), ("z2", "timed out"), ("z3", "timed out")):
        fleet.host(name).unreachable = words
    fleet.host("z4").unreachable = "timed out"
    fleet.host("z5").unreachable = "no name"

    ranked = [host.name for host in fleet.ranked()]

    assert ranked[:7] == ["z1", "z5", "z2", "z3", "z4", "gpu045", "gpu001"]
    assert sorted(ranked) == sorted(fleet.hosts)


def test_the_reason_without_the_value_is_the_cause() -> None:
    told = [
        fleets.drifted(runtime="a: 0; b: 1", why="no file sets it"),
        fleets.drifted(),
        fleets.check(advice="look at the cable"),
        fleets.drifted(reason="words of another version", causes="x"),
    ]

    found = [next(findings({"checks" if "verdict" in one else "settings": [one]}, "x")) for one in told]
    assert [one.why for one in found] == [
        "no file sets it",
        "",
        "look at the cable",
        "words of another version",
    ]
    assert found[0].reason == "runtime is a: 0; b: 1; no file sets it"


def test_what_has_one_cause_on_the_same_hosts_is_together() -> None:
    fleet = fleets.empty()
    for name in ("n1", "n2"):
        settings = [
            *(fleets.drifted(key, why="no agent") for key in ("vm.a", "vm.b")),
            fleets.drifted("vm.c", why="no agent" if name == "n1" else "another file"),
            *(fleets.drifted(key) for key in ("vm.d", "vm.e")),
            fleets.drifted("vm.f", why="no agent") if name == "n1" else fleets.setting("vm.f"),
        ]
        fleet.take(fleet.host(name), {"settings": settings}, "node_drift")

    found = [([item.key for item in items], items[0].why) for items in causes(fleet.outliers())]

    assert found == [
        (["vm.f"], "no agent"),
        (["vm.a", "vm.b"], "no agent"),
        *(([key], "") for key in ("vm.c", "vm.d", "vm.e")),
    ]


def test_results_of_loops_count() -> None:
    fleet = fleets.empty()

    fleet.take(fleet.host("a"), {"results": [{"settings": [fleets.drifted()]}, "x", None]}, "sysctl_ml")

    assert fleet.states() == {"differs": 1}


def test_an_exception_without_use_on_any_host_is_named() -> None:
    fleet = fleets.empty()
    one = {"key": "vm.*", "reason": "r", "until": "2027-01-31"}
    two = {"key": "net.*", "reason": "r", "until": "2027-01-31"}
    for host, state in (("a", "unused"), ("b", "used")):
        fleet.take(
            fleet.host(host),
            {"exceptions": [{**one, "state": state}, {**two, "state": "unused"}]},
            "node_drift",
        )

    assert [waiver.key for waiver in fleet.unused()] == ["net.*"]


def test_equal_findings_are_kept_once() -> None:
    fleet = fleets.synthetic(50, knobs=20, drift=0)
    [first, *others] = fleet.ordered()

    for host in others:
        for knob, finding in host.findings.items():
            if knob[1] not in ("net.area0.knob_7", "net.area0.knob_8", "net.area0.knob_5"):
                assert finding is first.findings[knob]


WORDS = [
    *("settings", "checks", "results", "exceptions", "errors", "compliant", "verdict", "kind", "key"),
    *("status", "severity", "name", "target", "until", "reason", "state"),
]

nonsense = strategies.recursive(
    strategies.one_of(
        strategies.none(), strategies.booleans(), strategies.integers(), strategies.text(max_size=5)
    ),
    lambda inner: strategies.one_of(
        strategies.lists(inner, max_size=3),
        strategies.dictionaries(strategies.sampled_from(WORDS), inner, max_size=6),
    ),
    max_leaves=12,
)


@quick
@given(strategies.dictionaries(strategies.text(max_size=8), nonsense, max_size=5), nonsense)
def test_no_result_of_any_module_stops_the_report(result: dict[str, Any], settings: Any) -> None:
    fleet = fleets.empty()
    host = fleet.host("a")

    fleet.take(host, {**result, "settings": settings, "checks": settings, "exceptions": settings}, "x")

    assert host.state in ("ok", "differs", "not checked", "failed")
    assert len(fleet.outliers()) <= len(fleet.knobs())
    assert sum(fleet.counts().values()) == len(host.findings)
    assert len(fleet.unused()) <= len(fleet.waivers)


@cases.table
def test_a_revert_is_reported(more: dict[str, Any], state: str, reason: str) -> None:
    fleet = fleets.empty()
    done = {"reverted": [{"key": "vm.swappiness", "value": "60"}, {"key": "/etc/x", "value": "removed"}]}

    fleet.take(fleet.host("n1"), {"changed": True, "reboot_required": False, **done, **more}, "node_revert")

    host = fleet.hosts["n1"]
    whole = host.findings["revert", "revert"]
    assert host.state == state
    assert (whole.runtime, (whole.reason or "")[: len(reason)]) == ("2 put back", reason)
    assert host.findings["revert", "vm.swappiness"].runtime == "60"


def test_a_revert_of_an_untouched_node_is_ok() -> None:
    fleet = fleets.empty()
    fleet.take(fleet.host("n1"), {"changed": False, "reverted": [], "reboot_required": False}, "node_revert")

    assert fleet.hosts["n1"].state == "ok"
    assert fleet.hosts["n1"].findings["revert", "revert"].runtime == "nothing to put back"
