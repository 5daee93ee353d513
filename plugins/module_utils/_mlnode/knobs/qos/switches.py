# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch side of a scheme of priorities, as configuration text of network operating systems for comparison.

Nothing here is sent to a switch, and none of it was tested on one. Each command is from the given source.
MIN, MAX and PERCENT stand for numbers that depend on the switch's ASIC and have no documented default.
"""

from __future__ import annotations

import json
from typing import Callable, Mapping, Sequence

from ...drivers.dcb import answers
from ...model.record import NamedTuple
from ...model.values import by_key
from .parse import QosSetting
from .switch import requirements


class Scheme(NamedTuple):
    """Priorities of a fabric.

    dscp: DSCP → priority. pfc, ecn: priorities. cnp: DSCP and priority of congestion notifications, None if
    undeclared. mtu: the largest declared IP packet in bytes; 0 if undeclared. trust: "" if undeclared.
    """

    trust: str = ""
    dscp: Mapping[int, int] = {}
    pfc: Sequence[int] = ()
    ecn: Sequence[int] = ()
    cnp: tuple[int | None, int | None] = (None, None)
    mtu: int = 0

    @property
    def priorities(self) -> dict[int, list[int]]:
        """Priority → its DSCPs."""
        return by_key((priority, dscp) for dscp, priority in sorted(self.dscp.items()))

    @property
    def strict(self) -> int | None:
        """Priority of congestion notifications, declared or from their DSCP."""
        dscp, priority = self.cnp
        return priority if priority is not None or dscp is None else self.dscp.get(dscp)


def scheme(settings: Sequence[QosSetting], mtu: int) -> Scheme:
    """The scheme of one rule."""
    values = {item.group: item.value for item in settings}
    cnp = values.get("cnp_dscp"), values.get("cnp_priority")
    lists = {name: tuple(values.get(name, ())) for name in ("pfc", "ecn")}
    # A NIC assigns DSCP and priority of notifications itself; a switch finds the priority by the DSCP.
    dscp = {**({cnp[0]: cnp[1]} if None not in cnp else {}), **values.get("dscp", {})}
    trust = values.get("trust", "dscp" if values.get("dscp") else "")
    return Scheme(trust, dscp, lists["pfc"], lists["ecn"], cnp, mtu)


def checklist(settings: Sequence[QosSetting], mtu: int) -> list[str]:
    """Requirements for every port between two nodes."""
    made = scheme(settings, mtu)
    lines = requirements(settings)
    if made.ecn:
        number = answers.numbers(made.ecn)
        lines.append(f"ECN thresholds of priority {number}: marking begins before PFC pauses")
    if made.pfc:
        number = answers.numbers(made.pfc)
        lines.append(f"PFC watchdog on for priority {number}: a port that is paused for ever stops no other")
    if mtu:
        lines.append(f"an MTU of at least {mtu} bytes of IP, and the headers of the link above it")
    return lines


# -- network operating systems -------------------------------------------------------------


def _cumulus(made: Scheme) -> list[str]:
    """Cumulus Linux, with the thresholds of its default profile."""
    profile = "default-global"
    lines = [f"nv set qos mapping {profile} trust l3"]
    for priority, dscps in made.priorities.items():
        lines.append(f"nv set qos mapping {profile} dscp {answers.numbers(dscps)} switch-priority {priority}")
    if made.pfc:
        lines += [
            f"nv set qos pfc {profile} switch-priority {answers.numbers(made.pfc)}",
            f"nv set qos pfc {profile} tx enable",
            f"nv set qos pfc {profile} rx enable",
        ]
    for priority in made.ecn:
        queue = f"nv set qos congestion-control {profile} traffic-class {priority}"
        lines += [
            f"{queue} ecn enable",
            f"{queue} min-threshold 150000",
            f"{queue} max-threshold 1500000",
        ]
    if made.strict is not None:
        lines.append(f"nv set qos egress-scheduler {profile} traffic-class {made.strict} mode strict")
    lines += ["nv set interface swp1 qos pfc-watchdog"] if made.pfc else []
    return [*lines, "nv set interface swp1 link mtu 9216"]


def _sonic(made: Scheme) -> list[str]:
    """SONiC: tables of config_db.json, with the thresholds of its template (qos_config.j2)."""
    name, port = "ROCE", "Ethernet0"
    same = {str(number): str(number) for number in range(8)}
    lossless = answers.numbers(made.pfc)
    lossy = next((priority for priority in same if int(priority) not in made.pfc), "0")
    # All lossy priorities share a group.
    groups = {priority: priority if int(priority) in made.pfc else lossy for priority in same}
    maps = {
        "dscp_to_tc_map": name,
        "tc_to_queue_map": name,
        "tc_to_pg_map": name,
        "pfc_to_queue_map": name,
    }
    watched = {"pfc_enable": lossless, "pfcwd_sw_enable": lossless} if made.pfc else {}
    queues: dict[str, dict[str, str]] = {
        f"{port}|{priority}": {"wred_profile": name} for priority in made.ecn
    }
    if made.strict is not None:
        queues.setdefault(f"{port}|{made.strict}", {})["scheduler"] = "STRICT"
    wred = {
        "ecn": "ecn_all",
        "wred_green_enable": "true",
        "green_min_threshold": "1048576",
        "green_max_threshold": "2097152",
        "green_drop_probability": "5",
    }
    tables: dict[str, object] = {
        "DSCP_TO_TC_MAP": {name: {str(dscp): str(number) for dscp, number in sorted(made.dscp.items())}},
        "TC_TO_QUEUE_MAP": {name: same},
        "TC_TO_PRIORITY_GROUP_MAP": {name: groups},
        "MAP_PFC_PRIORITY_TO_QUEUE": {name: same},
        "PORT_QOS_MAP": {port: {**maps, **watched}},
        "QUEUE": queues,
        **({"WRED_PROFILE": {name: wred}} if made.ecn else {}),
        **({"SCHEDULER": {"STRICT": {"type": "STRICT"}}} if made.strict is not None else {}),
        **({"PFC_WD": {port: {"action": "drop", "detection_time": "200", "restoration_time": "200"}}}
           if made.pfc else {}),
        "PORT": {port: {"mtu": "9100"}},
    }  # fmt: skip
    return json.dumps(tables, indent=2).split("\n")


def _eos(made: Scheme) -> list[str]:
    lines = [f"qos map dscp {dscp} to traffic-class {number}" for dscp, number in sorted(made.dscp.items())]
    lines += ["priority-flow-control pause watchdog action drop"] if made.pfc else []
    lines += ["qos profile ROCE", "   qos trust dscp"]
    if made.pfc:
        lines += [
            "   priority-flow-control on",
            *(f"   priority-flow-control priority {number} no-drop" for number in made.pfc),
            "   priority-flow-control pause watchdog",
        ]
    for number in made.ecn:
        marking = "random-detect ecn minimum-threshold MIN kbytes maximum-threshold MAX kbytes"
        lines += [f"   uc-tx-queue {number}", f"      {marking}"]
    if made.strict is not None:
        lines += [f"   uc-tx-queue {made.strict}", "      priority strict"]
    return [*lines, "interface Ethernet1", "   mtu 9214", "   service-profile ROCE"]


#: Group of NX-OS for congestion notifications: the one with strict priority in its examples
_FIRST = 7


def _nxos(made: Scheme) -> list[str]:
    strict = made.strict if _FIRST not in (*made.pfc, *made.ecn) else None
    groups = {number: _FIRST if number == strict else number for number in made.priorities}
    lines = []
    for number, dscps in made.priorities.items():
        lines += [f"class-map type qos match-any PRIORITY{number}", f"  match dscp {answers.numbers(dscps)}"]
    lines.append("policy-map type qos ROCE-IN")
    for number, group in groups.items():
        lines += [f"  class PRIORITY{number}", f"    set qos-group {group}"]
    lines.append("policy-map type network-qos ROCE-PAUSE")
    for number in made.pfc:
        name = f"c-8q-nq{number or '-default'}"
        lines += [f"  class type network-qos {name}", "    mtu 9216", f"    pause pfc-cos {number}"]
    lines.append("policy-map type queuing ROCE-OUT")
    for number in made.ecn:
        marking = "random-detect minimum-threshold MIN kbytes maximum-threshold MAX kbytes"
        lines += [
            f"  class type queuing c-out-8q-q{number or '-default'}",
            f"    {marking} drop-probability PERCENT weight 0 ecn",
        ]
    if strict is not None:
        lines += [f"  class type queuing c-out-8q-q{_FIRST}", "    priority level 1"]
    lines += [
        "system qos",
        "  service-policy type network-qos ROCE-PAUSE",
        "  service-policy type queuing output ROCE-OUT",
        "interface Ethernet1/1",
        "  service-policy type qos input ROCE-IN",
    ]
    if made.pfc:
        lines += ["  priority-flow-control mode on", "  priority-flow-control watch-dog-interval on"]
    return [*lines, "  mtu 9216"]


class System(NamedTuple):
    """A network operating system. notes: limits of the text. most: its largest MTU of an IP packet, in the
    text. source: documents with its commands.
    """

    title: str
    make: Callable[[Scheme], list[str]]
    notes: Sequence[str]
    most: int
    source: Sequence[str]


_CUMULUS = "https://docs.nvidia.com/networking-ethernet-software/"
_CISCO = (
    "https://www.cisco.com/c/en/us/td/docs/dcn/nx-os/nexus9000/105x/configuration/qos/"
    "cisco-nexus-9000-series-nx-os-quality-of-service-configuration-guide-105x/"
)

#: Value of option --nos → system
SYSTEMS: Mapping[str, System] = {
    "cumulus": System(
        "Cumulus Linux 5 (NVUE)",
        _cumulus,
        (
            "`nv set qos roce` sets most of this: compare with `nv show qos roce`, and use one of both",
            "thresholds are the defaults of its profile; swp1 stands for every port",
        ),
        9216,
        (
            f"{_CUMULUS}nvue-reference/Set-and-Unset-Commands/QoS/",
            (
                f"{_CUMULUS}cumulus-linux-514/Layer-1-and-Switch-Ports/Quality-of-Service/"
                "RDMA-over-Converged-Ethernet-RoCE"
            ),
        ),
    ),
    "sonic": System(
        "SONiC (config_db.json)",
        _sonic,
        (
            "thresholds are the defaults of its template, and a platform may have others",
            "buffers and headroom (BUFFER_PG, BUFFER_PROFILE) are the platform's, and left out here",
            "Ethernet0 stands for every port; the map has the declared DSCPs alone: add all others",
        ),
        9100,
        (
            "https://github.com/sonic-net/sonic-buildimage/blob/master/src/sonic-yang-models/doc/Configuration.md",
            "https://github.com/sonic-net/sonic-buildimage/blob/master/files/build_templates/qos_config.j2",
        ),
    ),
    "eos": System(
        "Arista EOS",
        _eos,
        (
            "MIN and MAX: the thresholds that Arista documents for this ASIC",
            "some platforms have `tx-queue` in place of `uc-tx-queue`",
            "Ethernet1 stands for every port",
        ),
        9214,
        (
            (
                "https://github.com/aristanetworks/avd "
                "(eos_cli_config_gen: qos, qos_profiles, priority_flow_control)"
            ),
        ),
    ),
    "nxos": System(
        "Cisco NX-OS (Nexus 9000)",
        _nxos,
        (
            "MIN, MAX and PERCENT: the thresholds that Cisco documents for this ASIC",
            "bandwidth of the other queues is the site's; cables above 100 m need a pause buffer size",
            "Ethernet1/1 stands for every port; notifications go to group 7, as in Cisco's examples",
            "`priority-flow-control watch-dog-interval on` is a global command, too: compare both",
        ),
        9216,
        (
            f"{_CISCO}m-configuring-priority-flow-control.html",
            f"{_CISCO}m-configuring-network-qos.html",
            f"{_CISCO}m-configuring-queuing-and-scheduling.html",
        ),
    ),
}
