# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of modules that an installed agent can answer. Without an agent, the module runs with its own files,
which Python compiles at each call."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

# Ansible imports this file once and then forks for each host: one read serves all hosts.
agent_source.warm()


class AgentOrModule(AgentAction):
    """Asks the agent, and runs the module if the agent gives no answer."""

    # Ansible's own way for a module, which the agent knows nothing of.
    _supports_async = True

    #: Name of the table of the module's answer, as of AgentAction.call()
    CALL = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        self._variables: dict[str, Any] = task_vars or {}
        try:
            answer = None if self._task.async_val else self.asked()
        except NoAnswerError as error:
            return {**result, "failed": True, "msg": f"{self.module}: {error}"}
        if answer is None:
            answer = self.by_module(self.CALL, task_vars)
        return {**result, **answer}

    @abstractmethod
    def asked(self) -> dict[str, Any] | None:
        """The agent's answer, or None where the module has to be run. Raises NoAnswerError."""
