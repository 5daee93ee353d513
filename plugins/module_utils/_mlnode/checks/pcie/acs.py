# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS of the bridges between a GPU and a NIC, which may redirect their traffic up to the CPU."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model import values
from ...model.record import replace
from ...topology import links, pci, pci_config
from ...topology.model import PciDevice
from ...topology.pci_config import ConfigError
from .. import pcie_values
from ..model import Check, Verdict, skip
from .subjects import NODE, Subjects

NAME = "acs"


_RELEASE = "/proc/sys/kernel/osrelease"
#: "PCI: Extend ACS configurability" of 6.11, with which disable_acs_redir no longer clears what the firmware
#: has set and config_acs takes one bridge only, until "PCI/ACS: Fix 'pci=config_acs=' parameter" of 6.15
_BROKEN_SINCE, _CONFIG_SINCE = (6, 11), (6, 15)
#: Bits 6 to 0 of the control register, x for as they are: what setpci(8) clears below, with upstream
#: forwarding and source validation, which `rdma_topo write-grub-acs` of rdma-core clears too
_PEER_TO_PEER = "x0000x0"
#: The function through which a ConnectX-8 reaches a GPU past the CPU's root port
_DATA_DIRECT = (0x15B3, 0x2100)
_TOPO = "run `rdma_topo write-grub-acs` (rdma-core)"
_ON = "switch ACS and the IOMMU on in the BIOS, and boot without pci=disable_acs_redir and pci=config_acs"


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    want, _declared = pcie_values.wanted(subjects.expect, "acs")
    bridges = _bridges(subjects)
    if not bridges:
        yield skip(NAME, NODE, _why_none(subjects), "/sys/bus/pci/devices")
    leave = _left_alone(subjects) if want == "auto" else ""
    results = {}
    for address, pairs in bridges.items():
        device = subjects.devices.get(address)
        may_lack = device is not None and links.faces_up(device)
        results[address] = _bridge(host, address, pairs, "off" if want == "auto" else want, leave, may_lack)
    failed = [address for address, check in results.items() if check.verdict is Verdict.FAIL]
    for address, check in results.items():
        if address in failed:
            advice = _ON if want == "on" else _off(host, subjects, address, failed)
            check = replace(check, advice=advice)
        yield check


def _why_none(subjects: Subjects) -> str:
    if not subjects.topology.gpus or not subjects.cards:
        return f"no {'GPU' if subjects.cards else 'RDMA device on PCIe'}, so no path between a GPU and a NIC"
    return "no GPU has a NIC below the same bridge, so that all of their traffic passes the CPU anyhow"


def _left_alone(subjects: Subjects) -> str:
    """Reason why the platform's value stands; "" where it is to be judged."""
    if subjects.virtual:
        return "a virtual machine, whose host decides it"
    passed = [device.address for device in subjects.topology.pci if "vfio" in (device.driver or "")]
    if passed:
        return f"{passed[0]} is passed through to a virtual machine (driver vfio), which redirection protects"
    return ""


def _bridges(subjects: Subjects) -> Mapping[str, list[str]]:
    """Every bridge on a way between a GPU and a NIC → the pairs that use it."""
    pairs: dict[str, list[str]] = {}
    for gpu, card in subjects.pairs():
        for bridge in _between(subjects.devices[gpu], card.device):
            pairs.setdefault(bridge, []).append(f"{subjects.gpu(gpu)} and {card.label}")
    return dict(sorted(pairs.items(), key=lambda item: pci.order(item[0])))


def _between(one: PciDevice, other: PciDevice) -> list[str]:
    """The nearest bridge above both, and those below it on both sides, as p2pdma.c looks at them."""
    common = 0
    while common < min(len(one.path), len(other.path)) - 1 and one.path[common] == other.path[common]:
        common += 1
    start = max(common - 1, 0)
    return list(dict.fromkeys((*one.path[start:-1], *other.path[start:-1])))


def _bridge(host: Host, address: str, pairs: list[str], want: str, leave: str, may_lack: bool) -> Check:
    """may_lack: the end of a switch towards the CPU, which has nothing to redirect."""
    target, source = f"PCIe bridge {address}", pci_config.path(address)
    try:
        data = pci_config.read(host, address)
        if pci_config.express(data) is None:
            return skip(NAME, target, "no PCI Express function: it has no ACS", source)
        capability = pci_config.acs(data)
    except ConfigError as error:
        text = str(error)
        found = text if source in text else f"{source}: {text}"
        return Check(NAME, target, Verdict.UNKNOWN, "", found, source)
    found = str(capability) if capability is not None else "no ACS: the bridge cannot redirect"
    redirects = capability is not None and capability.redirects
    if leave:
        return skip(NAME, target, f"{found}; {leave}", source)
    if capability is None and want == "on" and may_lack:
        return skip(NAME, target, found, source)
    expected = f"redirection {want} between {', '.join(pairs)}"
    if redirects == (want == "on"):
        return Check(NAME, target, Verdict.PASS, expected, found, source)
    return Check(NAME, target, Verdict.FAIL, expected, found, source)


def _off(host: Host, subjects: Subjects, address: str, failed: Sequence[str]) -> str:
    """How to switch redirection off now, and at every boot on all bridges at once: it is one parameter."""
    # setpci(8) changes the bits of the mask only: request and completion redirect, egress control
    now = f"setpci -s {address} ECAP_ACS+6.w=0000:{pci_config.REDIRECT:04x}"
    if any((one.vendor, one.device) == _DATA_DIRECT for one in subjects.devices.values()):
        return f"{_TOPO}, as ConnectX-8 with Data Direct needs other bits than off; until then: {now}"
    version = values.kernel_version(host.value(_RELEASE).text) or (0, 0)
    word = f"pci=config_acs={';'.join(f'{_PEER_TO_PEER}@{one}' for one in failed)}"
    if version < _BROKEN_SINCE:
        word = f"pci=disable_acs_redir={';'.join(failed)}"
    kernel = " a kernel since 6.15" if _BROKEN_SINCE <= version < _CONFIG_SINCE else ""
    return f"switch ACS off in the BIOS, or boot{kernel} with {word} (module boot_params); until then: {now}"
