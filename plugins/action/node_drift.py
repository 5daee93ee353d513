# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module node_drift, and tells it what the inventory would have the roles declare on the node.

The module takes the library from the agent on the node. Where that is not this collection's, it is sent one.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source, inventory_says

MODULE = "mlnode.tuning.node_drift"

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
        # A name that somebody gives for tests or by mistake must not choose the code that root runs there.
        arguments["agent"] = agent_source.said()
        told = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        if "no_agent" in told:
            told = self._with_own_agent(arguments, told, variables)
        return {**result, **told}

    def _with_own_agent(
        self, arguments: dict[str, Any], told: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """The module's answer with the library that is sent to it. That none is there is not wrong in itself:
        what needs it at boot says so. told: why the one there will not do."""
        wrong = "" if told["absent"] else f"{told['no_agent']}: site.yml installs it anew"
        folder = self._make_tmp_path()
        path = self._connection._shell.join_path(folder, "mlnode")
        self._transfer_data(path, agent_source.archive())
        self._fixup_perms2((folder, path), execute=False)
        sent = {**arguments, "agent": {**arguments["agent"], "path": path, "instead": wrong}}
        answer: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args=sent, task_vars=variables
        )
        if "no_agent" in answer:
            raise AnsibleError(f"node_drift: the agent that was sent does not work: {answer['no_agent']}")
        return answer
