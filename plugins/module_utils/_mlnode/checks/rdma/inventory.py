# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presence, place and identity of the RDMA devices against the declaration."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ...host.host import Host
from ...model.record import regex
from ...topology.model import RdmaDevice, Topology
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from . import ports
from .ports import CLASS, PCI, nothing, told

NAMES = ("inventory", "rails", "slot", "numa", "naming", "firmware", "board_id", "hca_type", "iwarp")

#: Key of a declaration, which is also the name of the check → file of the device
_FILES = {"firmware": "fw_ver", "board_id": "board_id", "hca_type": "hca_type"}

#: Names that rdma-core's udev rules make of a device's place (kernel-boot/rdma_rename.c: by_pci): protocol,
#: domain, bus, slot, function. What the kernel itself gives, such as mlx5_0, is in the order of probing.
_PERSISTENT = regex(
    r"(ib|iw|roce|rdma|usnic|opa|hfi)(P[0-9]+)?p[0-9]+s[0-9]+(f[0-9]+)?([vd][0-9]+)?\Z", re.ASCII
)


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = [*_declared(topology, expect), *_rails(topology, expect)]
    known = ports.subjects(topology, expect)
    checks += _undeclared(topology, expect, known)
    for device in known.devices:
        declared = expect.of(device.name, rail=device.rail)
        checks.append(_slot(device, declared))
        checks.append(_numa(host, device, declared))
        checks.append(_naming(device, declared))
        checks += [_file(host, device, declared, key) for key in _FILES]
        checks += _iwarp(host, device)
    return checks


# -- what is there -------------------------------------------------------------------------


def _declared(topology: Topology, expect: Expectations) -> list[Check]:
    by_name = {device.name: device for device in topology.rdma}
    checks = []
    for (name, port), section in expect.targets.items():
        target = name if port is None else f"{name}/{port}"
        device = by_name.get(name)
        if device is None:
            where = _missing(topology, expect.of(name, port).get("slot", ""))
            checks.append(
                Check("inventory", target, Verdict.FAIL, "is there", "no such RDMA device", CLASS, where)
            )
        elif port is not None and port not in {one.number for one in device.ports}:
            has = ", ".join(str(one.number) for one in device.ports) or "none"
            found, source = f"no such port; {name} has {has}", f"{CLASS}/{name}/ports"
            checks.append(Check("inventory", target, Verdict.FAIL, "is there", found, source))
        elif section.get("used", True):
            checks.append(Check("inventory", target, Verdict.PASS, "is there", "is there", CLASS))
    return checks


def _missing(topology: Topology, slot: str) -> str:
    """Advice about the slot where the device is expected."""
    if not slot:
        return "look whether it has another name (rdma link), its driver is loaded, and lspci shows the card"
    others = [device.name for device in topology.rdma if device.address == slot]
    if others:
        return f"the device in its slot {slot} is {others[0]}: names were given in another order"
    function = next((one for one in topology.pci if one.address == slot), None)
    if function is None:
        return f"nothing answers in its slot {slot}: look at power, riser and card (lspci, dmesg)"
    if function.driver is None:
        return f"the function in its slot {slot} has no driver: load it, or look why it failed (dmesg)"
    return f"{function.driver} drives its slot {slot} without RDMA: load its RDMA module, such as mlx5_ib"


def _rails(topology: Topology, expect: Expectations) -> list[Check]:
    here = {device.rail: device.name for device in topology.rdma if device.rail is not None}
    names = ", ".join(here[number] for number in sorted(here)) or "none"
    advice = "a card that is gone renumbers the rails behind it: compare with the declared devices and slots"
    checks = []
    if expect.count is not None:
        found = f"{len(here)}: {names}"
        good = len(here) == expect.count
        checks.append(judged("rails", "node", good, str(expect.count), found, "topology", advice))
    for number in sorted(expect.rail):
        if number not in here:
            found = f"no rail {number}; rails are {names}"
            checks.append(
                Check("rails", f"rail {number}", Verdict.FAIL, "is there", found, "topology", advice)
            )
    return checks


