# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one end of every module that checks: its result, and whether that is a failure."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from ._mlnode.checks.model import FAIL_ON, Check, bad, summary
from ._mlnode.model.errors import MlnodeError, paragraphs, printable
from ._mlnode.model.record import NamedTuple

#: As many as fit on a screen with their advice; the result has all of them
NAMED = 8


class Checked(NamedTuple):
    """more: what the result has besides."""

    checks: Sequence[Check]
    more: Mapping[str, Any] = MappingProxyType({})


def fail_on(default: str) -> dict[str, dict[str, Any]]:
    """The option, as the fragment `fail_on` documents it."""
    return {"fail_on": {"type": "str", "choices": [*FAIL_ON], "default": default}}


def run(module: AnsibleModule, name: str, look: Callable[[AnsibleModule], Checked]) -> None:
    """Check, and end the module."""
    try:
        checks, more = look(module)
    except MlnodeError as error:
        module.fail_json(msg=paragraphs(f"{name}: {error}"))
        return
    fatal = FAIL_ON[module.params["fail_on"]]
    failing = [check for check in bad(checks) if check.verdict in fatal]
    result = {
        "changed": False,
        "checks": [check.document() for check in checks],
        "failures": [str(check) for check in bad(checks)],
        "summary": summary(checks),
        **more,
    }
    if failing:
        title = f"{name}: {len(failing)} of {len(checks)} checks are not as expected:"
        module.fail_json(msg=paragraphs("\n".join([title, *_named(failing)])), **result)
    for line in _named(bad(checks)) if fatal else ():
        module.warn(printable(line))
    module.exit_json(**result)


def _named(checks: Sequence[Check]) -> list[str]:
    lines = [str(check) for check in checks[:NAMED]]
    return lines if len(checks) <= NAMED else [*lines, f"and {len(checks) - NAMED} more"]
