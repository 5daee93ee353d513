# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that are about a node as a whole, done by the agent: Python compiles what a module brings along
at each call, which is all of the library here."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source, options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
agent_source.warm()


class ActionModule(AgentAction):
    """The name ansible-core looks for. meta/runtime.yml has it run for node_revert, too."""

    # Ansible's own way for a module, which the agent knows nothing of.
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        checked = ArgumentSpecValidator(options_of.module(self.module)).validate(dict(self._task.args))
        if checked.error_messages:
            return {**result, "failed": True, "msg": f"{self.module}: {'; '.join(checked.error_messages)}"}
        try:
            answer = None if self._task.async_val else self._asked(checked.validated_parameters)
        except NoAnswerError as error:
            return {**result, "failed": True, "msg": f"{self.module}: {error}"}
        if answer is None:
            answer = self._execute_module(task_vars=task_vars, wrap_async=bool(self._task.async_val))
        return {**result, **answer}

    def _asked(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """The agent's answer, or None where the module has to be run: a revert, which knows of no interpreter
        for an agent that is sent, on a node that has none of these sources."""
        check = bool(self._task.check_mode)
        options = {**given, "check": check, "diff": bool(self._task.diff)}
        if self.module == "node_revert":
            return self.ask("revert", options, changes=not check)
        return self.call("install", options, given["interpreter"], changes=not check)
