# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory behind the rings of a NIC, and the use of its channels, by driver."""

from __future__ import annotations

#: Drivers whose RDMA has no use for channels: a completion queue of mlx5_ib is on one of the function's event
#: queues, as many as it has interrupts whatever the channels are (hw/mlx5/cq.c: mlx5_ib_create_cq; core/eq.c:
#: mlx5_comp_eqn_get). Other drivers are not examined, and ice refuses a change while RDMA is active
#: (ice_ethtool.c: ice_set_channels).
RDMA_APART = frozenset({"mlx5_core"})

#: Pages behind one descriptor, whatever MTU is set later
_PAGES = {
    # One each; a larger packet takes several descriptors (ena_alloc_rx_buffer, gve_rx_alloc_buffer,
    # add_recvbuf_mergeable, vmxnet3_rq_alloc_rx_buf, e1000_alloc_jumbo_rx_buffers)
    **dict.fromkeys(("ena", "gve", "virtio_net", "vmxnet3", "e1000e"), 1),
    # A pair for buffers of 3 KiB, with which they take a large MTU (igb_rx_pg_order and its namesakes)
    **dict.fromkeys(("igb", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice"), 2),
}
#: bnxt_en has one, and up to four in its ring for the rest of a packet (bnxt_set_ring_params: agg_factor). No
#: other examined driver has more, so this is the guess for unknown drivers.
_MOST_PAGES = 5
#: mlx5 counts packets, and each has a power of two that MTU, headroom and skb_shared_info fit in: 16 KiB for
#: an MTU of 9000 (en/params.c: mlx5e_rx_get_linear_stride_sz, mlx5e_mpwqe_get_log_rq_size)
_MLX5_ENTRY = 16 << 10


def ring_entry_bytes(driver: str | None, page_bytes: int) -> int:
    """Bytes that the driver allocates in advance for one descriptor of a receive ring.

    Transmit rings need none: their descriptors point to packets that exist anyway.
    """
    if driver == "mlx5_core":
        return _MLX5_ENTRY
    return _PAGES.get(driver or "", _MOST_PAGES) * page_bytes
