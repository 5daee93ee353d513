# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS of the bridges between a GPU and a NIC, which may redirect their traffic up to the CPU."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model import values
from ...model.errors import HostError
from ...model.record import dataclass, regex, replace
from ...topology import distance, links, pci, pci_config
from ...topology.model import PciDevice
from ...topology.pci_config import ConfigError
from .. import pcie_values
from ..model import Check, Nothing, Subject, Verdict
from . import data_direct, next_boot
from .data_direct import Way
from .subjects import Subjects, severity, unreadable

NAME = "acs"

_RELEASE = "/proc/sys/kernel/osrelease"
#: The kernel with "PCI: Extend ACS configurability", 6.11. From then on disable_acs_redir no longer clears
#: bits set by the firmware, and config_acs accepts one bridge only. "PCI/ACS: Fix 'pci=config_acs='
#: parameter" of 6.15 corrects the latter, in the longterm kernel since 6.12.23
_BROKEN_SINCE, _CONFIG_SINCE, _LONGTERM_SINCE = (6, 11), (6, 15), 23
_LONGTERM = regex(r"6\.12\.([0-9]{1,4})", re.ASCII)
_REDIR, _CONFIG = "disable_acs_redir", "config_acs"
#: Effect of disable_acs_redir on a bridge: bits 6 to 0 of its control register, x for unchanged
_NO_REDIRECT = "x0x00xx"
#: The same with upstream forwarding and source validation, as `rdma_topo write-grub-acs` of rdma-core writes
#: it for a switch. The second also clears egress control, which rdma_topo keeps, for a bridge that redirects
#: by it
_PEER_TO_PEER, _WITH_EGRESS = "xx000x0", "x0000x0"
#: Bits that the kernel sets if an IOMMU is active (rdma_topo: kernel_acs_isolated)
_ISOLATED = "xx111x1"
#: Bridges by vendor and device, 0 for any (drivers/pci/pci.c: pci_dev_str_match)
_BY_IDENTITY = regex(r"pci:([0-9a-f]{1,4}):([0-9a-f]{1,4})\Z", re.ASCII | re.IGNORECASE)
_ON = "switch ACS and the IOMMU on in the BIOS, and boot without pci=disable_acs_redir and pci=config_acs"


@dataclass(frozen=True)
class Bridge:
    """A bridge between GPUs and NICs, and its expected state.

    redirection: off or on. bits: with Data Direct, the bits of its control register. pairs: the users of the
    bridge.
    """

    address: str
    device: PciDevice | None
    pairs: Sequence[str]
    redirection: str
    bits: str

    @property
    def expected(self) -> str:
        return f"{self.bits or f'redirection {self.redirection}'} between {', '.join(self.pairs)}"

    @property
    def may_lack(self) -> bool:
        """True for the upstream port of a switch, which has nothing to redirect."""
        return self.redirection == "on" and self.device is not None and links.faces_up(self.device)

    def satisfied(self, control: int) -> bool:
        if self.bits:
            return pci_config.with_bits(control, self.bits) == control
        return bool(control & pci_config.REDIRECT) == (self.redirection == "on")

    def remedy(self, control: int) -> str:
        """The bits for the kernel parameter."""
        bits = self.bits or _PEER_TO_PEER
        return bits if self.satisfied(pci_config.with_bits(control, bits)) else _WITH_EGRESS


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    want, declared = pcie_values.wanted(subjects.expect, "acs")
    leave = _left_alone(subjects) if want == "auto" else ""
    direct, unpaired = ([], []) if leave else _data_direct(host, subjects)
    yield from unpaired
    bridges = _bridges(subjects, direct, "off" if want == "auto" else want)
    if not bridges and not unpaired:
        yield Subject(NAME, source="/sys/bus/pci/devices").skip(_why_none(subjects, leave))
    bad = severity(declared)
    results = [(bridge, _bridge(host, bridge, leave, bad)) for bridge in bridges]
    # One parameter covers all bridges, so it must also keep its present and pending effects.
    running = next_boot.running(host, ["pci"])
    remedies = {
        bridge.address: bridge.remedy(_control(host, bridge))
        for bridge, check in results
        if check.verdict in (bad, Verdict.PENDING)
        or (check.verdict is Verdict.PASS and _given(running, bridge)[0])
    }
    for bridge, check in results:
        if check.verdict is bad:
            advice = _ON if bridge.redirection == "on" else _off(host, bridge, remedies, bool(direct))
            check = replace(check, advice=advice)
        yield check


def _why_none(subjects: Subjects, leave: str) -> str:
    if not subjects.topology.gpus or not subjects.cards:
        return f"no {'GPU' if subjects.cards else 'RDMA device on PCIe'}, so no path between a GPU and a NIC"
    apart = "no GPU has a NIC below the same bridge, so all their traffic passes the CPU anyway"
    return leave or apart


def _left_alone(subjects: Subjects) -> str:
    """Reason to accept the platform's value; "" if it is judged."""
    if subjects.virtual:
        return "a virtual machine, whose host decides it"
    passed = [device.address for device in subjects.topology.pci if "vfio" in (device.driver or "")]
    if passed:
        return f"{passed[0]} is passed through to a virtual machine (driver vfio), which redirection protects"
    return ""


def _data_direct(host: Host, subjects: Subjects) -> tuple[list[Way], list[Check]]:
    """The paths of Data Direct, and a check for each Data Direct function without one."""
    ways: list[Way] = []
    unpaired: list[Check] = []
    for address in data_direct.functions(host, subjects):
        try:
            ways += data_direct.ways(host, subjects, address)
        except (Nothing, HostError) as error:
            unpaired.append(Subject(NAME, f"Data Direct {address}").ended(error))
    return ways, unpaired


