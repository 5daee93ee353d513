# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import node_drift, sysctl_ml, thp
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def drift(running: Make, machine: Machine) -> Runner:
    machine.enable_agent()
    running(thp).ok(name="training", enabled="madvise")
    running(sysctl_ml).ok(name="training", settings={"vm.swappiness": 1, "kernel.no_such_knob": 1})
    return running(node_drift)


@pytest.mark.parametrize("check", [False, True])
def test_a_node_as_declared_is_compliant(machine: Machine, drift: Runner, check: bool) -> None:
    before = machine.tree()

    done = drift.ok(check)

    assert not done.changed
    assert done.result["compliant"] is True
    assert (done.result["drift"], done.result["errors"]) == ([], [])
    assert done.result["summary"] == {"ok": 3, "unsupported": 1}
    assert [*done.settings] == ["agent.boot", "thp.enabled", "vm.swappiness", "kernel.no_such_knob"]
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
def test_drift_is_told_and_neither_mended_nor_a_failure(machine: Machine, drift: Runner, check: bool) -> None:
    machine.put(SWAPPINESS, "60\n")
    before = machine.tree()

    done = drift.ok(check)

    assert not done.changed
    assert done.result["compliant"] is False
    assert done.result["drift"] == [
        "vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"
    ]
    assert done.settings["vm.swappiness"]["declared_by"] == ["training"]
    assert machine.tree() == before


def test_a_node_that_declares_nothing_is_not_compliant(machine: Machine, running: Make) -> None:
    done = running(node_drift).ok()

    assert done.result["compliant"] is False
    assert done.result["errors"] == [
        "nothing is declared on this node: /etc/mlnode/declared.d holds no declaration"
    ]
    assert (done.result["settings"], done.result["summary"], done.result["drift"]) == ([], {}, [])


def test_a_damaged_declaration_is_an_error_beside_what_the_others_say(
    machine: Machine, drift: Runner
) -> None:
    machine.put("/etc/mlnode/declared.d/broken.json", "{")

    done = drift.ok()

    assert done.result["compliant"] is False
    [error] = done.result["errors"]
    assert error.startswith("/etc/mlnode/declared.d/broken.json is damaged")
    assert done.result["summary"] == {"ok": 3, "unsupported": 1}


# -- severity, exceptions and what the inventory says ---------------------------------------------------


def known(key: str = "vm.swappiness", until: str = "2999-12-31") -> dict[str, str]:
    return {"key": key, "reason": "OPS-1234", "until": until}


@pytest.mark.parametrize(
    ("fail_at", "fails"), [("low", True), ("medium", True), ("high", True), ("never", False)]
)
def test_drift_fails_from_its_severity_on(machine: Machine, drift: Runner, fail_at: str, fails: bool) -> None:
    machine.put(SWAPPINESS, "60\n")  # far over 10, which is what makes it high

    done = drift(fail_at=fail_at)

    assert (done.rc == 1) == fails
    assert done.result["compliant"] is False
    assert len(done.result["failures"]) == int(fails)
    if fails:
        assert "vm.swappiness: drifted, want 1, runtime 60" in done.result["msg"]
        assert [*done.settings] == ["agent.boot", "thp.enabled", "vm.swappiness", "kernel.no_such_knob"]


def test_drift_that_is_not_severe_enough_is_told_and_does_not_fail(machine: Machine, drift: Runner) -> None:
    machine.put(SWAPPINESS, "2\n")

    done = drift.ok(fail_at="high")

    assert done.result["compliant"] is False
    assert len(done.result["drift"]) == 1
    assert "(medium)" in done.result["drift"][0]
    assert done.result["failures"] == []


