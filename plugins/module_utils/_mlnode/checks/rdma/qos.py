# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packet handling of a RoCE port as declared: trust, priorities of DSCPs, PFC, global pause, ECN.

What is expected is what `expect` says under `qos`, group by group, and else what roce_qos has declared on
this node. The numbers are the fabric's, so that without a declared scheme of priorities nothing is right or
wrong: what there is is reported and not judged, but for global pause beside PFC, which is always wrong.
"""

from __future__ import annotations

from typing import Any, Mapping

from ...drivers.dcb import answers
from ...drivers.dcb.device import NONE
from ...engine import declared
from ...host.host import Host
from ...knobs.nics import targets as nic_targets
from ...knobs.qos import parse as qos_parse
from ...knobs.qos import schema as qos_schema
from ...model.errors import HostError
from ...model.setting import Value
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from . import ports
from .ports import ETHERNET, NETS, Port, nothing

NAMES = ("trust", "dscp", "pfc", "global_pause", "ecn", "cnp")

_BY = "declare it with roce_qos"

#: What of a rule makes a scheme of priorities
_SCHEME = ("trust", "dscp", "pfc", "ecn", "cnp")
_NO_SCHEME = (
    "have the scheme of the switches judged: name it (fabric_qos_preset of the role fabric), declare it with "
    "roce_qos, or expect it (qos)"
)

#: Group of roce_qos → what is declared of it
Wanted = Mapping[str, Any]


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    """Of every RoCE port that is judged, and of every member where it stands on a bond."""
    kept = _declared(host)
    checks: list[Check] = []
    for port in ports.subjects(topology, expect).ports:
        if port.layer != ETHERNET:
            continue
        if port.nic is None:
            checks += [skip(name, port.name, "no interface is known for this port") for name in NAMES]
            continue
        members = nic_targets.beneath(host, port.nic.name) or [port.nic.name]
        for nic in members:
            wanted = {**kept.get(nic, {}), **port.expect.get("qos", {})}
            checks += _port(host, port, nic, wanted)
    return checks


def _declared(host: Host) -> dict[str, dict[str, Any]]:
    """Interface → its values in this node's declarations."""
    wanted: dict[str, dict[str, Any]] = {}
    for _declaration, setting in declared.settings(host, qos_parse.KIND, qos_schema.OPTIONS, qos_parse.parse):
        for target in nic_targets.find(host, setting.rule.nics, "pause").targets:
            wanted.setdefault(target.name, {}).update(setting.rule.given)
    return wanted


def _port(host: Host, port: Port, nic: str, wanted: Wanted) -> list[Check]:
    return [
        _trust(host, port, nic, wanted),
        _dscp(host, port, nic, wanted),
        _pfc(host, port, nic, wanted),
        _global_pause(host, port, nic, wanted),
        _ecn(host, port, nic, wanted),
        _cnp(host, port, nic, wanted),
    ]


