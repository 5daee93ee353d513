# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of the agent that systemd cannot start: a row with the unit's own words, and all else is applied."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, questions
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import call, node, whole_node
from mlnode.engine import engine
from mlnode.engine.kind import AGENT_UNIT, Row
from mlnode.engine.steps import kernel_writes
from mlnode.engine.units import NIC_PATH_FILE, NIC_PATH_UNIT
from mlnode.host import places, systemctl
from mlnode.host.system import Finished
from mlnode.model.errors import HostError
from mlnode.model.setting import Status

INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
SWAPPINESS = "/proc/sys/vm/swappiness"
#: As systemd 252 and 257 have it, with what a terminal would take for a command
LINES = (
    f"{NIC_PATH_UNIT}: Failed to enter waiting state: Too many open files\x1b[2J\n"
    f"{NIC_PATH_UNIT}: Failed with result 'resources'.\n"
    f"Failed to start {NIC_PATH_UNIT} - {'Wait for NICs ' * 40}.\n"
)
HINT = 'See "systemctl status {0}" and "journalctl -xeu {0}" for details.\n'


class Systemd(Machine):
    """needs: unit → how many inotify instances a user must be allowed, so that it starts. broken: unit → its
    properties after a start that fails. journal: unit → its lines."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.needs: dict[str, int] = {}
        self.broken: dict[str, dict[str, str]] = {}
        self.journal: dict[str, str] = {}
        self.states: dict[str, dict[str, str]] = {}
        self.has_journal = True
        #: Checks that were started, and did not end at once for want of a declaration
        self.checks = 0

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "journalctl":
            if not self.has_journal:
                raise HostError("run", "journalctl", 2)
            [unit] = [word[len("--unit=") :] for word in command if word.startswith("--unit=")]
            return Finished(0, self.journal.get(unit, ""), "")
        if list(command[:2]) == ["systemctl", "show"]:
            asked = [word for word in command[2:] if not word.startswith("--")]
            return Finished(0, "\n".join(self._shown(unit) for unit in asked), "")
        return super().run(command, seconds)

    def _shown(self, unit: str) -> str:
        usual = {"Id": unit, "LoadState": "loaded", "NeedDaemonReload": "no", "Result": "success"}
        state = {"ActiveState": "active" if unit in self.active else "inactive"}
        return "".join(
            f"{name}={text}\n" for name, text in {**usual, **state, **self.states.get(unit, {})}.items()
        )

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb == "start" and int(self.now(INSTANCES)) < self.needs.get(unit, 0):
            self.states[unit] = self.broken.get(unit, {"ActiveState": "failed", "Result": "resources"})
            return Finished(1, "", f"Job for {unit} failed.\n{HINT.format(unit)}")
        if (verb, unit) == ("start", places.CHECK_SERVICE):
            self.checks += bool(self.names("/etc/mlnode/declared.d"))
            return Finished(0, "", "")
        if verb == "start":
            self.states.pop(unit, None)
        return super()._systemctl(verb, unit)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Systemd:
    machine = Systemd.debian(str(tmp_path / "node"), {INSTANCES: "128"})
    assert isinstance(machine, Systemd)
    machine.put("/run/systemd/system/.keep", "")
    machine.put("/usr/local/bin/.keep", "")
    machine.put("/srv/.keep", "")
    machine.journal = {NIC_PATH_UNIT: LINES}
    machine.active = {AGENT_UNIT}
    return machine


def declare(host: Systemd, **areas: Any) -> dict[str, Any]:
    """The answer of `make site` for a node."""
    host.forget()
    ignore = areas.pop("ignore", [])
    return call._declare(host, questions.declare(areas, ignore=ignore, risky=False, diff=False))


def rows(host: Systemd) -> dict[str, Row]:
    host.forget()
    return {found.row.setting.key: found.row for found in node.survey(host).rows}


def sysctl(**settings: int) -> dict[str, Any]:
    return {"settings": {name.replace("__", "."): value for name, value in settings.items()}}


def test_a_limit_that_the_declaration_raises_is_raised_before_a_unit_needs_it(host: Systemd) -> None:
    host.needs = {NIC_PATH_UNIT: 8192}
    answer = declare(host, sysctl=sysctl(fs__inotify__max_user_instances=8192))
    assert (answer["failed"], answer["msg"], answer["not_in_force"]) == (False, "", [])
    assert NIC_PATH_UNIT in host.active


def test_all_else_is_applied_and_the_run_names_the_row(host: Systemd) -> None:
    host.needs = {NIC_PATH_UNIT: 1 << 30}
    areas = {"sysctl": sysctl(vm__swappiness=1), "nccl": {"variables": {"NCCL_DEBUG": "WARN"}}}
    answer = declare(host, **areas)

    assert (answer["failed"], answer["msg"]) == (False, "")
    assert host.now(SWAPPINESS) == "1"
    assert host.exists(NIC_PATH_FILE)
    [line] = answer["not_in_force"]
    assert line.startswith("agent.nics: drifted")
    assert "Failed to enter waiting state: Too many open files\\x1b[2J; " in line
    assert "Failed with result 'resources'" in line
    assert line.isprintable()
    assert len(line) < 800
    found = rows(host)
    assert found["agent.nics"].status is Status.DRIFTED
    assert "Too many open files" in found["agent.nics"].reason
    assert found["agent.boot"].status is Status.OK
    assert found["vm.swappiness"].status is Status.OK

    # The next run tries again, without a change of a file.
    host.needs = {}
    answer = declare(host, **areas)
    assert (answer["failed"], answer["not_in_force"]) == (False, [])
    assert rows(host)["agent.nics"].status is Status.OK


def test_one_that_is_known_does_not_fail_the_run(host: Systemd) -> None:
    host.needs = {NIC_PATH_UNIT: 1 << 30}
    known = [{"key": "agent.nics", "reason": "a bug in systemd", "until": "2999-01-31"}]
    assert declare(host, sysctl=sysctl(vm__swappiness=1), ignore=known)["not_in_force"] == []


def test_without_a_journal_systemds_result_is_named(host: Systemd) -> None:
    host.needs, host.has_journal = {NIC_PATH_UNIT: 1 << 30}, False
    [line] = declare(host, sysctl=sysctl(vm__swappiness=1))["not_in_force"]
    assert f"{NIC_PATH_UNIT} does not run (Result=resources)" in line


def test_a_timer_that_does_not_start_is_the_row_of_what_has_it(host: Systemd) -> None:
    host.needs = {places.CHECK_TIMER: 1 << 30}
    host.journal[places.CHECK_TIMER] = f"{places.CHECK_TIMER}: Failed to enter waiting state: No space left\n"
    answer = declare(host, sysctl=sysctl(vm__swappiness=1), metrics={"textfile_directory": "/srv"})
    assert answer["failed"] is False
    assert host.now(SWAPPINESS) == "1"
    assert any("No space left" in warning for warning in answer["warnings"])
    row = rows(host)["metrics.textfile"]
    assert row.status is Status.DRIFTED
    assert "Failed to enter waiting state: No space left" in row.reason


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("risky", [False, True])
def test_the_first_check_finds_the_declaration(
    host: Systemd, monkeypatch: pytest.MonkeyPatch, risky: bool, installed: bool
) -> None:
    """Its service has that as a condition, and a run with a risk writes the declaration last."""
    if installed:
        whole_node.installed(host, "/usr/bin/python3", reload=True, check=False, diff=False)
    if risky:
        monkeypatch.setattr(engine, "_risks", lambda steps: ["it"] if [*kernel_writes(steps)] else [])
    areas = {"sysctl": sysctl(vm__swappiness=1), "metrics": {"textfile_directory": "/srv"}}
    assert declare(host, **areas)["failed"] is False
    assert host.checks > 0
    host.checks = 0
    assert declare(host, **areas)["changed"] is False
    assert host.checks == 0


@cases.table
def test_a_boot_service_that_was_not_run_is_a_row(
    host: Systemd, properties: dict[str, str], words: str
) -> None:
    declare(host, sysctl=sysctl(vm__swappiness=1))
    host.journal[AGENT_UNIT] = (
        f"{AGENT_UNIT}: Failed at step EXEC spawning /usr/local/bin/mlnode: Permission denied\n"
    )
    host.states[AGENT_UNIT] = {"ActiveState": "failed", **properties}
    row = rows(host)["agent.boot"]
    assert row.status is (Status.DRIFTED if words else Status.OK)
    assert words in row.reason
    if words:
        assert f"systemctl restart {AGENT_UNIT}" in row.reason


def test_the_module_agent_fails_and_leaves_the_files(host: Systemd) -> None:
    host.needs = {NIC_PATH_UNIT: 1 << 30}
    result = whole_node.installed(host, "/usr/bin/python3", reload=True, check=False, diff=False)
    assert result["failed"]
    assert "Too many open files" in result["msg"]
    assert host.exists(NIC_PATH_FILE)
    assert not whole_node.installed(host, "/usr/bin/python3", True, True, False).get("failed")


def test_an_order_that_fails_has_the_units_words(host: Systemd) -> None:
    host.needs = {"a.service": 1 << 30}
    host.journal["a.service"] = "a.service: Main process exited, code=exited, status=1/FAILURE\n"
    with pytest.raises(
        HostError, match=r"Job for a\.service failed: a\.service: Main process exited, code=exited"
    ):
        systemctl.job(host, "start", "a.service", "start a.service:")


def test_an_order_about_no_unit_has_no_words_of_a_journal(
    host: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        host, "_systemctl", lambda *_words: Finished(5, "", "Failed to start: Unit not found.\n")
    )
    host.journal["a.service"] = "of last week\n"
    with pytest.raises(HostError, match="Unit not found") as caught:
        systemctl.job(host, "start", "a.service", "start a.service:")
    assert "last week" not in str(caught.value)
