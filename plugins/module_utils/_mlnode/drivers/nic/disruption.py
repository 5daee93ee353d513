# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effect of a change of a NIC's setting on the traffic at that moment.

Later effects are left out: a packet size that the peer rejects, or a wrong checksum of the hardware, stops
traffic without a reset. All facts are from Linux 6.1; a change with an unknown effect counts as a reset.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Mapping, Tuple

# typing's own names, as Python evaluates them here
_Exceptions = Mapping[Tuple[str, str], "Disruption"]


class Disruption(IntEnum):
    """Degrees in ascending order: max() gives the worst of several changes.

    LINK_RESET: the link goes down, or all queues stop for longer than packets in flight can bear: bonds fail
    over, LACP and RDMA notice. DRIVER_RELOAD: the interface may go away and come back.
    """

    NONE = 0
    LINK_RESET = 1
    DRIVER_RELOAD = 2

    def __str__(self) -> str:
        return self.name.lower()


NONE, LINK_RESET, DRIVER_RELOAD = Disruption

#: Defaults for unknown drivers. The network stack alone keeps tx_queue_len (net/core/dev.c:
#: dev_change_tx_queue_len), and drivers write coalescing to registers that apply from the next interrupt.
_GROUPS = {
    "ring": LINK_RESET,
    "channels": LINK_RESET,
    "pause": LINK_RESET,  # Negotiated with the peer, so the link restarts
    "fec": LINK_RESET,
    "mtu": LINK_RESET,
    "private-flag": DRIVER_RELOAD,
    "coalesce": NONE,
    "tx_queue_len": NONE,
}

#: Features that the stack itself implements. It requests others from the hardware for each packet: all that
#: begin with tx- except VLAN tags, for which some drivers reset the hardware (intel/e1000e/netdev.c:
#: e1000_set_features). For all others, future ones included, the driver reprograms the receive side.
_STACK_FEATURES = ("rx-gro", "rx-gro-list", "rx-udp-gro-forwarding")

#: Every value of a group
_ALL = "*"


def change_effect(driver: str | None, group: str, field: str) -> Disruption:
    """Effect of a change. group and field as in ethtool/files.py, and "mtu" and "tx_queue_len" without a
    field.

    driver: the kernel's name; None if unknown.
    """
    group = group.partition("/")[0]  # feature/requested is an alias of feature
    # mlx5_core[ib_ipoib] is the same code on an InfiniBand port.
    known = _DRIVERS.get((driver or "").partition("[")[0], {})
    for key in ((group, field), (group, _ALL)):
        if key in known:
            return known[key]
    if group == "feature":
        stack = field in _STACK_FEATURES or (field.startswith("tx-") and not field.startswith("tx-vlan"))
        return NONE if stack else LINK_RESET
    return _GROUPS.get(group, DRIVER_RELOAD)


def _features(*names: str) -> _Exceptions:
    """Features that these drivers switch without a reset."""
    return {("feature", name): NONE for name in names}


_MLX5: _Exceptions = {
    # A change of these reopens all channels, with the carrier off meanwhile (mellanox/mlx5/core/
    # en_ethtool.c: mlx5e_ethtool_set_coalesce, en_main.c: mlx5e_switch_priv_channels)
    ("coalesce", "adaptive-rx"): LINK_RESET,
    ("coalesce", "adaptive-tx"): LINK_RESET,
    # en_ethtool.c: mlx5e_priv_flags. All but one end in mlx5e_safe_switch_params.
    ("private-flag", _ALL): LINK_RESET,
    ("private-flag", "rx_no_csum_complete"): NONE,
    # en_main.c: set_feature_arfs, set_feature_hw_tc, set_feature_rx_vlan
    **_features("rx-ntuple-filter", "hw-tc-offload", "rx-vlan-hw-parse", "tx-vlan-hw-insert"),
}

