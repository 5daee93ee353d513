# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the nodes of a play, once for all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

# The actions of calls, imported before Ansible forks for each of them: a campaign of 60 nodes takes 8 s of
# CPU, and 14 s without.
from ansible_collections.mlnode.tuning.plugins.action import agent, declare, node_preflight  # noqa: F401
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import idle_options, run
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.campaign import Campaign
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.effect import Effect
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nccl import Nccl
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import Fleet, MeasureError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.screening import Screening

from ..module_utils._mlnode.model.errors import paragraphs

#: Kind → its class, and the beginnings of its variables
_KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "campaign": (Campaign, ("campaign_",)),
    "nccl": (Nccl, ("nccl_",)),
    "effect": (Effect, ("effect_", "campaign_")),
}


class ActionModule(ActionBase):
    """The name ansible-core looks for."""

    BYPASS_HOST_LOOP = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        try:
            measured = self._measured(variables)
            return {**result, "changed": False, **measured, "msg": paragraphs(measured.get("msg", ""))}
        except MeasureError as error:
            return {**result, "failed": True, "msg": paragraphs(str(error))}

    def _measured(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        given = self._given(variables)
        fleet = Fleet(self._task, variables)
        kind = Screening if given.get("effect_by") else _KINDS[given["kind"]][0]
        return run.run(kind(fleet, given, time.strftime("%Y%m%d-%H%M%S")), fleet)

    def _given(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the task, else the variables of their names. Raises MeasureError."""
        spec = options_of.module("measure")
        prefixes = _KINDS.get(str(self._task.args.get("kind")), (None, ()))[1]
        known = {name: about for name, about in spec.items() if name == "kind" or name.startswith(prefixes)}
        of_variables = {name: self._templar.template(variables[name]) for name in known if name in variables}
        checked = ArgumentSpecValidator(known).validate({**of_variables, **self._task.args})
        if checked.error_messages:
            raise MeasureError("; ".join(checked.error_messages))
        given: dict[str, Any] = checked.validated_parameters
        idle = idle_options.refused(given, known, {*self._task.args, *load_extra_vars(self._loader)})
        if idle:
            raise MeasureError("; ".join(idle))
        here = os.environ.get("PWD", ".")
        folders = {name: os.path.join(here, given[name]) for name in given if name.endswith("_results")}
        return {**given, **folders}
