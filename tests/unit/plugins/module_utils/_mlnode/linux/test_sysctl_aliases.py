# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of one variable of the kernel, and names whose write moves others."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import sysctl_aliases, sysctl_d, sysctl_keys, sysctl_values

FORWARD, OF_ALL, OF_ETH = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/eth0/forwarding",
)
REDIRECTS = "net/ipv4/conf/all/accept_redirects"


def named(name: str) -> list[str]:
    return sorted(source.name for source in sysctl_aliases.sources(name))


@cases.table
def test_names_whose_write_moves_a_file(name: str, others: list[str]) -> None:
    assert named(name) == sorted([name, *others])


@pytest.mark.parametrize("group", [*sysctl_aliases.SAME, *sysctl_aliases.PAIRS])
def test_the_names_of_the_tables_are_keys_of_a_kernel(group: tuple[str, ...]) -> None:
    assert [name for name in group if not sysctl_keys.is_known(name)] == []


@pytest.mark.parametrize(
    ("lines", "name", "value", "by"),
    [
        # one variable: the last line counts, whatever its name
        ("net.nf_conntrack_max=9", "net/netfilter/nf_conntrack_max", "9", "net/nf_conntrack_max"),
        ("4.ip_forward=1; 4.conf.all.forwarding=0", FORWARD, "0", OF_ALL),
        ("4.conf.all.forwarding=0; 4.ip_forward=1", FORWARD, "1", FORWARD),
        # a pattern that has the other name, unless a line has it whole
        ("4.ip_forward=1; 4.conf.*.forwarding=0", FORWARD, "0", OF_ALL),
        ("4.ip_forward=1; -4.conf.all.forwarding; 4.conf.*.forwarding=0", FORWARD, "1", FORWARD),
        # another unit of it
        ("4.neigh.lo.base_reachable_time=20", "net/ipv4/neigh/lo/base_reachable_time_ms", "20000", ""),
        ("6.route.gc_min_interval_ms=1500", "net/ipv6/route/gc_min_interval", "1", ""),
        ("4.neigh.lo.unres_qlen=20", "net/ipv4/neigh/lo/unres_qlen_bytes", sysctl_aliases.UNKNOWN, ""),
        ("net.mptcp.pm_type=1", "net/mptcp/path_manager", "userspace", ""),
        # two ways to say one setting
        ("vm.dirty_bytes=1048576; vm.dirty_ratio=5", "vm/dirty_bytes", "0", "vm/dirty_ratio"),
        ("vm.dirty_ratio=5; vm.dirty_bytes=1048576", "vm/dirty_bytes", "1048576", "vm/dirty_bytes"),
        ("vm.dirty_bytes=1048576; vm.dirty_ratio=0", "vm/dirty_bytes", "1048576", "vm/dirty_bytes"),
        # of all interfaces: in IPv4 only if it is another value
        ("4.conf.eth0.forwarding=0; 4.ip_forward=1", OF_ETH, "1", FORWARD),
        ("4.conf.eth0.forwarding=1; 4.ip_forward=0", OF_ETH, "1", OF_ETH),
        ("4.ip_forward=1; 4.conf.eth0.forwarding=1; 4.conf.all.forwarding=0", OF_ETH, "0", OF_ALL),
        ("6.conf.eth0.forwarding=1; 6.conf.all.forwarding=0", "net/ipv6/conf/eth0/forwarding", "0", ""),
        # a router takes no redirects
        ("4.conf.all.accept_redirects=1; 4.ip_forward=1", REDIRECTS, "0", FORWARD),
        ("4.ip_forward=1; 4.conf.all.accept_redirects=1", REDIRECTS, "1", REDIRECTS),
        ("4.conf.all.accept_redirects=1; 4.ip_forward=0", REDIRECTS, "1", REDIRECTS),
        ("kernel.nmi_watchdog=0; kernel.watchdog=1", "kernel/nmi_watchdog", "?", "kernel/watchdog"),
        # a text that the kernel refuses changes nothing
        ("4.ip_forward=1; 4.conf.all.forwarding=on", FORWARD, "1", FORWARD),
        ("4.ip_forward=on", FORWARD, None, FORWARD),
        ("vm.swappiness=1", FORWARD, "none", ""),
    ],
)  # fmt: skip
def test_the_value_after_all_lines(lines: str, name: str, value: str | None, by: str) -> None:
    text = re.sub(r"(^|; |-)([46]\.)", r"\1net.ipv\2", lines).replace("; ", "\n")
    config = sysctl_d.BootConfig(tuple(sysctl_d.parse(text, "/f")))
    found = config.decided(name, sysctl_values.writes())
    effect = found.effect if found else sysctl_d.Effect("none")
    assert ("?" if effect.unknown else effect.text) == value
    assert not by or (found is not None and found.name == by)


def test_what_moves_others_is_written_first() -> None:
    assert all(
        map(
            sysctl_aliases.moves_others,
            (FORWARD, OF_ALL, "net/ipv6/conf/all/disable_ipv6", "kernel/watchdog"),
        )
    )
    assert not any(
        map(sysctl_aliases.moves_others, (OF_ETH, "net/ipv4/conf/all/rp_filter", "vm/dirty_bytes"))
    )
