# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presence, place and identity of the RDMA devices, compared with the declaration."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ...drivers.roce import registry
from ...host.host import Host
from ...model.record import regex, replace
from ...model.setting import Value
from ...topology.model import RdmaDevice, Topology
from ..expect import Expectations
from ..model import Check, Subject, Verdict
from . import ports
from .ports import CLASS, PCI

NAMES = ("inventory", "rails", "slot", "numa", "naming", "firmware", "board_id", "hca_type", "iwarp")

#: Key of a declaration, also the name of the check → file of the device
_FILES = {"firmware": "fw_ver", "board_id": "board_id", "hca_type": "hca_type"}

#: Names that rdma-core's udev rules derive from a device's place (kernel-boot/rdma_rename.c: by_pci):
#: protocol, domain, bus, slot, function. The kernel's own names, such as mlx5_0, follow the order of probing.
_PERSISTENT = regex(
    r"(ib|iw|roce|rdma|usnic|opa|hfi)(P[0-9]+)?p[0-9]+s[0-9]+(f[0-9]+)?([vd][0-9]+)?\Z", re.ASCII
)


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = [*_declared(topology, expect), *_rails(topology, expect)]
    known = ports.subjects(topology, expect)
    checks += _undeclared(topology, expect, known)
    for device in known.devices:
        declared = expect.section(device.name, rail=device.rail)
        checks.append(_slot(device, declared))
        checks.append(_numa(host, device, declared))
        checks.append(_naming(device, declared))
        checks += [_file(host, device, declared, key) for key in _FILES]
        checks.append(_iwarp(host, device))
    return checks


# -- presence -------------------------------------------------------------------------------


def _declared(topology: Topology, expect: Expectations) -> list[Check]:
    by_name = {device.name: device for device in topology.rdma}
    checks = []
    for (name, port), section in expect.targets.items():
        subject = Subject("inventory", name if port is None else f"{name}/{port}", CLASS, "is there")
        device = by_name.get(name)
        if device is None:
            where = _missing(topology, expect.section(name, port).get("slot", ""))
            checks.append(subject.judged(False, "no such RDMA device", advice=where))
        elif port is not None and port not in {rdma_port.number for rdma_port in device.ports}:
            has = ", ".join(str(rdma_port.number) for rdma_port in device.ports) or "none"
            evidence = f"no such port; {name} has {has}"
            checks.append(subject.judged(False, evidence, source=f"{CLASS}/{name}/ports"))
        elif section.get("used", True):
            checks.append(subject.judged(True, "is there"))
    return checks


def _missing(topology: Topology, slot: str) -> str:
    """Advice about the slot where the device is expected."""
    if not slot:
        return "check whether it has another name (rdma link), its driver is loaded, and lspci shows the card"
    others = [device.name for device in topology.rdma if device.address == slot]
    if others:
        return f"the device in its slot {slot} is {others[0]}: names were given in another order"
    function = next((function for function in topology.pci if function.address == slot), None)
    if function is None:
        return f"nothing answers in its slot {slot}: look at power, riser and card (lspci, dmesg)"
    if function.driver is None:
        return f"the function in its slot {slot} has no driver: load it, or look why it failed (dmesg)"
    module = registry.named(function.driver).MODULE or "its RDMA module"
    return f"{function.driver} drives its slot {slot} without RDMA: load {module}"


def _rails(topology: Topology, expect: Expectations) -> list[Check]:
    here = {device.rail: device.name for device in topology.rdma if device.rail is not None}
    names = ", ".join(here[number] for number in sorted(here)) or "none"
    advice = "a card that is gone renumbers the rails behind it: compare with the declared devices and slots"
    subject, checks = Subject("rails", source="topology", expected="is there", advice=advice), []
    if expect.count is not None:
        good = len(here) == expect.count
        checks.append(subject.judged(good, f"{len(here)}: {names}", expected=str(expect.count)))
    for number in sorted({*expect.rail} - {*here}):
        evidence = f"no rail {number}; rails are {names}"
        checks.append(subject.judged(False, evidence, target=f"rail {number}"))
    return checks


