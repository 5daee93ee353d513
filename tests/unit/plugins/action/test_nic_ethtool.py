# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nic_ethtool on a node without the agent of this collection that can be cut off, with a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible_collections.mlnode.tuning.plugins.action.declare import ActionModule
from ansible_collections.mlnode.tuning.plugins.plugin_utils import confirmed
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import INTERPRETER, NoAnswerError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import ANSWER, CONNECT, GRACE, PADDING

MODULE = "mlnode.tuning.nic_ethtool"
CONFIRM = "confirm"
PYTHON = "/opt/python3.12/bin/python3"

ID = "abcdef01"
TEXT = "the change of training was undone at 12:00, as it was not confirmed: the old values are back"


def _raise(error: Exception) -> NoReturn:
    raise error


class Clock:
    """time, as the plugin sees it: a sleep takes none."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


class Connection:
    """What the plugin asks of a connection. fails: what reset() raises."""

    transport = "ssh"

    def __init__(self) -> None:
        self._shell = SimpleNamespace(tmpdir="/tmp/ansible-tmp-1")
        self.options: dict[str, Any] = {"timeout": 10, "ssh_common_args": "-o User=x"}
        self.resets = 0
        self.fails: Exception | None = None
        self.seen: list[dict[str, Any]] = []

    def get_option(self, name: str) -> Any:
        if name not in self.options:
            raise KeyError(name)
        return self.options[name]

    def set_option(self, name: str, value: Any) -> None:
        assert name in self.options
        self.options[name] = value

    def reset(self) -> None:
        self.resets += 1
        self.seen.append(dict(self.options))
        if self.fails is not None:
            _raise(self.fails)


@dataclass
class Node:
    """What nic_ethtool, and the agent that is asked to confirm, answer.

    The path is cut until `healed`, and what waits is undone at `due`, both in seconds after the change.
    Answers larger than `passes` bytes are lost. told: another run has heard of what was undone.
    """

    clock: Clock
    connection: Connection
    seconds: int = 60
    healed: float = 0
    passes: int = 1 << 30
    #: None: the change is never undone
    due: float | None = 60
    arms: bool = True
    told: bool = False
    module: list[Any] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    made: float = 0
    confirmed: bool = False
    undone: dict[str, Any] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    #: How often the answer to a confirmation is lost though the node has it
    swallowed: int = 0
    resets_before: int = -1

    @property
    def waits(self) -> bool:
        if not self.made or self.confirmed or not self.arms:
            return False
        if self.due is not None and self.clock.now >= self.made + self.due:
            if not self.told:
                self.undone = {"id": ID, "text": TEXT, "stuck": self.stuck}
            return False
        return True

    def change(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((module, arguments))
        return self._change()

    def answer(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((name, options))
        assert self.connection.resets > self.resets_before, "the old connection was used"
        self.resets_before = self.connection.resets
        since = self.clock.now - self.made
        if self.made and since < self.healed:
            self.clock.now += CONNECT
            raise AnsibleConnectionFailure("Failed to connect to the host via ssh: timed out")
        return self._confirm(options)

    def _change(self) -> dict[str, Any]:
        self.made = self.clock.now
        answer = {"changed": True, "running": ["a job"]}
        for item in self.module:
            if isinstance(item, Exception):
                raise item
            answer.update(item)
        if self.arms:
            answer["confirm"] = {"id": ID, "seconds": self.seconds}
        return answer

    def _confirm(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["padding"] > self.passes:
            self.clock.now += 2 * CONNECT
            raise AnsibleConnectionFailure("Timeout, server not responding")
        waits = self.waits
        if arguments["id"]:
            if not waits and not self.confirmed:
                return {"failed": True, "msg": f"confirm: {TEXT}"}
            self.confirmed = True
            waits = False
            if self.swallowed:
                self.swallowed -= 1
                raise AnsibleConnectionFailure("Broken pipe")
        return {
            "pending": {"id": ID, "left": self._left(), "words": "it interrupts eth0"} if waits else {},
            "undone": self.undone,
            "padding": "x" * arguments["padding"],
        }

    def _left(self) -> int:
        return 0 if self.due is None else max(0, int(self.made + self.due - self.clock.now))


class Run:
    """The plugin, its task and its node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.connection = Connection()
        self.node = Node(self.clock, self.connection)
        self.preflight: Exception | None = None
        self.warnings: list[str] = []
        self.task = SimpleNamespace(
            args={"rules": [{"name": "all", "mtu": 9000}]}, check_mode=False, diff=False, async_val=0,
            action=MODULE,
        )  # fmt: skip
        monkeypatch.setattr(confirmed, "time", self.clock)
        monkeypatch.setattr(confirmed.display, "warning", self.warnings.append)
        self.plugin = ActionModule(
            task=self.task, connection=self.connection, play_context=None, loader=None, templar=None,
            shared_loader_obj=None,
        )  # fmt: skip
        monkeypatch.setattr(self.plugin, "_execute_module", self._execute)
        monkeypatch.setattr(self.plugin, "call", self._call)
        monkeypatch.setattr(self.plugin, "ask", self._ask)

    def _execute(self, task_vars: Any, wrap_async: bool) -> dict[str, Any]:
        assert task_vars == {"inventory_hostname": "gpu01"}
        assert not wrap_async
        self.plugin._used_interpreter = f"#!{PYTHON}"
        return self.node.change(MODULE, self.task.args)

    def _call(self, name: str, options: dict[str, Any], interpreter: str) -> dict[str, Any]:
        assert interpreter == PYTHON, "an agent that is sent along may need a newer one than python3"
        return self.node.answer(name, options)

    def _ask(self, name: str, options: dict[str, Any], changes: bool) -> None:
        assert name == "declare"
        assert changes is not options["check"]
        if self.preflight is not None:
            _raise(self.preflight)

    def __call__(self) -> dict[str, Any]:
        before = dict(self.connection.options)
        try:
            return self.plugin.run(task_vars={"inventory_hostname": "gpu01"})
        finally:
            assert self.connection.options == before, "a later task would use these timeouts too"

    @property
    def modules(self) -> list[str]:
        return [module for module, _arguments in self.node.calls]

    @property
    def took(self) -> float:
        return self.clock.now - self.node.made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


