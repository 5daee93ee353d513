# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml, thp
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make
from mlnode.agent import call

SWAPPINESS = "/proc/sys/vm/swappiness"

Drift = Callable[..., dict[str, Any]]


def answer(machine: Machine, **options: Any) -> dict[str, Any]:
    """What the agent answers to the action, with the defaults of the module."""
    asked = {"fail_at": "never", "ignore": [], "declarations": {}, **options}
    return call.CALLS["drift"](machine, asked)


def settings(done: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["key"]: item for item in done["settings"]}


@pytest.fixture
def drift(running: Make, machine: Machine) -> Drift:
    machine.enable_agent()
    running(thp).ok(name="training", enabled="madvise")
    running(sysctl_ml).ok(name="training", settings={"vm.swappiness": 1, "kernel.no_such_knob": 1})
    return lambda **options: answer(machine, **options)


def test_a_node_as_declared_is_compliant(machine: Machine, drift: Drift) -> None:
    before = machine.tree()

    done = drift()

    assert done["changed"] is False
    assert done["compliant"] is True
    assert (done["drift"], done["errors"]) == ([], [])
    assert done["summary"] == {"ok": 3, "unsupported": 1}
    assert [*settings(done)] == ["agent.boot", "thp.enabled", "vm.swappiness", "kernel.no_such_knob"]
    assert machine.tree() == before


def test_drift_is_told_and_neither_mended_nor_a_failure(machine: Machine, drift: Drift) -> None:
    machine.put(SWAPPINESS, "60\n")
    before = machine.tree()

    done = drift()

    assert done["changed"] is False
    assert done["compliant"] is False
    assert done["drift"] == ["vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"]
    assert settings(done)["vm.swappiness"]["declared_by"] == ["training"]
    assert machine.tree() == before


# -- severity, exceptions and what the inventory says ---------------------------------------------------


def known(key: str = "vm.swappiness", until: str = "2999-12-31") -> dict[str, str]:
    return {"key": key, "reason": "OPS-1234", "until": until}


@pytest.mark.parametrize(
    ("fail_at", "fails"), [("low", True), ("medium", True), ("high", True), ("never", False)]
)
def test_drift_fails_from_its_severity_on(machine: Machine, drift: Drift, fail_at: str, fails: bool) -> None:
    machine.put(SWAPPINESS, "60\n")  # far over 10, which is what makes it high

    done = drift(fail_at=fail_at)

    assert bool(done.get("failed")) == fails
    assert done["compliant"] is False
    assert len(done["failures"]) == int(fails)
    if fails:
        assert "vm.swappiness: drifted, want 1, runtime 60" in done["msg"]
        assert [*settings(done)] == ["agent.boot", "thp.enabled", "vm.swappiness", "kernel.no_such_knob"]


def test_drift_that_is_not_severe_enough_is_told_and_does_not_fail(machine: Machine, drift: Drift) -> None:
    machine.put(SWAPPINESS, "2\n")

    done = drift(fail_at="high")

    assert done["compliant"] is False
    assert len(done["drift"]) == 1
    assert "(medium)" in done["drift"][0]
    assert done["failures"] == []


def test_known_drift_does_not_count_until_its_day(machine: Machine, drift: Drift) -> None:
    machine.put(SWAPPINESS, "60\n")

    done = drift(fail_at="low", ignore=[known("vm.*"), known("net.*")])

    assert done["compliant"] is True
    assert done["verdict"] == "as declared: 1 drifted, 2 ok, 1 unsupported (1 ignored)"
    assert (done["drift"], done["failures"]) == ([], [])
    [line] = done["ignored"]
    assert line.endswith("runtime is 60; ignored until 2999-12-31: OPS-1234")
    assert settings(done)["vm.swappiness"]["status"] == "drifted"
    assert settings(done)["vm.swappiness"]["ignored"] == "until 2999-12-31: OPS-1234"
    assert [item["state"] for item in done["exceptions"]] == ["used", "unused"]


def test_an_exception_whose_day_is_over_counts_again_and_says_so(machine: Machine, drift: Drift) -> None:
    machine.put(SWAPPINESS, "60\n")

    msg = drift(fail_at="low", ignore=[known(until="2020-02-29")])["msg"]

    assert "runtime is 60 (the exception for it ended on 2020-02-29: OPS-1234)" in msg


@pytest.mark.parametrize("until", ["", "soon", "2026-13-01"])
def test_a_wrong_day_is_an_error(drift: Drift, until: str) -> None:
    assert "ignore, exception 1 (vm.swappiness): until is" in drift(ignore=[known(until=until)])["msg"]


