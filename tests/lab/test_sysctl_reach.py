# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of a machine are changed one by one, and a new container is compared with the table: which values it
takes from the node, key by key. tests/system/test_sysctl_reach.py does it where no value may change."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux.sysctl_reach import Reach, reach
from ansible_collections.mlnode.tuning.tests.system import sysctl_reach
from ansible_collections.mlnode.tuning.tests.system.sysctl_reach_probe import Seen

from .machine import Machine

#: Of all modules with keys below /proc/sys/net that the guest's kernel has
MODULES = (
    "br_netfilter dummy ib_uverbs ip_vs ip_vs_lblc ip_vs_lblcr iw_cm mpls_router nf_conntrack nf_log_syslog "
    "rdma_ucm rds rds_rdma rds_tcp sctp smc sunrpc tcp_dctcp tipc vrf vsock"
)

#: What the script changes: each key of a namespace, and some of the whole machine that the profiles declare
CHANGED = (
    *("net/", "fs/mqueue/", "user/"),
    *("kernel/domainname", "kernel/hostname", "kernel/msg", "kernel/pid_max", "kernel/sem", "kernel/shm"),
    *(
        "fs/aio-max-nr",
        "fs/file-max",
        "fs/inotify/",
        "kernel/numa_balancing",
        "kernel/sched_autogroup_enabled",
    ),
    *("vm/dirty_bytes", "vm/max_map_count", "vm/min_free_kbytes", "vm/swappiness", "vm/zone_reclaim_mode"),
)

#: Keys that the guest must have, and that took another value
NAMED: Mapping[Reach, tuple[str, ...]] = {
    Reach.GLOBAL: ("fs/inotify/max_user_instances", "vm/max_map_count", "vm/swappiness"),
    Reach.READ_ONLY: ("net/core/rmem_default", "net/core/rmem_max", "net/core/wmem_max"),
    Reach.ABSENT: ("net/core/busy_read", "net/core/netdev_max_backlog", "net/ipv4/neigh/default/gc_thresh3"),
    Reach.OUTER: ("user/max_net_namespaces",),
    Reach.INHERITED: (
        *("kernel/hostname", "net/ipv4/conf/default/rp_filter", "net/ipv4/ip_forward"),
        *("net/ipv4/tcp_congestion_control", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"),
    ),
    Reach.OWN: (
        *("fs/mqueue/msg_max", "kernel/shmmax", "net/core/somaxconn", "net/ipv4/ip_local_port_range"),
        *("net/ipv4/ip_local_reserved_ports", "net/ipv4/tcp_keepalive_time", "net/ipv4/tcp_notsent_lowat"),
        *("net/ipv6/conf/all/forwarding", "net/netfilter/nf_conntrack_tcp_timeout_established"),
    ),
    Reach.INTERFACE: ("net/ipv4/conf/lo/rp_filter", "net/ipv4/neigh/lo/app_solicit"),
}


class Kernel:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        machine.run(f"for module in {MODULES}; do modprobe -q $module; done; true")
        machine.write("/run/sysctl_reach_probe.py", sysctl_reach.SCRIPT.read_text(encoding="utf-8"))
        self.release = machine.out("uname -r")
        self.seen = self.look(CHANGED)

    def look(self, beginnings: tuple[str, ...], before: str = "true") -> dict[str, Seen]:
        done = self._machine.run(
            f"{before}; python3 /run/sysctl_reach_probe.py", stdin=json.dumps(beginnings), seconds=600
        )
        return sysctl_reach.parsed(done.stdout)


@pytest.fixture(scope="module")
def kernel(cloud: Machine) -> Kernel:
    return Kernel(cloud)


@pytest.mark.parametrize("kind", Reach, ids=lambda kind: kind.name.lower())
def test_a_container_takes_the_values_that_the_table_says(kernel: Kernel, kind: Reach) -> None:
    mine = {key: files for key, files in kernel.seen.items() if reach(key, kernel.release) is kind}
    assert sysctl_reach.differences(mine, kernel.release) == []
    assert [key for key in NAMED[kind] if key not in mine or not mine[key].is_changed] == []


@pytest.mark.parametrize("value", ["1", "2"])
def test_values_of_interfaces_are_taken_as_another_key_says(kernel: Kernel, value: str) -> None:
    write = f"echo {value} >/proc/sys/net/core/devconf_inherit_init_net"
    seen = kernel.look(("net/ipv4/conf/", "net/ipv4/ip_forward", "net/ipv6/conf/"), before=write)
    mine = {key: files for key, files in seen.items() if files.is_changed}
    assert sysctl_reach.differences(mine, kernel.release, devconf=value) == []
    assert {"net/ipv4/conf/all/rp_filter", "net/ipv6/conf/default/accept_ra"} <= {*mine}


def test_the_table_has_each_key_of_a_namespace(kernel: Kernel) -> None:
    """Other keys without a reach are states."""
    unknown = {key for key in kernel.seen if key.startswith("net/") and reach(key, kernel.release) is None}
    assert {key for key in unknown if not key.endswith("/mc_forwarding")} <= {
        "net/ipv4/tcp_ehash_entries",
        "net/ipv4/udp_hash_entries",
        "net/netfilter/nf_conntrack_count",
    }
