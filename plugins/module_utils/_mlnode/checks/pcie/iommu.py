# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Translation of the NICs' addresses by the IOMMU, which should be identity."""

from __future__ import annotations

import re
from functools import partial
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.record import regex, replace
from .. import pcie_values
from ..model import Check, Subject, Verdict, findings
from . import next_boot
from .subjects import Card, Subjects, severity

NAME = "iommu"

UNITS = "/sys/class/iommu"
GROUPS = "/sys/kernel/iommu_groups"

#: Domain types of Documentation/ABI/testing/sysfs-kernel-iommu_groups that translate addresses
_TRANSLATED = ("DMA", "DMA-FQ")
_IDENTITY, _OFF = "identity", "off"

_GROUP = regex(r"[0-9]{1,9}\Z", re.ASCII)
#: Boot parameter → words that stop the translation of addresses, and words that switch the IOMMU off
_PASSED: Mapping[str, Sequence[str]] = {"iommu": ("pt",), "iommu.passthrough": ("1", "y", "Y", "on")}
_SWITCHED: Mapping[str, Sequence[str]] = {"iommu": ("off",), "intel_iommu": ("off",), "amd_iommu": ("off",)}
_BRINGS: Mapping[str, Sequence[Mapping[str, Sequence[str]]]] = {
    _IDENTITY: (_PASSED,),
    _OFF: (_SWITCHED,),
    "auto": (_PASSED, _SWITCHED),
}

#: Boot parameters of the IOMMU (Documentation/admin-guide/kernel-parameters.txt)
_PARAMETER = regex(r"(?:^|\s)((?:intel_iommu|amd_iommu|iommu|iommu\.passthrough)=\S*)")


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        yield Subject(NAME, source="/sys/class/infiniband").skip("no RDMA device on PCIe")
    want, declared = pcie_values.wanted(subjects.expect, "iommu")
    for card in subjects.cards:
        subject = card.about(NAME, UNITS)
        if want == "auto" and subjects.virtual:
            yield subject.skip("a virtual machine, whose host decides it")
        else:
            yield from findings([subject], partial(_card, host, subject, card, want, declared))


def _card(host: Host, subject: Subject, card: Card, want: str, declared: bool) -> Check:
    """Raises HostError."""
    link = f"/sys/bus/pci/devices/{card.address}/iommu_group"
    group = host.link_target(link).rpartition("/")[2]
    if not group:
        return _without_group(host, subject, want, link)
    if not _GROUP.match(group):
        return subject.unknown(f"{link} leads to {group[:60]!r}", source=link)
    subject = replace(subject, source=f"{GROUPS}/{group}/type")
    value = host.value(subject.source)
    word = (value.text or "").strip()
    if word != _IDENTITY and word not in _TRANSLATED:
        # Kernels before 4.19 lack this file; NIC drivers never use blocked or unmanaged domains.
        strange = f"{subject.source}: {word[:60]!r} is neither identity nor DMA"
        return subject.unknown(value.problem or strange)
    good = word == _IDENTITY and want in ("auto", _IDENTITY)
    # Jobs also run with translation, only slower, so it fails only if it contradicts a declaration.
    return _judged(host, replace(subject, bad=severity(declared)), word, want, good)


def _without_group(host: Host, subject: Subject, want: str, link: str) -> Check:
    """The kernel makes a group for each function behind an active IOMMU. Raises HostError."""
    units = host.names(UNITS)
    if not units and not host.exists(UNITS):
        return subject.skip(f"{UNITS} does not exist: a kernel without IOMMU support, or it was not captured")
    if units:
        return subject.unknown(f"{', '.join(units)} in use, and {link} does not exist")
    return _judged(host, subject, _OFF, want, want in ("auto", _OFF))


def _judged(host: Host, subject: Subject, word: str, want: str, good: bool) -> Check:
    subject = replace(subject, expected=f"{_OFF} or {_IDENTITY}" if want == "auto" else want)
    parameters = " ".join(_PARAMETER.findall(host.value("/proc/cmdline").text or ""))
    evidence = f"{word} (booted with {parameters})" if parameters else word
    waits = "" if good else _next_boot(host, want)
    if waits:
        return subject.made(Verdict.PENDING, f"{evidence}; the next boot has {waits}", advice="reboot")
    if want == _OFF:
        advice = "switch the IOMMU off in the BIOS, or boot with intel_iommu=off or amd_iommu=off"
    else:
        advice = "boot with iommu=pt, on arm64 with iommu.passthrough=1 (module boot_params)"
    return subject.judged(good, evidence, advice=advice)


def _next_boot(host: Host, want: str) -> str:
    names = list(dict.fromkeys(name for table in _BRINGS[want] for name in table))
    return next_boot.brings(
        host, names, lambda words: next((word for word in reversed(words) if _brings(want, word)), "")
    )


def _brings(want: str, word: str) -> bool:
    name, _equals, value = word.partition("=")
    return any({*value.split(",")} & {*table.get(name, ())} for table in _BRINGS[want])
