# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A question to the agent on a node, in one remote call.

It runs without a module: for one, Ansible would send the library and many other files, which Python compiles
on the node each time. If the agent is missing or differs, this one is sent and run from a temporary folder.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import zlib
from dataclasses import dataclass
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer, agent_source

from ..module_utils._mlnode.agent.archive import INTERPRETER, isolated, started
from ..module_utils._mlnode.model.errors import DeclarationError, printable

try:
    import bz2
except ImportError:  # a Python that was built without it
    bz2 = None  # type: ignore[assignment]  # a module else

AGENT = "/usr/local/bin/mlnode"

#: Variable of a task with the lease under which it changes a node; see agent/lease.py
LEASE = "_mlnode_lease"

#: Folder of the declarations on a node
FOLDER = "/etc/mlnode/declared.d"

#: Before all that the agent prints, as a login may print a greeting
MARK = "mlnode: "

#: Printed before the agent does anything: without an answer after it, the agent may have changed something
BEGUN = f"{MARK}begun"

#: Printed by the shell if no agent is installed. KEPT: the node has declarations all the same.
BARE = "{}"
KEPT = '{"kept": true}'

#: Least exit status after a signal (POSIX, Shell Command Language, 2.8.2), also for a Python that passes on
#: the negative status of its child
_SIGNALLED = 128

#: Characters of another program's last line that a message quotes
_SHOWN = 200

#: Exit status of a Python that was built without the library that unpacks the archive (sysexits.h,
#: EX_UNAVAILABLE)
_LACKING = 69

#: The archive is a quarter smaller with the first of them, in the same time; lzma would take six times as
#: long for 2 % less. Every Python has the second one, as a zip needs it.
_PACKERS = tuple(filter(None, (bz2, zlib)))

#: Reads the length of the compressed archive, the archive and the question, makes the zip and asks it. The
#: code runs in any Python 3, as the archive itself refuses old versions. All input is read before the program
#: may end.
_RECEIVE = f"""\
import importlib, itertools, os, shutil, subprocess, sys, tempfile, zipfile
text = sys.stdin.buffer
packed = text.read(int(text.readline()))
question = text.read()
try:
    unpacked = importlib.import_module(sys.argv[1]).decompress(packed).decode()[::-1]
except ImportError:
    sys.exit({_LACKING})
folder = tempfile.mkdtemp(prefix="mlnode-")
try:
    path = os.path.join(folder, "mlnode")
    with open(path, "wb") as file:
        first, ends, text = unpacked.split("\\0", 2)
        file.write(first.encode() + b"\\n")
        words = {{}}
        word = ""
        for sign, end in zip(itertools.chain(*{agent_source.SIGNS!r}), ends.split("\\t")):
            words[sign] = word = word[: ord(end[0]) - {agent_source.NO_LETTERS}] + end[1:]
        with zipfile.ZipFile(file, "w") as archive:
            for named in text.translate(words).split("\\0"):
                name, _break, content = named.partition("\\n")
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content)
    run = subprocess.Popen([sys.executable, "-IS", path, "call"], stdin=subprocess.PIPE)
    run.communicate(question)
finally:
    shutil.rmtree(folder)
sys.exit(run.returncode)
"""


#: Reason for which a task may not be left running in the background
_NO_ASYNC = (
    "it acts on the node's answer, as it may have to send the agent, or to confirm a change over a new "
    "connection. Leave out async and poll; use forks to handle more nodes at a time"
)


# Ansible imports this before it forks for a host. A collection of garbage in a fork would write to all
# objects that it shares with the controller's process, the answers of other nodes among them, and so copy
# them (Python's manual, gc.freeze).
os.register_at_fork(after_in_child=gc.freeze)


class NoAnswerError(Exception):
    """Neither the installed agent nor the sent agent gave a valid answer. The message is for an operator."""


