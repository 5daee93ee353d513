# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, attributes and notes shared by modules. The fragments of areas include all of them but BY_AGENT."""

from __future__ import annotations


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: mlnode.tuning.declaration)."""

    DOCUMENTATION = r"""
options:
  name:
    description:
      - The declaration this call belongs to. It is kept on the node as C(/etc/mlnode/declared.d/NAME.json).
      - Several names may declare different settings of one node. If two declare different values for one setting,
        the call fails and lists both.
    type: str
    default: default
  layers:
    description:
      - V(runtime) is the running kernel, V(boot) is the next boot.
      - V(boot) alone is for image builds. It reads no hardware of the build host and changes none of its
        values; automatic values are computed by the agent on the machine that boots the image.
      - V(runtime) alone changes the running kernel and keeps nothing.
    type: list
    elements: str
    choices: [runtime, boot]
    default: [runtime, boot]
  on_unsupported:
    description:
      - Action if this kernel lacks the setting or makes it read-only.
      - V(fail) stops before anything is changed, V(warn) warns, V(ignore) shows it in RV(settings) only.
    type: str
    choices: [fail, warn, ignore]
    default: warn
notes:
  - If the agent of this collection is installed on the node, it answers in one remote call; otherwise the module
    runs with the files of its area. The result is the same.
"""

    BY_AGENT = r"""
options: {}
notes:
  - No file of the system carries these values. The agent sets them again at boot, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
seealso:
  - module: mlnode.tuning.agent
"""

    ATTRIBUTES = r"""
author:
  - mlnode.tuning contributors (!UNKNOWN)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns the changes, or the required changes in C(check_mode), when in diff mode.
    support: full
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second run shows no change.
    support: full
  platform:
    description: Target OS/families that can be operated against.
    platforms: Linux
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    support: full
"""

    GROUP = r"""
attributes:
  action_group:
    description:
      - Use C(group/mlnode.tuning.declaring) in C(module_defaults) to set the defaults of all modules that declare, which
        share C(name), C(layers) and C(on_unsupported).
    support: full
    membership:
      - mlnode.tuning.declaring
"""
