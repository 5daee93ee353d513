# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Severity, reason and source of every sysctl the roles declare; one line per key, kept here once.

Sources: vm.rst, kernel.rst, fs.rst and net.rst are Documentation/admin-guide/sysctl/ of the kernel,
ip-sysctl.rst is Documentation/networking/, tcp(7) the manual page.
"""

from __future__ import annotations

from ...engine.kind import Info
from ...model.setting import Severity, Value
from ...model.values import integers
from .parse import node_pages
from .schema import OPTIONS

_H, _M, _L = Severity.HIGH, Severity.MEDIUM, Severity.LOW

#: vm.swappiness above this is severity high: swapped-out staging buffers stall whole collectives
SWAPPINESS_HIGH = 10

_BUFFERS = (
    "caps what SO_RCVBUF/SO_SNDBUF may ask for; below the bandwidth-delay product a flow cannot fill the link"
)
_AUTOTUNE = "the third number bounds TCP's own buffer growth, so it bounds the rate of one flow"
_KEEPALIVE = "a dead peer is noticed in minutes instead of two hours, so processes that wait for it can go on"
_DIRTY = (
    "a share of memory is far too much on a large node: one flush of hundreds of GB stalls every checkpoint"
)
_NEIGH = "one entry per rail of each peer; a full table drops traffic as `neighbour table overflow`"

INFO: dict[str, Info] = {
    "vm.swappiness": Info(_M, "what computes must stay resident; 0 would still swap under pressure", "vm.rst"),
    "vm.overcommit_memory": Info(_M, "1 turns ENOMEM into OOM kills; 2 can keep root out", "vm.rst"),
    "vm.dirty_background_bytes": Info(_M, _DIRTY, "vm.rst"),
    "vm.dirty_bytes": Info(_M, _DIRTY, "vm.rst"),
    "vm.min_free_kbytes": Info(_M, "atomic allocations of a NIC's receive path fail when free memory is fragmented", "vm.rst"),
    "vm.zone_reclaim_mode": Info(
        _L,
        "reclaiming the local node before using a remote one stalls data loaders; 1 is a choice for jobs laid out by node",
        "vm.rst; 1: tuned (hpc-compute), Azure/azhpc-images (hpc-tuning.sh)",
    ),
    "vm.nr_hugepages": Info(_M, "pages in the pool are lost to everything else, and needed by who reserved them", "vm.rst, hugetlbpage.rst"),
    "vm.max_map_count": Info(_M, "CUDA and large sharded checkpoints map more than 65530 regions per process", "vm.rst"),
    "vm.compaction_proactiveness": Info(_L, "background compaction costs latency on serving nodes", "vm.rst"),
    "vm.watermark_scale_factor": Info(_L, "kswapd wakes earlier, so fewer allocations stall in direct reclaim", "vm.rst"),
    "vm.stat_interval": Info(_L, "fewer timer interruptions of serving CPUs", "vm.rst"),
    "kernel.numa_balancing": Info(_M, "page scanning and migration stall threads that are pinned already", "kernel.rst"),
    "kernel.sched_autogroup_enabled": Info(_L, "per-session groups distort the CPU shares of programs in one session", "sched(7)"),
    "kernel.sched_migration_cost_ns": Info(_L, "a higher cost keeps busy threads on their caches", "kernel/sched/fair.c"),
    "kernel.nmi_watchdog": Info(_L, "frees a performance counter and its periodic interrupt", "kernel.rst"),
    "kernel.timer_migration": Info(_L, "timers stay on the CPU that armed them", "kernel.rst"),
    "kernel.pid_max": Info(_M, "32768 threads are too few for many data loader workers on a large node", "kernel.rst"),
    "fs.file-max": Info(_M, "sharded data sets and sockets of one node exceed small limits", "fs.rst"),
    "fs.nr_open": Info(_M, "upper bound of any process's own nofile limit", "fs.rst"),
    "fs.aio-max-nr": Info(_L, "asynchronous I/O contexts of storage clients", "fs.rst"),
    "fs.inotify.max_user_watches": Info(_L, "watchers of large source and data trees", "inotify(7)"),
    "fs.inotify.max_user_instances": Info(_M, "each container takes some; at 128 the kubelet fails with too many open files", "inotify(7)"),
    "net.core.rmem_max": Info(_M, _BUFFERS, "net.rst, tcp(7)"),
    "net.core.wmem_max": Info(_M, _BUFFERS, "net.rst, tcp(7)"),
    "net.core.rmem_default": Info(_L, "given to every UDP and AF_UNIX socket, so it multiplies", "net.rst"),
    "net.core.wmem_default": Info(_L, "given to every UDP and AF_UNIX socket, so it multiplies", "net.rst"),
    "net.ipv4.tcp_rmem": Info(_M, _AUTOTUNE, "ip-sysctl.rst"),
    "net.ipv4.tcp_wmem": Info(_M, _AUTOTUNE, "ip-sysctl.rst"),
    "net.ipv4.tcp_window_scaling": Info(_H, "without it a flow is limited to 64 KiB in flight", "ip-sysctl.rst, RFC 7323"),
    "net.ipv4.tcp_congestion_control": Info(_M, "bbr holds its rate on lossy long paths to object stores", "ip-sysctl.rst"),
    "net.core.default_qdisc": Info(_L, "fq paces as bbr expects; counts for queues made later only", "net.rst"),
    "net.core.netdev_max_backlog": Info(_L, "per-CPU queue behind RPS and loopback; too large only adds memory and delay", "net.rst"),
    "net.core.somaxconn": Info(_M, "a burst of connections, of ranks or of clients, overflows a short queue", "ip-sysctl.rst"),
    "net.ipv4.tcp_max_syn_backlog": Info(_M, "as somaxconn, for half-open connections", "ip-sysctl.rst"),
    "net.ipv4.tcp_tw_reuse": Info(_L, "outgoing ports in TIME_WAIT are reused when safe", "ip-sysctl.rst"),
    "net.ipv4.tcp_fin_timeout": Info(_L, "orphaned FIN_WAIT_2 sockets go sooner; TIME_WAIT stays 60 s", "ip-sysctl.rst"),
    "net.ipv4.tcp_max_tw_buckets": Info(_L, "above it TIME_WAIT sockets are destroyed early", "ip-sysctl.rst"),
    "net.ipv4.ip_local_port_range": Info(_M, "all-to-all start-up runs out of the default 28000 ports", "ip-sysctl.rst"),
    "net.ipv4.ip_local_reserved_ports": Info(_M, "keeps listening ports (rendezvous, exporters) from being taken as source ports", "ip-sysctl.rst"),
    "net.ipv4.tcp_keepalive_time": Info(_M, _KEEPALIVE, "ip-sysctl.rst"),
    "net.ipv4.tcp_keepalive_intvl": Info(_M, _KEEPALIVE, "ip-sysctl.rst"),
    "net.ipv4.tcp_keepalive_probes": Info(_M, _KEEPALIVE, "ip-sysctl.rst"),
    "net.ipv4.tcp_slow_start_after_idle": Info(_M, "collectives are bursts with pauses; each would start slowly again", "ip-sysctl.rst"),
    "net.ipv4.tcp_notsent_lowat": Info(_L, "less unsent data queued in the kernel per socket", "ip-sysctl.rst"),
    "net.ipv4.tcp_mtu_probing": Info(_L, "a path that drops jumbo frames silently is found instead of hanging", "ip-sysctl.rst, RFC 4821"),
    "net.core.busy_read": Info(_L, "polls the NIC on read: microseconds for CPU time", "net.rst"),
    "net.core.busy_poll": Info(_L, "polls the NIC on poll/select: microseconds for CPU time", "net.rst"),
    "net.core.rps_sock_flow_entries": Info(_L, "flow table of RFS; a power of two", "scaling.rst"),
    "net.ipv4.neigh.default.gc_thresh1": Info(_M, _NEIGH, "ip-sysctl.rst"),
    "net.ipv4.neigh.default.gc_thresh2": Info(_M, _NEIGH, "ip-sysctl.rst"),
    "net.ipv4.neigh.default.gc_thresh3": Info(_M, _NEIGH, "ip-sysctl.rst"),
    "net.ipv6.neigh.default.gc_thresh1": Info(_M, _NEIGH, "ip-sysctl.rst"),
    "net.ipv6.neigh.default.gc_thresh2": Info(_M, _NEIGH, "ip-sysctl.rst"),
    "net.ipv6.neigh.default.gc_thresh3": Info(_M, _NEIGH, "ip-sysctl.rst"),
}  # fmt: skip

#: Keys that may be higher: profiles raise them, and a lower number may not suffice for programs
CAPACITIES = frozenset(
    {
        *("fs.aio-max-nr", "fs.file-max", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"),
        *("fs.nr_open", "kernel.pid_max", "kernel.threads-max", "vm.max_map_count", "vm.min_free_kbytes"),
        *("net.core.netdev_max_backlog", "net.core.rmem_max", "net.core.somaxconn", "net.core.wmem_max"),
        *("net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_rmem"),
        *("net.ipv4.tcp_wmem", "vm.stat_interval", "vm.watermark_scale_factor"),
        *(f"net.{family}.neigh.default.gc_thresh{n}" for family in ("ipv4", "ipv6") for n in (1, 2, 3)),
    }
)

#: The same for keys that only operators declare, often with values from old guides below today's defaults
#: (kernel.shmmax). Keys with 0 or less for unlimited are left out.
_MORE_CAPACITIES = frozenset(
    {
        *("kernel.shmmax", "kernel.shmall", "kernel.shmmni", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"),
        *("kernel.sem", "kernel.keys.maxkeys", "kernel.keys.maxbytes", "kernel.keys.root_maxkeys"),
        *("kernel.keys.root_maxbytes", "kernel.perf_event_mlock_kb", "vm.nr_hugepages", "vm.nr_overcommit_hugepages"),
        *("fs.pipe-max-size", "fs.epoll.max_user_watches", "fs.inotify.max_queued_events"),
        *("fs.mqueue.msg_max", "fs.mqueue.msgsize_max", "fs.mqueue.queues_max", "fs.fanotify.max_user_marks"),
        *("fs.fanotify.max_user_groups", "fs.fanotify.max_queued_events", "net.core.optmem_max"),
        *("net.core.rmem_default", "net.core.wmem_default", "net.core.netdev_budget", "net.ipv4.tcp_mem"),
        *("net.ipv4.udp_mem", "net.ipv4.tcp_max_orphans", "net.ipv4.ipfrag_high_thresh"),
        *("net.ipv6.ip6frag_high_thresh", "net.ipv6.route.max_size", "net.unix.max_dgram_qlen"),
        *("net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_buckets"),
        *("net.netfilter.nf_conntrack_expect_max", "net.ipv4.ip_local_reserved_ports"),
        *("net.core.rps_sock_flow_entries", "sunrpc.tcp_slot_table_entries", "sunrpc.tcp_max_slot_table_entries"),
    }
)  # fmt: skip


def is_capacity(key: str) -> bool:
    """True if a higher value is acceptable; lowering it then has at least severity medium. Includes
    user.max_user_namespaces and its like.
    """
    return (
        key in CAPACITIES or key in _MORE_CAPACITIES or key.startswith("user.max_") or bool(node_pages(key))
    )


_PER_INTERFACE = {
    "arp_ignore": Info(_H, "with several rails in one subnet the wrong NIC would answer ARP", "ip-sysctl.rst"),
    "arp_announce": Info(_H, "with several rails in one subnet the wrong address would be announced", "ip-sysctl.rst"),
    "rp_filter": Info(_H, "strict mode drops replies that come back over another rail; the greater of all and IF counts", "ip-sysctl.rst"),
}  # fmt: skip

_OF_ANY = OPTIONS["settings"]
_UNKNOWN = Info(_OF_ANY.severity, _OF_ANY.reason, _OF_ANY.source)


def info(key: str, runtime: Value) -> Info:
    """Facts about a key; the severity may depend on how far off the node is."""
    if key.startswith(("net.ipv4.conf.", "net.ipv6.conf.")):
        return _PER_INTERFACE.get(key.rsplit(".", 1)[-1], _UNKNOWN)
    known = INFO.get("vm.nr_hugepages" if node_pages(key) else key, _UNKNOWN)
    if key == "vm.swappiness":
        now = integers(runtime.text or "")
        if now and now[0] > SWAPPINESS_HIGH:
            return Info(Severity.HIGH, known.reason, known.source)
    return known
