# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AMD's ionic (Pensando Pollara). The driver has no interface for priorities: AMD's nicctl sets them, see
drivers/dcb/nicctl.py."""

from __future__ import annotations

from ...host.host import Host
from ..dcb import nicctl
from . import model
from .model import Answer, Counters, Knob, Nic, RoceDriver


class Ionic(RoceDriver):
    MODULE = "ionic_rdma"
    SUPPORTS = {
        **{name: model.COMMON[name] for name in ("global_pause", "rdma_cm_tos")},
        **dict.fromkeys(("dscp", "pfc", model.ECN, model.CNP_DSCP), nicctl.TOOL),
        "trust": "nicctl, all NICs together",
    }
    LACKS = {
        **{group: nicctl.LACKS[group] for group in ("ets", "buffer")},
        model.CNP_PRIORITY: "CNPs have the priority of their DSCP: set it with dscp",
        model.TRAFFIC_CLASS: "ionic has no traffic class for all queue pairs: let the programs set theirs",
    }
    #: AMD's firmware names them; the kernel's driver passes the names on (hw/ionic/ionic_hw_stats.c). Names:
    #: ROCm/amdsmi and ROCm/rocprofiler-systems, AINIC counters; resp_rx_outouf_seq is spelled so.
    COUNTERS = (
        Counters(
            ("hw_counters/tx_rdma_ucast_pkts",),
            ("hw_counters/rx_rdma_ucast_pkts",),
            (
                "hw_counters/req_rx_pkt_seq_err",
                "hw_counters/tx_rdma_ack_timeout",
                "hw_counters/req_rx_rnr_retry_err",
            ),
            ("hw_counters/resp_rx_outouf_seq",),
        ),
    )

    def pause(self, nic: str) -> str:
        """ethtool shows PFC as pause frames, and would switch it off with them."""
        return f"/dcb/{nic}/pause"

    def knobs(self, host: Host, nic: Nic, group: str, value: object) -> Answer:
        del host
        if group in self.LACKS:
            return Answer(lacks=self.LACKS[group])
        if not nic.ports:
            return Answer(lacks=model.NO_DEVICE)
        if group == model.ECN:
            return Answer((Knob(f"/dcb/{nic.name}/dcqcn/state", "on", "dcqcn"),))
        return Answer((Knob(f"/dcb/{nic.name}/dcqcn/cnp-dscp", str(value)),))

    def remark(self, host: Host, nic: Nic, group: str) -> str:
        del host, nic
        if group == "trust":
            return "nicctl sets it for all of AMD's NICs together"
        return "DCQCN is for all priorities of the device" if group == model.ECN else ""
