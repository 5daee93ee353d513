# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module node_drift, and tells it what the inventory would have the roles declare on the node."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.mlnode.tuning.plugins.plugin_utils import inventory_says

MODULE = "mlnode.tuning.node_drift"

# Ansible imports this once and then forks for every host, so that what is read here is read for all of them.
inventory_says.warm()


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
                arguments["expected"] = inventory_says.expected(roles, self._templar, self._loader, variables)
        told = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        return {**result, **told}
