# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import sys
import zipfile
from collections.abc import Iterator
from types import ModuleType

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils import agent_code
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import agent
from ansible_collections.mlnode.tuning.plugins.modules import node_drift, sysctl_ml, thp
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

#: Before a test puts another in its place
LIBRARY = agent_code.library

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
    assert done.result["summary"] == {"ok": 2, "unsupported": 1}
    assert [*done.settings] == ["thp.enabled", "vm.swappiness", "kernel.no_such_knob"]
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
    assert done.result["summary"] == {"ok": 2, "unsupported": 1}


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
        assert [*done.settings] == ["thp.enabled", "vm.swappiness", "kernel.no_such_knob"]


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
    assert done.result["verdict"] == "as declared: 1 drifted, 1 ok, 1 unsupported (1 ignored)"
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


@pytest.mark.parametrize("given", [{"roles": ["training_node"]}, {"agent": None}])
def test_without_its_action_plugin_it_does_nothing(drift: Runner, given: dict[str, object]) -> None:
    assert "this needs its action plugin" in drift.msg(**given)


# -- the library that it is sent without ------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The agent as it lies on a node, and a process that has not imported anything of it yet."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build("/opt/some/python"))
    before = {*sys.modules}
    yield path
    for name in {*sys.modules} - before:
        if name.partition(".")[0] == "mlnode":
            del sys.modules[name]


NAMES = ("drift", "errors", "host")


def library(path: pathlib.Path, **other: object) -> list[ModuleType]:
    said = {**agent_source.said(), **other}
    return LIBRARY(str(path), said["size"], said["sha256"], NAMES)


def test_it_takes_the_library_of_the_agent(installed: pathlib.Path) -> None:
    path = [*sys.path]

    found = library(installed)

    assert [module.__name__ for module in found] == [f"mlnode.{name}" for name in NAMES]
    assert all(str(module.__file__).startswith(f"{installed}/mlnode/") for module in found)
    assert sys.path == path


def test_it_imports_later_what_is_declared(installed: pathlib.Path, machine: Machine, running: Make) -> None:
    running(thp).ok(name="training", enabled="madvise")
    drift, _errors, host = library(installed)
    assert "mlnode.knobs.thp" not in sys.modules

    options = {"ignore": [], "expected": {}, "fail_at": "never", "errors": []}
    found = drift.report(host.Host(machine.root), options)

    assert [item["key"] for item in found["settings"]] == ["thp.enabled"]
    assert "mlnode.knobs.thp" in sys.modules
    assert "mlnode.knobs.qos" not in sys.modules


def test_an_agent_that_is_not_there_is_told(tmp_path: pathlib.Path) -> None:
    with pytest.raises(agent_code.NoCodeError, match="mlnode is not there") as found:
        library(tmp_path / "mlnode")
    assert found.value.absent


def test_an_agent_of_other_sources_is_not_run(installed: pathlib.Path) -> None:
    installed.write_bytes(installed.read_bytes().replace(b"import", b"impart", 1))

    with pytest.raises(agent_code.NoCodeError, match="another than the one of this collection") as found:
        library(installed)

    assert not found.value.absent
    assert not any(name.partition(".")[0] == "mlnode" for name in sys.modules)


def test_half_an_agent_is_told(installed: pathlib.Path) -> None:
    content = installed.read_bytes()
    installed.write_bytes(content[: agent_source.said()["size"] + 1000])

    with pytest.raises(agent_code.NoCodeError, match="is damaged: "):
        library(installed)


def test_compiled_code_that_is_damaged_is_told(installed: pathlib.Path) -> None:
    with zipfile.ZipFile(installed) as archive:
        inside = archive.getinfo("mlnode/drift.pyc").header_offset
    content = bytearray(installed.read_bytes())
    start = inside + 30 + len("mlnode/drift.pyc") + 16
    content[start : start + 1] = b"\0"  # no type of object that marshal knows
    installed.write_bytes(content)

    with pytest.raises(agent_code.NoCodeError, match=r"is damaged: .*bad marshal data"):
        library(installed)


def test_a_folder_in_its_place_is_told(tmp_path: pathlib.Path) -> None:
    with pytest.raises(agent_code.NoCodeError, match="cannot be read: Is a directory"):
        library(tmp_path)


def test_the_module_says_that_it_needs_an_agent(
    running: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    runner = running(node_drift)
    monkeypatch.setattr(agent_code, "library", LIBRARY)
    where = {**agent_source.said(), "path": str(tmp_path / "none")}

    done = runner.ok(agent=where)

    assert done.result["no_agent"] == f"{tmp_path}/none is not there"
    assert done.result["absent"] is True


def test_what_is_wrong_with_the_other_agent_is_an_error_of_the_node(drift: Runner) -> None:
    where = {"size": 0, "sha256": "", "instead": "the agent is another"}

    done = drift(fail_at="high", agent=where)

    assert done.rc == 1
    assert done.result["errors"] == ["the agent is another"]
    assert done.result["compliant"] is False
