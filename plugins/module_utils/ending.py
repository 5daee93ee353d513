# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends: with one document, whose words a terminal cannot obey."""

from __future__ import annotations

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ._mlnode.model.errors import paragraphs, printable


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
