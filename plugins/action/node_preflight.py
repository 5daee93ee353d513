# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of modules that inspect a node: ask the agent if it is installed, else run the module itself."""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import node_clock, options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_or_module import AgentOrModule

#: Documented in a fragment, not by the modules themselves. Modules without this option refuse it.
_FAIL_ON = {"fail_on": {"type": "str"}}


class ActionModule(AgentOrModule):
    """The name ansible-core looks for. The other modules that look have it, too."""

    CALL = "look"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self._asked_at = time.time()
        answer: dict[str, Any] = super().run(tmp, task_vars)
        fail_on = str(self._task.args.get("fail_on", "unknown"))
        return node_clock.compared(self.module, answer, fail_on, self._asked_at, time.time())

    def by_module(self, name: str, variables: dict[str, Any] | None) -> dict[str, Any]:
        # The time for an agent that has not answered does not count.
        self._asked_at = time.time()
        answer: dict[str, Any] = super().by_module(name, variables)
        return answer

    def asked(self) -> dict[str, Any] | None:
        """The agent's answer, or None where the module has to be run. An agent is neither sent nor installed
        for it."""
        spec = {**options_of.module(self.module), **_FAIL_ON}
        checked = ArgumentSpecValidator(spec).validate(dict(self._task.args))
        if checked.error_messages:
            return None  # it reports what is wrong
        given = {name: value for name, value in checked.validated_parameters.items() if value is not None}
        check = bool(self._task.check_mode)
        # A started campaign may go on, and a second start would be refused.
        begins = given.get("state") == "started" and not check
        return self.ask(self.CALL, {"module": self.module, "given": given, "check": check}, changes=begins)
