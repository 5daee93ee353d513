# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys whose value on the node counts in a container."""

from __future__ import annotations

import re

import pytest
from mlnode.knobs.sysctl.info import INFO
from mlnode.linux import sysctl_table
from mlnode.linux.sysctl_reach import _CHANGES, _FOLDERS, _KEYS, NEWEST, Reach, namespace, reach

#: States that nobody declares, and a name whose program decides
UNKNOWN = {
    "kernel/ns_last_pid",
    "net/ipv4/conf/*/mc_forwarding",
    "net/ipv4/tcp_ehash_entries",
    "net/ipv4/udp_hash_entries",
    "net/ipv6/conf/*/mc_forwarding",
    "net/netfilter/nf_conntrack_count",
    "net/smc/hs_ctrl",
    "net/vsock/ns_mode",
}

KNOWN = [
    f"{folder}/{re.split('[=+,@]', entry)[0]}"
    for folder, entries in sysctl_table.KEYS.items()
    for entry in entries.split()
]


def test_every_known_key_has_a_reach() -> None:
    unknown = {key for key in KNOWN if reach(key.replace("*", "all")) is None}
    assert unknown == UNKNOWN


def test_every_key_with_a_reason_has_a_reach() -> None:
    assert all(reach(key) for key in INFO)


def test_the_data_names_no_key_or_folder_that_no_kernel_has() -> None:
    named = {
        f"{folder}/{name}"
        for folder, kinds in _KEYS.items()
        for names in kinds.values()
        for name in names.split()
    }
    assert named | {*_CHANGES} <= {*KNOWN}
    for folder in _FOLDERS:
        general = re.sub("/default$", "/*", folder)
        assert any(key.startswith(f"{general}/") for key in KNOWN), folder


@pytest.mark.parametrize(
    ("key", "expected", "kind"),
    [
        ("vm.swappiness", Reach.GLOBAL, None),
        ("vm.nr_hugepages@node0/1048576kB", Reach.GLOBAL, None),
        ("kernel.sched_migration_cost_ns", Reach.GLOBAL, None),
        ("fs.inotify.max_user_instances", Reach.GLOBAL, None),
        ("sunrpc.tcp_slot_table_entries", Reach.GLOBAL, None),
        ("net.core.rmem_max", Reach.READ_ONLY, None),
        ("net.netfilter.nf_conntrack_max", Reach.READ_ONLY, None),
        ("net.core.busy_read", Reach.ABSENT, None),
        ("net.core.default_qdisc", Reach.ABSENT, None),
        ("net.ipv4.tcp_mem", Reach.ABSENT, None),
        ("net.ipv4.neigh.default.gc_thresh3", Reach.ABSENT, None),
        ("net.nf_conntrack_max", Reach.ABSENT, None),
        ("net.ipv4.tcp_rmem", Reach.INHERITED, "net"),
        ("net.ipv4.tcp_congestion_control", Reach.INHERITED, "net"),
        ("net.ipv4.ip_forward", Reach.INHERITED, "net"),
        ("net.ipv4.conf.default.rp_filter", Reach.INHERITED, "net"),
        ("net.ipv6.conf.all.forwarding", Reach.OWN, "net"),
        ("net.core.somaxconn", Reach.OWN, "net"),
        ("net/ipv4/tcp_keepalive_time", Reach.OWN, "net"),
        ("net.ipv4.ip_local_port_range", Reach.OWN, "net"),
        ("net.netfilter.nf_conntrack_tcp_timeout_established", Reach.OWN, "net"),
        ("net.netfilter.nf_conntrack_quic_timeout", Reach.OWN, "net"),
        ("net.ipv4.conf.eth0/100.rp_filter", Reach.INTERFACE, "net"),
        ("net.ipv6.neigh.eth0.app_solicit", Reach.INTERFACE, "net"),
        ("net.mpls.conf.eth0.input", Reach.INTERFACE, "net"),
        ("net.ipv4.tcp_child_ehash_entries", Reach.OUTER, "net"),
        ("kernel.shmmax", Reach.OWN, "ipc"),
        ("kernel.sem", Reach.OWN, "ipc"),
        ("fs.mqueue.msg_max", Reach.OWN, "ipc"),
        ("kernel.hostname", Reach.INHERITED, "uts"),
        ("kernel.pid_max", Reach.OUTER, "pid"),
        ("vm.memfd_noexec", Reach.INHERITED, "pid"),
        ("user.max_user_namespaces", Reach.OUTER, "user"),
        ("user.max_binfmt_misc_interpreters", Reach.OUTER, "user"),
        ("net.ipv4.vs.expire_nodest_conn", Reach.OWN, "net"),
        ("net.ipv4.vs.conn_max", Reach.INHERITED, "net"),
        # No guess for keys that no examined kernel has
        ("net.ipv4.tcp_new_key", None, None),
        ("net.ipv6.new.folder", None, None),
        ("vm.new_key", None, None),
        ("kernel", None, None),
        ("", None, None),
    ],
)  # fmt: skip
def test_the_reach_and_the_namespace_of_a_key(key: str, expected: Reach | None, kind: str | None) -> None:
    assert (reach(key), namespace(key)) == (expected, kind)


@pytest.mark.parametrize(
    ("key", "release", "expected"),
    [
        ("net.core.rmem_max", "5.15.0-100-generic", Reach.ABSENT),
        ("net.core.rmem_max", "6.8.0-31-generic", Reach.ABSENT),
        ("net.core.rmem_max", "6.12.1", Reach.READ_ONLY),
        ("net.core.optmem_max", "6.1.0", Reach.ABSENT),
        ("net.core.optmem_max", "6.8.0", None),
        ("net.core.optmem_max", "7.3.4", Reach.OWN),
        ("net.ipv4.route.min_pmtu", "5.10.0", Reach.ABSENT),
        ("net.ipv4.route.min_pmtu", "5.15.0", None),
        ("net.ipv4.route.min_pmtu", "6.1.0", Reach.OWN),
        ("kernel.pid_max", "6.12.0", Reach.GLOBAL),
        ("kernel.pid_max", "6.18.0", Reach.OUTER),
        ("kernel.pid_max", "no version", None),
        ("kernel.pid_max", "", None),
        ("kernel.pid_max", NEWEST, Reach.OUTER),
        ("net.core.somaxconn", "", Reach.OWN),
    ],
)
def test_the_reach_depends_on_the_release_of_the_kernel(
    key: str, release: str, expected: Reach | None
) -> None:
    assert reach(key, release) is expected


@pytest.mark.parametrize(
    ("devconf", "ipv4", "ipv6"),
    [
        ("0", Reach.INHERITED, Reach.OWN),
        ("1", Reach.INHERITED, Reach.INHERITED),
        ("2", Reach.OWN, Reach.OWN),
        ("3", Reach.INHERITED, Reach.INHERITED),
    ],
)
def test_values_of_interfaces_are_copied_as_the_node_says(devconf: str, ipv4: Reach, ipv6: Reach) -> None:
    assert reach("net.ipv4.conf.default.rp_filter", devconf=devconf) is ipv4
    assert reach("net.ipv4.ip_forward", devconf=devconf) is ipv4
    assert reach("net.ipv6.conf.default.accept_ra", devconf=devconf) is ipv6
    assert reach("net.ipv6.conf.all.disable_ipv6", devconf=devconf) is ipv6
    assert reach("net.ipv6.conf.default.disable_ipv6", devconf=devconf) is Reach.OWN


def test_a_copy_counts_and_a_default_does_not() -> None:
    assert {kind for kind in Reach if not kind.counts} == {Reach.OWN, Reach.INTERFACE}
