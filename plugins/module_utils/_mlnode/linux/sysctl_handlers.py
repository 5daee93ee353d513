# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handlers of the known keys of /proc/sys, which read the text that is written there.

Read from the tables of struct ctl_table in Linux 4.19 and 6.12, and compared with Linux 6.18 itself by
tests/system/test_sysctl_grammar.py. sysctl_keys has the names of the keys and their widest ranges. This
module has the differences from one plain number: vectors, units that the kernel converts, ranges that are
narrower in some kernels, and special parsers. The effect of a text on a key without a handler is unknown.
"""

from __future__ import annotations

from ..model.record import NamedTuple
from . import sysctl_keys

_INT_MAX = (1 << 31) - 1
#: More than any number has, for ranges without an end
_ANY = (-(1 << 64), 1 << 64)


class Handler(NamedTuple):
    """form: `numbers`, `text`, `list`, `word` or `fixed`; empty if no rule is known.

    size: numbers of the file, or greatest length of a text, or end of a list. taken: numbers that all kernels
    take, None for none. possible: numbers that some kernel takes. step: its multiples are shown unchanged,
    and the kernel rounds others. whole: an error leaves all numbers unchanged. rule: processing of the parsed
    numbers.
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

#: Vectors of unsigned long. Until 6.2 they skip a number below 0, until 5.3 one out of range, and
#: read the others (commits 1622ed7d0743 and e260ad01f0aa).
LONG_VECTORS = frozenset({"net/ipv4/ping_group_range", "net/ipv4/tcp_mem", "net/ipv4/udp_mem"})

#: Handlers that read into a copy, which is discarded after an error (net/ipv4/sysctl_net_ipv4.c)
_WHOLE = frozenset({"net/ipv4/ip_local_port_range", "net/ipv4/ping_group_range"})

#: Processing of the numbers: see sysctl_values._RULES
_RULED = {
    "kernel/sem": "semaphores",
    "net/core/flow_limit_table_len": "power",
    "net/core/rps_sock_flow_entries": "rounded",
    "net/ipv4/ip_local_port_range": "ports",
    "net/ipv4/ping_group_range": "groups",
}

#: proc_dointvec_jiffies() and its variants keep an int of ticks. CONFIG_HZ of the distributions' kernels is
#: 100, 250 or 1000, and no file shows it: values that depend on it are unknown. Greatest number with 1000 and
#: with 100; USER_HZ is 100.
_UNITS = {
    "s": Handler(
        "numbers", 1, (-(_INT_MAX // 1000), _INT_MAX // 1000), (-(_INT_MAX // 100), _INT_MAX // 100)
    ),
    "ms": Handler("numbers", 1, (0, _INT_MAX), _ANY, step=20),
    "ms>0": Handler("numbers", 1, (1, _INT_MAX), _ANY, step=20),
    "ticks": Handler("numbers", 1, (0, _INT_MAX // 10), _ANY, step=2),
}

#: Prefixes of names that all count seconds (net/netfilter/nf_conntrack_standalone.c)
_SECONDS = ("net/netfilter/nf_conntrack_", "net/netfilter/nf_flowtable_")

#: Prefix of switches: any number but 0 is shown as 1 (net/bridge/br_netfilter_hooks.c:
#: brnf_sysctl_call_tables)
_SWITCHES = "net/bridge/bridge-nf-"

#: Numbers that every kernel takes, for keys whose widest range is newer: a kernel before 6.1 takes fewer
_NARROW_ONCE = {
    "kernel/numa_balancing": (0, 1),
    "net/core/fb_tunnels_only_for_init_net": (0, 1),
    "net/ipv4/fib_multipath_hash_policy": (0, 1),
    "net/ipv6/fib_multipath_hash_policy": (0, 1),
    "vm/swappiness": (0, 100),
    "vm/watermark_scale_factor": (1, 1000),
}

#: Folders of drivers whose ranges were not read: these refuse a text without a number as well
_CHECKED_FOLDERS = (
    "abi/", "crypto/", "dev/", "fs/fuse/", "fs/nfs/", "fs/ntfs/", "fs/ocfs2/", "fs/xfs/", "kernel/perfmon/",
    "kernel/pty/", "net/dccp/", "net/ipv4/vs/", "net/iw_cm/", "net/mpls/", "net/rds/", "net/sctp/",
    "net/smc/", "net/tipc/", "net/vsock/", "sunrpc/",
)  # fmt: skip

#: proc_dostring() → the greatest length; longer texts are cut. core_pattern has special rules since 6.16.
_TEXTS = {
    "kernel/core_pattern": 127,
    "kernel/domainname": 64,
    "kernel/hostname": 64,
    "kernel/hotplug": 255,
    "kernel/modprobe": 255,
    "kernel/poweroff_cmd": 255,
}

#: Names of objects in the kernel or its modules, and other words: no numbers
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

#: proc_do_large_bitmap(): lists such as 1,5-9; all members are below the number. Ports have 16 bits
#: (net/ipv4/sysctl_net_ipv4.c), types of ICMPv6 8 (net/ipv6/icmp.c); CPUs are at most 8192
#: (arch/x86/Kconfig: NR_CPUS_RANGE_END), and impossible CPUs are left out.
_LISTS = {
    "kernel/watchdog_cpumask": 1 << 13,
    "net/ipv4/ip_local_reserved_ports": 1 << 16,
    "net/ipv6/icmp/ratemask": 1 << 8,
}

#: bitmap_parse(): hexadecimal masks of the possible CPUs; even a refused text may change some of them
#: (net/core/sysctl_net_core.c)
_MASKS = frozenset({"net/core/flow_limit_cpu_bitmap", "net/core/rps_default_mask"})


def handler(path: str, release: str = "") -> Handler:
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
    return _numbers(path, release)


def _numbers(path: str, release: str) -> Handler:
    if path.startswith(_SWITCHES):
        return Handler("numbers", 1, sysctl_keys.INT, sysctl_keys.INT, rule="switch")
    known = sysctl_keys.numbers(path, release)
    if known is None or known.possible is None:
        return Handler()
    unit = "s" if path.startswith(_SECONDS) and "_timeout" in path else known.unit
    if unit:
        return _UNITS[unit]
    taken = known.taken
    if not sysctl_keys.is_modern(release) and path in _NARROW_ONCE:
        taken = _NARROW_ONCE[path]
    if path.startswith(_CHECKED_FOLDERS):
        taken = None
    size, rule = _VECTORS.get(path, 1), _RULED.get(path, "")
    return Handler("numbers", size, taken, known.possible, whole=path in _WHOLE, rule=rule)
