# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the agent on the node what differs there, and tells it what the inventory would have declared there.

The agent is run as it is: a module would bring the library and much of Ansible along, which Python compiles
on the node each time. Where the agent is not this collection's, the module node_drift is run with one that is
sent along.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source, inventory_says

MODULE = "mlnode.tuning.node_drift"

AGENT = "/usr/local/bin/mlnode"
ADVICE = "site.yml installs it anew"

#: Before the answer, as whoever logs in may be greeted. An empty one is that of no agent.
MARK = "mlnode drift: "

#: What an answer may have: a node must not choose what else the controller takes a result for
FIELDS = frozenset(
    (
        *("changed", "failed", "msg", "compliant", "verdict", "drift", "failures", "ignored", "exceptions"),
        *("errors", "not_compared", "digests", "summary", "settings"),
    )
)

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
inventory_says.warm()
agent_source.warm()


class ActionModule(ActionBase):
    """The name ansible-core looks for."""

    TRANSFERS_FILES = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        arguments = dict(self._task.args)
        roles = arguments.pop("roles", None)
        if roles is not None:
            if not isinstance(roles, list):
                raise AnsibleError("roles: give a list of names")
            if roles:  # of none nothing is compared, not even what is left over
                arguments["expected"] = inventory_says.expected(roles, self._templar, variables)
        options = _checked(arguments)
        question = json.dumps({"options": {**options, "errors": []}, **agent_source.said()})
        found, wrong = _answer(self._ask(question))
        told = self._with_own_agent(arguments, wrong, variables) if found is None else found
        return {**result, **told}

    def _ask(self, question: str) -> dict[str, Any]:
        """On the standard input, as sudo notes a command line in the node's log; there is none where somebody
        needs a terminal."""
        if self._is_piped():
            done = self._low_level_execute_command(_command(), in_data=question.encode("ascii"))
        else:
            done = self._low_level_execute_command(_command(question))
        found: dict[str, Any] = done
        return found

    def _is_piped(self) -> bool:
        try:
            return bool(self._is_pipelining_enabled("new"))
        except AssertionError:  # mitogen's strategies want nobody to ask, and have an input of their own
            return True

    def _with_own_agent(
        self, arguments: dict[str, Any], wrong: str, variables: dict[str, Any]
    ) -> dict[str, Any]:
        """The module's answer, made with the agent that is sent along. wrong: with the one that is there."""
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        path = self._connection._shell.join_path(folder, "mlnode")
        self._transfer_data(path, agent_source.archive())
        self._fixup_perms2((folder, path), execute=False)
        # A name that somebody gives by mistake must not choose the code that root runs there.
        sent = {**arguments, "agent": {"path": path, "instead": wrong}}
        told: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=sent, task_vars=variables)
        return told


def _checked(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options as the module takes them. Raises AnsibleError."""
    checked = ArgumentSpecValidator(inventory_says.spec("node_drift")).validate(arguments)
    if checked.error_messages:
        raise AnsibleError(f"node_drift: {'; '.join(checked.error_messages)}")
    options: dict[str, Any] = checked.validated_parameters
    return options


def _command(question: str = "") -> str:
    asked = f"{AGENT} drift {shlex.quote(question)}" if question else f"{AGENT} drift"
    return f"if [ -e {AGENT} ]; then exec {asked}; else echo '{MARK}{{}}'; fi"


def _answer(done: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """What the agent has found, or None and what is wrong with it; nothing is where there is none, as what
    needs it at boot says so."""
    _greeting, _mark, text = done["stdout"].partition(MARK)
    try:
        told, _end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        said = done["stderr"].strip().splitlines() or ["it says nothing"]
        return None, f"{AGENT} does not answer (exit status {done['rc']}: {said[-1][:200]}): {ADVICE}"
    if told == {}:
        return None, ""
    if "answer" not in told:
        return None, f"{AGENT} is another than the one of this collection: {ADVICE}"
    return {name: value for name, value in told["answer"].items() if name in FIELDS}, ""
