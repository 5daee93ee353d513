# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packet handling of a RoCE port against the declaration: trust, DSCP priorities, PFC, global pause, ECN.

The expectations come from `qos` in `expect`, group by group, else from the roce_qos declarations of this
node. Without a declared scheme of priorities the values are only reported, because they depend on the fabric.
Global pause together with PFC is always wrong.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Mapping

from ...drivers.dcb import answers
from ...drivers.dcb.device import NONE
from ...drivers.roce import model, registry
from ...engine import declared
from ...host.host import Host
from ...knobs.nics import targets as nic_targets
from ...knobs.qos import parse as qos_parse
from ...knobs.qos import schema as qos_schema
from ...model.record import replace
from ...model.setting import Value
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Subject, findings
from . import ports
from .ports import ETHERNET, NETS, Port

NAMES = ("trust", "dscp", "pfc", "global_pause", "ecn", "cnp")

_BY = "declare it with roce_qos"

_OTHERWISE = "another driver, or none of this in the declaration"

#: Keys of a rule that define a scheme of priorities
_SCHEME = ("trust", "dscp", "pfc", "ecn", "cnp")
_NO_SCHEME = (
    "have the scheme of the switches judged: name it (fabric_qos_preset of the role fabric), declare it with "
    "roce_qos, or expect it (qos)"
)

#: Group of roce_qos → its declared values
Wanted = Mapping[str, Any]


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    """Checks of every judged RoCE port; for a port on a bond, of every member."""
    kept = _declared(host)
    checks: list[Check] = []
    for port in ports.subjects(topology, expect).ports:
        if port.layer != ETHERNET:
            continue
        if port.nic is None:
            why = "no interface is known for this port"
            checks += [Subject(name, port.name).skip(why) for name in NAMES]
            continue
        for nic in nic_targets.beneath(host, port.nic.name) or [port.nic.name]:
            wanted = {**kept.get(nic, {}), **port.expect.get("qos", {})}
            for name, look in zip(NAMES, (_trust, _dscp, _pfc, _global_pause, _ecn, _cnp)):
                checks += findings([port.about(name, NETS)], partial(look, host, port, nic, wanted))
    return checks


def _declared(host: Host) -> dict[str, dict[str, Any]]:
    """Interface → its values in this node's declarations."""
    wanted: dict[str, dict[str, Any]] = {}
    for _declaration, setting in declared.settings(host, qos_parse.KIND, qos_schema.OPTIONS, qos_parse.parse):
        for target in nic_targets.find(host, setting.rule.nics, "pause").targets:
            wanted.setdefault(target.name, {}).update(setting.rule.given)
    return wanted


