# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area nic."""

from __future__ import annotations

import re
from typing import Any

from ...drivers.ethtool import words
from ...drivers.ethtool.structs import TABLES
from ...drivers.nic.disruption import Disruption
from ...model.record import regex
from ...model.schema import Form, Option, Table, guards
from ...model.setting import Severity
from ..nics.schema import name, nics, rules

#: Name for `allow` → changes that it permits
GUARDS = {
    "management": "changes that interrupt the interface over which this node is managed",
    "busy": "changes that interrupt a NIC while jobs run",
}

MAX_DISRUPTION = Option(
    "str",
    """
    The greatest disruption of a NIC off the management path. V(none) keeps traffic flowing, V(link_reset)
    interrupts it for a moment, V(driver_reload) lets RDMA devices and virtual functions vanish and come back.

    On the management path it is V(none), unless O(allow) has V(management).
    """,
    choices=tuple(str(level) for level in Disruption),
    default=str(Disruption.LINK_RESET),
    declares=False,
)

#: Choices if a value exceeds the device's maximum
BEYOND = ("clamp", "fail")

#: 32 bits each (linux/ethtool.h: struct ethtool_coalesce)
_COALESCE = TABLES["coalesce"]
NUMBER = Option("int", least=0, most=(1 << 32) - 1)
_SWITCH = Option("bool")
#: In the order of application: a NIC would lose numbers that are written before it stops to adapt
COALESCE = {
    **{field: _SWITCH for field in _COALESCE.fields if field in _COALESCE.switches},
    **{field: NUMBER for field in _COALESCE.fields if field not in _COALESCE.switches},
}
PAUSE = ("autoneg", "rx", "tx")

_FEATURE = Form(
    regex(r"[a-z0-9][a-z0-9_-]{0,30}\Z", re.ASCII),
    "a feature such as tso or rx-gro-hw, as ethtool -k prints it",
)
_FEC = Form(regex(""), "modes such as auto rs", lambda text: words.fec(words.fec_mask(text)))
#: The kernel gives 31 bytes for the name of a private flag (ETH_GSTRING_LEN)
_FLAG = Form(
    regex(r"[A-Za-z0-9][A-Za-z0-9_+. -]{0,30}\Z", re.ASCII),
    "a private flag, as ethtool --show-priv-flags prints it",
)

#: Below 1280 (RFC 8200) the kernel takes IPv6 off an interface with all its addresses and routes, and no
#: larger MTU brings them back (net/ipv6/addrconf.c: addrconf_notify). 65536 is the loopback's own.
MTU = Option("int", least=1280, most=65536)

