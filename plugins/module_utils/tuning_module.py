# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only bridge from the library to AnsibleModule: arguments in, results and diffs out."""

from __future__ import annotations

import errno
import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ._mlnode.agent import declare as whole
from ._mlnode.engine.kind import AGENT_FAULT, AGENT_IMAGE_FAULT, AGENT_PENDING, NO_AGENT, Kind
from ._mlnode.host import places, trust
from ._mlnode.host.host import Host
from ._mlnode.host.places import AGENT_COMMAND
from ._mlnode.model import argument_spec
from ._mlnode.model.errors import HostError, MlnodeError
from ._mlnode.model.setting import Layer


def run(kind: Kind) -> None:
    """All of a module of one area that has the options of its kind and no others."""
    declare(
        AnsibleModule(argument_spec=argument_spec.of_module(kind.OPTIONS), supports_check_mode=True), kind
    )


def declare(module: AnsibleModule, kind: Kind, confirm_seconds: int | None = None) -> None:
    """Check or apply one area of one declaration, and end the module. confirm_seconds: as in engine, None of
    an area that has nothing to confirm."""
    if not module.params["layers"]:
        module.fail_json(msg="layers: name runtime, boot or both; none would do nothing")
    order = whole.Order(
        module.params["name"],
        {kind.KIND: kind},
        {kind.KIND: {name: module.params[name] for name in kind.OPTIONS}},
        (kind.KIND,),
        layers=tuple(layer for layer in Layer if layer.value in module.params["layers"]),
        on_unsupported=module.params["on_unsupported"],
        check=module.check_mode,
        confirm_seconds=confirm_seconds or 0,
        diff=module._diff,
    )
    agent = Agent()
    outcome = whole.run(Host(mounts={**kind.MOUNTS, places.AGENT: lambda: agent}), order)
    for warning in outcome.warnings:
        module.warn(warning)
    area = outcome.areas.get(kind.KIND, {})
    more = {} if confirm_seconds is None else {"confirm": outcome.confirm}
    result = {**area, "changed": outcome.changed, "diff": outcome.diff, **more}
    if outcome.failed:
        module.fail_json(msg=outcome.msg, **result)
    module.exit_json(**result)


class Agent:
    """Driver at places.AGENT: asks the installed agent once, because its files are not shipped. A node
    without the agent has nothing to ask."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}

    def read(self, host: Host, path: str) -> bytes:
        if not host.exists(AGENT_COMMAND):
            return _without_agent(host, path).encode("utf-8")
        self._answers = self._answers or _asked(host)
        answer = self._answers.get(path, {})
        if "text" not in answer:
            error = str(answer.get("error", "it is another version"))
            raise HostError("ask the agent for", path, None, error)
        return str(answer["text"]).encode("utf-8", "surrogateescape")

    def write(self, _host: Host, path: str, value: str) -> None:
        raise HostError(f"write {value!r} to", path, errno.EROFS)

    def names(self, _host: Host, _path: str) -> list[str]:
        return []

    def exists(self, host: Host, _path: str) -> bool:
        return host.exists(AGENT_COMMAND)

    def blocked(self, _host: Host, _path: str) -> str:
        return ""


def _asked(host: Host) -> dict[str, Any]:
    """Raises HostError."""
    try:
        trust.require(host, AGENT_COMMAND)
        answers = json.loads(host.must_run([AGENT_COMMAND, "self"], "ask the agent:"))
    except HostError:
        raise
    except (MlnodeError, ValueError) as error:
        raise HostError("ask the agent:", AGENT_COMMAND, None, str(error)) from error
    documents: dict[str, Any] = answers if isinstance(answers, dict) else {}
    return {path: answer for path, answer in documents.items() if isinstance(answer, dict)}


def _without_agent(host: Host, path: str) -> str:
    if path in (AGENT_FAULT, AGENT_IMAGE_FAULT):
        return NO_AGENT
    if path == AGENT_PENDING and host.exists(places.PENDING):
        return (
            f"a change of NICs waits to be confirmed ({places.PENDING}), and the agent that would undo it is "
            "gone: install the agent again, then `mlnode confirm` or `mlnode undo`"
        )
    return ""
