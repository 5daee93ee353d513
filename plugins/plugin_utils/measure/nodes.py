# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a play, and calls to them from one task on the controller.

Each call is a task in one of Ansible's worker processes, as if the strategy of a play had started it: with
the variables, connection and become of the node, and the action of a module of this collection.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.executor.process import worker as ansible_worker
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.utils.multiprocessing import context as forking

from ...module_utils._mlnode.model.errors import paragraphs

display = Display()

#: Additional seconds after the time limit of a call, in which Ansible ends it and cleans up on the node
_GRACE = 10.0

#: The action that declares a node
_DECLARE = "mlnode.tuning.declare"

#: Keywords that calls inherit from the task, templated for their node. They also inherit vars and
#: check_mode, and the environments of both are merged.
_KEYWORDS = (
    "become",
    "become_exe",
    "become_flags",
    "become_method",
    "become_user",
    "connection",
    "diff",
    "module_defaults",
    "no_log",
    "port",
    "remote_user",
)

#: Replaces the answer of a node that failed or was unreachable earlier in the run
_LOST: Mapping[str, Any] = {"failed": True, "msg": "failed earlier in this run"}

#: Options of ssh that end a connection after a minute of silence: a measurement of hours would not notice
#: the death of its node. A shared connection would have the options of its first user.
_NOTICE = "-o ControlPath=none -o ServerAliveInterval=15 -o ServerAliveCountMax=4"

#: Variable of the options of ssh
_SSH = "ansible_ssh_common_args"

#: Seconds between two checks whether the controller still runs
_LOOK = 1.0


def say(text: str) -> None:
    """Display lines immediately instead of with the result."""
    display.display(paragraphs(text))


class Call(NamedTuple):
    """A module to run on a node. seconds: the time limit, 0 for none. keywords: further keywords of the task,
    such as check_mode and become. task: a loaded task of a role, which replaces the module."""

    module: str
    options: Mapping[str, Any]
    seconds: int
    keywords: Mapping[str, Any] = {}
    task: Any = None


class MeasureError(Exception):
    """The measurement cannot continue. The message is for an operator."""


