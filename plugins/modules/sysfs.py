#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare values of files below /sys that no other area sets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sysfs
short_description: Declare values of files below /sys
version_added: 0.1.0
description:
  - Sets files below C(/sys) that no other module of this collection sets, for example of zswap, the multi-generational
    LRU or the uncore frequency.
  - Each value is read back. A value that the kernel changes or rejects fails the run, and everything is restored.
extends_documentation_fragment:
  - mlnode.tuning.area.sysfs
  - mlnode.tuning.declaration.by_agent
notes:
  - Only files of sysfs that hold one value and can be read back are set. Files that act on a device or on the kernel are
    refused, such as C(remove), C(bind), C(reset) and C(online), and so are power management, firmware, debugfs and the
    settings of network interfaces. The real path of a file counts, not its links.
  - A file that another area sets is refused, with the name of the area.
  - V(unsupported) if no file matches.
seealso:
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Keep the working set of a job for a second, and fix the uncore frequency
  mlnode.tuning.sysfs:
    name: site
    settings:
      /sys/kernel/mm/lru_gen/min_ttl_ms: 1000
      /sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz: 2400000

- name: Switch zswap off
  mlnode.tuning.sysfs:
    name: site
    settings:
      /sys/module/zswap/parameters/enabled: "N"
"""

RETURN = r"""
settings:
  description: Every declared file with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: sysfs.kernel/mm/lru_gen/min_ttl_ms
      want: "1000"
      runtime: "1000"
      boot: "1000"
      status: changed
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.sysfs.kind import kind as sysfs


def main() -> None:
    tuning_module.run(sysfs)


if __name__ == "__main__":
    main()
