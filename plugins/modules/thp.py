#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare transparent huge pages and khugepaged."""

from __future__ import annotations

DOCUMENTATION = r"""
module: thp
short_description: Declare transparent huge pages and khugepaged
version_added: 0.1.0
description:
  - Sets transparent huge pages, their use per size, and khugepaged, in the running kernel and for the next boot.
  - Words are checked against the kernel's own list before anything is written.
  - A different C(transparent_hugepage=) on the kernel command line is reported as V(overridden), because it applies from
    the boot until the agent runs.
extends_documentation_fragment:
  - mlnode.tuning.area.thp
  - mlnode.tuning.declaration.by_agent
notes:
  - A change of O(enabled) makes the kernel recompute C(vm.min_free_kbytes), so run this module before
    M(mlnode.tuning.sysctl_ml). A revert puts back both.
seealso:
  - module: mlnode.tuning.sysctl_ml
"""

EXAMPLES = r"""
- name: Enable huge pages for programs that ask for them
  mlnode.tuning.thp:
    name: site
    enabled: madvise
    defrag: madvise

- name: Reduce background work on a serving node, and enable 64 kB folios if supported
  mlnode.tuning.thp:
    name: site
    enabled: madvise
    defrag: defer+madvise
    khugepaged:
      scan_sleep_millisecs: 60000
    sizes:
      64kB:
        enabled: madvise
"""

RETURN = r"""
settings:
  description: Every declared setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample: [{key: thp.enabled, want: madvise, runtime: always, boot: always, status: drifted}]
reboot_required:
  description: Whether a setting takes effect only after a reboot.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.thp.kind import kind as thp


def main() -> None:
    tuning_module.run(thp)


if __name__ == "__main__":
    main()
