# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that are about a node as a whole, done by the agent."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import LEASE, NoAnswerError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_or_module import AgentOrModule


class ActionModule(AgentOrModule):
    """The name ansible-core looks for. node_revert has it, too."""

    # The other one is always asked of an agent.
    CALL = "revert"

    def asked(self) -> dict[str, Any] | None:
        """Answer of the agent. None for a revert on a node without an agent of these sources: the module has
        no option for the Python of a sent agent."""
        checked = ArgumentSpecValidator(options_of.module(self.module)).validate(dict(self._task.args))
        if checked.error_messages:
            raise NoAnswerError("; ".join(checked.error_messages))
        given, check = checked.validated_parameters, bool(self._task.check_mode)
        options = {**given, "check": check, "diff": bool(self._task.diff)}
        if LEASE in self._variables:  # for which an agent is needed
            return self.call(self.CALL, {**options, "lease": self._variables[LEASE]}, changes=not check)
        if self.module == "node_revert":
            return self.ask(self.CALL, options, changes=not check)
        return self.call("install", options, given["interpreter"], changes=not check)
