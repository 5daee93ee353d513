#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the nodes of a play, once for all of them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: measure
short_description: Measure the nodes of a play, and judge the results
version_added: 0.1.0
description:
  - Plans a measurement of all nodes of a play, reports how long it takes, measures, judges, and writes one result on the
    controller. It runs once for all nodes, and calls each over its own connection, as many at a time as C(forks).
  - Each option is also a variable of the same name. The playbooks C(campaign.yml), C(rdma_bandwidth.yml), C(nccl.yml) and
    C(effect.yml) are one task of this module each.
  - A call that fails is repeated once if that does no harm. A node that does not answer was not measured, and the result
    has the reason.
author:
  - mlnode.tuning contributors (!UNKNOWN)
options:
  kind:
    description:
      - V(campaign) measures between pairs of nodes, and finds slow nodes and paths.
      - V(nccl) runs C(all_reduce_perf) of nccl-tests on all nodes together. If the result is slow, each half of the nodes
        runs it, then the halves of the slow half, until the slow node or path is found.
      - V(effect) measures before and after the declaration of the nodes, in alternation, and restores them at the end. A
        node must be found either as declared or as before the first run. A phase without one of its nodes or pairs ends
        the measurement at once. If the controller dies, each node restores itself; see O(effect_lease).
    type: str
    choices: [campaign, nccl, effect]
    required: true
  campaign_kind:
    description: The figure to measure between two nodes, as O(mlnode.tuning.campaign#module:kind).
    type: str
    choices: [tcp, rdma_bw, rdma_lat, gpudirect]
    default: tcp
  campaign_rounds:
    description: Number of peers that each node measures, V(0) for all. With an odd number of nodes at least two.
    type: int
    default: 8
  campaign_limit:
    description: The loss of a node, in percent, that must be detected. A node passes only if such a loss would show.
    type: float
    default: 10
  campaign_seed:
    description: Seed of the plan. Another number measures other pairs.
    type: int
    default: 0
  campaign_duration:
    description: Seconds to measure each direction, as O(mlnode.tuning.campaign#module:duration).
    type: int
    default: 4
  campaign_streams:
    description: Number of simultaneous TCP connections, as O(mlnode.tuning.campaign#module:streams).
    type: int
    default: 4
  campaign_tcp_port:
    description: The first TCP port of the servers, as O(mlnode.tuning.campaign#module:tcp_port).
    type: int
    default: 18600
  campaign_allow:
    description: V(busy) measures even if a job or another program runs.
    type: list
    elements: str
    choices: [busy]
    default: []
  campaign_timeout:
    description: Seconds that one call to a node may take.
    type: int
    default: 60
  campaign_lead:
    description:
      - Seconds between the time when all nodes are ready and the first round, to deliver its start. If omitted, derived
        from the time that the preparation took.
    type: float
  campaign_second_look:
    description: Whether suspects are measured again with good nodes.
    type: bool
    default: true
  campaign_balance:
    description: Whether to measure how the uplinks of InfiniBand leaves share the traffic of the rounds.
    type: bool
    default: false
  campaign_balance_node:
    description: The node that reads the uplinks. The first one if omitted.
    type: str
  campaign_balance_names:
    description:
      - Names of the nodes whose leaves are read, as set on their InfiniBand ports, V([]) for all leaves. If omitted,
        the first parts of the names in the inventory.
    type: list
    elements: str
  campaign_results:
    description: The folder on the controller for the result.
    type: path
    default: campaigns
  nccl_launcher:
    description:
      - V(mpirun) is Open MPI, from the first node, over its own SSH. V(srun) is Slurm, from the first node.
      - V(ssh) runs each node separately, without MPI. Nothing between nodes is measured then.
    type: str
    choices: [mpirun, srun, ssh]
    default: mpirun
  nccl_launcher_arguments:
    description: Additional arguments for C(srun) or C(mpirun).
    type: list
    elements: str
    default: []
  nccl_network:
    description: Begin of the network's name in NCCL's log.
    type: str
    default: IB
  nccl_least_size:
    description: The smallest size.
    type: str
    default: "8"
  nccl_most_size:
    description: The largest size.
    type: str
    default: 8G
  nccl_sharp:
    description: Whether SHARP is expected. A run of several nodes without it fails.
    type: bool
    default: false
  nccl_limits:
    description: "Absolute limits that the site declares, such as V({infiniband: true, latency: 15})."
    type: dict
    default: {}
  nccl_runs:
    description: Maximum number of runs of all groups.
    type: int
    default: 30
  nccl_timeout:
    description: Seconds that one run may take.
    type: int
    default: 600
  nccl_stragglers:
    description: Whether to record the times of each process, which requires nccl-tests 2.19.1.
    type: bool
    default: true
  nccl_allow:
    description: V(busy) measures even if a process uses the GPUs.
    type: list
    elements: str
    choices: [busy]
    default: []
  nccl_balance:
    description: Whether to measure how the uplinks of InfiniBand leaves share the traffic of the runs.
    type: bool
    default: false
  nccl_balance_node:
    description: The node that reads the uplinks. The first one if omitted.
    type: str
  nccl_fail_on:
    description: V(fail) accepts unknown results as success.
    type: str
    choices: [fail, unknown]
    default: unknown
  nccl_results:
    description: The folder on the controller for the result. The result is compared with earlier results in it.
    type: path
    default: nccl
  effect_kinds:
    description:
      - The kinds of metrics to measure. V(tcp) is the bandwidth between nodes, V(memory) the memory of each NUMA node, and
        V(command) the metrics of O(effect_command).
    type: list
    elements: str
    choices: [tcp, memory, command]
    default: [tcp]
  effect_command:
    description: The command to measure, as text with shell quoting, or as a list of its words. No shell runs it.
    type: raw
  effect_metrics:
    description: The metrics of the command. If omitted, its wall time.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the metric.
        type: str
        required: true
      unit:
        description: Unit of the metric.
        type: str
        default: ""
      better:
        description: Whether a higher or a lower value is better.
        type: str
        choices: [higher, lower]
        required: true
      json:
        description:
          - Path to numbers in the JSON that the command prints, such as V($.latency.p99) or V(runs[*].tokens). The
            JSON is all of the output, or its last line that is an object or a list.
        type: str
      regex:
        description:
          - A regular expression with one group, which is the number. The run ends if another unit follows it, such as
            V(GB/s) instead of V(MB/s).
        type: str
      measure:
        description:
          - V(seconds) is the wall time. V(exit) is the exit status plus 1, because an effect is a ratio. A command that
            fails does not end the run then.
        type: str
        choices: [seconds, exit]
      take:
        description:
          - Values of the samples, each a metric. Without it, the command prints one number. V(last) is the last
            sample of a run. V(p90) requires 10 samples, V(p99) 100.
        type: list
        elements: str
        choices: [mean, p50, p90, p99, last]
        default: []
  effect_launcher:
    description:
      - V(ssh) runs the command on each node separately, V(first) on the first node only.
      - V(mpirun) and V(srun) start it on all nodes together, from the first node, which prints the metrics.
    type: str
    choices: [ssh, first, mpirun, srun]
    default: ssh
  effect_launcher_arguments:
    description: Additional arguments for C(srun) or C(mpirun).
    type: list
    elements: str
    default: []
  effect_processes:
    description: Number of processes on each node, for C(srun) and C(mpirun).
    type: int
    default: 1
  effect_warmups:
    description: Number of runs of the command before the counted runs of each phase. Their results are discarded.
    type: int
    default: 1
  effect_runs:
    description: Number of counted runs in each phase. Their mean is one measurement, and samples are pooled.
    type: int
    default: 1
  effect_timeout:
    description: Seconds that one run of the command may take. Its process group is ended then.
    type: int
    default: 600
  effect_by:
    description:
      - Finds the areas of the declaration that matter, instead of the effect of all of it. V([area]) compares all
        declared areas. A list names areas, and settings such as V(sysctl.vm.swappiness).
      - Each phase declares about half of them. Everything else stays as declared. Areas that need a boot or change
        nothing are left out.
    type: list
    elements: str
    default: []
  effect_phases:
    description:
      - Maximum number of phases with O(effect_by). The largest design that fits is used; with O(campaign_seed), its order
        changes.
    type: int
    default: 24
  effect_blocks:
    description:
      - Maximum number of blocks of four phases. An interval needs three. If omitted, 6, or 24 with O(effect_precision) or
        O(effect_budget).
    type: int
  effect_least:
    description:
      - The smallest effect that matters, in percent. Without O(effect_precision), a run ends early if it finds an effect
        or can exclude such an effect, for each metric.
    type: float
    default: 1
  effect_precision:
    description:
      - The run ends once all intervals reach at most this far to both sides, in percent, after eight blocks at the
        earliest.
    type: float
  effect_budget:
    description: Minutes after which no block may end. V(0) sets no limit.
    type: float
    default: 0
  effect_fail_on:
    description:
      - V(unknown) fails if a metric has no interval. V(harms) also fails if the declaration harms a metric, and ends the
        measurement at once. The nodes are restored in any case.
    type: str
    choices: [unknown, harms]
    default: unknown
  effect_rounds:
    description: Number of peers that each node measures in a phase. With an odd number of nodes at least two.
    type: int
    default: 1
  effect_before:
    description: The profile of state A, as a name or the path of a file. If omitted, the state before the first run.
    type: str
  effect_settle:
    description: Seconds to wait after each change.
    type: int
    default: 5
  effect_lease:
    description:
      - Seconds after a change of a node, after which it restores itself if the controller has not gone on. It also does
        so at a boot. An expired lease ends the run.
      - If omitted, the time of the phases between two changes, plus 600. The least is without these 600.
    type: int
  effect_put_back:
    description: Whether to restore the nodes of an unfinished run, without a measurement.
    type: bool
    default: false
attributes:
  action:
    description: It runs on the controller.
    support: full
  async:
    description: The task can run in the background.
    support: none
  bypass_host_loop:
    description: It runs once for all hosts of the play.
    support: full
  check_mode:
    description: The task can run without a change.
    support: full
    details: Each node reports whether it could begin. Nothing is measured or written.
  diff_mode:
    description: The task returns its changes.
    support: none
  platform:
    description: Systems that it can measure.
    support: full
    platforms: linux
notes:
  - A node has variables for campaigns. C(campaign_addresses) are its IP addresses or names to measure, and
    C(campaign_devices) its RDMA devices, one for each rail. C(campaign_leaf) is the name of its leaf switch. If omitted, the
    address is C(ansible_host) or the name in the inventory, and the devices are those with these addresses.
  - A node has variables for nccl-tests. C(nccl_program) is the path of C(all_reduce_perf), looked for if omitted.
    C(nccl_source) is a folder with its source, which is built there with the arguments C(nccl_make).
    C(nccl_environment) is a dictionary of variables for NCCL.
  - C(nccl_gpus) is the number of GPUs of a node, C(nccl_rails_gbits) a list of the rates of its rails, and
    C(nccl_nvlink_gbits) the rate of NVLink of a GPU in one direction. C(nccl_hostname) is its name for Slurm and NCCL, and
    C(nccl_address) its address for C(mpirun), also for O(effect_launcher). If omitted, they come from its topology, its hostname, and C(ansible_host).
seealso:
  - module: mlnode.tuning.campaign
  - module: mlnode.tuning.memory_bandwidth
  - module: mlnode.tuning.timed_command
"""

EXAMPLES = r"""
- name: Measure the RDMA bandwidth between the nodes
  hosts: training
  gather_facts: false
  become: true
  tasks:
    - name: Measure between the nodes
      mlnode.tuning.measure:
        kind: campaign
        campaign_kind: rdma_bw
"""

RETURN = r"""
folder:
  description: Folder of the result on the controller.
  returned: when something was measured
  type: str
file:
  description: Name of the result in the folder.
  returned: when something was measured
  type: str
msg:
  description: The verdict, and the path of the result.
  returned: always
  type: str
"""

# The action plugin of the same name runs it on the controller.
