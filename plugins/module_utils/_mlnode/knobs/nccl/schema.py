# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area nccl."""

from __future__ import annotations

from ...model.schema import Option, Table, guards

#: Name for `allow` → changes that it permits
GUARDS = {"unknown": "names that no known version of NCCL reads, such as a plugin's or a newer version's"}

OPTIONS: Table = {
    "variables": Option(
        "dict",
        """
        Name and value. V(null) leaves a variable untouched.

        Known are the variables of NCCL's user guide as of NCCL 2.32, and the undocumented ones that its
        library reads, as well as those of RCCL. An unknown name is refused, with the most similar known name.

        Values that NCCL would silently misread are refused, with the allowed ones. These are numbers,
        switches, lists of devices, and the words of variables such as C(NCCL_DEBUG) and
        C(NCCL_NET_GDR_LEVEL). Any text is accepted if NCCL itself reports mistakes, as for C(NCCL_ALGO).

        A list of YAML is written with commas.

        C(NCCL_IB_HCA) as V(auto) is the exact list of the rails, each with its port, such as
        V(=mlx5_0:1,mlx5_3:1). See M(mlnode.tuning.node_topology) for which ports are rails.

        C(NCCL_SOCKET_IFNAME) as V(auto) is the interface of the default route. Without one it is the
        interface over which the node was last set up; if that is unknown, all except C(lo) and C(docker0).

        C(NCCL_IB_GID_INDEX) as V(auto) is the index of the address of RoCE v2, if each rail has one such
        address and all have it at the same index. IPv6 counts if no rail has an IPv4 address. Otherwise the
        variable is left out, and the row gives the reason. NCCL finds the index by itself since 2.21.

        C(NCCL_IB_ADDR_FAMILY) as V(auto) is V(AF_INET6) if the rails have routable IPv6 addresses and no IPv4
        addresses, which NCCL uses by default. Otherwise it is left out.

        C(NCCL_IB_TC) as V(auto) is the traffic class that a declaration of kind C(qos) on this node gives to
        RoCE. It is left out, with the reason in the row, if there is none or more than one, if the rails are
        InfiniBand, or if no rail has the declared priorities.

        Variables that do not belong in a file of the node are refused, each with its reason, such as
        C(NCCL_COMM_ID), C(NCCL_CONF_FILE) and C(NCCL_PSK), and so are those that NCCL no longer reads.
        """,
        default={},
        values=Option("raw", empty=True),
        parts=True,
        reason="every job on the node starts with these values",
        source="NCCL user guide, Environment Variables",
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off.

        V(unknown) takes names that are not known, with any line of text as value, if they begin with
        C(NCCL_), C(RCCL_), C(SHARP_COLL_) or C(OFI_NCCL_). It is for plugins, and for versions of NCCL that
        are newer than this module.
        """,
    ),
}
