#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the part of the declaration that running jobs get."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_job
short_description: Report the part of the declaration that running jobs get
version_added: 0.1.0
description:
  - Compares running jobs with the declarations of their node. A container has its own kernel values of the network, its
    own limits, its own shared memory and its own files, and a declaration of the node may reach none of them.
  - Looks at all processes that have a GPU or an RDMA device open. The options choose others instead; several choices
    are added up.
  - Reads only, in check mode or out of it. It attaches to no process and stops none.
  - Every failed check has a remedy for the runtime of its job, such as Podman, Kubernetes or Slurm.
  - The checks are the same as in C(mlnode job) on the node.
options:
  pid:
    description: Numbers of processes.
    type: list
    elements: int
    default: []
  cgroup:
    description: Paths of control groups, such as C(/system.slice/vllm.service), with the groups below them.
    type: list
    elements: str
    default: []
  container:
    description:
      - Names of containers, or beginnings of their ids. Podman, Docker or nerdctl finds the id of a name, if it is
        installed. Names of LXC and systemd-nspawn are in the control groups.
    type: list
    elements: str
    default: []
  slurm_job:
    description: Ids of Slurm jobs, as in C(SLURM_JOB_ID).
    type: list
    elements: str
    default: []
  pod:
    description: Pods, as C(NAME) in all namespaces, C(NAMESPACE/NAME) or uid. The kubelet's folders of logs have the names.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - mlnode.tuning.fail_on.never
notes:
  - Needs root to look into processes of others. Without it, their part is V(unknown).
  - Only known variables of an environment are read, such as variables of NCCL, UCX and launchers. Variables that hold
    secrets, such as C(NCCL_PSK), never are.
seealso:
  - module: mlnode.tuning.node_audit
  - module: mlnode.tuning.node_topology
  - module: mlnode.tuning.sysctl_ml
  - module: mlnode.tuning.limits
"""

EXAMPLES = r"""
- name: Report what running jobs lack
  mlnode.tuning.node_job:
  register: jobs

- name: Show deviations
  ansible.builtin.debug:
    var: jobs.failures

- name: Fail if a Slurm job lacks a declared value
  mlnode.tuning.node_job:
    slurm_job: ["4711"]
    fail_on: fail
"""

RETURN = r"""
places:
  description:
    - One for each set of processes with the same namespaces, control group, user and job. C(job) has the kind, its id, the
      container and the runtime.
    - C(values) and the C(values) of each process can be compared between the ranks of a job. C(unknown) has the reason
      for each missing value.
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - job: {kind: container, id: e5673a92ef89, container: e5673a92ef89, runtime: podman}
      network: "4026532178"
      mount: "4026532249"
      pid: "4026532252"
      cgroup: /machine.slice/libpod-e5673a92ef89.scope
      user: 0
      processes:
        - pid: 18622
          name: python
          devices: [/dev/nvidia0]
          rank: 0
          world: 8
          local_rank: 0
          values: {limit memlock hard: unlimited}
      values: {shm size: "65536000"}
      unknown: {}
unseen:
  description: Processes that could not be looked into, with the reason.
  returned: success, or if checks fail
  type: list
  elements: str
checks:
  description:
    - All checks, the worst first. The fields are the same as in M(mlnode.tuning.node_audit).
    - C(target) is the job, with the number of its first process. Processes and places of one job with the same finding
      are one check.
    - C(verdict) is V(pass), V(warn), V(fail), V(skip) or V(unknown), as there.
  returned: success, or if checks fail
  type: list
  elements: dict
  sample:
    - name: job_sysctl
      target: container e5673a92ef89 (pid 18622)
      verdict: fail
      expected: ">= 16384"
      found: net.core.somaxconn 4096
      advice: "podman run --sysctl net.core.somaxconn=16384"
failures:
  description: One line for each check with V(fail), V(unknown), V(pending) or V(warn), in this order, for any O(fail_on).
  returned: success, or if checks fail
  type: list
  elements: str
summary:
  description: Number of checks by verdict.
  returned: success, or if checks fail
  type: dict
  sample: {fail: 1, pass: 17, skip: 6}
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.jobs import run


def main() -> None:
    check_module.run("node_job", run)


if __name__ == "__main__":
    main()