def test_known_drift_does_not_count_until_its_day(machine: Machine, drift: Runner) -> None:
    machine.put(SWAPPINESS, "60\n")

    done = drift.ok(fail_at="low", ignore=[known("vm.*"), known("net.*")])

    assert done.result["compliant"] is True
    assert done.result["verdict"] == "as declared: 1 drifted, 2 ok, 1 unsupported (1 ignored)"
    assert (done.result["drift"], done.result["failures"]) == ([], [])
    [line] = done.result["ignored"]
    assert line.endswith("runtime is 60; ignored until 2999-12-31: OPS-1234")
    assert done.settings["vm.swappiness"]["status"] == "drifted"
    assert done.settings["vm.swappiness"]["ignored"] == "until 2999-12-31: OPS-1234"
    assert [item["state"] for item in done.result["exceptions"]] == ["used", "unused"]


def test_an_exception_whose_day_is_over_counts_again_and_says_so(machine: Machine, drift: Runner) -> None:
    machine.put(SWAPPINESS, "60\n")

    msg = drift.msg(fail_at="low", ignore=[known(until="2020-02-29")])

    assert "runtime is 60 (the exception for it ended on 2020-02-29: OPS-1234)" in msg


@pytest.mark.parametrize("until", ["", "soon", "2026-13-01"])
def test_a_wrong_day_is_an_error(drift: Runner, until: str) -> None:
    assert "ignore, exception 1 (vm.swappiness): until is" in drift.msg(ignore=[known(until=until)])


def test_a_node_that_could_not_be_looked_at_fails_at_any_severity(machine: Machine, drift: Runner) -> None:
    machine.put("/etc/mlnode/declared.d/broken.json", "{")

    msg = drift.msg(fail_at="high", ignore=[known("*")])

    assert "/etc/mlnode/declared.d/broken.json is damaged" in msg


def test_a_node_that_declares_nothing_fails_at_any_severity(machine: Machine, running: Make) -> None:
    assert "nothing is declared on this node" in running(node_drift).msg(fail_at="high")


def test_what_the_inventory_says_is_compared(machine: Machine, drift: Runner) -> None:
    found = drift.ok().result["digests"]["training"]
    assert {*found} == {"thp", "sysctl"}

    assert drift.ok(fail_at="low", expected={"training": found}).result["compliant"] is True
    msg = drift.msg(fail_at="high", expected={"training": {**found, "sysctl": "0" * 16}})
    assert "training is not declared on the node as the inventory says (other than there: sysctl)" in msg
    done = drift.ok(expected={"training": {**found, "sysctl": None}, "gone": {}})
    assert done.result["compliant"] is True
    assert done.result["not_compared"] == {"training": ["sysctl"]}


@pytest.mark.parametrize("expected", [{"../x": {}}, {"x": "y"}, {"x": ["thp"]}])
def test_what_is_expected_is_checked(drift: Runner, expected: dict[str, object]) -> None:
    assert drift.msg(expected=expected).startswith("node_drift: ")


def test_without_its_action_plugin_it_does_nothing(drift: Runner) -> None:
    assert "this needs its action plugin" in drift.msg(agent=None)


def test_what_is_wrong_with_the_agent_there_is_an_error_of_the_node(drift: Runner) -> None:
    done = drift(fail_at="high", agent={"path": "/sent/along", "instead": "the agent is another"})

    assert done.rc == 1
    assert done.result["errors"] == ["the agent is another"]
    assert done.result["compliant"] is False


@pytest.fixture
def sent(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The agent as the controller sends it, and a process that has not imported anything of it."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent_source.archive())
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield path
    for name in {*sys.modules} - before:
        if name.partition(".")[0] == "mlnode":
            del sys.modules[name]


def test_it_is_the_agent_that_was_sent_which_looks(
    sent: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"key": "", "reason": "", "until": ""}

    msg = Runner(capsys, node_drift).msg(agent={"path": str(sent)}, ignore=[wrong])

    assert msg == "node_drift: ignore, exception 1: key is empty, and would be for nothing"
    assert str(sys.modules["mlnode.drift"].__file__).startswith(f"{sent}/mlnode/")
