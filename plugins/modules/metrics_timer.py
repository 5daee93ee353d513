#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare the timer that checks the node and exports metrics."""

from __future__ import annotations

DOCUMENTATION = r"""
module: metrics_timer
short_description: Declare the timer that checks the node and exports metrics
version_added: 0.1.0
description:
  - Makes the node check itself every 15 minutes, and write the result into the folder of node_exporter, for Prometheus.
    Without a declaration there is no timer.
  - Another timer checks the node every minute, for a CPU governor that changes while a job runs and for counters of RDMA
    ports.
  - The collection comes with rules, alerts and their tests in the folder C(observability).
extends_documentation_fragment:
  - mlnode.tuning.area.metrics
notes:
  - The units come with the agent, see M(mlnode.tuning.agent); this declaration starts both timers, now and at boot.
  - It is V(drifted) as long as the folder is missing, as nothing would read the file.
  - The files are removed with the last declaration of the timer, and by a revert.
  - V(unsupported) if systemd does not run.
seealso:
  - module: mlnode.tuning.node_drift
  - module: mlnode.tuning.agent
"""

EXAMPLES = r"""
- name: Export the state of the node to node_exporter
  mlnode.tuning.metrics_timer:
    name: site
    textfile_directory: auto

- name: Export it with an exception for known drift
  mlnode.tuning.metrics_timer:
    name: site
    textfile_directory: /var/lib/node_exporter
    ignore:
      - key: nic.fabric.rings
        reason: New firmware is ordered
        until: 2027-03-31
"""

RETURN = r"""
settings:
  description: The setting with its four states and its one status, as in M(mlnode.tuning.sysctl_ml).
  returned: success
  type: list
  elements: dict
  sample:
    - key: metrics.textfile
      want: /var/lib/prometheus/node-exporter
      runtime: "off"
      boot: /var/lib/prometheus/node-exporter
      status: drifted
reboot_required:
  description: Whether a setting takes effect only after a reboot; never for this module.
  returned: success
  type: bool
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.metrics.kind import kind as metrics


def main() -> None:
    tuning_module.run(metrics)


if __name__ == "__main__":
    main()