class Fleet:
    """The nodes of a play by name, in the order of the play, for an action that runs once for all nodes."""

    def __init__(self, task: Any, variables: Mapping[str, Any]) -> None:
        self._own = ansible_worker.current_worker
        self._manager = self._own._variable_manager
        self._task = task
        self._given: Mapping[str, Any] = task.get_ds() or {}
        self._controller = os.getppid()
        self._running: dict[Connection, _Running] = {}
        self._warned: set[str] = set()
        #: A role is loaded once for all nodes, because the play keeps every loaded one.
        self._declarations: dict[tuple[Any, ...], Call] = {}
        self.names = [str(name) for name in variables["ansible_play_hosts_all"]]
        self._lost = {*self.names} - {str(name) for name in variables["ansible_play_hosts"]}
        #: Node → more variables for its calls
        self.own: Mapping[str, Mapping[str, Any]] = {}
        self.forks = int(context.CLIARGS.get("forks") or 1)
        self.check = bool(task.check_mode)

    def variables(self, spec: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Variables of each node by name, validated by an argument spec. Raises MeasureError."""
        validated, wrong = {}, []
        for name in self.names:
            known = self._known(self._host(name), self._task)
            templar = Templar(loader=self._own._loader, variables=known)
            try:
                own = {key: templar.template(known[key]) for key in spec if key in known}
            except AnsibleError as error:
                wrong.append(f"{name}: {error}")
                continue
            checked = ArgumentSpecValidator(spec).validate(own)
            wrong += [f"{name}: {error}" for error in checked.error_messages]
            validated[name] = checked.validated_parameters
        if wrong:
            raise MeasureError("; ".join(wrong))
        return validated

    def _host(self, name: str) -> Any:
        return self._manager._inventory.get_host(name)

    def _known(self, host: Any, task: Any) -> dict[str, Any]:
        """Variables of a task on a host, with the play's variables."""
        known: dict[str, Any] = self._manager.get_vars(
            play=self._task.play, host=host, task=task, _hosts=self.names, _hosts_all=self.names
        )
        return known

    @property
    def batches(self) -> int:
        """Number of batches in which each node is called once."""
        return math.ceil(len(self.names) / self.forks)

    def ask(
        self, calls: Mapping[str, Call], wanted: str = "", together: bool = False
    ) -> dict[str, dict[str, Any]]:
        """The answer of each node: the task's result, or `failed` with the reason in `msg`. wanted: a
        field of every complete answer. A node without it is asked once more, and its last answer counts.
        together: the first failure ends all other calls, also the death of a node during its call."""
        answers = self._asked(calls, together)
        again = {name: calls[name] for name in calls if wanted and wanted not in answers[name]}
        return {**answers, **self._asked(again)}

    def sleep(self, until: float) -> None:
        """Wait until a time, in seconds since 1970, while the controller runs."""
        while (left := until - time.time()) > 0:
            time.sleep(min(left, _LOOK))
            self._verify_controller()

    def _asked(self, calls: Mapping[str, Call], together: bool = False) -> dict[str, dict[str, Any]]:
        waiting = [(name, call) for name, call in calls.items() if name not in self._lost][::-1]
        answers = {name: {**_LOST} for name in calls if name in self._lost}
        with self._ending():
            while waiting or self._running:
                while waiting and len(self._running) < self.forks:
                    self._start(*waiting.pop(), together)
                answers.update(self._answered())
                self._verify_controller()
                failed = next((name for name in answers if together and _is_lost(answers[name])), None)
                if failed:
                    why = {"failed": True, "msg": f"ended, because {failed} was lost"}
                    running = [running.name for running in self._running.values()]
                    answers.update((name, {**why}) for name in (*running, *(name for name, _call in waiting)))
                    waiting.clear()
                    self._end()
        return {name: answers[name] for name in calls}

    def _start(self, name: str, call: Call, together: bool) -> None:
        own, host = self._own, self._host(name)
        task = call.task or self._loaded(Task, {
            "name": f"{self._task.get_name()} ({call.module.rpartition('.')[2]})",
            call.module: dict(call.options),
            **({"timeout": call.seconds} if call.seconds else {}),
            "vars": self._vars,
            **self._keywords(call.keywords),
        })  # fmt: skip
        known = self._known(host, task)
        receiver, sender = forking.Pipe(duplex=False)
        process = _Worker(
            final_q=_Queue(own._final_q, sender),
            task_vars={**(noticed(known) if together else known), **self.own.get(name, {})},
            host=host,
            task=task,
            play_context=own._play_context,
            loader=own._loader,
            variable_manager=self._manager,
            shared_loader_obj=own._shared_loader_obj,
            worker_id=own.worker_id,
            cliargs=own._cliargs,
        )
        # The strategy puts keyboard input into this queue.
        process.worker_queue = own.worker_queue
        process.start()
        sender.close()
        over = time.monotonic() + call.seconds + _GRACE if call.seconds else float("inf")
        self._running[receiver] = _Running(name, process, over, call.seconds)

    def _loaded(self, what: Any, given: Mapping[str, Any]) -> Any:
        """A new task in the same block of the play."""
        return what.load(
            given, block=self._task._parent, variable_manager=self._manager, loader=self._own._loader
        )

    @property
    def _vars(self) -> dict[str, Any]:
        return dict(self._given.get("vars") or {})

    def _keywords(self, of_call: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords of a call and of the task. Keywords of their block and play are inherited."""
        environments = [given["environment"] for given in (self._given, of_call) if given.get("environment")]
        return {
            **{name: self._given[name] for name in _KEYWORDS if name in self._given},
            "check_mode": self.check,
            **of_call,
            "environment": [environment for given in environments for environment in _listed(given)],
        }

    def declaration(self, role: str, variables: Mapping[str, Any], keywords: Mapping[str, Any]) -> Call:
        """The declaring task of a role, as a call. variables: for the role. keywords: for the task."""
        known = (role, *variables.items(), *keywords.items())
        if known not in self._declarations:
            self._declarations[known] = self._declaration(role, variables, keywords)
        return self._declarations[known]

    def _declaration(self, role: str, variables: Mapping[str, Any], keywords: Mapping[str, Any]) -> Call:
        included = self._loaded(
            IncludeRole,
            {
                "ansible.builtin.include_role": {
                    "name": role,
                    "rolespec_validate": False,
                    "apply": self._keywords(keywords),
                },
                "vars": {**self._vars, **variables},
            },
        )
        blocks, _handlers = included.get_block_list(
            play=self._task.play, variable_manager=self._manager, loader=self._own._loader
        )
        tasks = (task for block in blocks for task in block.block)
        task = next(task for task in tasks if task.action == _DECLARE)
        return Call(_DECLARE, {}, 0, keywords, task)

    def _answered(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Nodes that have answered or exceeded their time limit, with their answers."""
        ready = wait([*self._running], timeout=_LOOK)
        for receiver in [receiver for receiver in self._running if receiver in ready]:
            running = self._running.pop(receiver)
            try:
                yield running.name, self._noted(running.name, receiver.recv())
            except EOFError:
                yield running.name, {"failed": True, "msg": "Ansible's worker ended without an answer"}
            running.process.join()
        for receiver, running in [*self._running.items()]:
            if time.monotonic() > running.over:
                del self._running[receiver]
                running.end()
                yield running.name, {"failed": True, "msg": f"no answer within {running.seconds} s"}

    def _noted(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer without the parts for Ansible: the node's Python is stored, warnings are displayed."""
        facts = answer.pop("ansible_facts", None) or {}
        discovered = {key: facts[key] for key in facts if key.startswith("discovered_interpreter_")}
        if discovered:
            self._manager.set_host_facts(name, discovered)
        for text in (f"[WARNING]: {name}: {warning}" for warning in answer.pop("warnings", ())):
            if text not in self._warned:
                self._warned.add(text)
                # warning() would keep it with this task, and each later worker would send it back.
                display.display(text, color=constants.COLOR_WARN, stderr=True)
        return answer

    def _verify_controller(self) -> None:
        if os.getppid() != self._controller:
            self._end()
            os._exit(1)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End all calls with this process. They are in other sessions, without the terminal's signals."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def end(number: int, frame: Any) -> None:
            self._end()
            then = before[signal.Signals(number)]
            if callable(then):
                then(number, frame)

        for number in before:
            signal.signal(number, end)
        try:
            yield
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self) -> None:
        for running in [*self._running.values()]:
            running.process.terminate()
        while self._running:
            self._running.popitem()[1].end()


def noticed(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a node, with options of ssh that notice its death. Other connections ignore them."""
    given = variables.get(_SSH) or context.CLIARGS.get("ssh_common_args")
    if not given:
        # In ansible.cfg or the environment, which a variable replaces; known once the plugin is loaded
        connection_loader.get("ssh", class_only=True)
        given = constants.config.get_config_value(
            "ssh_common_args", plugin_type="connection", plugin_name="ssh"
        )
    return {**variables, _SSH: f"{given or ''} {_NOTICE}".strip()}


def _is_lost(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("failed") or answer.get("unreachable"))


def _listed(given: Any) -> list[Any]:
    return [*given] if isinstance(given, list) else [given]


class _Worker(ansible_worker.WorkerProcess):  # type: ignore[misc]  # it has no types
    """A worker of this worker. Ansible sets the time limit of a task only in a process without a SIGALRM
    handler; this process has one if the measuring task has a limit."""

    def run(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        super().run()


class _Running(NamedTuple):
    name: str
    process: Any
    over: float
    seconds: int

    def end(self) -> None:
        self.process.terminate()
        self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class _Queue:
    """Replaces the queue of Ansible's worker: results go to the Fleet, messages to Ansible's own queue."""

    def __init__(self, ansible: Any, sender: Connection) -> None:
        self.send_display: Callable[..., None] = ansible.send_display
        self.send_prompt: Callable[..., None] = ansible.send_prompt
        self._sender = sender

    def send_callback(self, *_given: Any, **_more: Any) -> None:
        """Ignored: callbacks see only the measuring task, not its calls."""

    def send_task_result(self, *given: Any) -> None:
        """Send a result. given: one object in ansible-core 2.19; host, task and result since 2.21."""
        result = given[-1]
        answer = result.as_result_dict() if hasattr(result, "as_result_dict") else result._return_data
        texts = [
            getattr(getattr(warning, "event", warning), "msg", warning)
            for warning in answer.get("warnings") or ()
        ]
        whole = {name: value for name, value in answer.items() if name not in ("exception", "deprecations")}
        self._sender.send({**whole, "warnings": [paragraphs(str(text)) for text in texts]})
