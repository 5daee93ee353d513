# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every `auto` formula, pure, with its source. Units are in the names."""

from __future__ import annotations

from ..model.record import NamedTuple

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


DATA_PATHS = ("local", "nfs")


class Sizing(NamedTuple):
    """Inputs of the formulas that no kernel file shows.

    rtt_us: round trip to the farthest peer that must run at full rate; 100 is one data hall.
    disk_bytes_per_s: what the slowest disk that takes dirty pages writes; 2e9 is one NVMe drive. data_path:
    one of DATA_PATHS, where most of what is written goes.
    hosts, rails: size of the layer-2 domain, for the neighbour table.
    """

    rtt_us: int = 100
    disk_bytes_per_s: int = 2_000_000_000
    data_path: str = "local"
    hosts: int | None = None
    rails: int | None = None


def next_power_of_two(number: int) -> int:
    """The smallest power of two that is not below number (1 for anything below 1)."""
    return 1 << max(0, number - 1).bit_length()


def socket_buffer_need(rate_bit_per_s: int, rtt_us: int) -> int:
    """Socket buffer that keeps a link full, in bytes.

    Four times the bandwidth-delay product, as a power of two: a window must survive the round trip in which
    a lost segment is sent again, so twice the product has to fit, and up to half of a buffer is the kernel's
    own bookkeeping (ip-sysctl.rst: tcp_adv_win_scale).
    """
    return next_power_of_two(4 * (rate_bit_per_s * rtt_us // 8 // 1_000_000))


def socket_buffer_max(rate_bit_per_s: int, rtt_us: int, memory_bytes: int) -> int:
    """Upper bound of a socket buffer, in bytes: the need, never under 16 MiB, milliseconds at 25 Gb/s; never
    over 128 MiB or 1/64 of memory, as each socket may take that much.
    """
    cap = min(128 * MIB, memory_bytes // 64)
    # The cap is last: on a small machine memory counts more than speed.
    return min(max(socket_buffer_need(rate_bit_per_s, rtt_us), 16 * MIB), cap)


def min_free_kbytes(memory_kbytes: int) -> int:
    """Free memory the kernel keeps for atomic allocations (NIC receive), in KiB.

    0.5 % of memory, at most 1 GiB, which is 20 ms of a 400 Gb/s NIC: far under the 5 to 10 % at which Red
    Hat's Performance Tuning Guide sees a machine run out of memory at once (see also vm.rst).
    """
    return min(GIB // KIB, memory_kbytes // 200)


#: The most dirty page cache, however fast the disk is said to be. The limit is one for all disks, and a task
#: that waits for a slower one must not be taken for hung: 120 s (CONFIG_DEFAULT_HUNG_TASK_TIMEOUT) of
#: 125 MB/s, what a hard disk writes, or a gp3 volume of AWS unless more is paid for.
DIRTY_CAP = 120 * 125_000_000

#: With NFS a file's dirty pages are written when it is closed, and close() waits (nfs(5), close-to-open):
#: what was gathered until then is only late. SUSE's support gives these numbers for clients with much memory
#: (document 7010287).
NFS_DIRTY, NFS_DIRTY_BACKGROUND = 600 * MIB, 300 * MIB


def dirty_background_bytes(memory_bytes: int, disk_bytes_per_s: int, data_path: str = "local") -> int:
    """Dirty page cache at which the kernel starts to write, in bytes, whole MiB.

    Two seconds of disk time, at most the kernel's own 10 % default (vm.rst): on 2 TB of memory the
    default waits for 200 GB and then stalls every fsync for minutes. At most a fifth of the cap.
    """
    most = NFS_DIRTY_BACKGROUND if data_path == "nfs" else min(2 * disk_bytes_per_s, DIRTY_CAP // 5)
    return _whole_mib(min(memory_bytes // 10, most))


def dirty_bytes(memory_bytes: int, disk_bytes_per_s: int, data_path: str = "local") -> int:
    """Dirty page cache at which writers are made to wait, in bytes, whole MiB.

    Ten seconds of disk time, at most 40 % of memory: checkpoints burst without stalling, and the
    node is clean again ten seconds later. At most the cap.
    """
    most = NFS_DIRTY if data_path == "nfs" else min(10 * disk_bytes_per_s, DIRTY_CAP)
    return _whole_mib(min(memory_bytes * 2 // 5, most))


def neighbour_gc_thresh3(hosts: int, rails: int) -> int:
    """Hard limit of the neighbour table of IPv4 or IPv6, each of which has one: a power of two
    ≥ 4 · hosts · rails (ip-sysctl.rst).

    Every rail of every peer is one entry, or two where it has an IPv6 address beside its link-local one; the
    rest is room for churn, as the kernel removes entries from half of it on (gc_thresh2).
    """
    return next_power_of_two(4 * hosts * rails)


def hugepages(need_bytes: int, page_bytes: int) -> int:
    """Pages of page_bytes that hold need_bytes and 5 % over, for alignment of several mappings."""
    return -(-need_bytes * 105 // (100 * page_bytes))


def ring_entries(maximum: int) -> int:
    """Descriptors of one ring of a NIC: all it has, at most 8192.

    A ring holds what arrives until its queue is polled: 8192 packets of 4 kB are 0.7 ms at 400 Gb/s. It is
    the most that mlx5 has (en.h: MLX5E_PARAMS_MAXIMUM_LOG_RQ_SIZE), and ice has 8160 (ice.h:
    ICE_MAX_NUM_DESC); where a driver has more, that costs memory and cache, and delays what waits at the end
    of a full ring.
    """
    return min(maximum, 8192)


def fitting_entries(entries: int, queues: int, entry_bytes: int, memory_bytes: int) -> int:
    """As many of these descriptors of a receive ring as all queues of a NIC may have: their buffers take no
    more than 1 % of memory. A power of two, as mlx5 and ena make one of any number; never under 256, with
    which igb and e1000e begin (IGB_DEFAULT_RXD, E1000_DEFAULT_RXD), and the least of ena (ENA_MIN_RING_SIZE).

    1 % is twice what vm.min_free_kbytes keeps for the same packets, and is taken whether any arrive or not.
    """
    most = memory_bytes // 100 // (max(1, queues) * entry_bytes)
    if entries <= most:
        return entries
    return min(entries, max(256, next_power_of_two(most + 1) // 2))


#: Pages behind one descriptor, whatever MTU is set later
_PAGES = {
    # One each, of which a packet of more takes several descriptors (ena_alloc_rx_buffer, gve_rx_alloc_buffer,
    # add_recvbuf_mergeable, vmxnet3_rq_alloc_rx_buf, e1000_alloc_jumbo_rx_buffers)
    **dict.fromkeys(("ena", "gve", "virtio_net", "vmxnet3", "e1000e"), 1),
    # A pair for buffers of 3 KiB, with which they take a large MTU (igb_rx_pg_order and its namesakes)
    **dict.fromkeys(("igb", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice"), 2),
}
#: bnxt_en has one, and up to four in its ring for the rest of a packet (bnxt_set_ring_params: agg_factor).
#: That is the most of the drivers that were looked at, and so the guess for any other.
_MOST_PAGES = 5
#: mlx5 counts packets, and each has a power of two that MTU, headroom and skb_shared_info fit in: 16 KiB for
#: an MTU of 9000 (en/params.c: mlx5e_rx_get_linear_stride_sz, mlx5e_mpwqe_get_log_rq_size)
_MLX5_ENTRY = 16 * KIB


def ring_entry_bytes(driver: str | None, page_bytes: int) -> int:
    """Memory behind one descriptor of a receive ring: what the driver allocates in advance, in bytes. Those
    of a transmit ring point to packets that are there anyhow."""
    if driver == "mlx5_core":
        return _MLX5_ENTRY
    return _PAGES.get(driver or "", _MOST_PAGES) * page_bytes


def channels(maximum: int, cores: int) -> int:
    """Queues of a NIC: one for each physical core of its NUMA node, at most what it has.

    networking/scaling.rst: one for each CPU where there are enough, and no second one for a second thread of
    a core, which brings no more throughput.
    """
    return max(1, min(maximum, cores))


#: Drivers whose RDMA has no use for channels: a completion queue of mlx5_ib is on one of the function's event
#: queues, as many as it has interrupts whatever the channels are (hw/mlx5/cq.c: mlx5_ib_create_cq; core/eq.c:
#: mlx5_comp_eqn_get). Of others that is not known here, and ice refuses a change while RDMA is active
#: (ice_ethtool.c: ice_set_channels).
RDMA_APART = frozenset({"mlx5_core"})

#: Queues of a NIC over which only RDMA goes, for what else there is: neighbours, rdma_cm's addresses, tests.
#: The kernel's own default before 5.18 (netdevice.h: DEFAULT_MAX_NUM_RSS_QUEUES), which has grown with the
#: cores since then, for throughput over sockets.
RAIL_CHANNELS = 8


def _whole_mib(number: int) -> int:
    """Rounded down, so that a few kB more or less of memory after a firmware update change nothing."""
    return max(MIB, number // MIB * MIB)
