#!/usr/bin/python
# SPDX-FileCopyrightText: mlnode.tuning contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare or begin a node's part of a campaign, or collect its result."""

from __future__ import annotations

DOCUMENTATION = r"""
module: campaign
short_description: Take part in measurements between the nodes of a fleet
version_added: 0.1.0
description:
  - O(state=started) gives a node its part of a campaign, once, and the node gets ready. O(state=begun) gives it the time
    of the first round. The node then measures the bandwidth or latency to its peer of each round at the planned times.
    O(state=collected) returns the result and removes it from the node.
  - M(mlnode.tuning.measure) makes the plan, prepares all nodes, begins when they are ready, collects the results and
    judges them.
  - A campaign takes whole links. It is refused if jobs run, if a process holds a GPU or an RDMA device, if an interface
    carries more than a twentieth of its rate, or if another campaign runs.
  - Nothing is changed. All programs end with the last round, even if the controller is gone; a node that is not given the
    start ends after O(wait). The result is one file in C(/run/mlnode). It is removed when it is collected, by the next
    campaign, or at the next boot.
  - A server takes one connection, and C(iperf3) and perftest accept it from any address. With systemd, a scope limits
    the campaign to its peers. In any case, a result of V(tcp) does not count if another host has connected, nor does a
    result of RDMA if the addresses belong to its ports.
  - An RDMA result counts only if the port itself has counted its packets.
options:
  state:
    description:
      - V(started) prepares the node. It begins on its own only if O(start) is given. A prepared node is not prepared
        again.
      - V(begun) gives a prepared node its O(start). A node that gets it late takes part in the remaining rounds.
      - V(collected) ends the campaign.
    type: str
    choices: [started, begun, collected]
    required: true
  id:
    description: Name of the campaign.
    type: str
    required: true
  kind:
    description:
      - The measured figure.
      - V(tcp) is the bandwidth of TCP, with C(iperf3).
      - V(rdma_bw) is the bandwidth of RDMA, with C(ib_write_bw), and V(rdma_lat) its latency, with C(ib_write_lat).
      - V(gpudirect) is the bandwidth of RDMA between the memories of NVIDIA or AMD GPUs, and between host memories. It needs a
        perftest built with CUDA.
    type: str
    choices: [tcp, rdma_bw, rdma_lat, gpudirect]
    default: tcp
  start:
    description:
      - Time of the first round, in seconds since 1970 in UTC, by the clock of this node. Required for O(state=begun).
    type: float
  wait:
    description:
      - Seconds that a prepared node waits for its O(start), from 1 to 43200. After that it removes the campaign.
    type: float
    default: 600
  rounds:
    description: Number of rounds of the whole campaign. Required for O(state=started).
    type: int
  duration:
    description:
      - Seconds to measure each direction, at least 2, without the seconds at both ends that do not count. For
        V(rdma_lat), the number of batches of 2,500 messages.
    type: int
    default: 4
  streams:
    description: Number of simultaneous TCP connections, each with a separate process. For V(tcp) only.
    type: int
    default: 4
  tcp_port:
    description:
      - The first TCP port of the servers. V(tcp) uses two ports for each stream, V(rdma_bw) two, V(rdma_lat) one and
        V(gpudirect) four for each rail.
    type: int
    default: 18600
  addresses:
    description: IP addresses of this node, one for each rail. Required for O(state=started).
    type: list
    elements: str
  devices:
    description:
      - RDMA devices of the rails, such as V(mlx5_0), with a port such as V(mlx5_0/1), and with an entry of its GID table
        such as V(mlx5_0/1/3). O(addresses) then only serve the exchange of parameters. If omitted, the ports that have
        O(addresses). Not used for V(tcp).
    type: list
    elements: str
  slots:
    description: The rounds in which this node has a peer. Required for O(state=started).
    type: list
    elements: dict
    suboptions:
      round:
        description: Number of the round, from 0 on.
        type: int
        required: true
      peer:
        description: Name of the peer.
        type: str
        required: true
      serves:
        description: Whether this node serves, and the peer measures.
        type: bool
        required: true
      rails:
        description: Address of this node and address of the peer, for each rail that both have.
        type: list
        elements: raw
        required: true
  allow:
    description: V(busy) measures even if a job or another program runs.
    type: list
    elements: str
    choices: [busy]
    default: []
  timeout:
    description: With O(state=collected), seconds to wait for the end. After that, the campaign is stopped.
    type: int
    default: 10
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
notes:
  - Needs C(ip) and root, without which running jobs cannot be detected. V(tcp) needs C(iperf3), and RDMA needs
    C(ib_write_bw) or C(ib_write_lat) of perftest.
  - In check mode the module verifies that the campaign could begin. Nothing is started or collected.
seealso:
  - module: mlnode.tuning.measure
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Prepare the node for its part of a plan
  mlnode.tuning.campaign:
    state: started
    id: spring
    rounds: "{{ plan.rounds }}"
    addresses: "{{ plan.nodes[inventory_hostname].addresses }}"
    slots: "{{ plan.slots[inventory_hostname] }}"
  register: campaign_prepared

- name: Begin in ten seconds, corrected for the node's clock skew
  mlnode.tuning.campaign:
    state: begun
    id: spring
    start: "{{ begin | float + campaign_prepared.shift }}"

- name: Collect its result
  mlnode.tuning.campaign:
    state: collected
    id: spring
  register: campaign_result
"""

