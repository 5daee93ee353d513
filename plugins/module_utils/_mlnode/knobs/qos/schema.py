# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area qos."""

from __future__ import annotations

from ...drivers.dcb.answers import TSAS
from ...drivers.dcb.device import CLASSES, DSCPS
from ...model.record import regex
from ...model.schema import Form, Option, Table, guards
from ...model.setting import Severity
from ...model.values import number_ranges
from ..nic import schema as nic_schema
from ..nics.schema import name, nics, rules

#: Name for `allow` → changes that it permits
GUARDS = {**nic_schema.GUARDS, "pfc_priorities": "PFC on more than one priority"}

TRUSTS = ("dscp", "pcp")

_CLASS, _DSCP = CLASSES[-1], DSCPS[-1]
_TSA = Form(regex(rf"(?:{'|'.join(TSAS)})\Z"), f"one of {', '.join(TSAS)}")
#: One byte of an IPv4 or IPv6 header: six bits of DSCP above two of ECN (RFC 2474, RFC 3168)
_BYTE = 255
#: struct dcbnl_buffer has 32 bits for a size
_SIZE = (1 << 32) - 1

#: Settings of congestion notifications; each driver has other files
_NOTES = "/sys/class/net/*/ecn/roce_np"


def dscps(listed: str) -> list[int]:
    """DSCPs of `26`, `24-31` or several of these. Raises ValueError."""
    ranges = number_ranges(listed)
    if not ranges or ranges[-1][1] not in DSCPS:
        raise ValueError
    return [dscp for low, high in ranges for dscp in range(low, high + 1)]


_DSCPS = Form(regex(""), "a DSCP from 0 to 63, or a range such as 24-31", lambda text: f"{dscps(text)}")


def _eight(text: str, most: int | None = None, form: Form | None = None) -> Option:
    """A value for each priority, class or buffer: a number up to this, or a word of this form."""
    count, least = len(CLASSES), None if most is None else 0
    elements = "str" if most is None else "int"
    return Option(
        "list", text, elements, entries=(count, count), required=True, least=least, most=most, form=form
    )


