# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the agent to compare a node with its declarations, and these with the inventory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils import (
    agent_source,
    areas,
    options_of,
    profile,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils import variables as inventory
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

from ..module_utils._mlnode.model import strict_json

#: Answer of a node without agent and declarations, if none are expected
NOTHING: dict[str, Any] = {
    "changed": False,
    "compliant": True,
    "verdict": "nothing is declared",
    **{name: [] for name in ("drift", "failures", "ignored", "exceptions", "errors", "settings")},
    "unsupported_overrides": [],
    **{name: {} for name in ("digests", "summary")},
}

#: Fields of an exception
_EXCEPTION = ("key", "reason", "until")

# Ansible imports this file once and then forks for each host: one read serves all hosts.
agent_source.warm()
options_of.module("node_drift")
profile.warm()
inventory.warm()


class ActionModule(AgentAction):
    """The name ansible-core looks for."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        checked = ArgumentSpecValidator(options_of.module("node_drift")).validate(dict(self._task.args))
        declarations = checked.validated_parameters["declarations"]
        wrong = checked.error_messages or _wrong(declarations, task_vars or {}, self._templar.template)
        if wrong:
            return {**result, "failed": True, "msg": f"node_drift: {'; '.join(wrong)}"}
        chosen = self._areas(task_vars or {})
        if not chosen:
            return {**result, "skipped": True, "skip_reason": "no area has one of these tags"}
        options = dict(checked.validated_parameters)
        if chosen != [*areas.AREAS]:
            options["selected"] = chosen
        interpreter = options.pop("interpreter")
        options["host"] = str((task_vars or {}).get("inventory_hostname", ""))
        expected = {
            str(name): profile.declared(declared or {}, task_vars or {}, self._templar.template)
            for name, declared in declarations.items()
        }
        options["declarations"] = {name: declared.areas for name, declared in expected.items()}
        of_bare = NOTHING if expected and not any(declared.areas for declared in expected.values()) else None
        try:
            answer = self.call("drift", options, interpreter, of_bare=of_bare)
        except NoAnswerError as error:
            return {**result, "failed": True, "msg": f"node_drift: {error}"}
        return {**result, **answer, **_asked_for(answer, options["ignore"])}

    def _areas(self, variables: Mapping[str, Any]) -> list[str]:
        """Those that tags choose for a task with the tag `always`; any other was chosen by Ansible."""
        run, skip = (variables.get(name) for name in ("ansible_run_tags", "ansible_skip_tags"))
        return areas.selected(run if "always" in self._task.tags else None, skip, self._task.tags)


def _asked_for(answer: Mapping[str, Any], ignore: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer with the exceptions of the fleet only. A node may report the state of each, but cannot add
    exceptions."""
    if not answer.get("exceptions"):
        return {}
    asked = [tuple(str(exception[name]) for name in _EXCEPTION) for exception in ignore]
    told = answer["exceptions"]
    return {
        "exceptions": [
            exception for exception in told if tuple(exception[name] for name in _EXCEPTION) in asked
        ]
    }


def _wrong(
    declarations: Mapping[str, Any], variables: Mapping[str, Any], template: Callable[[Any], Any]
) -> list[str]:
    wrong = [
        f"declarations.{name}: must be a dictionary of areas, got {strict_json.shown(declared)}"
        for name, declared in declarations.items()
        if not isinstance(declared or {}, Mapping)
    ]
    prefixes = (
        () if wrong else {str((declared or {}).get("variables") or "") for declared in declarations.values()}
    )
    return wrong or [
        line
        for prefix in sorted(prefixes)
        for line in inventory.misnamed(prefix, variables, template, inventory.around(prefix))
    ]