# -- nothing to confirm -----------------------------------------------------------------------------


def test_a_change_of_another_interface_is_the_modules_own_affair(run: Run) -> None:
    run.node.arms = False

    assert run() == {"changed": True, "running": ["a job"]}
    assert run.node.calls == [(MODULE, run.task.args)]
    assert run.connection.resets == 0


def test_check_mode_runs_the_module_and_nothing_else(run: Run) -> None:
    run.task.check_mode = True
    run.node.arms = False

    assert run()["changed"] is True
    assert run.modules == [MODULE]


def test_async_is_refused_in_words(run: Run) -> None:
    run.task.async_val = 60

    with pytest.raises(AnsibleActionFail, match="async"):
        run()
    assert run.modules == []


def test_a_node_that_cannot_be_reached_is_unreachable_at_once(run: Run) -> None:
    run.preflight = AnsibleConnectionFailure("No route to host")

    with pytest.raises(AnsibleConnectionFailure, match="No route to host"):
        run()
    assert run.modules == []
    assert run.clock.now == 1000


# -- confirmed --------------------------------------------------------------------------------------


def test_a_new_connection_with_a_large_answer_keeps_the_change(run: Run) -> None:
    result = run()

    made = {"changed": True, "running": ["a job"], "confirm": {"id": ID, "seconds": 60}}
    assert result == {**made, "confirmed": True}
    assert run.node.calls[1:] == [
        (CONFIRM, {"id": "", "padding": PADDING}),
        (CONFIRM, {"id": ID, "padding": 0}),
    ]
    assert run.connection.resets == 2
    assert run.took == 0


def test_new_connections_are_short_and_notice_silence(run: Run) -> None:
    run()

    assert run.connection.seen[0] == {
        "timeout": CONNECT,
        "ssh_common_args": f"-o User=x -o ServerAliveInterval={CONNECT} -o ServerAliveCountMax=2",
    }


@pytest.mark.parametrize("timeout", [3, "3"])
def test_a_timeout_that_is_shorter_already_stays(run: Run, timeout: Any) -> None:
    run.connection.options["timeout"] = timeout
    run()

    assert run.connection.seen[0]["timeout"] == 3


