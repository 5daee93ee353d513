# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names below /proc/sys for the same kernel variable, and names whose write moves others.

Read in the sources of Linux 4.19 to 7.3; tests/system/test_sysctl_aliases.py writes to every namespaced key
of the running kernel and compares. Paths are below /proc/sys, with slashes; `*` is the name of an interface.
"""

from __future__ import annotations

import functools
from typing import Callable, Iterator, Optional, Sequence

from ..model.record import NamedTuple
from ..model.values import number, same

#: An unknown value after a write that moves the file: no kernel file shows it
UNKNOWN = "?"

#: Names of one variable. In the tables of struct ctl_table these have the same `data`:
#: net/netfilter/nf_conntrack_standalone.c; net/ipv4/devinet.c (ctl_forward_entry); mm/hugetlb.c;
#: fs/notify/inotify/inotify_user.c and fanotify_user.c with kernel/ucount.c (of the initial user namespace)
SAME = (
    ("net/netfilter/nf_conntrack_max", "net/nf_conntrack_max"),
    ("net/ipv4/ip_forward", "net/ipv4/conf/all/forwarding"),
    ("vm/nr_hugepages", "vm/nr_hugepages_mempolicy"),
    ("fs/inotify/max_user_instances", "user/max_inotify_instances"),
    ("fs/inotify/max_user_watches", "user/max_inotify_watches"),
    ("fs/fanotify/max_user_groups", "user/max_fanotify_groups"),
    ("fs/fanotify/max_user_marks", "user/max_fanotify_marks"),
)

#: One setting with two forms: a write to one sets the other to 0 (mm/page-writeback.c, mm/util.c)
PAIRS = (
    ("vm/dirty_bytes", "vm/dirty_ratio"),
    ("vm/dirty_background_bytes", "vm/dirty_background_ratio"),
    ("vm/overcommit_kbytes", "vm/overcommit_ratio"),
)

#: Text of a file after a value is written to another name. Arguments: the value, and the file's text before
#: (empty if unknown). Returns None if the write does not change the file
Shows = Callable[[str, str], Optional[str]]


def _scaled(factor: int, divisor: int = 1) -> Shows:
    def shows(value: str, _before: str) -> str:
        given = number(value)
        return UNKNOWN if given is None else str(given * factor // divisor)

    return shows


def _word(*words: str) -> Shows:
    """The word for a number, or the number of a word."""
    numbers = {word: str(at) for at, word in enumerate(words)}
    names = {**{digits: word for word, digits in numbers.items()}, **numbers}
    return lambda value, _before: names.get(value, UNKNOWN)


def _any(_value: str, _before: str) -> str:
    return UNKNOWN


def _as_written(value: str, _before: str) -> str:
    return value


def _zeroed(value: str, _before: str) -> str | None:
    """A 0 leaves the other half in force: the kernel refuses it, or treats it as no limit."""
    return None if same(value, "0") else "0"


def _if_new(value: str, before: str) -> str | None:
    """IPv4 forwarding, which is off when the kernel starts: an unchanged value moves no interface."""
    return None if same(value, before or "0") else value


def _redirects(value: str, before: str) -> str | None:
    """A router accepts no redirects."""
    return None if same(value, before or "0") else "1" if same(value, "0") else "0"


#: One variable in two units, or by number and by name: the second's text after a write to the first, and vice
#: versa. Seconds, and clock ticks of 1/100 s (net/core/neighbour.c, net/ipv6/route.c, net/ipv4/route.c);
#: packets and bytes; net/mptcp/ctrl.c; lib/sys_info.c
_UNITS: tuple[tuple[str, str, Shows, Shows], ...] = (
    *(
        (f"net/{family}/neigh/*/{first}", f"net/{family}/neigh/*/{second}", there, back)
        for family in ("ipv4", "ipv6")
        for first, second, there, back in (
            ("base_reachable_time", "base_reachable_time_ms", _scaled(1000), _scaled(1, 1000)),
            ("retrans_time", "retrans_time_ms", _any, _any),
            ("unres_qlen", "unres_qlen_bytes", _any, _any),
        )
    ),
    ("net/ipv4/route/gc_min_interval", "net/ipv4/route/gc_min_interval_ms", _scaled(1000), _scaled(1, 1000)),
    ("net/ipv6/route/gc_min_interval", "net/ipv6/route/gc_min_interval_ms", _scaled(1000), _scaled(1, 1000)),
    (
        "net/mptcp/pm_type",
        "net/mptcp/path_manager",
        _word("kernel", "userspace"),
        _word("kernel", "userspace"),
    ),
    ("kernel/panic_print", "kernel/panic_sys_info", _any, _any),
)

#: A name whose value limits the values of another one (net/ipv4/sysctl_net_ipv4.c: ipv4_local_port_range),
#: and the value up to which the rules of sysctl_values are right
NEEDS = {"net/ipv4/ip_local_port_range": ("net/ipv4/ip_unprivileged_port_start", 1024)}

#: A write to one of `all` sets each interface and, except for the third, the default of later ones
#: (net/ipv4/devinet.c: inet_forward_change; net/ipv6/addrconf.c: addrconf_sysctl_addr_gen_mode,
#: addrconf_disable_ipv6, addrconf_sysctl_force_forwarding, addrconf_fixup_forwarding,
#: addrconf_fixup_linkdown)
_SPREAD = {
    "ipv4": ("forwarding",),
    "ipv6": (
        "addr_gen_mode",
        "disable_ipv6",
        "force_forwarding",
        "forwarding",
        "ignore_routes_with_linkdown",
    ),
}
_SPARED = "net/ipv6/conf/default/force_forwarding"
#: kernel/watchdog.c: one switch for both detectors
_SWITCHES = {"kernel/watchdog": ("kernel/nmi_watchdog", "kernel/soft_watchdog")}
#: inet_forward_change()
_FORWARDS, _REDIRECTS = SAME[1], "net/ipv4/conf/all/accept_redirects"

#: The greater, or the lesser, value of an interface and `all` counts (include/linux/inetdevice.h:
#: IN_DEV_MAXCONF and IN_DEV_ORCONF, IN_DEV_ANDCONF). All other values count alone.
_GREATER = frozenset(
    {
        *("accept_local", "arp_accept", "arp_announce", "arp_filter", "arp_ignore", "arp_notify"),
        *("drop_gratuitous_arp", "drop_unicast_in_l2_multicast", "ignore_routes_with_linkdown"),
        *("log_martians", "promote_secondaries", "proxy_arp", "route_localnet", "rp_filter"),
        *("secure_redirects", "send_redirects", "shared_media", "src_valid_mark"),
    }
)
_LESSER = frozenset({"accept_source_route", "arp_evict_nocarrier", "bc_forwarding", "bootp_relay"})


class Source(NamedTuple):
    """A name whose write moves a file. shared: both are names of one variable."""

    name: str
    shows: Shows
    shared: bool = False


def variable(name: str) -> str:
    """The first of the names of a variable that show it alike."""
    return next((group[0] for group in SAME if name in group), name)


def sources(name: str) -> list[Source]:
    """Every name whose write moves a file, its own first."""
    return [Source(name, _as_written, True), *_others(name)]


@functools.lru_cache(maxsize=None)
def _others(name: str) -> Sequence[Source]:
    return tuple(_other_sources(name))


def _other_sources(name: str) -> Iterator[Source]:
    for group in SAME:
        yield from (Source(alias, _as_written, True) for alias in group if name in group and alias != name)
    for pair in PAIRS:
        yield from (Source(alias, _zeroed) for alias in pair if name in pair and alias != name)
    for first, second, there, back in _UNITS:
        if (interface := _fits(first, name)) is not None:
            yield Source(second.replace("*", interface), back, True)
        if (interface := _fits(second, name)) is not None:
            yield Source(first.replace("*", interface), there, True)
    yield from (Source(switch, _as_written) for switch, moved in _SWITCHES.items() if name in moved)
    if name == _REDIRECTS:
        yield from (Source(forward, _redirects) for forward in _FORWARDS)
    yield from _spreading(name)


def _spreading(name: str) -> Iterator[Source]:
    """The name for all interfaces that sets this one."""
    for family, groups in _SPREAD.items():
        for group in groups:
            interface = _fits(f"net/{family}/conf/*/{group}", name)
            if interface is not None and interface != "all" and name != _SPARED:
                every = f"net/{family}/conf/all/{group}"
                names = _FORWARDS if every in _FORWARDS else (every,)
                yield from (Source(alias, _if_new if family == "ipv4" else _as_written) for alias in names)


def _fits(pattern: str, name: str) -> str | None:
    """The interface for which a pattern is this name; None if it does not match."""
    begin, star, end = pattern.partition("*")
    if not star:
        return "" if name == pattern else None
    inside = name[len(begin) : len(name) - len(end)]
    return inside if inside and name == f"{begin}{inside}{end}" and "/" not in inside else None


def twins(name: str) -> dict[str, Shows]:
    """Other names of the same variable → function for this name's text after a write there."""
    return {source.name: source.shows for source in _others(name) if source.shared}


def sibling(name: str) -> str | None:
    """The other half of a pair, which a write to this one sets to 0."""
    return next((half for pair in PAIRS if name in pair for half in pair if half != name), None)


def moves_others(name: str) -> bool:
    """True for a name that sets all interfaces as well, and must be written before them."""
    parts = name.split("/")
    of_all = len(parts) == 5 and parts[:1] + parts[2:4] == ["net", "conf", "all"]
    return (of_all and parts[4] in _SPREAD.get(parts[1], ())) or name in _FORWARDS or name in _SWITCHES


def combined(name: str) -> tuple[str, bool] | None:
    """The name for all interfaces whose value the kernel combines with this one's, and True if the greater of
    both counts, False for the lesser; None if the value counts alone."""
    key = name.rpartition("/")[2]
    interface = _fits(f"net/ipv4/conf/*/{key}", name)
    if interface in (None, "all", "default") or key not in _GREATER | _LESSER:
        return None
    return f"net/ipv4/conf/all/{key}", key in _GREATER