def _trust(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    value = host.value(f"/dcb/{nic}/trust/state")
    source = f"trust of {nic}, by dcb app show dev {nic}"
    # Where a driver looks at several things, the first of them decides: dscp+pcp
    first = (value.text or "").partition("+")[0]
    advice = f"{_BY}: RoCE packets that have no VLAN tag are in no priority of their own else"
    return _compared("trust", port, value, source, wanted, wanted.get("trust"), first, advice)


def _dscp(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    source = f"dcb app show dev {nic} dscp-prio"
    priorities = wanted.get("dscp")
    if priorities is None:
        now = host.value(f"/dcb/{nic}/dscp-prio/0")
        return _undeclared("dscp", port, now, source, "priorities of DSCPs", wanted)
    value = host.value(f"/dcb/{nic}/dscp-prio/{','.join(str(dscp) for dscp in priorities)}")
    pairs = [f"{dscp}:{text}" for dscp, text in zip(priorities, (value.text or "").split())]
    advice = f"{_BY}: packets of a DSCP in another priority than on the switches are treated as other traffic"
    expected = qos_parse.mapped(priorities)
    return _compared("dscp", port, value, source, wanted, expected, " ".join(pairs), advice)


def _pfc(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    value = host.value(f"/dcb/{nic}/pfc/prio-pfc")
    priorities = wanted.get("pfc")
    expected = None if priorities is None else answers.numbers(priorities)
    advice = f"{_BY}, and have the same on the switch port: exactly these priorities"
    source = f"dcb pfc show dev {nic}"
    return _compared("pfc", port, value, source, wanted, expected, value.text or "", advice)


def _global_pause(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    source = f"ethtool -a {nic}"
    pfc = host.value(f"/dcb/{nic}/pfc/prio-pfc")
    expected = wanted.get("global_pause")
    if expected is None:
        if not (wanted.get("pfc") or pfc.text not in (None, NONE)):
            if pfc.unreadable is not None:
                return nothing("global_pause", port.name, pfc, source)
            return skip("global_pause", port.name, f"there is no PFC on {nic} that it would exclude", source)
        expected = "off"
    value = host.value(f"/ethtool/{nic}/pause/rx,tx")
    states = dict(zip(("rx", "tx"), (value.text or "").split()))
    found = ", ".join(f"{name} {state}" for name, state in states.items())
    if value.text is None:
        if value.absent is not None and expected == "off":
            return skip("global_pause", port.name, f"{value.absent}, so that none can be on", source)
        return nothing("global_pause", port.name, value, source, expected)
    advice = f"{_BY} (global_pause: {expected}), or: ethtool -A {nic} rx {expected} tx {expected}"
    right = {*states.values()} == {expected}
    return judged("global_pause", port.name, right, expected, found, source, advice)


def _ecn(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    folder = f"{NETS}/{nic}/ecn"
    priorities = wanted.get("ecn")
    try:
        if not host.exists(folder):
            found = f"the driver of {nic} does not show ECN per priority"
            return skip("ecn", port.name, found, folder)
    except HostError as error:
        return nothing("ecn", port.name, Value(unreadable=str(error)), folder)
    if priorities is None:
        return _undeclared("ecn", port, Value(text="switches per priority"), folder, "ECN", wanted)
    values = {
        f"{end}/{priority}": host.value(f"{folder}/roce_{end}/enable/{priority}")
        for end in ("np", "rp")
        for priority in priorities
    }
    expected = f"1 on priority {answers.numbers(priorities)}, at both ends (np, rp)"
    for value in values.values():
        if value.text is None:
            return nothing("ecn", port.name, value, folder, expected)
    found = ", ".join(f"{name} {value.text}" for name, value in values.items())
    right = all((value.text or "").strip() == "1" for value in values.values())
    advice = f"{_BY}: without it senders do not slow down before PFC stops them"
    return judged("ecn", port.name, right, expected, found, f"{folder}/roce_*/enable", advice)


def _cnp(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    folder = f"{NETS}/{nic}/ecn/roce_np"
    declared_ = wanted.get("cnp")
    files = {"dscp": "cnp_dscp", "priority": "cnp_802p_prio"}
    try:
        if not host.exists(f"{folder}/{files['dscp']}"):
            found = f"the driver of {nic} does not show what its congestion notifications look like"
            return skip("cnp", port.name, found, folder)
    except HostError as error:
        return nothing("cnp", port.name, Value(unreadable=str(error)), folder)
    values = {name: host.value(f"{folder}/{files[name]}") for name in declared_ or files}
    for value in values.values():
        if value.text is None:
            return nothing("cnp", port.name, value, folder)
    now = {name: (value.text or "").strip() for name, value in values.items()}
    found = _words(now)
    if declared_ is None:
        return _undeclared("cnp", port, Value(text=found), folder, "congestion notifications", wanted)
    right = now == {name: str(number) for name, number in declared_.items()}
    advice = f"{_BY}: a notification in the wrong priority waits in the congestion that it reports"
    return judged("cnp", port.name, right, _words(declared_), found, folder, advice)


# -- details -------------------------------------------------------------------------------


def _words(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _compared(
    name: str,
    port: Port,
    value: Value,
    source: str,
    wanted: Wanted,
    expected: str | None,
    found: str,
    advice: str,
) -> Check:
    if expected is None:
        return _undeclared(name, port, value, source, name, wanted)
    if value.text is None:
        return _absent(name, port, value, source, expected)
    shown = value.text if name != "dscp" else found
    return judged(name, port.name, found == expected, expected, shown, source, advice)


def _absent(name: str, port: Port, value: Value, source: str, expected: str) -> Check:
    """Soft-RoCE needs no priorities of a NIC, though the same is declared of all ports."""
    if value.absent is None:
        return nothing(name, port.name, value, source, expected)
    if port.device.address is None:
        return skip(name, port.name, value.absent, source)
    advice = "another driver, or none of this in the declaration"
    return Check(name, port.name, Verdict.FAIL, expected, value.absent, source, advice)


def _undeclared(name: str, port: Port, value: Value, source: str, what: str, wanted: Wanted) -> Check:
    """Of a declared scheme, the part that is left out; without one, all of it."""
    if value.text is None:
        return nothing(name, port.name, value, source)
    scheme = any(group in wanted for group in _SCHEME)
    found = f"{what}: {value.text}; {'nothing of it' if scheme else 'no scheme'} is declared"
    return Check(name, port.name, Verdict.SKIP, "", found, source, "" if scheme else _NO_SCHEME)
