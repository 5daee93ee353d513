# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand a whole declaration to the agent of a node, in one remote call."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants, context
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import (
    agent_source,
    areas,
    asked,
    folded,
    options_of,
    profile,
    rollout,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils import variables as inventory
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import LEASE, NoAnswerError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.area_view import AreaView

from ..module_utils._mlnode.knobs.nic import schema as nic_schema

# Ansible imports this file once and then forks for each host: one read serves all hosts.
agent_source.warm()
inventory.warm()
_SPEC = {**options_of.module("declare"), **{area: {"type": "dict"} for area in areas.AREAS}}
profile.warm()


#: The callback that ends a run with one report
_REPORT = "mlnode.tuning.fleet_report"


class ActionModule(AreaView):
    """The name ansible-core looks for. The modules of one area have it, too."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        module = self.module
        area = areas.VIEWS.get(module)
        # A change that is to be confirmed has to be made by the run that confirms it.
        self._supports_async = area is not None and module != "nic_ethtool"
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        variables = task_vars or {}
        if area is not None:
            try:
                return {**result, **self.view(module, area, variables)}
            except NoAnswerError as error:
                return {**result, "failed": True, "msg": f"{module}: {error}"}
        checked = ArgumentSpecValidator(_SPEC).validate({**self._task.args, **self._of_role(variables)})
        given = checked.validated_parameters
        wrong = self._wrong_variables(variables) or [f"declare: {fault}" for fault in checked.error_messages]
        wrong = wrong or _wrong(given) or self._misspelt_tags(variables)
        if wrong:
            return {**result, "failed": True, "msg": "; ".join(wrong)}
        result["layers"] = given["layers"]
        selected = areas.selected(
            variables.get("ansible_run_tags"), variables.get("ansible_skip_tags"), self._task.tags
        )
        if not selected:
            return {**result, "skipped": True, "skip_reason": "no area has one of these tags"}
        judged_later, state = given.pop("judged_later"), given.pop("rollout")
        render = given.pop("render")
        options = self._options(given, selected, variables)
        if render:
            return {**result, "changed": False, "layers": [], "rendered": options}
        try:
            if state and not options["check"]:
                answer = self._rolled_out(options, pathlib.Path(state), str(variables["inventory_hostname"]))
            else:
                answer = self._answer(options)
        except (NoAnswerError, rollout.RolloutError) as error:
            return {**result, "failed": True, "msg": f"declare: {error}"}
        return {**result, **_judged(_shown(answer, self._display.verbosity), judged_later)}

    def _rolled_out(self, options: dict[str, Any], state: pathlib.Path, host: str) -> dict[str, Any]:
        """The answer of a node, and that it is done in the state of a rollout; or nothing but that it is done
        already. Raises RolloutError before the node is asked, and NoAnswerError."""
        name, wanted = options["name"], rollout.digest(options)
        if rollout.is_done(state, host, name, wanted):
            return {"skipped": True, "skip_reason": f"{state} has this node as done with this declaration"}
        answer = self._answer(options)
        if not (answer.get("failed") or answer.get("not_in_force") or answer.get("reboot_required")):
            rollout.add(state, host, name, wanted)
        return answer

    def _answer(self, options: dict[str, Any]) -> dict[str, Any]:
        answer = self._declare(options)
        if answer.pop("risks", None):
            again = {**options, "risky": True}
            self._python = options["interpreter"]
            answer = self.confirmed(lambda: self._declare(again), options["confirm_seconds"])
        return answer

    def _of_role(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Options from variables of the role. A task of the role would have to omit them, and module_defaults
        would not apply to an omitted option."""
        prefix = self._task.args.get("variables") or ""
        names = {name: f"{prefix}_{name}" for name in ("layers", "on_unsupported") if prefix}
        return {
            option: self._templar.template(variables[name])
            for option, name in names.items()
            if name in variables
        }

    def _wrong_variables(self, variables: Mapping[str, Any]) -> list[str]:
        role = self._task._role
        template = self._templar.template
        parents = variables.get("ansible_parent_role_names") or ()
        return inventory.mistaken(role, variables, template, parents) or inventory.refused(
            role, variables, template
        )

    def _misspelt_tags(self, variables: Mapping[str, Any]) -> list[str]:
        run, skip = (variables.get(name) or () for name in ("ansible_run_tags", "ansible_skip_tags"))
        return asked.misspelt_tags(
            run, skip, context.CLIARGS.get("args") or (), self._loader, self._task.tags
        )

    def _options(
        self, given: Mapping[str, Any], selected: Sequence[str], variables: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Options of the call to the agent."""
        resolved = (*areas.AREAS, "profile", "variables", "without")
        # A given area is declared, even if it is null.
        spec = {name: given[name] for name in resolved if name not in areas.AREAS or name in self._task.args}
        declared = profile.declared(spec, variables, self._templar.template)
        return {
            **{name: value for name, value in given.items() if name not in resolved},
            "fabric_type": given["fabric_type"] or "",
            **declared._asdict(),
            "selected": selected,
            "check": bool(self._task.check_mode),
            "diff": bool(self._task.diff),
            # Asked for once it is known that there is something to confirm, and that the node is reached.
            "risky": False,
            "install": True,
            # The lease of a measurement, one of whose states this is
            **({"lease": variables[LEASE]} if LEASE in variables else {}),
        }

    def _declare(self, options: dict[str, Any]) -> dict[str, Any]:
        return self.call("declare", options, options["interpreter"], changes=not options["check"])


def _wrong(given: Mapping[str, Any]) -> list[str]:
    if not given["layers"]:
        return ["layers: name runtime, boot or both; none would do nothing"]
    wrong = nic_schema.wrong_seconds(given["confirm_seconds"])
    return [wrong] if wrong else []


def _shown(answer: dict[str, Any], verbosity: int) -> dict[str, Any]:
    """The answer for readers: the agent's files share one line in the diff. If enabled, the fleet report
    lists unsupported settings instead, with all hosts that share a cause."""
    answer = {**answer}
    if answer.get("diff") and verbosity < folded.WHOLE:
        answer["diff"] = folded.folded(answer["diff"])
    unsupported = answer.pop("unsupported", None) or []
    if not unsupported or _REPORT not in constants.CALLBACKS_ENABLED:
        return answer
    others = [text for text in answer["warnings"] if text not in unsupported]
    return {**answer, "warnings": others, "unsupported": unsupported}


def _judged(answer: dict[str, Any], later: bool) -> dict[str, Any]:
    """The answer; failed if something declared is not in force after the run, unless that is judged later."""
    missed = answer.get("not_in_force") or []
    if answer.get("failed") or not missed or later:
        return answer
    return {**answer, "failed": True, "msg": "\n".join(["not in force although all was applied:", *missed])}