def _undeclared(topology: Topology, expect: Expectations, known: ports.Subjects) -> list[Check]:
    """RDMA devices that are not judged. Without any declaration, only their number is reported."""
    subject, checks = Subject("inventory", source=CLASS), []
    for device in topology.rdma:
        if device in known.devices:
            continue
        unused = expect.section(device.name, rail=device.rail).get("used") is False
        about = replace(subject, target=device.name)
        if expect.exact and device.name not in expect.devices and not unused:
            advice = "declare it, or take it away; exact: false lets it be"
            checks.append(about.judged(False, "is not declared", expected="not there", advice=advice))
        else:
            checks.append(about.skip("used: false" if unused else "not declared: nothing of it is judged"))
    if not topology.rdma and not expect.targets and not expect.count:
        checks.append(subject.skip("no RDMA device, and none is declared"))
    elif not expect.targets and expect.count is None:
        evidence = f"{len(topology.rdma)} RDMA devices; nothing says how many belong here"
        checks.append(subject.told(evidence, "devices or rails.count"))
    return checks


# -- identity -------------------------------------------------------------------------------


def _slot(device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    subject = Subject("slot", device.name, f"{CLASS}/{device.name}/device", declared.get("slot", ""))
    if device.address is None:
        evidence = "no PCI function: a device in software, or one of another bus"
        return subject.judged(False, evidence) if subject.expected else subject.skip(evidence)
    advice = (
        "names were given in another order, or the card was moved: put it back, or declare its present slot"
    )
    return subject.compared(Value(device.address), "slot", advice)


def _numa(host: Host, device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    subject = Subject("numa", device.name, expected=str(declared.get("numa", "")))
    if device.address is None:
        return subject.skip("no PCI function: a device in software")
    subject = replace(subject, source=f"{PCI}/{device.address}/numa_node")
    value = ports.read_number(host, subject.source)
    if subject.expected and (value.text or "").startswith("-"):
        return subject.unknown("-1: the firmware names no node", advice="look at the BIOS: NUMA, SRAT")
    advice = (
        "the card is at another socket: move it to the declared slot, or look at the BIOS's NUMA settings"
    )
    return subject.compared(value, "numa", advice)


def _naming(device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    """Stability of the name: an unstable name may belong to another device after the next boot."""
    subject = Subject("naming", device.name, CLASS)
    if device.address is None:
        return subject.skip("a device in software has the name it was made with", source="")
    if _PERSISTENT.match(device.name):
        return subject.judged(True, "named after its place on the bus", expected="stable")
    if declared.get("slot") == device.address:
        evidence = "named in the order of probing, and in its declared slot"
        return subject.judged(True, evidence, expected="stable")
    return subject.told("named in the order of probing, which another boot may change", "slot")


def _file(host: Host, device: RdmaDevice, declared: Mapping[str, Any], key: str) -> Check:
    allowed = declared.get(key, ())
    subject = Subject(key, device.name, f"{CLASS}/{device.name}/{_FILES[key]}", " or ".join(allowed))
    value = ports.read(host, subject.source)
    if value.text is None or not allowed:
        return subject.compared(value, key, "")
    text = value.text.strip()
    advice = (
        "update it, or add it to the list" if key == "firmware" else "another card than declared: exchange it"
    )
    return subject.judged(text in allowed, text, advice=advice)


def _iwarp(host: Host, device: RdmaDevice) -> Check:
    """Warns if the device uses iWARP (enum rdma_node_type, RDMA_NODE_RNIC)."""
    subject = Subject("iwarp", device.name, f"{CLASS}/{device.name}/node_type")
    value = ports.read(host, subject.source)
    if value.text is None:
        return subject.missing(value)
    advice = "RoCE v2 is preferred, as NCCL and most fabrics are made for it (irdma: devlink's enable_roce)"
    roce = not value.text.startswith("4:")
    return subject.judged(roce, value.text, expected="not iWARP", advice=advice, bad=Verdict.WARN)
