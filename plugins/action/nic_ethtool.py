# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module nic_ethtool, and shows over a new connection that the node can be reached after it."""

from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import ConfirmedAction

MODULE = "mlnode.tuning.nic_ethtool"

#: As in the documentation of the module, where the task says nothing
CONFIRM_SECONDS = 60


class ActionModule(ConfirmedAction):
    """The name ansible-core looks for."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        seconds = int(self._task.args.get("confirm_seconds", CONFIRM_SECONDS))
        if not self._task.check_mode:
            # A node that cannot be reached at all is unreachable at once.
            self._low_level_execute_command(":", sudoable=False)
        answer = self.confirmed(lambda: self._execute(MODULE, self._task.args), task_vars or {}, seconds)
        return {**result, **answer}