#: Options with settings are in the order of application: new queues have the driver's default rings and
#: moderation, and a private flag may re-initialize the driver, which loses all of them.
OPTIONS: Table = {
    "rules": rules(
        "NICs and their values. A value that is not given is left untouched.",
        {
            "name": name("C(nic.NAME.ring.rx), C(nic.NAME.mtu) and so on"),
            "nics": nics("""
                Interfaces. A bond, bridge or VLAN has its own MTU and queue length; for all else it stands
                for the NICs below it.
                """),
            "private_flags": Option(
                "dict",
                "Flags of the driver, on or off, by the names of C(ethtool --show-priv-flags).",
                keys=_FLAG,
                values=_SWITCH,
                parts=True,
                key="private-flag",
                reason="see the driver's documentation of the flag",
                source="ethtool(8), --set-priv-flags",
            ),
            "channels": Option(
                "raw",
                """
                How many queues. A number, V(max), V(auto) for one per physical core of the NIC's NUMA node,
                or C({at_most: NUMBER}), which is V(auto) with a bound; for the kind of channel that the NIC
                has.

                V(auto) gives a rail at most 8 if its driver has separate queues for RDMA; other rails keep
                their number. A rail that carries a default route, or with RDMA in software, is treated as any
                other NIC.

                A dictionary of C(combined), C(rx) and C(tx) names the kinds instead.
                """,
                severity=Severity.HIGH,
                reason="packets of one queue are the work of one core; too few queues are a few busy cores",
                source="networking/scaling.rst",
            ),
            "rings": Option(
                "raw",
                """
                Entries of receive and transmit rings. A number, V(max), V(auto) for at most 8192, or
                C({at_most: NUMBER}), which is V(auto) with a bound.

                V(auto) leaves rails as they are, as RDMA does not use these rings. For other NICs, the
                buffers of all receive queues take at most 1 % of memory; if that limits the number, the
                status is V(clamped) with both numbers.

                V(auto) never lowers a ring. A bound lowers longer rings, and a number replaces any other.

                A dictionary of C(rx), C(tx), C(rx-mini) and C(rx-jumbo) names the rings instead.
                """,
                key="ring",
                severity=Severity.HIGH,
                reason="packets that arrive while a ring is full are lost, and sent again",
                source="ethtool(8), -G",
            ),
            "coalesce": Option(
                "dict",
                """
                Interrupt moderation by the names of C(ethtool -C), such as C(adaptive-rx), C(rx-usecs) in
                microseconds and C(rx-frames).

                A NIC with C(adaptive-rx) on ignores C(rx-usecs) and C(rx-frames), so the combination is
                refused.

                Only a write shows whether a driver accepts a value. A refused or ignored one is tried again
                after a boot, a reload of the driver, or with another value.
                """,
                fields=COALESCE,
                parts=True,
                severity=Severity.MEDIUM,
                reason="interrupts cost cores their time, waiting for more costs latency",
                source="ethtool(8), -C",
            ),
            "pause": Option(
                "dict",
                "Pause frames, C(autoneg), C(rx) and C(tx), on or off.",
                fields=dict.fromkeys(PAUSE, _SWITCH),
                parts=True,
                severity=Severity.MEDIUM,
                reason="global pause stops all traffic of a port, RoCE included",
                source="IEEE 802.3",
            ),
            "fec": Option(
                "raw",
                """
                Forward error correction, one or more of V(auto), V(off), V(rs), V(baser) and V(llrs).
                """,
                form=_FEC,
                severity=Severity.HIGH,
                reason="both ends of a link must correct errors alike, or there is no link",
                source="ethtool(8)",
            ),
            "features": Option(
                "dict",
                """
                Offloads, on or off, by the names of C(ethtool -K). Names of families (C(tso), C(gso), C(gro),
                C(lro), C(rx), C(tx), C(sg), C(ntuple), C(rxhash), C(rxvlan), C(txvlan)) stand for all their
                members that can be changed.

                C(tx) and C(sg) are on with one member. C(tso) leaves C(tx-tcp-mangleid-segmentation) alone,
                unless it is named.
                """,
                keys=_FEATURE,
                values=_SWITCH,
                parts=True,
                key="feature",
                severity=Severity.MEDIUM,
                reason="a core does the work that the NIC leaves to it",
                source="networking/segmentation-offloads.rst",
            ),
            "tx_queue_len": Option(
                "int",
                "Packets that wait for a transmit ring.",
                least=1,
                most=(1 << 31) - 1,
                reason="packets that wait for a ring",
                source="ip-link(8)",
            ),
            "mtu": Option(
                "raw",
                """
                Bytes of an IP packet. A number, or C({at_least: NUMBER}), which leaves a greater one as it
                is. Set a bond's MTU on the bond, which passes it on.
                """,
                severity=Severity.HIGH,
                reason="packets that one end does not take are lost silently",
                source="networking/ip-sysctl.rst",
            ),
            "beyond_max": Option(
                "str",
                """
                If a number exceeds the device's maximum, V(clamp) uses the maximum, and the status is
                V(clamped) with both numbers. V(fail) is an error before anything is changed.
                """,
                choices=BEYOND,
                default=BEYOND[0],
                declares=False,
            ),
        },
    ),
    "max_disruption": MAX_DISRUPTION,
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(management) permits changes that interrupt the interface over which the node
        is managed; V(busy) permits changes that interrupt a NIC while a Slurm job runs, or a process has a
        GPU or an RDMA device open.
        """,
    ),
}

#: Time in which a change of the management path must be confirmed: an option of a run, not of a declaration
CONFIRM: dict[str, dict[str, Any]] = {"confirm_seconds": {"type": "int", "default": 60}}

#: A link may take 20 s to come back (knobs/nic/settle.py), and a new connection a few more
_LEAST_SECONDS = 30


def wrong_seconds(seconds: int) -> str:
    """Reason why this time is too short to confirm a change; empty if it is not."""
    if seconds == 0 or seconds >= _LEAST_SECONDS:
        return ""
    return f"confirm_seconds: at least {_LEAST_SECONDS}, or 0 for a change that is made for good"
