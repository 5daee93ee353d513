# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Translation of the NICs' addresses by the IOMMU, which should be identity."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex
from .. import pcie_values
from ..model import Check, Verdict, skip
from . import next_boot
from .subjects import NODE, Card, Subjects

NAME = "iommu"

UNITS = "/sys/class/iommu"
GROUPS = "/sys/kernel/iommu_groups"

#: Domains of Documentation/ABI/testing/sysfs-kernel-iommu_groups in which addresses are translated
_TRANSLATED = ("DMA", "DMA-FQ")
_IDENTITY, _OFF = "identity", "off"

_GROUP = regex(r"[0-9]{1,9}\Z", re.ASCII)
#: Boot parameters → the words of their lists by which addresses are not translated, and by what it is off
_PASSED: Mapping[str, Sequence[str]] = {"iommu": ("pt",), "iommu.passthrough": ("1", "y", "Y", "on")}
_SWITCHED: Mapping[str, Sequence[str]] = {"iommu": ("off",), "intel_iommu": ("off",), "amd_iommu": ("off",)}
_BRINGS: Mapping[str, Sequence[Mapping[str, Sequence[str]]]] = {
    _IDENTITY: (_PASSED,),
    _OFF: (_SWITCHED,),
    "auto": (_PASSED, _SWITCHED),
}

#: Boot parameters that decide it (Documentation/admin-guide/kernel-parameters.txt)
_PARAMETER = regex(r"(?:^|\s)((?:intel_iommu|amd_iommu|iommu|iommu\.passthrough)=\S*)")


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        yield skip(NAME, NODE, "no RDMA device on PCIe", "/sys/class/infiniband")
    for card in subjects.cards:
        yield _card(host, subjects, card)


def _card(host: Host, subjects: Subjects, card: Card) -> Check:
    want, declared = pcie_values.wanted(subjects.expect, "iommu")
    if want == "auto" and subjects.virtual:
        return skip(NAME, card.label, "a virtual machine, whose host decides it", UNITS)
    link = f"/sys/bus/pci/devices/{card.address}/iommu_group"
    try:
        group = host.link_target(link).rpartition("/")[2]
    except HostError as error:
        return Check(NAME, card.label, Verdict.UNKNOWN, "", str(error), link)
    if not group:
        return _without_group(host, card, want, link)
    source = f"{GROUPS}/{group}/type"
    if not _GROUP.match(group):
        return Check(NAME, card.label, Verdict.UNKNOWN, "", f"{link} leads to {group[:60]!r}", link)
    value = host.value(source)
    word = (value.text or "").strip()
    if word != _IDENTITY and word not in _TRANSLATED:
        # A kernel before 4.19 has no such file; blocked and unmanaged belong to no driver of a NIC.
        found = value.problem or f"{source}: {word[:60]!r} is neither identity nor DMA"
        return Check(NAME, card.label, Verdict.UNKNOWN, "", found, source)
    good = word == _IDENTITY and want in ("auto", _IDENTITY)
    # Jobs run with translation, only slower: a failure only where something else is declared.
    return _judged(host, card, word, want, good, source, Verdict.FAIL if declared else Verdict.WARN)


def _without_group(host: Host, card: Card, want: str, link: str) -> Check:
    """The kernel makes a group for each function behind an IOMMU that it uses."""
    try:
        units = host.names(UNITS)
        known = bool(units) or host.exists(UNITS)
    except HostError as error:
        return Check(NAME, card.label, Verdict.UNKNOWN, "", str(error), UNITS)
    if not known:
        found = f"{UNITS} does not exist: a kernel without IOMMU support, or it was not captured"
        return skip(NAME, card.label, found, UNITS)
    if units:
        found = f"{', '.join(units)} in use, and {link} does not exist"
        return Check(NAME, card.label, Verdict.UNKNOWN, "", found, UNITS)
    return _judged(host, card, _OFF, want, want in ("auto", _OFF), UNITS, Verdict.FAIL)


def _judged(host: Host, card: Card, word: str, want: str, good: bool, source: str, bad: Verdict) -> Check:
    expected = f"{_OFF} or {_IDENTITY}" if want == "auto" else want
    parameters = " ".join(_PARAMETER.findall(host.value("/proc/cmdline").text or ""))
    found = f"{word} (booted with {parameters})" if parameters else word
    if good:
        return Check(NAME, card.label, Verdict.PASS, expected, found, source)
    waits = _next_boot(host, want)
    if waits:
        found = f"{found}; the next boot has {waits}"
        return Check(NAME, card.label, Verdict.PENDING, expected, found, source, "reboot")
    if want == _OFF:
        advice = "switch the IOMMU off in the BIOS, or boot with intel_iommu=off or amd_iommu=off"
    else:
        advice = "boot with iommu=pt, on arm64 with iommu.passthrough=1 (module boot_params)"
    return Check(NAME, card.label, bad, expected, found, source, advice)


def _next_boot(host: Host, want: str) -> str:
    names = list(dict.fromkeys(name for table in _BRINGS[want] for name in table))
    return next_boot.brings(
        host, names, lambda words: next((word for word in reversed(words) if _brings(want, word)), "")
    )


def _brings(want: str, word: str) -> bool:
    name, _equals, value = word.partition("=")
    return any({*value.split(",")} & {*table.get(name, ())} for table in _BRINGS[want])