#: Options with settings are in the order of application. Global pause is switched off before PFC is switched
#: on. Trust precedes the map that it activates. Buffers follow PFC, as a driver may resize them for it.
OPTIONS: Table = {
    "rules": rules(
        "NICs and their values. A value that is not given is left untouched.",
        {
            "name": name("C(qos.NAME.pfc), C(qos.NAME.dscp) and so on"),
            "nics": nics("Interfaces. A bond, bridge or VLAN stands for the NICs below it."),
            "global_pause": Option(
                "bool",
                """
                Pause frames for all traffic (IEEE 802.3x), in both directions. It must be off for PFC.
                """,
                file="/ethtool/*/pause/rx,tx",
                severity=Severity.HIGH,
                reason="a port that pauses all of its traffic stops what must not wait, and excludes PFC",
                source="IEEE 802.1Q, 36.1",
            ),
            "trust": Option(
                "str",
                """
                Source of a packet's priority. V(dscp) is the IP header, V(pcp) the VLAN tag.

                Many drivers trust DSCPs as soon as one of them has a priority. For these drivers, V(dscp)
                gives priority 0 to DSCP 0, which is the default, and V(pcp) removes all priorities of DSCPs.
                """,
                choices=TRUSTS,
                file="/dcb/*/trust/state",
                severity=Severity.HIGH,
                reason="where priorities are taken from VLAN tags, RoCE without tags is ordinary traffic, "
                "which may be lost",
                source="dcb-apptrust(8)",
            ),
            "dscp": Option(
                "dict",
                """
                Priorities of DSCPs, such as C({26: 3, 48: 6}) or C({24-31: 3}). Others are left as they
                are.
                """,
                keys=_DSCPS,
                values=Option("int", least=0, most=_CLASS),
                entries=(1, len(DSCPS)),
                file="/dcb/*/dscp-prio/*",
                severity=Severity.HIGH,
                reason="it puts RoCE into the priority that is not lost",
                source="dcb-app(8)",
            ),
            "ets": Option(
                "dict",
                "Traffic classes and their share of the link. All three lists are set together.",
                suboptions={
                    "prio_tc": _eight("The traffic class of each of the priorities 0 to 7.", most=_CLASS),
                    "tc_tsa": _eight(
                        "For each of the eight classes V(strict), V(ets), V(cbs) or V(vendor).", form=_TSA
                    ),
                    "tc_bw": _eight(
                        """
                        The percentage of each of the eight classes. The V(ets) classes add up to 100, all
                        others have 0.
                        """,
                        most=100,
                    ),
                },
                file="/dcb/*/ets/prio-tc,tc-tsa,tc-bw",
                severity=Severity.MEDIUM,
                reason="without its own share RoCE waits behind other traffic",
                source="dcb-ets(8)",
            ),
            "pfc": Option(
                "list",
                """
                The exact list of priorities with priority flow control. An empty list switches it off.

                More than one is refused without V(pfc_priorities) in O(allow).

                It is refused while global pause is on, unless O(rules[].global_pause) switches that off.
                """,
                elements="int",
                least=0,
                most=_CLASS,
                empty=True,
                file="/dcb/*/pfc/prio-pfc",
                severity=Severity.HIGH,
                reason="a priority without it loses packets of RoCE; one too many stops what should flow",
                source="dcb-pfc(8)",
            ),
            "buffer": Option(
                "dict",
                "Receive buffers, if the driver lets them be set. Both lists are set together.",
                suboptions={
                    "prio_buffer": _eight("The buffer of each of the priorities 0 to 7.", most=_CLASS),
                    "buffer_size": _eight(
                        """
                        Bytes of each of the eight buffers. The task fails if the driver rounds them; then
                        declare the rounded sizes.
                        """,
                        most=_SIZE,
                    ),
                },
                file="/dcb/*/buffer/prio-buffer,buffer-size",
                severity=Severity.MEDIUM,
                reason="packets in flight when a pause is sent need room, and more with a longer cable",
                source="dcb-buffer(8)",
            ),
            "ecn": Option(
                "list",
                """
                Priorities for which the NIC signals congestion and slows down (DCQCN, both ends of it).
                Others are left as they are.

                Most drivers have one switch for all priorities of a device, which is on then.
                """,
                elements="int",
                least=0,
                most=_CLASS,
                entries=(1, len(CLASSES)),
                file="/sys/class/net/*/ecn/roce_*/enable/*",
                severity=Severity.HIGH,
                reason="without DCQCN senders never slow down, until PFC stops whole links",
                source="IETF RFC 3168; DCQCN, SIGCOMM 2015",
            ),
            "cnp": Option(
                "dict",
                "DSCP and priority of congestion notifications.",
                parts=True,
                entries=(1, 2),
                suboptions={
                    "dscp": Option(
                        "int",
                        "Their DSCP, often V(48) or V(46).",
                        least=0,
                        most=_DSCP,
                        file=f"{_NOTES}/cnp_dscp",
                    ),
                    "priority": Option(
                        "int",
                        "Their priority, often V(6).",
                        least=0,
                        most=_CLASS,
                        file=f"{_NOTES}/cnp_802p_prio",
                    ),
                },
                severity=Severity.MEDIUM,
                reason="a notification of congestion that waits in the congestion comes too late",
                source="drivers/infiniband/hw/mlx5/cong.c",
            ),
            "rdma_cm_tos": Option(
                "int",
                """
                The type of service of connections that are made through rdma_cm, four times the DSCP, plus
                2 for ECN, such as V(106).
                """,
                least=0,
                most=_BYTE,
                file="/roce/*/*/cm-tos",
                severity=Severity.MEDIUM,
                reason="connections of rdma_cm carry it in their packets, which says their DSCP",
                source="drivers/infiniband/core/cma_configfs.c",
            ),
            "traffic_class": Option(
                "int",
                """
                The same of all RDMA packets, whatever the programs ask for. Few drivers have it.
                """,
                least=0,
                most=_BYTE,
                file="/roce/*/*/traffic-class",
                severity=Severity.MEDIUM,
                reason="it is the DSCP of all RoCE packets, also of programs that set none",
                source="mlx5 of DOCA-OFED, tc/PORT/traffic_class",
            ),
        },
    ),
    "max_disruption": nic_schema.MAX_DISRUPTION,
    "allow": guards(
        GUARDS,
        """
        Guards to switch off. V(management) permits changes that interrupt the interface over which the node
        is managed; V(busy) permits changes that interrupt a NIC while a Slurm job runs, or a process has a
        GPU or an RDMA device open; V(pfc_priorities) permits PFC on several priorities.
        """,
    ),
}