RETURN = r"""
ends:
  description: End of the last round, in seconds since 1970, by the clock of this node.
  returned: with O(start)
  type: float
interfaces:
  description: The interface of each address.
  returned: with O(state=started)
  type: list
  elements: str
  sample: [eth0]
shift:
  description:
    - Seconds to add to a time before this node gets it, because its clock is ahead of the controller's (or behind it, if
      negative). V(0.0) if the clock may be right. The time of delivery does not count - the clocks are compared at half
      of the time between question and answer, and that half is the uncertainty.
    - A node fails if its clock is wrong by an amount that is not known to a second.
  returned: from the controller
  type: float
  sample: 0.0
clock_note:
  description: The clock skew, and how to correct it.
  returned: if RV(shift) is not V(0.0)
  type: str
took:
  description: Seconds from the question to the answer, by the controller's clock.
  returned: from the controller
  type: float
  sample: 1.4
clock:
  description:
    - Times at which the question arrived and the answer left, in seconds since 1970. The controller replaces them by
      RV(shift).
  returned: success, from the node
  type: list
  elements: float
done:
  description: Whether all rounds are over.
  returned: success, with O(state=collected)
  type: bool
problem:
  description: The reason for a missing or incomplete result. Empty for a complete one.
  returned: success, with O(state=collected)
  type: str
answer:
  description:
    - JSON, which M(mlnode.tuning.measure) judges. Empty if there is no result.
    - Each of its C(slots) has C(round), C(rail) and C(reason), which is empty if there is a result. A result has the
      numbers of its kind, and C(loss), the retransmitted share forward and backward, from V(0) to V(1), or V(null) if
      unknown. For V(tcp) the share is the sender's retransmitted segments times the MSS, divided by the bytes sent, from
      C(iperf3). For RDMA it is the packets that the port of this node has counted as lost, divided by the packets that
      crossed it, from C(hw_counters). Forward losses are NAKs of sequence errors, NAKs of receivers that are not ready,
      and missing acknowledgements; backward losses are packets out of sequence.
    - A slot without a result has C(failed). V(refused) means that nothing listened at the peer, V(unreachable)
      that no connection was made, and V(nothing) that nothing came through a connection. With V(timeout), a program did
      not end in time. With V(program), a program is missing or ended with an error. With V(late), this node missed the
      start of the round. V(other) is for all other reasons.
    - If a network may be the cause (V(unreachable), V(timeout) or V(nothing)), the slot also has C(probe), unless the
      round was over. C(sent) is the number of echo requests with the interface's MTU and smaller sizes, sent without
      fragmentation, and C(lost) the number without an answer. C(mtu) is the greatest size that arrived, V(null) if it is
      the MTU of the interface or if none arrived. Sizes that never arrived count only if none did.
    - Each of C(served) has a C(reason) if a round that this node has served does not count, and C(failed) if it missed
      its start.
  returned: success, with O(state=collected)
  type: str
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import look


def main() -> None:
    check_module.run("campaign", look)


if __name__ == "__main__":
    main()
