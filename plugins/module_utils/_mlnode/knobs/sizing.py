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
    disk_bytes_per_s: write rate of the slowest disk that takes dirty pages; 2e9 is one NVMe drive. data_path:
    one of DATA_PATHS, the target of most writes. hosts, rails: size of the layer-2 domain, for the neighbour
    table.
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


#: The most dirty page cache, however fast the declared disk is. The limit is shared by all disks, and a task
#: that waits for a slower disk must not be taken for hung. 120 s (CONFIG_DEFAULT_HUNG_TASK_TIMEOUT) at 125
#: MB/s, the rate of a hard disk or of a default AWS gp3 volume.
DIRTY_CAP = 120 * 125_000_000

#: NFS writes a file's dirty pages when it is closed, and close() waits (nfs(5), close-to-open). Gathering
#: more pages only delays the write. SUSE's support gives these numbers for clients with much memory (document
#: 7010287).
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
    """Hard limit of the neighbour table of IPv4 or of IPv6: a power of two ≥ 4 · hosts · rails
    (ip-sysctl.rst).

    Every rail of every peer takes one entry, or two if it has a global and a link-local IPv6 address. The
    rest is room for churn, as the kernel starts to remove entries at half the limit (gc_thresh2).
    """
    return next_power_of_two(4 * hosts * rails)


def hugepages(need_bytes: int, page_bytes: int) -> int:
    """Pages of page_bytes that hold need_bytes and 5 % over, for alignment of several mappings."""
    return -(-need_bytes * 105 // (100 * page_bytes))


def ring_entries(maximum: int) -> int:
    """Descriptors of one ring of a NIC: its maximum, at most 8192.

    A ring holds the packets that arrive before its queue is polled; 8192 packets of 4 kB are 0.7 ms at 400
    Gb/s. mlx5 has no larger ring (en.h: MLX5E_PARAMS_MAXIMUM_LOG_RQ_SIZE), and ice has 8160 (ice.h:
    ICE_MAX_NUM_DESC). Larger rings of other drivers cost memory and cache, and delay the packets at the end
    of a full ring.
    """
    return min(maximum, 8192)


def fitting_entries(entries: int, queues: int, entry_bytes: int, memory_bytes: int) -> int:
    """Descriptors of one receive ring whose buffers, over all queues of a NIC, take at most 1 % of memory.

    A power of two, as mlx5 and ena round any number to one. Never under 256, the default of igb and e1000e
    (IGB_DEFAULT_RXD, E1000_DEFAULT_RXD) and the minimum of ena (ENA_MIN_RING_SIZE). 1 % is twice the reserve
    of vm.min_free_kbytes for the same packets, and the buffers are allocated whether or not packets arrive.
    """
    most = memory_bytes // 100 // (max(1, queues) * entry_bytes)
    if entries <= most:
        return entries
    return min(entries, max(256, next_power_of_two(most + 1) // 2))


def channels(maximum: int, cores: int) -> int:
    """Queues of a NIC: one for each physical core of its NUMA node, at most its maximum.

    networking/scaling.rst recommends a queue for each CPU, but none for a second thread of a core, which adds
    no throughput.
    """
    return max(1, min(maximum, cores))


#: Queues of a NIC that carries only RDMA, for its few other packets: neighbours, addresses of rdma_cm, tests.
#: The kernel's own default before 5.18 (netdevice.h: DEFAULT_MAX_NUM_RSS_QUEUES); the later default grows
#: with the cores, for throughput over sockets.
RAIL_CHANNELS = 8


def _whole_mib(number: int) -> int:
    """Round down, so that a firmware update cannot change the value by taking a few kB of memory."""
    return max(MIB, number // MIB * MIB)
