# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A question to the agent on a node, in one remote call.

It is run as it is: a module would bring the library and much of Ansible along, which Python compiles on the
node each time. Where the agent is missing or another one, it is sent, and run from a temporary folder.
"""

from __future__ import annotations

import json
import shlex
import zlib
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source

AGENT = "/usr/local/bin/mlnode"
INTERPRETER = "/usr/bin/env python3"

#: Before the answer, as those who log in may be greeted. An empty one is that of no agent.
MARK = "mlnode: "

#: Reads the length of the compressed archive, the archive and the question, and asks it. In the words of any
#: Python 3, as it is the archive that refuses one that is too old.
_RECEIVE = """\
import os, shutil, subprocess, sys, tempfile, zlib
text = sys.stdin.buffer
archive = zlib.decompress(text.read(int(text.readline())))
question = text.read()
folder = tempfile.mkdtemp(prefix="mlnode-")
try:
    path = os.path.join(folder, "mlnode")
    with open(path, "wb") as file:
        file.write(archive)
    run = subprocess.Popen([sys.executable, "-I", path, "call"], stdin=subprocess.PIPE)
    run.communicate(question)
finally:
    shutil.rmtree(folder)
sys.exit(run.returncode)
"""


class NoAnswerError(Exception):
    """Neither the installed agent nor the one that was sent has answered: the message is for an operator."""


class AgentAction(ActionBase):  # type: ignore[misc]  # ansible has no types
    """An action that asks the agent."""

    TRANSFERS_FILES = False
    _supports_async = False

    def call(self, name: str, options: dict[str, Any], interpreter: str = INTERPRETER) -> dict[str, Any]:
        """The answer. Raises NoAnswerError. An agent that is sent is given in `instead` why the installed
        one, if any, was not asked.

        interpreter: the Python for the one that is sent, as in the first line of the installed one.
        """
        found, wrong = _answer(self._ask_installed(_question(name, options)))
        if found is not None:
            return found
        found, failed = _answer(self._ask_sent(_question(name, {**options, "instead": wrong}), interpreter))
        if found is None:
            raise NoAnswerError(
                f"{failed or wrong}. It needs Python 3.8 or newer: name one in the option interpreter "
                "(node_interpreter of the roles) if python3 is older or missing"
            )
        return found

    def _ask_installed(self, question: bytes) -> dict[str, Any]:
        there = f"if [ -e {AGENT} ]; then exec {AGENT} call"
        missing = f"; else cat > /dev/null; echo '{MARK}{{}}'; fi"
        if self._is_piped():
            return self._run(there + missing, question)
        return self._run(f"{there} < {shlex.quote(self._sent('question', question))}{missing}")

    def _ask_sent(self, question: bytes, interpreter: str) -> dict[str, Any]:
        python = shlex.join(shlex.split(interpreter))
        if self._is_piped():
            packed = zlib.compress(agent_source.archive(), 9)
            text = b"%d\n%s%s" % (len(packed), packed, question)
            return self._run(f"{python} -I -c {shlex.quote(_RECEIVE)}", text)
        archive = shlex.quote(self._sent("mlnode", agent_source.archive()))
        asked = shlex.quote(self._sent("question", question))
        return self._run(f"{python} -I {archive} call < {asked}")

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
        except AssertionError:  # mitogen's strategies want nobody to ask, and have an input of their own
            return True


def _question(name: str, options: dict[str, Any]) -> bytes:
    return json.dumps({"call": name, "options": options, **agent_source.said()}).encode("ascii")


def _answer(done: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """What the agent answers, or None and what is wrong with it; nothing is where there is none."""
    _greeting, _mark, text = done["stdout"].partition(MARK)
    try:
        told, _end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        said = done["stderr"].strip().splitlines() or ["no message"]
        return None, f"the agent does not answer (exit status {done['rc']}: {said[-1][:200]})"
    if not isinstance(told, dict) or not told:
        return None, ""
    if not isinstance(told.get("answer"), dict):
        return None, f"{AGENT} is not the agent of this collection: run site.yml"
    return told["answer"], ""
