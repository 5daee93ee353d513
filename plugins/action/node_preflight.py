# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that looks at a node: asked of the agent where it is there, else run with its own files."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source, options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

#: In no module's own documentation, but in a fragment of it; one that has not this option refuses it
_FAIL_ON = {"fail_on": {"type": "str"}}

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
agent_source.warm()


class ActionModule(AgentAction):
    """The name ansible-core looks for. meta/runtime.yml has it run for the other modules that look, too."""

    # Ansible's own way for a module, which the agent knows nothing of.
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        try:
            answer = None if self._task.async_val else self._asked()
        except NoAnswerError as error:
            return {**result, "failed": True, "msg": f"{self.module}: {error}"}
        if answer is None:
            answer = self._execute_module(task_vars=task_vars, wrap_async=bool(self._task.async_val))
        return {**result, **answer}

    def _asked(self) -> dict[str, Any] | None:
        """The agent's answer, or None where the module has to be run. An agent is neither sent nor installed
        for it."""
        spec = {**options_of.module(self.module), **_FAIL_ON}
        checked = ArgumentSpecValidator(spec).validate(dict(self._task.args))
        if checked.error_messages:
            return None  # it reports what is wrong
        given = {name: value for name, value in checked.validated_parameters.items() if value is not None}
        check = bool(self._task.check_mode)
        # What was begun may go on, and a second start would be refused.
        begins = given.get("state") == "started" and not check
        return self.ask("look", {"module": self.module, "given": given, "check": check}, changes=begins)
