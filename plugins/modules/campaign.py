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
  - With O(state=started) a node is given its part of a campaign, once, and gets ready. With O(state=begun) it gets
    the time of the first round. It then measures the bandwidth or latency to its peer of each round by itself, at the
    times that the plan gives. With O(state=collected) its result is returned, and gone from the node.
  - M(mlnode.tuning.measure) makes the plan, prepares all nodes, begins when they are ready, collects the results and
    judges them.
  - A campaign takes whole links. Where jobs run, something holds a GPU or an RDMA device, an interface carries more
    than a twentieth of its rate, or another campaign runs, it is refused.
  - Nothing is changed. All programs end with the last round, even if the controller is gone; a node that is not given the
    start ends after O(wait). The result is one file in C(/run/mlnode). It is removed when it is collected, by the next
    campaign, or at the next boot.
  - A server takes one connection. C(iperf3) and perftest cannot refuse others than the peer; where systemd runs, a
    scope lets the campaign talk to its peers only, and in any case a result of V(tcp), and of RDMA where the addresses
    are those of its ports, does not count if another came.
  - A result of RDMA counts only if the port itself has counted its packets.
options:
  state:
    description:
      - V(started) prepares the node, which begins by itself only if O(start) is given. A node that is prepared already is
        not prepared again.
      - V(begun) gives a prepared node its O(start). A node that gets it later takes part in the rounds that are left.
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
      - What is measured.
      - V(tcp), the bandwidth of TCP, with C(iperf3).
      - V(rdma_bw), the bandwidth of RDMA, with C(ib_write_bw), and V(rdma_lat), its latency, with C(ib_write_lat).
      - V(gpudirect), the bandwidth of RDMA between the memories of GPUs of NVIDIA and between those of the hosts. Needs
        a perftest that was built with CUDA.
    type: str
    choices: [tcp, rdma_bw, rdma_lat, gpudirect]
    default: tcp
  start:
    description:
      - When the first round begins, in seconds since 1970 in UTC, by the clock of this node. Required for
        O(state=begun).
    type: float
  wait:
    description:
      - Seconds that a prepared node waits to be given its O(start), from 1 to 43200. Then nothing of the campaign is left.
    type: float
    default: 600
  rounds:
    description: Number of rounds of the whole campaign. Required for O(state=started).
    type: int
  duration:
    description:
      - Seconds to measure each direction for, from 2 on, besides those at its ends that do not count. Of V(rdma_lat), how
        many times 2,500 messages are sent.
    type: int
    default: 4
  streams:
    description: TCP connections at the same time, each of a process of its own. Of V(tcp) only.
    type: int
    default: 4
  tcp_port:
    description:
      - The first of the TCP ports of the servers. V(tcp) has two for each stream, V(rdma_bw) two, V(rdma_lat) one and
        V(gpudirect) four for each rail.
    type: int
    default: 18600
  addresses:
    description: Own IP addresses, one for each rail. Required for O(state=started).
    type: list
    elements: str
  devices:
    description:
      - RDMA devices of the rails, such as V(mlx5_0), with a port such as V(mlx5_0/1), and with an entry of its GID table
        such as V(mlx5_0/1/3). O(addresses) are then those over which both sides agree. If omitted, the ports that have
        O(addresses). Not used for V(tcp).
    type: list
    elements: str
  slots:
    description: The rounds in which this node has a peer. Required for O(state=started).
    type: list
    elements: dict
    suboptions:
      round:
        description: Its number, from 0 on.
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
        description: Own address and that of the peer, for each rail that both have.
        type: list
        elements: raw
        required: true
  allow:
    description: V(busy) measures although something runs.
    type: list
    elements: str
    choices: [busy]
    default: []
  timeout:
    description: With O(state=collected), seconds to wait for the end. Then it is ended.
    type: int
    default: 10
extends_documentation_fragment:
  - mlnode.tuning.declaration.attributes
notes:
  - Needs C(iperf3), or C(ib_write_bw) or C(ib_write_lat) of perftest, and C(ip), and root, without which running jobs cannot be detected.
  - In check mode it is looked whether the campaign could begin, and nothing is started or collected.
seealso:
  - module: mlnode.tuning.measure
  - module: mlnode.tuning.path_mtu
"""

EXAMPLES = r"""
- name: Prepare the part of a node in a plan
  mlnode.tuning.campaign:
    state: started
    id: spring
    rounds: "{{ plan.rounds }}"
    addresses: "{{ plan.nodes[inventory_hostname].addresses }}"
    slots: "{{ plan.slots[inventory_hostname] }}"
  register: campaign_prepared

- name: Begin in ten seconds, with a correction for a wrong clock of the node
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
  description: When the last round is over, in seconds since 1970, by the clock of this node.
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
    - Seconds to add to a time before this node gets it, as its clock is certainly ahead of the controller's by so much,
      or behind it (below 0). V(0.0) for a clock that may be right. The time of delivery does not count - the clocks are
      compared at half of the time between question and answer, and half of that time is the uncertainty.
    - A node whose clock is wrong, and not known to a second, fails.
  returned: from the controller
  type: float
  sample: 0.0
clock_note:
  description: How wrong the clock is, and what to do.
  returned: if RV(shift) is not V(0.0)
  type: str
took:
  description: Seconds from the question to the answer, as the controller saw it.
  returned: from the controller
  type: float
  sample: 1.4
clock:
  description:
    - When the question had come to the node, and when the answer left, in seconds since 1970. The controller gives
      RV(shift) in its place.
  returned: success, from the node
  type: list
  elements: float
done:
  description: Whether all rounds were over.
  returned: success, with O(state=collected)
  type: bool
problem:
  description: Why there is no result, or not a whole one. Empty if there is.
  returned: success, with O(state=collected)
  type: str
answer:
  description:
    - JSON, which M(mlnode.tuning.measure) judges. Empty if there is no result.
    - Each of its C(slots) has C(round), C(rail) and C(reason), which is empty if there is a result. With a result it has
      the numbers of its kind, and C(loss), the share of what was sent forward and backward that was sent again, from
      V(0) to V(1), or V(null) if it is not known. For V(tcp) these are the sender's retransmitted segments times the MSS
      in the bytes sent, from C(iperf3). For RDMA these are packets that the port of this node has counted as lost, in
      those that crossed it - in C(hw_counters), forward NAKs of sequence errors and of receivers that are not ready, and
      missing acknowledgements, backward packets out of sequence.
    - Without a result it has C(failed), one of V(refused), nothing listened at the peer; V(unreachable), no connection was
      made; V(timeout), a program did not end in time; V(nothing), nothing came through a connection; V(late), this node
      missed the start of the round; V(program), a program is missing or ended with an error; V(other).
    - If a network may be the cause, V(unreachable), V(timeout) or V(nothing), it has C(probe) as well, unless the round was
      over. C(sent) echo requests of the interface's MTU and of smaller sizes were sent that may not be fragmented, and
      C(lost) of them were not answered. C(mtu) is the greatest size that arrived, V(null) if it is the MTU of the
      interface or if none arrived. Sizes that never arrived count only if none did.
    - Each of C(served) has a C(reason) for which a round that this node has served does not count, and C(failed) if it
      missed its start.
  returned: success, with O(state=collected)
  type: str
"""

from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import look


def main() -> None:
    check_module.run("campaign", look)


if __name__ == "__main__":
    main()
