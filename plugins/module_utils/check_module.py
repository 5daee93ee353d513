# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything a module that looks at a node has in common with the others."""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from ansible.module_utils.basic import AnsibleModule

from ._mlnode.host.host import Host, Mounts
from ._mlnode.model import argument_spec
from ._mlnode.model.errors import MlnodeError, paragraphs
from ._mlnode.model.schema import Table


class Look(Protocol):
    """A file of the library that such a module runs, and the agent in its place."""

    OPTIONS: Table
    MOUNTS: Mounts

    def answer(self, host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
        """The module's result. given: each option, None if omitted. dry: write nothing. Raises
        MlnodeError."""


def run(name: str, look: Look) -> None:
    """Be the module of that name."""
    module = AnsibleModule(argument_spec=argument_spec.of_area(look.OPTIONS), supports_check_mode=True)
    try:
        result = look.answer(Host(mounts=look.MOUNTS), module.params, module.check_mode)
    except MlnodeError as error:
        module.fail_json(msg=paragraphs(f"{name}: {error}"))
        return
    finish(module, result)


def finish(module: AnsibleModule, result: dict[str, Any]) -> None:
    """End with the answer that an agent would give in the place of the module."""
    for line in result.pop("warnings", ()):
        module.warn(line)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