@pytest.mark.parametrize("missing", ["timeout", "ssh_common_args"])
def test_a_connection_plugin_without_such_options_will_do(run: Run, missing: str) -> None:
    del run.connection.options[missing]

    assert run()["confirmed"] is True


def test_a_link_that_comes_back_in_time_is_waited_for(run: Run) -> None:
    run.node.healed = 40

    assert run()["confirmed"] is True
    assert 40 <= run.took < 50


def test_a_confirmation_whose_answer_is_lost_is_asked_for_again(run: Run) -> None:
    run.node.swallowed = 2

    assert run()["confirmed"] is True


def test_a_reset_that_fails_is_tried_again(run: Run) -> None:
    run.connection.fails = AnsibleError("no control socket")
    run.node.due = 20
    run.node.seconds = 20

    assert "no control socket" in run()["msg"]
    assert CONFIRM not in run.modules


# -- not confirmed ------------------------------------------------------------------------------------


def test_a_node_that_is_cut_off_until_the_old_values_are_back(run: Run) -> None:
    run.node.healed = 60

    result = run()

    assert (result["failed"], result["changed"], result["confirmed"]) == (True, False, False)
    assert result["undone"]["id"] == ID
    assert result["msg"].startswith(TEXT)
    assert "The last try: Failed to connect to the host via ssh: timed out." in result["msg"]
    assert "Check the MTU of the switch ports" in result["msg"]
    assert "settings" not in result
    assert run.took < 60 + GRACE + 2 * CONNECT
    assert not run.node.confirmed


def test_a_path_that_drops_large_packets_does_not_keep_the_change(run: Run) -> None:
    """Small ones come through all the time, also that which confirms: it must not be sent."""
    run.node.passes = 1400

    result = run()

    assert result["failed"]
    assert result["undone"]["id"] == ID
    assert "server not responding" in result["msg"]
    assert not any(arguments.get("id") for _name, arguments in run.node.calls)


def test_what_could_not_be_put_back_is_a_change(run: Run) -> None:
    run.node.healed = 60
    run.node.stuck = ["mtu of eth0"]

    result = run()

    assert (result["failed"], result["changed"]) == (True, True)


def test_an_answer_that_comes_too_late_waits_for_nothing(run: Run) -> None:
    """The module's answer had to wait for the old values, as large packets were dropped."""
    run.node.due = 0

    result = run()

    assert (result["failed"], result["changed"]) == (True, False)
    assert "no answer came in time" in result["msg"]
    assert run.took == 0


def test_a_node_that_stays_cut_off_is_told_with_what_was_due(run: Run) -> None:
    run.node.healed = 10**6

    result = run()

    assert (result["failed"], result["changed"], result["confirmed"]) == (True, True, False)
    assert "the node has not answered since. The old values were due to be back" in result["msg"]
    assert 60 + GRACE + ANSWER <= run.took < 60 + GRACE + ANSWER + 3 * CONNECT
    assert run.connection._shell.tmpdir is None, "removing it would fail, and hide all this"


def test_a_restore_that_is_late_is_waited_for(run: Run) -> None:
    """The timer was counted anew, or another run holds the lock."""
    run.node.passes = 1400
    run.node.due = 60 + GRACE + 20

    result = run()

    assert result["undone"]["id"] == ID
    assert run.took < 60 + GRACE + 30


def test_a_restore_that_does_not_come_is_told(run: Run) -> None:
    run.node.passes = 1400
    run.node.due = None

    result = run()

    assert (result["failed"], result["changed"]) == (True, True)
    assert "the change (it interrupts eth0) was not confirmed in time, and is not undone yet" in result["msg"]


def test_what_another_run_was_told_already_is_not_made_up(run: Run) -> None:
    run.node.healed = 60

    run.node.told = True

    result = run()

    assert (result["changed"], result["undone"]) == (True, {})
    assert "the node no longer knows what became of it" in result["msg"]


def test_a_record_of_an_earlier_change_is_not_taken_for_this_one(run: Run) -> None:
    run.node.undone = {"id": "00000000", "text": "an old story", "stuck": []}

    assert run()["confirmed"] is True