@dataclass(frozen=True)
class _Reply:
    """Reply of a node. answer: None if the node gave no valid one. wrong: the reason; empty if no agent is
    installed. begun: the agent has begun, and may have changed something. bare: the node has no declaration
    either."""

    answer: dict[str, Any] | None = None
    wrong: str = ""
    begun: bool = False
    bare: bool = False

    def error(self, changes: bool) -> NoAnswerError:
        return NoAnswerError(f"{self.wrong}. {_ADVICE[self.begun, self.begun and changes]}")


class AgentAction(ActionBase):  # type: ignore[misc]  # ansible has no types
    """An action that asks the agent."""

    TRANSFERS_FILES = False
    _supports_async = False

    @property
    def module(self) -> str:
        """The module in whose place this is run, whatever name a task calls it by."""
        return str(getattr(self._task, "resolved_action", None) or self._task.action).rpartition(".")[2]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        if self._task.async_val and not self._supports_async:
            raise AnsibleActionFail(f"{self.module}: async is not supported: {_NO_ASYNC}")
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result

    def call(
        self,
        name: str,
        options: dict[str, Any],
        interpreter: str = INTERPRETER,
        changes: bool = False,
        of_bare: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Answer of the agent. Raises NoAnswerError. A sent agent gets in `instead` the reason why the
        installed agent, if any, was not asked.

        interpreter: the Python for a sent agent, as in the first line of the installed one. changes: the
        agent may change something, and is not asked again once it has begun. of_bare: the answer for a node
        without agent and declarations; no agent is sent to it.
        """
        try:
            isolated(interpreter)
        except DeclarationError as error:
            raise NoAnswerError(str(error)) from error
        question = _question(name, options)
        reply = _reply(self._ask_installed(question))
        if reply.bare and of_bare is not None:
            return of_bare
        if reply.answer is None and not (reply.begun and changes):
            if reply.wrong:
                question = _question(name, {**options, "instead": reply.wrong})
            reply = _reply(self._ask_sent(question, interpreter))
        if reply.answer is None:
            raise reply.error(changes)
        return _checked(name, reply.answer)

    def ask(self, name: str, options: dict[str, Any], changes: bool = False) -> dict[str, Any] | None:
        """Answer of the installed agent. None if no agent of these sources is installed, or if it does not
        start. changes: as in call(). Raises NoAnswerError."""
        reply = _reply(self._ask_installed(_question(name, options)))
        if reply.answer is None and reply.begun and changes:
            raise reply.error(changes)
        return None if reply.answer is None else _checked(name, reply.answer)

    def by_module(self, name: str, variables: dict[str, Any] | None) -> dict[str, Any]:
        """Answer of the module that this action replaces, run with its own files. For a task with async: the
        answer of the job's start. name: as in call(). An answer that does not match is a failure."""
        raw = self._execute_module(task_vars=variables, wrap_async=bool(self._task.async_val))
        answer = agent_answer.of_task(name, raw)
        if self._discovered_interpreter_key:  # or Ansible looks for one at each task
            interpreter = agent_answer.text(self._discovered_interpreter)
            answer["ansible_facts"] = {self._discovered_interpreter_key: interpreter}
        return answer

    def _parse_returned_data(self, res: dict[str, Any], *form: Any) -> dict[str, Any]:
        # Ansible prints the text around a module's answer unchanged before this action sees it, and from
        # 2.21 on the warnings in it as well.
        shown = agent_answer.quiet(res.get("stdout", "")[: agent_answer.OUTPUT])
        parsed: dict[str, Any] = super()._parse_returned_data({**res, "stdout": shown}, *form)
        return parsed

    def _ask_installed(self, question: bytes) -> dict[str, Any]:
        there = f"if [ -e {AGENT} ]; then exec {AGENT} call"
        missing = f"if [ -e {FOLDER} ]; then echo '{MARK}{KEPT}'; else echo '{MARK}{BARE}'; fi; fi"
        if self._is_piped():
            return self._run(f"{there}; else cat > /dev/null; {missing}", question)
        # Nothing but the agent reads: the input may be a terminal, which has no end.
        return self._run(f"{there} < {shlex.quote(self._sent('question', question))}; else {missing}")

    def _ask_sent(self, question: bytes, interpreter: str) -> dict[str, Any]:
        python = shlex.join(started(interpreter))
        if self._is_piped():
            return self._ask_piped(question, f"{python} -IS -c {shlex.quote(_RECEIVE)}")
        archive = shlex.quote(self._sent("mlnode", agent_source.archive()))
        asked = shlex.quote(self._sent("question", question))
        return self._run(f"{python} -IS {archive} call < {asked}")

    def _ask_piped(self, question: bytes, receive: str) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for packer in _PACKERS:
            packed = agent_source.packed(packer, constants.DEFAULT_LOCAL_TMP)
            done = self._run(f"{receive} {packer.__name__}", b"%d\n%s%s" % (len(packed), packed, question))
            if done["rc"] != _LACKING:
                break
        return done

    def _run(self, command: str, text: bytes | None = None) -> dict[str, Any]:
        done: dict[str, Any] = self._low_level_execute_command(command, in_data=text)
        return done

    def _sent(self, name: str, content: bytes) -> str:
        """The path of a file with this content on the node. Not on a command line, which sudo keeps in its
        log."""
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        path: str = self._connection._shell.join_path(folder, name)
        self._transfer_data(path, content)
        self._fixup_perms2((folder, path), execute=False)
        return path

    def _is_piped(self) -> bool:
        try:
            return bool(self._is_pipelining_enabled("new"))
        except AssertionError:  # mitogen's strategies forbid the question, and send input another way
            return True


def _checked(name: str, answer: Any) -> dict[str, Any]:
    try:
        return agent_answer.checked(name, answer)
    except ValueError as error:
        raise NoAnswerError(f"the agent's answer is not understood: {error}") from error


def _question(name: str, options: dict[str, Any]) -> bytes:
    try:
        return json.dumps({"call": name, "options": options, **agent_source.said()}).encode("ascii")
    except (TypeError, ValueError) as error:
        # JSON lacks several YAML types, but only a date is written by mistake.
        raise NoAnswerError(
            f"an option cannot be sent to the node: {error}; write dates in quotes"
        ) from error


#: Whether the agent has begun, and may have changed something → advice after the reason for no answer
_ADVICE = {
    (False, False): (
        "It needs Python 3.8 or newer: name one in the option interpreter (node_interpreter of the roles) if "
        "python3 is older or missing"
    ),
    (True, False): "It was ended while it looked at the node, and nothing was changed: run it again",
    (True, True): (
        "It had begun, so it was not asked again. If it was stopped, it has undone its changes. If it was "
        "killed, the next run completes its work, with a warning. A campaign ends on its own. Run it again"
    ),
}


def _reply(done: dict[str, Any]) -> _Reply:
    _greeting, mark, text = done["stdout"].partition(f"{MARK}{{")
    begun = bool(mark) or BEGUN in done["stdout"] or done["rc"] >= _SIGNALLED
    try:
        document = agent_answer.read("{" + text.partition("\n")[0].strip()) if mark else None
    except ValueError as error:
        return _Reply(wrong=f"{_no_answer(done)}; {printable(str(error))}", begun=True)
    if document is None:
        return _Reply(wrong=_no_answer(done), begun=begun)
    if "answer" in document:
        return _Reply(answer=document["answer"] or {}, begun=True)
    if document in (json.loads(BARE), json.loads(KEPT)):
        return _Reply(bare=not document)
    return _Reply(wrong=f"{AGENT} is not the agent of this collection: run site.yml")


def _no_answer(done: dict[str, Any]) -> str:
    # A terminal, which there may be without pipelining, has both in one.
    lines = [line for line in f"{done['stdout']}\n{done['stderr']}".splitlines() if line.strip()]
    messages = [line.strip() for line in lines if not line.startswith((BEGUN, f"{MARK}{{"))] or ["no message"]
    return f"the agent does not answer (exit status {done['rc']}: {printable(messages[-1][:_SHOWN])})"
