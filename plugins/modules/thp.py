#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare transparent huge pages and khugepaged."""

from __future__ import annotations

DOCUMENTATION = r"""
module: thp
short_description: Declare transparent huge pages and khugepaged
version_added: 0.1.0
description:
  - Sets transparent huge pages, their use per size, and khugepaged, in the running kernel and for the next boot.
  - Words are checked against the list the kernel itself offers, before anything is written.
  - A C(transparent_hugepage=) on the kernel command line that says something else is reported as
    V(overridden), because it rules the boot until the agent runs.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  enabled:
    description:
      - When anonymous memory gets huge pages. V(always) lets any process stall in compaction; V(madvise) gives
        them to programs that ask.
      - One of the words in C(/sys/kernel/mm/transparent_hugepage/enabled). Unset leaves it untouched.
    type: str
  defrag:
    description: How hard a page fault tries to get a huge page, such as V(madvise) or V(defer+madvise).
    type: str
  shmem_enabled:
    description: Huge pages for shared memory, such as V(advise).
    type: str
  use_zero_page:
    description: Whether a read fault maps one shared zero page, V(0) or V(1).
    type: int
  khugepaged:
    description: The background daemon that collects pages into huge pages. It runs under V(madvise) too.
    type: dict
    suboptions:
      defrag:
        description: Whether it may compact memory, V(0) or V(1).
        type: int
      scan_sleep_millisecs:
        description: Pause between two scans, in milliseconds.
        type: int
      alloc_sleep_millisecs:
        description: Pause after a failed allocation, in milliseconds.
        type: int
      pages_to_scan:
        description: Pages per scan.
        type: int
      max_ptes_none:
        description: Unused small pages that a huge page may be made of.
        type: int
      max_ptes_swap:
        description: Swapped-out small pages that it may bring in for a huge page.
        type: int
      max_ptes_shared:
        description: Shared small pages that a huge page may be made of.
        type: int
  sizes:
    description:
      - Policy per huge page size, for kernels with C(hugepages-*kB) folders. The key is the size as the kernel
        writes it, such as V(64kB); the value holds C(enabled), C(shmem_enabled) or both.
    type: dict
extends_documentation_fragment:
  - mlnode.tuning.declaration
  - mlnode.tuning.declaration.attributes
notes:
  - No drop-in of the system carries these files. They come back at boot through the agent, see
    M(mlnode.tuning.agent); without it a setting is reported as drifted in its boot layer.
  - A change of O(enabled) makes the kernel recompute C(vm.min_free_kbytes), so run this module before
    M(mlnode.tuning.sysctl_ml). A revert puts back both.
seealso:
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Huge pages for programs that ask for them
  mlnode.tuning.thp:
    name: training_node
    enabled: madvise
    defrag: madvise

- name: Less background work on a serving node, and 64 kB folios where the kernel has them
  mlnode.tuning.thp:
    name: inference_node
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
  sample:
    - kind: thp
      key: thp.enabled
      path: /sys/kernel/mm/transparent_hugepage/enabled
      declared: madvise
      want: madvise
      runtime: always
      boot: always
      boot_source: kernel command line (transparent_hugepage=always)
      origin: null
      status: drifted
      severity: high
      reason: "runtime is always; boot: kernel command line (transparent_hugepage=always) sets always"
reboot_required:
  description: Whether something takes effect only after a reboot.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import thp


def main() -> None:
    own = {
        "enabled": {"type": "str"},
        "defrag": {"type": "str"},
        "shmem_enabled": {"type": "str"},
        "use_zero_page": {"type": "int"},
        "khugepaged": {"type": "dict", "options": {name: {"type": "int"} for name in thp.KHUGEPAGED}},
        "sizes": {"type": "dict"},
    }
    module = AnsibleModule(argument_spec={**tuning_module.ARGUMENTS, **own}, supports_check_mode=True)
    spec = {name: module.params[name] for name in own if module.params[name] is not None}
    tuning_module.declare(module, thp, spec)


if __name__ == "__main__":
    main()