def test_an_agent_that_does_not_answer_is_no_proof(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "the agent does not answer (exit status 127: no python3)"
    monkeypatch.setattr(run.plugin, "call", lambda *_asked: _raise(NoAnswerError(words)))

    result = run()

    assert result["failed"]
    assert "the node has not answered since" in result["msg"]
    assert f"The last try: {words}. " in result["msg"]


def test_without_a_module_that_has_run_the_agent_is_sent_to_any_python3(run: Run) -> None:
    """A strategy may run modules in its own way, and keeps no interpreter."""
    asked: list[str] = []
    run.plugin._execute_module = lambda **_told: run.node.change(MODULE, run.task.args)
    real = run.node.answer

    def call(name: str, options: dict[str, Any], interpreter: str) -> dict[str, Any]:
        asked.append(interpreter)
        return real(name, options)

    run.plugin.call = call

    assert run()["confirmed"] is True
    assert {*asked} == {INTERPRETER}


def test_an_answer_that_is_none_is_no_proof(run: Run) -> None:
    real = run.node._confirm

    def odd(arguments: dict[str, Any]) -> dict[str, Any]:
        state = real(arguments)
        return {**state, "padding": ""}

    run.node._confirm = odd

    result = run()

    assert result["failed"]
    assert "the answer was not complete" in result["msg"]
    assert not run.node.confirmed


def test_a_local_run_can_only_be_confirmed_by_somebody_who_logs_in(run: Run) -> None:
    run.connection.transport = "local"
    asked: list[dict[str, Any]] = []
    real = run.node._confirm

    def confirm(arguments: dict[str, Any]) -> dict[str, Any]:
        asked.append(arguments)
        if run.took >= 20 and not run.node.confirmed:
            real({"id": ID, "padding": 0})  # by hand, in another shell
        return real(arguments)

    run.node._confirm = confirm

    assert run()["confirmed"] is True
    assert not any(arguments["id"] for arguments in asked), "a local process shows nothing"
    [warning] = run.warnings
    assert f"`mlnode confirm {ID}` within 60 s" in warning


def test_a_local_run_that_nobody_confirms_fails(run: Run) -> None:
    run.connection.transport = "local"

    assert run()["failed"] is True


# -- the connection is lost while the module runs ----------------------------------------------------


def lost(run: Run) -> None:
    run.node.module = [AnsibleConnectionFailure("Shared connection to gpu01 closed.")]


def test_a_lost_run_is_not_confirmed_but_left_to_undo_itself(run: Run) -> None:
    lost(run)
    run.node.healed = 20

    result = run()

    assert (result["failed"], result["changed"], result["confirmed"]) == (True, False, False)
    assert result["msg"].startswith(
        "the connection was lost while NICs were being changed (Shared connection"
    )
    assert f"The node says: {TEXT}" in result["msg"]
    assert not run.node.confirmed
    assert 60 <= run.took < 70
    assert len(run.modules) < 10, "it asks all the time instead of waiting"


def test_a_lost_run_that_had_armed_nothing_is_unreachable_as_ever(run: Run) -> None:
    lost(run)
    run.node.arms = False

    with pytest.raises(AnsibleConnectionFailure, match="Shared connection"):
        run()
    assert run.took == 0


def test_a_lost_run_that_is_not_undone_yet_is_no_unreachable_node(run: Run) -> None:
    """It goes on without its connection, and holds the lock for longer than anybody waits here."""
    lost(run)
    run.node.due = None

    result = run()

    assert (result["failed"], result["changed"]) == (True, True)
    assert "the change (it interrupts eth0) was not confirmed in time, and is not undone yet" in result["msg"]
    assert "the connection was lost while NICs were being changed (Shared connection" in result["msg"]


@pytest.mark.parametrize("seconds", [None, 300])
def test_a_lost_run_on_a_node_that_stays_away(run: Run, seconds: int | None) -> None:
    lost(run)
    run.node.healed = 10**6
    if seconds:
        run.task.args["confirm_seconds"] = seconds

    result = run()

    assert (result["failed"], result["changed"]) == (True, True)
    assert f"the old values were due to be back after {seconds or 60} s" in result["msg"]
    assert (seconds or 60) + ANSWER < run.took < (seconds or 60) + GRACE + ANSWER + 3 * CONNECT
    assert run.connection._shell.tmpdir is None
