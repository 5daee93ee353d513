# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the agent on the node what differs there from its declarations, and from what the inventory says."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source, options_of, profile
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

#: What an answer may have: a node must not choose what else the controller takes a result for
FIELDS = frozenset(
    (
        *("changed", "failed", "msg", "compliant", "verdict", "drift", "failures", "ignored", "exceptions"),
        *("errors", "digests", "summary", "settings"),
    )
)

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
agent_source.warm()
options_of.module("node_drift")
profile.warm()


class ActionModule(AgentAction):
    """The name ansible-core looks for."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp, task_vars
        checked = ArgumentSpecValidator(options_of.module("node_drift")).validate(dict(self._task.args))
        if checked.error_messages:
            return {**result, "failed": True, "msg": f"node_drift: {'; '.join(checked.error_messages)}"}
        options = dict(checked.validated_parameters)
        interpreter = options.pop("interpreter")
        options["declarations"] = {
            str(name): profile.areas(
                str((declared or {}).get("profile") or ""),
                {area: spec for area, spec in (declared or {}).items() if area != "profile"},
            )
            for name, declared in options["declarations"].items()
        }
        try:
            answer = self.call("drift", options, interpreter)
        except NoAnswerError as error:
            return {**result, "failed": True, "msg": f"node_drift: {error}"}
        return {**result, **{name: value for name, value in answer.items() if name in FIELDS}}
