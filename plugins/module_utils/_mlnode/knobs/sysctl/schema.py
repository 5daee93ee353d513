# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area sysctl."""

from __future__ import annotations

from ...model.schema import Option, Table, guards
from ...model.setting import Severity
from ..sizing import DATA_PATHS, Sizing

#: Name for `allow` → changes that it permits
GUARDS = {
    "hugepages": "a huge page pool over half of the free memory, or below its present use",
    "min_free": "vm.min_free_kbytes over 5 % of memory",
    "overcommit": "vm.overcommit_memory = 2",
    "one_way": "settings that only a reboot can undo",
}

_SIZING = Sizing()

OPTIONS: Table = {
    "settings": Option(
        "dict",
        """
        Key and value. Keys are written as C(sysctl(8)) does; in the name of a VLAN interface the dot
        becomes a slash, as in C(net.ipv4.conf.eth0/100.rp_filter). C(vm.nr_hugepages@node0) is the share of
        one NUMA node, C(vm.nr_hugepages@node0/1048576kB) the same for another page size.

        A number or text is the exact value. Values are compared word by word, so that tabs do not matter.

        V(auto) is computed on the node, for C(net.core.rmem_max), C(net.core.wmem_max),
        C(vm.min_free_kbytes), C(vm.dirty_bytes), C(vm.dirty_background_bytes) and
        C(net.ipv4.neigh.default.gc_thresh1) to C(3), and the same keys of C(net.ipv6). In
        C(net.ipv4.tcp_rmem) and C(net.ipv4.tcp_wmem) it stands for one of the three numbers. Apart from the
        two dirty limits, V(auto) never lowers a present value.

        V({exactly: N}) is the same as N: it also lowers a higher value.

        V({at_least: N}) raises a lower value and keeps a higher one. In a list of ports it adds missing ones.

        V({for_bytes: N}) computes the number of huge pages that hold N bytes and 5 % over, at each boot for
        its default page size.

        V(null) leaves a setting untouched.

        A YAML boolean is refused, as the kernel wants a number. So are V(y), V(off) and the like, and
        numbers that are not plain decimal ones, as V(010) is octal to the kernel.

        C(vm.dirty_bytes) and C(vm.dirty_ratio), and the like, cannot be declared together, because writing
        one sets the other to 0.
        """,
        required=True,
        values=Option("raw", empty=True),
        parts=True,
        severity=Severity.MEDIUM,
        reason="declared by you; mlnode has no opinion on this key",
        source="your declaration",
    ),
    "sizing": Option(
        "dict",
        "Inputs of the formulas of V(auto) that the node does not know.",
        default={},
        declares=False,
        suboptions={
            "rtt_us": Option(
                "int",
                """
                Round trip to the farthest peer that must be reached at full rate, in microseconds.
                """,
                default=_SIZING.rtt_us,
                least=1,
            ),
            "disk_bytes_per_s": Option(
                "int",
                "Write rate of the slowest disk that takes dirty pages, in bytes per second.",
                default=_SIZING.disk_bytes_per_s,
                least=1,
            ),
            "data_path": Option(
                "str",
                """
                Target of most writes. V(nfs) makes both dirty limits small, as a file is written out when it
                is closed; then O(sizing.disk_bytes_per_s) does not count.
                """,
                choices=DATA_PATHS,
                default=_SIZING.data_path,
            ),
            "hosts": Option("int", "Hosts in the layer 2 domain, for the neighbour table.", least=1),
            "rails": Option("int", "Network ports per host in that domain.", least=1),
        },
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. Without it a dangerous change is refused before anything is written.

        V(hugepages) permits a pool over half of the free memory, or below its present use; V(min_free)
        permits C(vm.min_free_kbytes) over 5 % of memory; V(overcommit) permits C(vm.overcommit_memory=2);
        V(one_way) permits changes that only a reboot can undo.
        """,
    ),
}
