# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose agent is asked by an action: what it is sent, and what it answers."""

from __future__ import annotations

import bz2
import json
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_call
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import MARK

AGENT = {"size": 3, "sha256": "abc"}
ARCHIVE = b"the agent"

Done = dict[str, Any]


def done(stdout: str, rc: int = 0, stderr: str = "") -> Done:
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def answer(**fields: Any) -> Done:
    return done(f"{MARK}{json.dumps({'answer': {'changed': False, **fields}})}\n")


#: Of a shell that has found no agent
MISSING = done(f"{MARK}{{}}\n")
OTHER = done(f'{MARK}{{"other": true}}\r\n')
NO_PYTHON = done("", 127, "bash: line 1: exec: python3: not found")
KEPT = done(f'{MARK}{{"kept": true}}\n')
OLD_PYTHON = done("", 1, "mlnode needs Python 3.8 or newer, and /usr/bin/python3 is 3.6")


def modules_run(monkeypatch: pytest.MonkeyPatch, action: Any) -> list[dict[str, Any]]:
    """What modules are run with from now on, in the place of an agent."""
    calls: list[dict[str, Any]] = []

    def execute(self: Any, **words: Any) -> dict[str, Any]:
        self._used_interpreter = None
        calls.append(words)
        return {"changed": True, "msg": "of the module"}

    monkeypatch.setattr(action.ActionModule, "_execute_module", execute)
    return calls


class Node:
    """Answers each command with the next of `answers`.

    commands: what was run. questions: what the agent was asked, in the same order; those that were asked of
    one that was sent along have `sent` in `ways`, the others `installed`.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        action: Any,
        *answers: Done,
        piped: bool = True,
        module: str = "",
        **arguments: Any,
    ) -> None:
        self.answers = [*answers]
        self.piped = piped
        self.commands: list[str] = []
        self.questions: list[dict[str, Any]] = []
        self.ways: list[str] = []
        self.files: dict[str, bytes] = {}
        self.readable: list[tuple[str, ...]] = []
        monkeypatch.setattr(agent_call.agent_source, "said", lambda: AGENT)
        monkeypatch.setattr(agent_call.agent_source, "archive", lambda: ARCHIVE)
        monkeypatch.setattr(agent_call.agent_source, "unzipped", lambda: ARCHIVE)
        shell = SimpleNamespace(join_path=lambda *parts: "/".join(parts), tmpdir=None)
        self.task = SimpleNamespace(
            args=arguments, async_val=0, check_mode=False, diff=False, tags=["always"], _role=None,
            action=f"mlnode.tuning.{module}" if module else "an action",
        )  # fmt: skip
        self.connection = SimpleNamespace(_shell=shell, transport="ssh")
        self.plugin = action.ActionModule(
            task=self.task, connection=self.connection, play_context=None, loader=None,
            templar=Templar(loader=DataLoader()), shared_loader_obj=None,
        )  # fmt: skip
        self.plugin._is_pipelining_enabled = lambda _style: self.piped
        self.plugin._low_level_execute_command = self._command
        self.plugin._make_tmp_path = self._folder
        self.plugin._transfer_data = self.files.__setitem__
        self.plugin._fixup_perms2 = lambda paths, execute: self.readable.append((*paths, str(execute)))

    def run(self, **variables: Any) -> dict[str, Any]:
        self.plugin._templar = Templar(loader=DataLoader(), variables=variables)
        found: dict[str, Any] = self.plugin.run(task_vars=variables)
        assert self.answers == [], "not asked for"
        return found

    def _folder(self) -> str:
        self.connection._shell.tmpdir = "/tmp/own"
        return "/tmp/own"

    def _command(self, command: str, in_data: bytes | None = None, sudoable: bool = True) -> Done:
        self.commands.append(command)
        assert (in_data is not None) == self.piped
        sent = agent_call.AGENT not in command
        question = self.files["/tmp/own/question"] if in_data is None else in_data
        if sent and in_data is not None:
            length, _line, rest = in_data.partition(b"\n")
            packed, question = rest[: int(length)], rest[int(length) :]
            packer = bz2 if command.endswith(" bz2") else zlib
            assert packer.decompress(packed) == ARCHIVE
        self.ways.append("sent" if sent else "installed")
        self.questions.append(json.loads(question))
        return self.answers.pop(0)
