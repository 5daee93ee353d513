# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area rail."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...model.schema import Option, Table, guards
from ..nics.schema import name, nics, rules

#: What can be allowed, and what it lets through
GUARDS = {"management": "changes of the interface over which this node is managed that may cut it off"}

#: Knob of an interface → the values that the kernel knows (Documentation/networking/ip-sysctl.rst); it
#: takes others, which are reserved or count as one of these
VALUES: Mapping[str, Sequence[int]] = {
    "arp_ignore": (0, 1, 2, 3, 8),
    "arp_announce": (0, 1, 2),
    "rp_filter": (0, 1, 2),
}

OPTIONS: Table = {
    "rules": rules(
        "What is wanted of which NICs. Every value that is left out is left untouched.",
        {
            "name": name("C(rail.NAME.arp_ignore) and so on"),
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
        },
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(management) lets through what may cut off the interface over which the node
        is managed, which is O(rules[].rp_filter=1) and O(rules[].arp_ignore=8).
        """,
    ),
}