def _bridges(subjects: Subjects, direct: Sequence[Way], redirection: str) -> list[Bridge]:
    """Every bridge on a path between a GPU and a NIC, with the pairs that use it."""
    pairs: dict[str, list[str]] = {}
    bits: dict[str, str] = {}
    for gpu, card in subjects.pairs():
        for bridge in _between(subjects.devices[gpu], card.device):
            pairs.setdefault(bridge, []).append(f"{subjects.gpu(gpu)} and {card.label}")
    for way in direct:
        for bridge, needed in way.bits.items():
            pairs.setdefault(bridge, []).append(f"{subjects.gpu(way.gpu)} and {way.card.label} (Data Direct)")
            bits[bridge] = _ISOLATED if redirection == "on" else needed
    return [
        Bridge(address, subjects.devices.get(address), pairs[address], redirection, bits.get(address, ""))
        for address in sorted(pairs, key=pci.order)
    ]


def _between(device: PciDevice, other: PciDevice) -> list[str]:
    """The nearest bridge above both, and the bridges below it on both sides, as in p2pdma.c."""
    start = max(distance.common(device.path[:-1], other.path[:-1]) - 1, 0)
    return list(dict.fromkeys((*device.path[start:-1], *other.path[start:-1])))


def _bridge(host: Host, bridge: Bridge, leave: str, bad: Verdict) -> Check:
    subject = Subject(NAME, f"PCIe bridge {bridge.address}", pci_config.path(bridge.address), bad=bad)
    try:
        data = pci_config.read(host, bridge.address)
        if pci_config.express(data) is None:
            return subject.skip("no PCI Express function: it has no ACS")
        capability = pci_config.acs(data)
    except ConfigError as error:
        return unreadable(subject, error)
    subject = replace(subject, expected=bridge.expected)
    evidence = str(capability) if capability is not None else "no ACS: the bridge cannot redirect"
    if leave:
        return subject.skip(f"{evidence}; {leave}")
    if capability is None and bridge.may_lack:
        return subject.skip(evidence)
    if capability is None and bridge.bits:
        # No parameter can add ACS, and no documentation covers Data Direct without it.
        return subject.unknown("no ACS, but Data Direct needs bits of it here")
    control = _control(host, bridge)
    if bridge.satisfied(control):
        return subject.judged(True, evidence)
    waits = next_boot.brings(host, ["pci"], lambda words: _bringing(words, bridge, control))
    if waits:
        return subject.made(Verdict.PENDING, f"{evidence}; the next boot has {waits}", advice="reboot")
    return subject.judged(False, evidence)


def _control(host: Host, bridge: Bridge) -> int:
    """The control register; 0 without the capability. Raises ConfigError."""
    capability = pci_config.acs(pci_config.read(host, bridge.address))
    return capability.control if capability is not None else 0


def _bringing(words: Sequence[str], bridge: Bridge, control: int) -> str:
    """The option among these words of pci= that gives a bridge its expected state; "" if none does."""
    option, bits = _given(words, bridge)
    return f"pci={option}" if bridge.satisfied(pci_config.with_bits(control, bits)) else ""


def _given(words: Sequence[str], bridge: Bridge) -> tuple[str, str]:
    """The option among these words of pci= that sets a bridge's bits, and the bits; ("", "") if none does.

    The last occurrence of an option counts, and within it the first item that matches the bridge. config_acs
    starts with the firmware's bits, regardless of the other option (drivers/pci/pci.c: __pci_config_acs).
    """
    options: dict[str, str] = {}
    for word in words:
        for option in word.partition("=")[2].split(","):
            name, _equals, options[name] = option.partition("=")
    for name in (_CONFIG, _REDIR):
        for item in options.get(name, "").split(";"):
            bits, _at, who = item.rpartition("@")
            if _means(who, bridge):
                return name, _NO_REDIRECT if name == _REDIR else bits
    return "", ""


def _means(name: str, bridge: Bridge) -> bool:
    """True if a boot parameter's bridge is this one; the domain may be omitted."""
    identity = _BY_IDENTITY.match(name)
    if identity is None:
        return bridge.address in (pci.normal(name), pci.normal(f"0000:{name}"))
    is_ = (bridge.device.vendor, bridge.device.device) if bridge.device is not None else (-1, -1)
    return all(int(wanted, 16) in (0, number) for wanted, number in zip(identity.groups(), is_))


def _off(host: Host, bridge: Bridge, remedies: Mapping[str, str], direct: bool) -> str:
    """Advice to set all bridges at every boot, and to set this one now if that is harmless."""
    release = host.value(_RELEASE).text or ""
    if direct or (values.kernel_version(release) or (0, 0)) >= _BROKEN_SINCE:
        kernel = "" if _takes_many(release) else " a kernel since 6.15"
        word = f"pci={_CONFIG}={';'.join(f'{bits}@{address}' for address, bits in remedies.items())}"
    else:
        kernel, word = "", f"pci={_REDIR}={';'.join(remedies)}"
    boot = f"boot{kernel} with {word} (module boot_params)"
    if bridge.bits:
        # The IOMMU's groups do not change after the boot (rdma_topo: setpci-acs).
        return boot
    # setpci(8) changes only the bits of the mask: request and completion redirect, egress control
    now = f"setpci -s {bridge.address} ECAP_ACS+6.w=0000:{pci_config.REDIRECT:04x}"
    return f"switch ACS off in the BIOS, or {boot}; until then: {now}"


def _takes_many(release: str) -> bool:
    """True if config_acs of this kernel is known to accept several bridges."""
    longterm = _LONGTERM.match(release)
    if longterm is not None:
        return int(longterm.group(1)) >= _LONGTERM_SINCE
    return (values.kernel_version(release) or (0, 0)) >= _CONFIG_SINCE
