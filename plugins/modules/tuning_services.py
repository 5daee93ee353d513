#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare what becomes of services that tune the same settings."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tuning_services
short_description: Declare what becomes of services that tune the same settings
version_added: 0.1.0
description:
  - Leaves a service such as tuned alone, and reports which declared settings it may set to other values; or stops it,
    now and at every boot.
  - A service that is stopped keeps its unit and what enables it. A drop-in with a condition keeps systemd from starting
    it, be it at boot, by D-Bus or by hand, and a revert removes the drop-in and starts the service if it ran before.
  - Changes no service that is not named.
extends_documentation_fragment:
  - mlnode.tuning.area.services
notes:
  - irqbalance is not among them, as it can be configured to agree, see M(mlnode.tuning.irq_affinity).
  - tuned puts back what it has set when it is stopped. So run this module before those whose settings it moves.
  - tuned is reported with its active profile, from C(/etc/tuned/active_profile). The profile itself is not read. A
    value that it has changed is drift of that setting.
  - There is no choice that makes tuned agree. If a profile of your own sets nothing that is declared, leave tuned out of
    the declaration.
  - A service that sets something once at boot and ends, such as C(cpupower), does not run, so that stopping it takes
    effect with the next boot.
seealso:
  - module: mlnode.tuning.irq_affinity
  - module: mlnode.tuning.node_audit
  - module: mlnode.tuning.node_revert
"""

EXAMPLES = r"""
- name: Nothing but the declaration sets clocks
  mlnode.tuning.tuning_services:
    name: site
    services:
      tuned: stop
      power-profiles-daemon: stop
      ondemand: stop

- name: Keep tuned, and have its active profile reported
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
  description: Whether something takes effect only after a reboot; never for this module.
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
