# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common option `fail_on` of all modules that check, and their attributes."""

from __future__ import annotations

from ansible_collections.mlnode.tuning.plugins.doc_fragments.declaration import (
    ModuleDocFragment as Declaration,
)
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import FAIL_ON

_OPTION = r"""
options:
  fail_on:
    description:
      - The verdicts in RV(checks) that fail this module. Other deviations are warnings.
      - V(fail) is V(fail) alone.
      - V(unknown) is V(fail) and V(unknown). A value that cannot be read never passes.
      - V(warn) is every deviation, V(fail), V(unknown), V(pending) and V(warn). V(pending) values are correct in the
        files, and take effect with the restart or reboot in their advice.
      - V(never) never fails, gives no warnings, and leaves the decision to the reader of RV(checks).
    type: str
    choices: [{choices}]
    default: {default}
{attributes}
  action_group:
    description:
      - Use C(group/mlnode.tuning.checks) in C(module_defaults) to set the defaults of all modules that check, which share
        C(fail_on).
    support: full
    membership:
      - mlnode.tuning.checks
"""


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: mlnode.tuning.fail_on.unknown), with the default V(unknown)."""


for _default in FAIL_ON:
    setattr(
        ModuleDocFragment,
        _default.upper(),
        _OPTION.format(
            choices=", ".join(FAIL_ON), default=_default, attributes=Declaration.ATTRIBUTES.strip()
        ),
    )
