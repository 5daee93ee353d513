# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only bridge from the library to AnsibleModule: arguments in, results and diffs out."""

from __future__ import annotations

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from .mlnode import declare as whole
from .mlnode import schema
from .mlnode.confirm_store import FOR_GOOD, Confirmation
from .mlnode.errors import paragraphs, printable
from .mlnode.host import Host
from .mlnode.kind import Kind
from .mlnode.setting import Layer


def declare(
    module: AnsibleModule, kind: Kind, confirm_seconds: int = 0, confirmation: Confirmation = FOR_GOOD
) -> NoReturn:
    """Check or apply one area of one declaration, and end the module. confirm_seconds, confirmation: as in
    engine."""
    if not module.params["layers"]:
        fail(module, "layers: name runtime, boot or both; none would do nothing")
    order = whole.Order(
        module.params["name"],
        {kind.KIND: kind},
        {kind.KIND: {name: module.params[name] for name in schema.of(kind.KIND)}},
        (kind.KIND,),
        layers=tuple(layer for layer in Layer if layer.value in module.params["layers"]),
        on_unsupported=module.params["on_unsupported"],
        check=module.check_mode,
        confirm_seconds=confirm_seconds,
        confirmation=confirmation,
        diff=module._diff,
    )
    found = whole.run(Host(mounts=kind.MOUNTS), order)
    for words in found.warnings:
        module.warn(words)
    area = found.areas.get(kind.KIND, {})
    more = {} if confirmation is FOR_GOOD else {"confirm": found.confirm}
    if found.failed:
        module.fail_json(msg=found.msg, **{**area, "changed": found.changed, "diff": found.diff, **more})
    leave(module, **{**area, "changed": found.changed, "diff": found.diff, **more})


def warn(module: AnsibleModule, words: str) -> None:
    """Ansible prints warnings as they are, on the terminal of the controller."""
    module.warn(printable(words))


def fail(module: AnsibleModule, message: str, **result: Any) -> NoReturn:
    """fail_json() as a type checker understands it. The message is printed as it is, as warnings are."""
    module.fail_json(msg=paragraphs(message), **result)
    raise SystemExit(1)  # fail_json() has left already


def leave(module: AnsibleModule, **result: Any) -> NoReturn:
    """exit_json() as a type checker understands it."""
    module.exit_json(**result)
    raise SystemExit(0)  # exit_json() has left already