def _undeclared(topology: Topology, expect: Expectations, known: ports.Subjects) -> list[Check]:
    """RDMA devices of which nothing is judged; where nothing is declared, their number as not judged."""
    checks = []
    for device in topology.rdma:
        if device in known.devices:
            continue
        unused = expect.of(device.name, rail=device.rail).get("used") is False
        if expect.exact and device.name not in expect.devices and not unused:
            found, advice = "is not declared", "declare it, or take it away; exact: false lets it be"
            checks.append(Check("inventory", device.name, Verdict.FAIL, "not there", found, CLASS, advice))
        else:
            found = "used: false" if unused else "not declared: nothing of it is judged"
            checks.append(skip("inventory", device.name, found, CLASS))
    if not topology.rdma and not expect.targets and not expect.count:
        checks.append(skip("inventory", "node", "no RDMA device, and none is declared", CLASS))
    elif not expect.targets and expect.count is None:
        found = f"{len(topology.rdma)} RDMA devices; nothing says how many belong here"
        checks.append(told("inventory", "node", found, CLASS, "devices or rails.count"))
    return checks


# -- what it is ----------------------------------------------------------------------------


def _slot(device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    path = f"{CLASS}/{device.name}/device"
    wanted = declared.get("slot", "")
    if device.address is None:
        found = "no PCI function: a device in software, or one of another bus"
        if wanted:
            return Check("slot", device.name, Verdict.FAIL, wanted, found, path)
        return skip("slot", device.name, found, path)
    if not wanted:
        return told("slot", device.name, device.address, path, "slot")
    advice = (
        "names were given in another order, or the card was moved: put it back, or declare it where it is"
    )
    return judged("slot", device.name, device.address == wanted, wanted, device.address, path, advice)


def _numa(host: Host, device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    wanted = str(declared.get("numa", ""))
    if device.address is None:
        return skip("numa", device.name, "no PCI function: a device in software")
    path = f"{PCI}/{device.address}/numa_node"
    number, value = ports.read_number(host, path)
    if number is None:
        return nothing("numa", device.name, value, path, wanted)
    if not wanted:
        return told("numa", device.name, str(number), path, "numa")
    if number < 0:
        found = "-1: the firmware names no node"
        return Check(
            "numa", device.name, Verdict.UNKNOWN, wanted, found, path, "look at the BIOS: NUMA, SRAT"
        )
    advice = (
        "the card is at another socket: move it to the declared slot, or look at the BIOS's NUMA settings"
    )
    return judged("numa", device.name, str(number) == wanted, wanted, str(number), path, advice)


def _naming(device: RdmaDevice, declared: Mapping[str, Any]) -> Check:
    """Stability of the name, which may be another device's after the next boot."""
    if device.address is None:
        return skip("naming", device.name, "a device in software has the name it was made with")
    if _PERSISTENT.match(device.name):
        return judged("naming", device.name, True, "stable", "named after its place on the bus", CLASS)
    if declared.get("slot") == device.address:
        found = "named in the order of probing, and in its declared slot"
        return judged("naming", device.name, True, "stable", found, CLASS)
    found = "named in the order of probing, which another boot may change"
    return told("naming", device.name, found, CLASS, "slot")


def _file(host: Host, device: RdmaDevice, declared: Mapping[str, Any], key: str) -> Check:
    path = f"{CLASS}/{device.name}/{_FILES[key]}"
    allowed = declared.get(key, ())
    wanted = " or ".join(allowed)
    value = ports.read(host, path)
    if value.text is None:
        return nothing(key, device.name, value, path, wanted)
    text = value.text.strip()
    if not allowed:
        return told(key, device.name, text, path, key)
    advice = (
        "update it, or add it to the list" if key == "firmware" else "another card than declared: exchange it"
    )
    return judged(key, device.name, text in allowed, wanted, text, path, advice)


def _iwarp(host: Host, device: RdmaDevice) -> list[Check]:
    """Only of what is iWARP: enum rdma_node_type, RDMA_NODE_RNIC."""
    path = f"{CLASS}/{device.name}/node_type"
    value = ports.read(host, path)
    if value.text is None:
        return [nothing("iwarp", device.name, value, path)]
    if not value.text.startswith("4:"):
        return [judged("iwarp", device.name, True, "not iWARP", value.text, path)]
    advice = "RoCE v2 is preferred, as NCCL and most fabrics are made for it (irdma: devlink's enable_roce)"
    return [Check("iwarp", device.name, Verdict.WARN, "not iWARP", value.text, path, advice)]
