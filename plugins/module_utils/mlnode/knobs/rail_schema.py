# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area rail."""

from __future__ import annotations

from typing import Mapping, Sequence

from ..policy_routes import tables
from ..schema import Option, Table, guards
from .rules_schema import name, nics, rules

#: What can be allowed, and what it lets through
GUARDS = {"management": "changes of the interface over which this node is managed that may cut it off"}

#: Knob of an interface → the values that the kernel knows (Documentation/networking/ip-sysctl.rst); it
#: takes others, which are reserved or count as one of these
VALUES: Mapping[str, Sequence[int]] = {
    "arp_ignore": (0, 1, 2, 3, 8),
    "arp_announce": (0, 1, 2),
    "rp_filter": (0, 1, 2),
}

TABLE = 1000

OPTIONS: Table = {
    "rules": rules(
        "What is wanted of which NICs. Every value that is left out is left untouched.",
        {
            "name": name("C(rail.NAME.arp_ignore), C(rail.NAME.source_routing) and so on"),
            "nics": nics("Interfaces, also in software, such as a bond or VLAN."),
            "arp_ignore": Option(
                "int",
                "For which addresses it answers. V(1) is those of its own, V(0) all of the node.",
                choices=VALUES["arp_ignore"],
            ),
            "arp_announce": Option(
                "int",
                "With which address it asks. V(2) is the best of its own, V(0) any of the node.",
                choices=VALUES["arp_announce"],
            ),
            "rp_filter": Option(
                "int",
                """
                Whether what comes in is dropped where the answer would leave through another interface
                (V(1)), through none at all (V(2)), or never (V(0)).

                V(1) cuts off what is reached over several NICs. On the interface over which the node is
                managed it is refused without V(management) in O(allow).
                """,
                choices=VALUES["rp_filter"],
            ),
            "source_routing": Option(
                "dict",
                """
                A routing table for each NIC, which packets from its addresses are looked up in before the
                others. It has the networks of the NIC, and what is behind the gateway.

                It is refused where the table has rules or routes of somebody else, or a name in
                C(rt_tables) other than C(mlnode).
                """,
                suboptions={
                    "table": Option(
                        "int",
                        """
                        The table of rail 0; those of the others follow. A NIC that is no rail takes this
                        very table, if the rule means no other.
                        """,
                        default=TABLE,
                        least=1,
                        most=tables.MOST,
                    ),
                    "gateway": Option(
                        "str",
                        """
                        V(first) or V(last) address of each NIC's own subnet, one address, or V(none) for a
                        network without a way out.
                        """,
                        required=True,
                    ),
                    "to": Option(
                        "list", "Networks behind the gateway; without any, all addresses.", elements="str"
                    ),
                },
            ),
        },
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(management) lets through what may cut off the interface over which the node
        is managed, which is source routing, O(rules[].rp_filter=1) and O(rules[].arp_ignore=8).
        """,
    ),
}
