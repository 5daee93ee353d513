# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area rail."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...model.schema import Option, Table, guards
from ...model.setting import Severity
from ..nics.schema import name, nics, rules

#: Name for `allow` → changes that it permits
GUARDS = {"management": "changes of the interface over which this node is managed that may cut it off"}

#: Knob of an interface → values defined by the kernel (Documentation/networking/ip-sysctl.rst). It accepts
#: others, which are reserved or count as one of these
VALUES: Mapping[str, Sequence[int]] = {
    "arp_ignore": (0, 1, 2, 3, 8),
    "arp_announce": (0, 1, 2),
    "rp_filter": (0, 1, 2),
}

_ARP = "Documentation/networking/ip-sysctl.rst, {}; RFC 1122, 3.3.4.2 (the weak ES model)"

OPTIONS: Table = {
    "rules": rules(
        "NICs and their values. A value that is not given is left untouched.",
        {
            "name": name("C(rail.NAME.arp_ignore) and so on"),
            "nics": nics("Interfaces, also in software, such as a bond or VLAN."),
            "arp_ignore": Option(
                "int",
                "Addresses for which it answers. V(1) is only its own, V(0) all of the node.",
                choices=VALUES["arp_ignore"],
                severity=Severity.HIGH,
                reason="with 0 a NIC answers for the addresses of all others, so their traffic arrives "
                "on one rail",
                source=_ARP.format("arp_ignore"),
            ),
            "arp_announce": Option(
                "int",
                "Source address of its requests. V(2) is the best of its addresses, V(0) any of the node.",
                choices=VALUES["arp_announce"],
                severity=Severity.HIGH,
                reason="with 0 a NIC asks with the address of another, so peers send to the wrong rail",
                source=_ARP.format("arp_announce"),
            ),
            "rp_filter": Option(
                "int",
                """
                Drop packets whose answer would leave through another interface (V(1)), packets without a
                route for the answer (V(2)), or none (V(0)).

                V(1) cuts off peers that are reached over several NICs. On the interface over which the node
                is managed it is refused without V(management) in O(allow).
                """,
                choices=VALUES["rp_filter"],
                severity=Severity.HIGH,
                reason="with 1 packets that arrive on one rail and would be answered over another are "
                "dropped silently",
                source="Documentation/networking/ip-sysctl.rst, rp_filter; RFC 3704",
            ),
        },
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(management) permits changes that may cut off the interface over which the node
        is managed: O(rules[].rp_filter=1) and O(rules[].arp_ignore=8).
        """,
    ),
}
