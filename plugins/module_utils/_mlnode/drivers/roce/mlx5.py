# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's mlx5, of the kernel and of DOCA and MLNX_OFED."""

from __future__ import annotations

from typing import Any

from ...host.host import Host
from . import model
from .model import Answer, Counters, Knob, Nic, RoceDriver

#: File of the vendor's driver, and of the kernel's if lockdown permits debugfs (drivers/infiniband/hw/mlx5/
#: cong.c). np_cnp_prio goes with np_cnp_prio_mode 0, which a write of it sets.
_CNP = {model.CNP_DSCP: ("cnp_dscp", "np_cnp_dscp"), model.CNP_PRIORITY: ("cnp_802p_prio", "np_cnp_prio")}
_OWN_PRIORITY = "0"


class Mlx5(RoceDriver):
    MODULE = "mlx5_ib"
    SUPPORTS = {
        **model.COMMON,
        "trust": "`qos/trust`, dcb",
        "buffer": "dcb",
        "ecn": "`ecn/` (DOCA-OFED)",
        **dict.fromkeys(_CNP, "`ecn/`, debugfs `cc_params`"),
        "traffic_class": "`tc/` (DOCA-OFED)",
    }
    LACKS = {
        model.ECN: "the kernel's own driver has no switch for ECN per priority, DOCA-OFED has one; here the "
        "firmware decides: ROCE_CC_PRIO_MASK_P1 of mlxconfig",
        model.TRAFFIC_CLASS: "the kernel's own driver has no traffic class for all queue pairs, DOCA-OFED "
        "has one: let the programs set theirs",
    }
    #: mellanox/mlx5/core/en_dcbnl.c. PFC ends in mlx5_toggle_port_link. Trust reopens the channels if it
    #: changes the inline mode, as on ConnectX-4 Lx (mlx5e_set_trust_state). The others are registers.
    QUIET = frozenset(("dscp", "ets", "buffer"))
    #: core/sysfs.c; hw/mlx5/counters.c; NVIDIA, "Understanding mlx5 Linux counters"
    COUNTERS = (
        Counters(
            ("counters/port_xmit_packets",),
            ("counters/port_rcv_packets",),
            (
                "hw_counters/packet_seq_err",
                "hw_counters/local_ack_timeout_err",
                "hw_counters/rnr_nak_retry_err",
            ),
            ("hw_counters/out_of_sequence",),
        ),
    )

    def knobs(self, host: Host, nic: Nic, group: str, value: Any) -> Answer:
        if group == model.ECN:
            return self._ecn(host, nic, value)
        if group == model.TRAFFIC_CLASS:
            return Answer(lacks=self.LACKS[group])
        theirs, kernels = _CNP[group]
        path = f"/sys/class/net/{nic.name}/ecn/roce_np/{theirs}"
        if not host.exists(path):
            path = f"/sys/kernel/debug/mlx5/{nic.address}/cc_params/{kernels}"
            if not nic.address or not host.exists(path):
                return Answer(lacks=model.NO_CNP)
            if group == model.CNP_PRIORITY:
                # The mode comes first: it is undone last, after a write that sets it.
                mode = Knob(f"{path}_mode", _OWN_PRIORITY, "priority mode")
                return Answer((mode, Knob(path, str(value))))
        return Answer((Knob(path, str(value)),))

    def _ecn(self, host: Host, nic: Nic, priorities: Any) -> Answer:
        """Both ends: the notification point (np) marks congestion, the reaction point (rp) slows down."""
        folder = f"/sys/class/net/{nic.name}/ecn"
        if not host.exists(folder):
            return Answer(lacks=self.LACKS[model.ECN])
        return Answer(
            tuple(
                Knob(f"{folder}/roce_{end}/enable/{priority}", "1", f"{end}/{priority}")
                for end in ("np", "rp")
                for priority in priorities
            )
        )