#: Driver → (group, field) → its effect, if it differs from _GROUPS and _STACK_FEATURES. Sources are below
#: drivers/net/ethernet unless their path begins with drivers.
_DRIVERS: Mapping[str, _Exceptions] = {
    "mlx5_core": _MLX5,
    "mlx5e_rep": _MLX5,  # mlx5/core/en_rep.c: mlx5e_rep_set_coalesce and others call the same functions
    "igb": {
        # intel/igb/igb_main.c: igb_set_features resets for rx-all and rx-ntuple-filter only; igb_vlan_mode
        # writes a register
        **_features("rx-checksum", "rx-hashing", "rx-vlan-hw-parse", "tx-vlan-hw-insert", "hw-tc-offload"),
        ("private-flag", "legacy-rx"): LINK_RESET,  # igb_ethtool.c: igb_set_priv_flags
    },
    "igc": {
        # intel/igc/igc_main.c: igc_set_features
        **_features("rx-checksum", "rx-hashing", "rx-vlan-hw-parse", "tx-vlan-hw-insert", "hw-tc-offload"),
        ("private-flag", "legacy-rx"): LINK_RESET,  # igc_ethtool.c: igc_ethtool_set_priv_flags
    },
    # intel/e1000e/ethtool.c: e1000e_set_priv_flags keeps it for the next suspend. Its hardware features do
    # reset (netdev.c: e1000_set_features), and so do its registers for coalescing.
    "e1000e": {("private-flag", "s0ix-enabled"): NONE},
    "ixgbe": {
        # intel/ixgbe/ixgbe_ethtool.c: ixgbe_set_coalesce resets if usecs cross a threshold, either for
        # write-back of descriptors or for LRO (ixgbe_update_rsc)
        ("coalesce", _ALL): LINK_RESET,
        ("private-flag", _ALL): LINK_RESET,  # ixgbe_set_priv_flags
    },
    "ice": {
        # intel/ice/ice_main.c: ice_set_features resets for rx-fcs and loopback only
        **_features("rx-checksum", "rx-hashing", "rx-ntuple-filter", "hw-tc-offload"),
        **_features("rx-vlan-hw-parse", "rx-vlan-filter", "rx-vlan-stag-hw-parse", "rx-vlan-stag-filter"),
        **_features("tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"),
        # ice_ethtool.c: ice_set_priv_flags. legacy-rx takes the interface down, fw-lldp-agent the link.
        ("private-flag", _ALL): LINK_RESET,
        ("private-flag", "link-down-on-close"): NONE,
        ("private-flag", "vf-true-promisc-support"): NONE,
        ("private-flag", "mdd-auto-reset-vf"): NONE,
    },
    "i40e": {
        # intel/i40e/i40e_main.c: i40e_set_features resets for rx-ntuple-filter only (i40e_set_ntuple)
        **_features("rx-checksum", "rx-hashing", "rx-vlan-hw-parse", "tx-vlan-hw-insert", "hw-tc-offload"),
        # i40e_ethtool.c: i40e_set_priv_flags. No flag reloads the driver, some reset the whole function.
        ("private-flag", _ALL): LINK_RESET,
        ("private-flag", "flow-director-atr"): NONE,
        ("private-flag", "link-down-on-close"): NONE,
    },
    "ena": {
        # amazon/ena/ena_netdev.c: ena_change_mtu is one command to the device; it has no ndo_set_features
        ("mtu", _ALL): NONE,
        **_features("rx-checksum", "rx-hashing"),
    },
    "bnxt_en": {
        # broadcom/bnxt/bnxt_ethtool.c: bnxt_set_coalesce closes and opens the NIC for this one
        ("coalesce", "stats-block-usecs"): LINK_RESET,
        # bnxt.c: bnxt_fix_features takes rx-gro-hw along, and bnxt_set_features closes the NIC for that
        ("feature", "rx-gro"): LINK_RESET,
    },
    "gve": {
        # google/gve/gve_ethtool.c: gve_set_priv_flags starts or stops a timer
        ("private-flag", "report-stats"): NONE,
    },
    "virtio_net": {
        # drivers/net/virtio_net.c: virtnet_set_ringparam empties one queue after the other,
        # virtnet_set_channels and virtnet_set_features are commands to the device; it has no ndo_change_mtu
        ("ring", _ALL): NONE,
        ("channels", _ALL): NONE,
        ("feature", _ALL): NONE,
        ("mtu", _ALL): NONE,
    },
    # drivers/net/vmxnet3/vmxnet3_ethtool.c: vmxnet3_set_features is a command to the device
    "vmxnet3": {("feature", _ALL): NONE},
    # drivers/net/netdevsim/ethtool.c and netdev.c: only numbers are kept
    "netdevsim": {(group, _ALL): NONE for group in (*_GROUPS, "feature")},
    # drivers/net/veth.c: veth_set_features, and no ndo_change_mtu. veth_set_channels does take the carrier.
    "veth": {("feature", _ALL): NONE, ("mtu", _ALL): NONE},
}
