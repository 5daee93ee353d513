# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handlers of the known keys of /proc/sys, which read the text that is written there.

Read from the tables of struct ctl_table in Linux 4.19 and 6.12, and held against Linux 6.18 itself by
tests/system/test_sysctl_grammar.py. The names of the keys and their widest ranges are in sysctl_keys; here is
what differs from one plain number: vectors, units that the kernel converts, ranges which are narrower in some
kernels, and parsers of their own. A key without a handler here is known to no rule: the effect of a text on
it is unknown.
"""

from __future__ import annotations

from ..model.record import NamedTuple
from . import sysctl_keys

_INT_MAX = (1 << 31) - 1
#: More than any number has, for ranges without an end
_ANY = (-(1 << 64), 1 << 64)


class Handler(NamedTuple):
    """form: `numbers`, `text`, `list`, `word` or `fixed`; empty where no rule is known.

    size: numbers of the file, or greatest length of a text, or end of a list. taken: numbers that all
    kernels take, None for none; possible: those that some kernel takes. step: its multiples are shown as
    they were written, and the kernel rounds others. whole: an error leaves all numbers as they were. rule:
    what is done with numbers that were read.
    """

    form: str = ""
    size: int = 1
    taken: tuple[int, int] | None = None
    possible: tuple[int, int] = _ANY
    step: int = 1
    whole: bool = False
    rule: str = ""


#: More than one number. The least number of tcp_rmem grew with SOCK_MIN_RCVBUF (include/net/sock.h).
_VECTORS = {
    "kernel/acct": 3,
    "kernel/printk": 4,
    "kernel/sem": 4,
    "net/ipv4/ip_local_port_range": 2,
    "net/ipv4/ping_group_range": 2,
    "net/ipv4/tcp_mem": 3,
    "net/ipv4/tcp_rmem": 3,
    "net/ipv4/tcp_wmem": 3,
    "net/ipv4/udp_mem": 3,
}

#: Vectors of unsigned long. Until 6.2 they pass over a number below 0, until 5.3 over one out of range, and
#: read the others (commits 1622ed7d0743 and e260ad01f0aa).
LONG_VECTORS = frozenset({"net/ipv4/ping_group_range", "net/ipv4/tcp_mem", "net/ipv4/udp_mem"})

#: Handlers that read into a copy, which an error throws away (net/ipv4/sysctl_net_ipv4.c)
_WHOLE = frozenset({"net/ipv4/ip_local_port_range", "net/ipv4/ping_group_range"})

#: What is done with the numbers: see sysctl_values._RULES
_RULED = {
    "kernel/sem": "semaphores",
    "net/core/flow_limit_table_len": "power",
    "net/core/rps_sock_flow_entries": "rounded",
    "net/ipv4/ip_local_port_range": "ports",
    "net/ipv4/ping_group_range": "groups",
}

#: proc_dointvec_jiffies() and its sisters keep an int of ticks. CONFIG_HZ of the distributions' kernels is
#: 100, 250 or 1000, and no file shows it: what depends on it is unknown. Greatest number with 1000 and with
#: 100; USER_HZ is 100.
_UNITS = {
    "s": Handler(
        "numbers", 1, (-(_INT_MAX // 1000), _INT_MAX // 1000), (-(_INT_MAX // 100), _INT_MAX // 100)
    ),
    "ms": Handler("numbers", 1, (0, _INT_MAX), _ANY, step=20),
    "ms>0": Handler("numbers", 1, (1, _INT_MAX), _ANY, step=20),
    "ticks": Handler("numbers", 1, (0, _INT_MAX // 10), _ANY, step=2),
}

#: Folder → names, each with the unit that its numbers have
_SCALED = {
    "kernel": "printk_ratelimit:s",
    "net/core": "message_cost:s",
    "net/ipv4": (
        "icmp_ratelimit:ms inet_peer_maxttl:s inet_peer_minttl:s ipfrag_secret_interval:s ipfrag_time:s "
        "tcp_fin_timeout:s tcp_invalid_ratelimit:ms tcp_keepalive_intvl:s tcp_keepalive_time:s"
    ),
    "net/ipv4/neigh/*": (
        "anycast_delay:ticks base_reachable_time:s base_reachable_time_ms:ms delay_first_probe_time:s "
        "gc_interval:s gc_stale_time:s interval_probe_time_ms:ms>0 locktime:ticks proxy_delay:ticks "
        "retrans_time:ticks retrans_time_ms:ms"
    ),
    "net/ipv4/route": "gc_interval:s gc_min_interval:s gc_min_interval_ms:ms gc_timeout:s mtu_expires:s",
    "net/ipv6": "idgen_delay:s ip6frag_secret_interval:s ip6frag_time:s",
    "net/ipv6/conf/*": (
        "mldv1_unsolicited_report_interval:ms mldv2_unsolicited_report_interval:ms router_probe_interval:s "
        "router_solicitation_delay:s router_solicitation_interval:s router_solicitation_max_interval:s"
    ),
    "net/ipv6/icmp": "ratelimit:ms",
    "net/ipv6/neigh/*": (
        "anycast_delay:ticks base_reachable_time:s base_reachable_time_ms:ms delay_first_probe_time:s "
        "gc_interval:s gc_stale_time:s interval_probe_time_ms:ms>0 locktime:ticks proxy_delay:ticks "
        "retrans_time:ticks retrans_time_ms:ms"
    ),
    "net/ipv6/route": "gc_interval:s gc_min_interval:s gc_min_interval_ms:ms gc_timeout:s mtu_expires:s",
    "net/mptcp": "add_addr_timeout:s close_timeout:s",
    "vm": "stat_interval:s",
}

#: Where the names of all keys with this beginning count seconds (net/netfilter/nf_conntrack_standalone.c)
_SECONDS = ("net/netfilter/nf_conntrack_", "net/netfilter/nf_flowtable_")

#: Where any number but 0 is shown as 1 (net/bridge/br_netfilter_hooks.c: brnf_sysctl_call_tables)
_SWITCHES = "net/bridge/bridge-nf-"

#: Numbers that every kernel takes, where the widest range is that of some: a kernel before 6.1 takes fewer
_NARROW_ONCE = {
    "kernel/numa_balancing": (0, 1),
    "net/core/fb_tunnels_only_for_init_net": (0, 1),
    "net/ipv4/fib_multipath_hash_policy": (0, 1),
    "net/ipv6/fib_multipath_hash_policy": (0, 1),
    "vm/swappiness": (0, 100),
    "vm/watermark_scale_factor": (1, 1000),
}

#: Since 6.10 the bytes of dirty memory are at most UINT_MAX pages, of 4 KiB or more (mm/page-writeback.c)
_DIRTY_MAX = ((1 << 32) - 1) * 4096

#: The same in newer ones, or by what the machine or the build of the kernel is
_NARROW = {
    "fs/file-max": (0, (1 << 63) - 1),
    "kernel/core_file_note_size_limit": None,
    "kernel/core_pipe_limit": (0, _INT_MAX),
    "kernel/dpm_watchdog_timeout_secs": None,
    "kernel/dpm_watchdog_warning_timeout_secs": None,
    "kernel/hung_task_panic": (0, 1),
    "kernel/msgmni": (0, 32768),
    "kernel/perf_event_max_sample_rate": None,
    "kernel/pid_max": (1 << 16, 1 << 22),
    "kernel/sched_latency_ns": (100000, 10**9),
    "kernel/sched_min_granularity_ns": (100000, 10**9),
    "kernel/shmmni": (0, 32768),
    "kernel/softlockup_panic": (0, 1),
    "net/core/bpf_jit_limit": None,
    "net/core/dev_weight": (1, _INT_MAX),
    "net/core/dev_weight_rx_bias": (1, _INT_MAX),
    "net/core/dev_weight_tx_bias": (1, _INT_MAX),
    "net/core/max_skb_frags": (1, 17),
    "net/core/mem_pcpu_rsv": None,
    "net/core/netdev_budget_usecs": (20000, _INT_MAX),
    "net/core/optmem_max": (0, _INT_MAX),
    "net/core/rmem_default": (8192, _INT_MAX),
    "net/core/rmem_max": (8192, _INT_MAX),
    "net/core/skb_defer_max": (0, _INT_MAX),
    "net/core/wmem_default": (8192, _INT_MAX),
    "net/core/wmem_max": (8192, _INT_MAX),
    "net/ipv4/fib_multipath_hash_fields": (1, 255),
    "net/ipv4/fib_sync_mem": (1 << 16, 1 << 20),
    "net/ipv4/ipfrag_high_thresh": None,
    "net/ipv4/ipfrag_low_thresh": None,
    "net/ipv4/ipfrag_max_dist": (0, _INT_MAX),
    "net/ipv4/ping_group_range": (0, _INT_MAX),
    "net/ipv4/route/min_pmtu": (576, _INT_MAX),
    "net/ipv4/tcp_ecn": (0, 2),
    "net/ipv4/tcp_ecn_option": (0, 2),
    "net/ipv4/tcp_fastopen_blackhole_timeout_sec": (0, _INT_MAX),
    "net/ipv4/tcp_min_snd_mss": (48, 65535),
    "net/ipv4/tcp_min_tso_segs": (1, 255),
    "net/ipv4/tcp_mtu_probe_floor": (48, 65535),
    "net/ipv4/tcp_probe_interval": (0, ((1 << 32) - 1) // 1000),
    "net/ipv4/tcp_reordering": None,
    "net/ipv4/tcp_retries1": (0, 255),
    "net/ipv4/tcp_rmem": (4096, _INT_MAX),
    "net/ipv4/tcp_syn_linear_timeouts": (0, 127),
    "net/ipv4/tcp_syn_retries": (1, 127),
    "net/ipv4/tcp_tw_reuse_delay": (1, 60000),
    "net/ipv4/udp_child_hash_entries": (0, 1 << 16),
    "net/ipv4/neigh/*/unres_qlen": None,
    "net/ipv6/auto_flowlabels": (0, 3),
    "net/ipv6/fib_multipath_hash_fields": (1, 255),
    "net/ipv6/ioam6_id": (0, (1 << 24) - 1),
    "net/ipv6/ioam6_id_wide": (0, (1 << 24) - 1),
    "net/ipv6/ip6frag_high_thresh": None,
    "net/ipv6/ip6frag_low_thresh": None,
    "net/ipv6/conf/*/addr_gen_mode": (0, 1),
    "net/ipv6/conf/*/mtu": None,
    "net/ipv6/conf/*/ra_defrtr_metric": (1, (1 << 32) - 1),
    "net/ipv6/icmp/echo_ignore_all": (0, 1),
    "net/ipv6/icmp/echo_ignore_anycast": (0, 1),
    "net/ipv6/icmp/echo_ignore_multicast": (0, 1),
    "net/ipv6/icmp/error_anycast_as_unicast": (0, 1),
    "net/ipv6/neigh/*/unres_qlen": None,
    "net/ipv6/route/skip_notify_on_dev_down": (0, 1),
    "net/mptcp/blackhole_timeout": (0, _INT_MAX),
    "net/mptcp/pm_type": (0, 1),
    "net/netfilter/nf_conntrack_frag6_high_thresh": None,
    "net/netfilter/nf_conntrack_frag6_low_thresh": None,
    "net/unix/max_dgram_qlen": (0, _INT_MAX),
    "vm/dirty_background_bytes": (1, _DIRTY_MAX),
    "vm/dirtytime_expire_seconds": (0, _INT_MAX),
    "vm/hugetlb_optimize_vmemmap": (0, 1),
    "vm/min_free_kbytes": (0, _INT_MAX),
    "vm/mmap_rnd_bits": None,
    "vm/mmap_rnd_compat_bits": None,
    "vm/page-cluster": (0, 10),
    "vm/percpu_pagelist_fraction": None,
    "vm/percpu_pagelist_high_fraction": None,
}

#: Numbers for which sysctl_keys has no range: those that all kernels take, and those that some do
_NUMBERS = {
    "fs/pipe-max-size": (None, (0, (1 << 64) - 1)),
    "kernel/hung_task_timeout_secs": ((0, _INT_MAX), (0, (1 << 64) - 1)),
    "kernel/sysrq": ((-_INT_MAX - 1, _INT_MAX), (-_INT_MAX - 1, _INT_MAX)),
    "kernel/threads-max": ((20, (1 << 30) - 1), (1, _INT_MAX)),
    "net/core/flow_limit_table_len": ((0, _INT_MAX), (-_INT_MAX - 1, _INT_MAX)),
    "net/core/rps_sock_flow_entries": ((0, 1 << 24), (0, 1 << 29)),
    "net/ipv4/ip_forward": ((-_INT_MAX - 1, _INT_MAX), (-_INT_MAX - 1, _INT_MAX)),
    "net/ipv4/ip_unprivileged_port_start": (None, (0, 65535)),
    "net/ipv4/ping_group_range": ((0, _INT_MAX), (0, (1 << 32) - 2)),
    "vm/dirty_bytes": ((1 << 17, _DIRTY_MAX), (1, (1 << 64) - 1)),
    "vm/dirty_writeback_centisecs": ((0, _INT_MAX), (-_INT_MAX - 1, _INT_MAX)),
    "vm/nr_hugepages": ((0, _INT_MAX), (0, (1 << 64) - 1)),
    "vm/nr_hugepages_mempolicy": ((0, _INT_MAX), (0, (1 << 64) - 1)),
    "vm/nr_overcommit_hugepages": ((0, _INT_MAX), (0, (1 << 64) - 1)),
    "vm/overcommit_kbytes": ((0, (1 << 63) - 1), (0, (1 << 64) - 1)),
    "vm/overcommit_ratio": ((0, _INT_MAX), (-_INT_MAX - 1, _INT_MAX)),
}

#: Handlers which ask for more than a range, such as another value, the hardware, or what was set before, and
#: folders of drivers whose ranges were not read. A text without a number is refused by these as well. The
#: second group of names cannot be written.
_CHECKED = frozenset(
    {
        "kernel/kexec_load_limit_panic",
        "kernel/kexec_load_limit_reboot",
        "kernel/auto_msgmni",
        "kernel/nmi_watchdog",
        "kernel/ns_last_pid",
        "kernel/perf_event_max_contexts_per_stack",
        "kernel/perf_event_max_stack",
        "kernel/sched_deadline_period_max_us",
        "kernel/sched_deadline_period_min_us",
        "kernel/sched_energy_aware",
        "kernel/sched_rt_period_us",
        "kernel/sched_rt_runtime_us",
        "kernel/soft_watchdog",
        "kernel/unprivileged_bpf_disabled",
        "kernel/watchdog",
        "kernel/yama/ptrace_scope",
        "net/core/bpf_jit_enable",
        "net/netfilter/nf_conntrack_buckets",
        "net/vrf/strict_mode",
        *("fs/aio-nr", "kernel/bootloader_type", "kernel/bootloader_version", "kernel/cap_last_cap"),
        *("kernel/ngroups_max", "kernel/random/entropy_avail", "kernel/random/poolsize"),
        *(
            "net/ipv4/conf/*/mc_forwarding",
            "net/ipv6/conf/*/mc_forwarding",
            "net/netfilter/nf_conntrack_count",
        ),
    }
)
_CHECKED_FOLDERS = (
    "abi/", "crypto/", "dev/", "fs/fuse/", "fs/nfs/", "fs/ntfs/", "fs/ocfs2/", "fs/xfs/", "kernel/perfmon/",
    "kernel/pty/", "net/dccp/", "net/ipv4/vs/", "net/iw_cm/", "net/mpls/", "net/rds/", "net/sctp/",
    "net/smc/", "net/tipc/", "net/vsock/", "sunrpc/",
)  # fmt: skip

#: proc_dostring() → the greatest length: what is longer is cut. core_pattern has rules of its own since 6.16.
_TEXTS = {
    "kernel/core_pattern": 127,
    "kernel/domainname": 64,
    "kernel/hostname": 64,
    "kernel/hotplug": 255,
    "kernel/modprobe": 255,
    "kernel/poweroff_cmd": 255,
}

#: Names of something that the kernel has or a module brings, and other words: no numbers
_WORDS = frozenset(
    {
        "kernel/printk_devkmsg",
        "kernel/seccomp/actions_logged",
        "net/core/default_qdisc",
        "net/ipv4/tcp_allowed_congestion_control",
        "net/ipv4/tcp_congestion_control",
        "net/ipv4/tcp_fastopen_key",
        "net/ipv6/conf/*/stable_secret",
        "net/mptcp/path_manager",
        "net/mptcp/scheduler",
        "vm/numa_zonelist_order",
    }
)

#: proc_do_large_bitmap(): lists such as 1,5-9, with the number below which all members are. Ports have 16
#: bits (net/ipv4/sysctl_net_ipv4.c), types of ICMPv6 8 (net/ipv6/icmp.c); CPUs are at most 8192
#: (arch/x86/Kconfig: NR_CPUS_RANGE_END), and those that cannot be are left out.
_LISTS = {
    "kernel/watchdog_cpumask": 1 << 13,
    "net/ipv4/ip_local_reserved_ports": 1 << 16,
    "net/ipv6/icmp/ratemask": 1 << 8,
}

#: bitmap_parse(): hexadecimal masks of the CPUs that are possible, of which a refused text may change some as
#: well (net/core/sysctl_net_core.c)
_MASKS = frozenset({"net/core/flow_limit_cpu_bitmap", "net/core/rps_default_mask"})


def of(path: str, release: str = "") -> Handler:
    """The handler of a key. path: below /proc/sys, with slashes. release: of the kernel, empty if unknown."""
    path = sysctl_keys.general(path)
    if path in _TEXTS:
        return Handler("text", _TEXTS[path])
    if path in _LISTS:
        return Handler("list", _LISTS[path])
    if path in _MASKS:
        return Handler("mask")
    if path in _WORDS:
        return Handler("word")
    unit = _unit(path)
    if unit and sysctl_keys.is_known(path):
        return _UNITS[unit]
    return _numbers(path, release)


def _unit(path: str) -> str:
    if path.startswith(_SECONDS) and "_timeout" in path:
        return "s"
    folder, _slash, name = path.rpartition("/")
    for one in _SCALED.get(folder, "").split():
        known, _colon, unit = one.partition(":")
        if known == name:
            return unit
    return ""


def _numbers(path: str, release: str) -> Handler:
    if path.startswith(_SWITCHES):
        return Handler("numbers", 1, sysctl_keys.INT, sysctl_keys.INT, rule="switch")
    taken, possible = _ranges(path, release)
    if possible is None:
        return Handler()
    return Handler(
        "numbers", _VECTORS.get(path, 1), taken, possible, whole=path in _WHOLE, rule=_RULED.get(path, "")
    )


def _ranges(path: str, release: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Numbers that all kernels of this release take, and those that some do; None: none, or not known."""
    if path in _NUMBERS:
        taken, possible = _NUMBERS[path]
        return (None if path in _CHECKED else taken), possible
    widest = sysctl_keys.span(path, "")
    new = sysctl_keys.span(path, sysctl_keys.NEWEST)
    if new is None:
        return None, None
    # An int in old kernels, where it has a range today
    modern = sysctl_keys.is_modern(release)
    possible = new if modern or widest is not None else sysctl_keys.INT
    if path in _CHECKED or path.startswith(_CHECKED_FOLDERS):
        return None, possible
    if not modern and path in _NARROW_ONCE:
        return _NARROW_ONCE[path], possible
    return _NARROW.get(path, new), possible
