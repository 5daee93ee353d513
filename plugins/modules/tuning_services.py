#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare whether services that tune the same settings run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tuning_services
short_description: Declare whether services that tune the same settings run
version_added: 0.1.0
description:
  - Leaves a service such as tuned alone, and reports the declared settings that it may change; or stops it, now and at
    every boot.
  - A stopped service keeps its unit and stays enabled. A drop-in with a condition prevents every start, at boot, by D-Bus
    or by hand. A revert removes the drop-in, and starts the service if it ran before.
  - Other services are not changed.
extends_documentation_fragment:
  - mlnode.tuning.area.services
notes:
  - For irqbalance, which can be configured to cooperate, see M(mlnode.tuning.irq_affinity).
  - When tuned is stopped, it restores the values that it had changed. Run this module before the modules that declare the
    same settings.
  - tuned is reported with its active profile, from C(/etc/tuned/active_profile). The profile itself is not read. A
    value that it has changed is drift of that setting.
  - tuned cannot be made to agree. If your profile of tuned changes no declared setting, leave tuned out of the
    declaration.
  - A service that sets a value once at boot and ends, such as C(cpupower), does not run. It is stopped from the next boot
    on.
seealso:
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.node_audit
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Stop other services that set clocks
  mlnode.tuning.tuning_services:
    name: site
    services:
      tuned: stop
      power-profiles-daemon: stop
      ondemand: stop

- name: Keep tuned, and report its active profile
  mlnode.tuning.tuning_services:
    name: site
    services:
      tuned: leave
"""

RETURN = r"""
settings:
  description: Every declared service with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample: [{key: service.tuned, want: left, runtime: left, boot: null, status: overridden}]
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.services.kind import (
    kind as services,
)


def main() -> None:
    tuning_module.run(services)


if __name__ == "__main__":
    main()