def _trust(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    value = host.value(f"/dcb/{nic}/trust/state")
    source = f"trust of {nic}, by dcb app show dev {nic}"
    # If a driver trusts several sources, the first one decides: dscp+pcp
    first = (value.text or "").partition("+")[0]
    advice = f"{_BY}: otherwise RoCE packets without a VLAN tag get no separate priority"
    subject = Subject("trust", port.name, source, wanted.get("trust", ""), advice)
    return _compared(subject, port, value, wanted, value.text or "", first)


def _dscp(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    priorities = wanted.get("dscp")
    asked = (0,) if priorities is None else priorities
    value = host.value(f"/dcb/{nic}/dscp-prio/{','.join(str(dscp) for dscp in asked)}")
    shown = " ".join(f"{dscp}:{text}" for dscp, text in zip(asked, (value.text or "").split()))
    expected = "" if priorities is None else qos_parse.mapped(priorities)
    advice = f"{_BY}: packets of a DSCP in another priority than on the switches are treated as other traffic"
    subject = Subject("dscp", port.name, f"dcb app show dev {nic} dscp-prio", expected, advice)
    return _compared(subject, port, value, wanted, shown, what="priorities of DSCPs")


def _pfc(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    value = host.value(f"/dcb/{nic}/pfc/prio-pfc")
    expected = answers.numbers(wanted["pfc"]) if "pfc" in wanted else ""
    advice = f"{_BY}, and have the same on the switch port: exactly these priorities"
    subject = Subject("pfc", port.name, f"dcb pfc show dev {nic}", expected, advice)
    return _compared(subject, port, value, wanted, value.text or "")


def _global_pause(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    """Raises HostError."""
    pfc, expected = host.value(f"/dcb/{nic}/pfc/prio-pfc"), wanted.get("global_pause")
    subject = Subject("global_pause", port.name, f"ethtool -a {nic}")
    if expected is None and not wanted.get("pfc") and pfc.text in (None, NONE):
        if pfc.unreadable is not None:
            return subject.missing(pfc)
        return subject.skip(f"there is no PFC on {nic} that it would exclude")
    expected = expected or "off"
    value = host.value(f"{registry.of_nic(host, nic).pause(nic)}/rx,tx")
    if value.absent is not None and expected == "off":
        return subject.skip(f"{value.absent}, so that none can be on")
    if value.text is None:
        return subject.missing(value, expected=expected)
    states = dict(zip(("rx", "tx"), value.text.split()))
    advice = f"{_BY} (global_pause: {expected}), or: ethtool -A {nic} rx {expected} tx {expected}"
    right = {*states.values()} == {expected}
    return subject.judged(right, _words(states), expected=expected, advice=advice)


def _ecn(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    """Raises HostError."""
    priorities = wanted.get("ecn")
    answer = _knobs(host, port, nic, model.ECN, priorities or (0,))
    subject = Subject("ecn", port.name, _source(answer, nic))
    if not answer.knobs:
        wants = f"1 on priority {answers.numbers(priorities)}" if priorities is not None else ""
        return _lacking(subject, port, f"{nic}: {answer.lacks}", wants)
    if priorities is None:
        return _undeclared(subject, Value("switches per priority"), "ECN", wanted)
    expected = f"1 on priority {answers.numbers(priorities)}, at both ends (np, rp)"
    states = {}
    for knob in answer.knobs:
        value = model.value(host, knob)
        if value.text is None:
            return subject.missing(value, expected=expected)
        states[knob.label] = value.text.strip()
    right = all(states[knob.label] == knob.want for knob in answer.knobs)
    if not all("/" in label for label in states):
        expected = _words({knob.label: knob.want for knob in answer.knobs})
    advice = f"{_BY}: without it senders do not slow down before PFC stops them"
    return subject.judged(right, _words(states), expected=expected, advice=advice)


def _cnp(host: Host, port: Port, nic: str, wanted: Wanted) -> Check:
    """Raises HostError."""
    groups = {"dscp": model.CNP_DSCP, "priority": model.CNP_PRIORITY}
    declared_cnp = wanted.get("cnp", {})
    now, known, expected, lacks = {}, {}, {}, ""
    subject = Subject("cnp", port.name)
    for name, group in groups.items():
        if declared_cnp and name not in declared_cnp:
            continue
        answer = _knobs(host, port, nic, group, declared_cnp.get(name, 0))
        lacks = lacks or answer.lacks
        if answer.lacks:
            expected[name] = str(declared_cnp.get(name, ""))
        if answer.managed:
            known[name] = f"{answer.value or 'unknown'} by the firmware"
            now[name], expected[name] = answer.value, str(declared_cnp.get(name, answer.value))
        for knob in answer.knobs:
            subject = subject if subject.source else replace(subject, source=_source(answer, nic))
            value = model.value(host, knob)
            if value.text is None:
                return subject.missing(value)
            now[knob.label or name] = known[knob.label or name] = value.text.strip()
            expected[knob.label or name] = knob.want
    words = "; ".join(filter(None, (_words(known), lacks)))
    if not declared_cnp:
        if not known:
            return subject.skip(f"{nic}: {lacks}")
        return _undeclared(subject, Value(_words(known)), "congestion notifications", wanted)
    if lacks:
        return _lacking(subject, port, f"{nic}: {words}", _words(expected))
    if "" in now.values():
        return subject.unknown(words, expected=_words(expected))
    advice = f"{_BY}: a notification in the wrong priority waits in the congestion that it reports"
    return subject.judged(now == expected, words, expected=_words(expected), advice=advice)


def _knobs(host: Host, port: Port, nic: str, group: str, value: object) -> model.Answer:
    """Files of congestion control. Raises HostError."""
    address = host.link_target(f"{NETS}/{nic}/device").rpartition("/")[2]
    roce_nic = model.Nic(nic, address, ((port.device.name, port.number),))
    return registry.of_nic(host, nic).knobs(host, roce_nic, group, value)


def _source(answer: model.Answer, nic: str) -> str:
    return answer.knobs[0].path.rpartition("/")[0] if answer.knobs else f"{NETS}/{nic}"


# -- details -------------------------------------------------------------------------------


def _words(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _compared(
    subject: Subject, port: Port, value: Value, wanted: Wanted, shown: str, part: str = "", what: str = ""
) -> Check:
    """part: the decisive part of the value, if it differs from the shown text."""
    if not subject.expected:
        return _undeclared(subject, value, what or subject.name, wanted)
    if value.text is not None:
        return subject.judged((part or shown) == subject.expected, shown)
    if value.absent is None:
        return subject.missing(value)
    return _lacking(subject, port, value.absent, subject.expected)


def _lacking(subject: Subject, port: Port, why: str, expected: str) -> Check:
    """A driver has no such setting: a failure if it is declared. expected: empty if not. Soft-RoCE needs
    no priorities from a NIC, even if a declaration covers all ports."""
    if not expected or port.device.address is None:
        return subject.skip(why)
    return subject.judged(False, why, expected=expected, advice=_OTHERWISE)


def _undeclared(subject: Subject, value: Value, what: str, wanted: Wanted) -> Check:
    """The check is skipped: a declared scheme omits this part, or no scheme is declared."""
    if value.text is None:
        return subject.missing(value)
    scheme = any(group in wanted for group in _SCHEME)
    evidence = f"{what}: {value.text}; {'nothing of it' if scheme else 'no scheme'} is declared"
    return subject.skip(evidence, advice="" if scheme else _NO_SCHEME)