def test_a_node_that_could_not_be_looked_at_fails_at_any_severity(machine: Machine, drift: Drift) -> None:
    machine.put("/etc/mlnode/declared.d/broken.json", "{")

    msg = drift(fail_at="high", ignore=[known("*")])["msg"]

    assert "/etc/mlnode/declared.d/broken.json is damaged" in msg


def test_a_node_that_declares_nothing_fails_at_any_severity(machine: Machine) -> None:
    assert "nothing is declared on this node" in answer(machine, fail_at="high")["msg"]


#: With what the module sysctl_ml adds
SIZING = {"rtt_us": 100, "disk_bytes_per_s": 2000000000}

DECLARED = {
    "thp": {"enabled": "madvise"},
    "sysctl": {"settings": {"vm.swappiness": 1, "kernel.no_such_knob": 1}, "sizing": SIZING},
}


def test_what_the_inventory_says_is_compared(drift: Drift) -> None:
    assert {*drift()["digests"]["training"]} == {"thp", "sysctl"}

    assert drift(fail_at="low", declarations={"training": DECLARED, "gone": {}})["compliant"] is True
    other = {**DECLARED, "sysctl": {"settings": {"vm.swappiness": 2}, "sizing": SIZING}}
    msg = drift(fail_at="high", declarations={"training": other})["msg"]
    assert (
        "training is not declared on the node as the inventory says (other than there: sysctl "
        "(vm.swappiness 1 there, 2 in the inventory, kernel.no_such_knob 1 there, not in the inventory))"
    ) in msg


def test_of_many_changed_settings_the_first_are_named(drift: Drift) -> None:
    keys = ("vm.stat_interval", "vm.max_map_count", "kernel.pid_max", "fs.nr_open", "fs.aio-max-nr")
    other = {**DECLARED, "sysctl": {"settings": dict.fromkeys(keys, 7), "sizing": SIZING}}
    msg = drift(fail_at="high", declarations={"training": other})["msg"]

    assert "vm.stat_interval not there, 7 in the inventory" in msg
    assert "and 3 more" in msg


def test_guards_and_sizes_that_differ_have_no_setting(drift: Drift) -> None:
    other = {**DECLARED, "sysctl": {**DECLARED["sysctl"], "allow": ["overcommit"]}}
    msg = drift(fail_at="high", declarations={"training": other})["msg"]

    assert "(other than there: sysctl): run site.yml" in msg


def test_a_file_that_people_wrote_is_compared_by_its_meaning(machine: Machine, drift: Drift) -> None:
    spec = {"settings": {"vm.swappiness": 1, "vm.overcommit_memory": None}, "sizing": {}, "allow": None}
    file = {"format": 1, "name": "own", "kinds": {"sysctl": spec, "cpu": {"cpus": "0"}, "later": {"a": 1}}}
    machine.put("/etc/mlnode/declared.d/own.json", json.dumps(file))

    done = drift(declarations={"own": {"sysctl": {"settings": {"vm.swappiness": 1}}}})

    assert {*done["digests"]["own"]} == {"sysctl", "later"}
    assert [line for line in done["errors"] if line.startswith("own is not declared")] == [
        "own is not declared on the node as the inventory says (left over there: later): run site.yml"
    ]


def test_a_declaration_that_the_inventory_no_longer_has_is_an_error(drift: Drift) -> None:
    [error] = drift(declarations={"training": {}}, host="gpu001")["errors"]

    assert error == (
        "declared on the node as training, and the inventory declares nothing: "
        "ansible-playbook mlnode.tuning.revert --limit gpu001"
    )


@pytest.mark.parametrize("area", ["web", "../x", "thp_schema", "sysctl.x"])
def test_an_unknown_area_is_an_error_that_names_the_declaration(drift: Drift, area: str) -> None:
    found = drift(declarations={"training": {area: {}}})

    assert found["failed"]
    assert f"declarations.training.{area}: unknown; known are services, " in found["msg"]


def test_a_node_that_should_have_nothing_and_has_nothing_is_compliant(machine: Machine) -> None:
    options = {"fail_at": "low", "ignore": []}
    none = call.CALLS["drift"](machine, {**options, "declarations": {"node": {}, "fabric": {}}})

    assert (none["compliant"], none["errors"], none["failures"]) == (True, [], [])
    for declarations in ({}, {"node": {"thp": {"enabled": "madvise"}}}):
        assert not call.CALLS["drift"](machine, {**options, "declarations": declarations})["compliant"]


@cases.table
def test_what_is_no_question_is_refused(machine: Machine, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"declarations: each must be a dictionary|reason"):
        answer(machine, **options)


def test_what_is_wrong_with_the_agent_there_is_an_error_of_the_node(drift: Drift) -> None:
    done = drift(fail_at="high", instead="the agent is another")

    assert done["failed"]
    assert done["errors"] == ["the agent is another"]
    assert done["compliant"] is False
