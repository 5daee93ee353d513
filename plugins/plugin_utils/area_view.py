# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of modules that declare one area: ask the agent if it is installed, else run the module itself."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import NoAnswerError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import ConfirmedAction

from ..module_utils._mlnode.agent import registry
from ..module_utils._mlnode.agent.archive import INTERPRETER
from ..module_utils._mlnode.knobs.nic import schema as nic_schema
from ..module_utils._mlnode.model import argument_spec

#: Module → its options that are not declared
_MORE: dict[str, dict[str, dict[str, Any]]] = {"nic_ethtool": nic_schema.CONFIRM}


class AreaView(ConfirmedAction):
    """An action in the place of such a module, with its options and its result."""

    def view(self, module: str, area: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The result of the module. An agent is neither sent nor installed for it."""
        if self._task.async_val:
            return self._module(variables)
        more = _MORE.get(module, {})
        checked = ArgumentSpecValidator({**argument_spec.of_module(registry.options(area)), **more}).validate(
            dict(self._task.args)
        )
        given = checked.validated_parameters
        seconds = given.get("confirm_seconds", 0)
        if checked.error_messages or not given["layers"] or nic_schema.wrong_seconds(seconds):
            return self._module(variables)  # it reports what is wrong
        options = {
            **{name: given[name] for name in argument_spec.DECLARATION},
            "areas": {area: {name: given[name] for name in registry.options(area)}},
            "profile": {},
            "selected": [area],
            "confirm_seconds": seconds,
            "check": bool(self._task.check_mode),
            "diff": bool(self._task.diff),
            # Asked for once it is known that there is something to confirm, and that the node is reached.
            "risky": False,
            "install": False,
            "leave": False,
            "fabric_type": "",
            # The settings list anything that is not in effect.
            "fail_at": "high",
            "ignore": [],
            "interpreter": INTERPRETER,
        }
        answer = self._declared(options)
        if answer is None:
            return self._by_module(seconds, variables) if more else self._module(variables)
        if answer.get("risks"):
            again = {**options, "risky": True}
            answer = self.confirmed(lambda: self._again(again), seconds)
        return _result(answer, area, bool(more))

    def _declared(self, options: dict[str, Any]) -> dict[str, Any] | None:
        return self.ask("declare", options, changes=not options["check"])

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        answer = self._declared(options)
        if answer is None:
            raise NoAnswerError("the agent was replaced or removed while it was asked: run it again")
        return answer

    def _by_module(self, seconds: int, variables: dict[str, Any]) -> dict[str, Any]:
        """A change that may have to be confirmed."""
        return self.confirmed(lambda: self._module(variables), seconds)

    def _module(self, variables: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.by_module("view", variables)
        finally:
            # In the form of a shebang. It is new enough for the module, which may be more than python3 is.
            self._python = (self._used_interpreter or "").lstrip("#!") or INTERPRETER


def _result(answer: dict[str, Any], area: str, confirms: bool) -> dict[str, Any]:
    """As the module for this area alone would return it."""
    outer = ("changed", "failed", "msg", "diff", "warnings", "confirmed", "undone")
    return {
        **answer.get("areas", {}).get(area, {}),
        **{name: answer[name] for name in outer if name in answer},
        **({"confirm": answer.get("confirm", {})} if confirms else {}),
    }
