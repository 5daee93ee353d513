# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the memory and the blocks of AMD's GPUs: the folder ras, and bad pages (gpu/amdgpu/ras.rst)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.check import Check, Subject
from ...model.errors import HostError
from ...model.record import NamedTuple, regex, replace
from ...model.setting import Severity
from . import amd_smi as smi
from . import topics
from .amd_sysfs import path_of, required, strange
from .driver import each
from .module import Card

_SOURCE = "/sys/bus/pci/devices/*/ras"
ECC = replace(topics.ECC, reference="gpu/amdgpu/ras.rst (RAS Error Count)", source=f"{_SOURCE}/*_err_count")
RECOVERY = replace(
    topics.RECOVERY,
    reason="pages of its memory are bad and could not be reserved: the next job on this GPU may die",
    reference="gpu/amdgpu/ras.rst (VRAM Bad Pages)",
    advice="drain the node and reset the GPU or reboot; replace it if pages are still not reserved",
    source=f"{_SOURCE}/gpu_vram_bad_pages",
)
_PENDING: dict[str, Any] = {
    "severity": Severity.MEDIUM,
    "reason": "pages of its memory are bad and wait until they are free: jobs may still hit them",
}

#: amdgpu_ras.c: amdgpu_ras_sysfs_features_read
_FEATURES = regex(r"feature mask: 0x([0-9a-fA-F]{1,8})\b", re.ASCII)
#: The bit of the memory controller (amdgpu_ras.h: AMDGPU_RAS_BLOCK__UMC)
_MEMORY = 1
_SUFFIX = "_err_count"
#: ue, ce and, since 6.8, de: errors that were found and not yet used
_COUNTS = regex(r"(ue|ce|de): ([0-9]{1,20})\Z", re.ASCII)
#: `0x00000001 : 0x00001000 : R`: page, size, and R reserved, P pending, F failed to reserve
_PAGE = regex(r"0x[0-9a-fA-F]{1,16} : 0x[0-9a-fA-F]{1,16} :\s+([RPF])\s*\Z", re.ASCII)


class _Counts(NamedTuple):
    """Errors since the driver was loaded. blocks: name → errors that were not corrected."""

    uncorrected: int
    deferred: int
    corrected: int
    blocks: Mapping[str, int]


def ecc(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    return each(ECC, cards, partial(_ecc, host))


def _ecc(host: Host, subject: Subject, address: str) -> Check:
    """Raises HostError."""
    folder = path_of(address, "ras")
    if not host.exists(folder):
        return _by_tool(host, subject, address)
    path = f"{folder}/features"
    text = required(host, path)
    mask = _FEATURES.search(text)
    if mask is None:
        raise strange(path, text)
    if not int(mask.group(1), 16) & _MEMORY:
        subject = replace(subject, severity=Severity.MEDIUM)
        advice = "remove ras_enable and ras_mask of the module amdgpu, and switch ECC on in the firmware"
        return subject.judged(False, "ECC of the memory is off", expected="ECC enabled", advice=advice)
    return _judged(subject, _counts(host, folder))


def _counts(host: Host, folder: str) -> _Counts:
    """Sums over all blocks. Raises HostError if one cannot be read."""
    totals, blocks = {"ue": 0, "de": 0, "ce": 0}, {}
    names = [name for name in host.names(folder) if name.endswith(_SUFFIX)]
    if not names:
        raise HostError("find", f"{folder}/*{_SUFFIX}", None, "no block counts its errors")
    for name in names:
        path = f"{folder}/{name}"
        text = required(host, path)
        matches = [_COUNTS.match(line.strip()) for line in text.splitlines() if line.strip()]
        counts = {match[1]: int(match[2]) for match in matches if match}
        if len(counts) != len(matches) or not {"ue", "ce"} <= {*counts}:
            raise strange(path, text)  # such as `Query currently inaccessible` during a reset
        for key, count in counts.items():
            totals[key] += count
        if counts["ue"]:
            blocks[name[: -len(_SUFFIX)]] = counts["ue"]
    return _Counts(totals["ue"], totals["de"], totals["ce"], blocks)


def _judged(subject: Subject, counts: _Counts) -> Check:
    evidence = f"{counts.uncorrected} not corrected, {counts.deferred} deferred, {counts.corrected} corrected"
    evidence += " since the driver was loaded"
    evidence += "".join(f"; {name} {count}" for name, count in counts.blocks.items())
    good = not counts.uncorrected and not counts.deferred
    return subject.judged(good, evidence, expected="0 not corrected, 0 deferred")


def _by_tool(host: Host, subject: Subject, address: str) -> Check:
    """From amd-smi, for a kernel or a guest without the folder. Raises HostError."""
    subject = replace(subject, source=" ".join(smi.METRIC))
    try:
        gpu = smi.metrics(host).get(address)
    except HostError as error:
        if error.absent:
            missing = f"{path_of(address, 'ras')} does not exist, and {smi.TOOL} is not installed"
            raise HostError("find", _SOURCE, None, missing) from error
        raise
    ecc = smi.section(gpu or {}, "ecc")
    # The first versions count deferred errors as uncorrectable, and have no such key.
    names = ("total_uncorrectable_count", "total_deferred_count", "total_correctable_count")
    bad, deferred, good = (smi.number(ecc.get(name, 0 if name == names[1] else None)) for name in names)
    if bad is None or deferred is None or good is None:
        raise HostError("understand", smi.TOOL, None, f"it does not count all errors of GPU {address}")
    return _judged(subject, _Counts(bad, deferred, good, {}))


def recovery(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    return each(RECOVERY, cards, partial(_recovery, host))


def _recovery(host: Host, subject: Subject, address: str) -> Check:
    """A GPU without bad pages has an empty list. Raises HostError."""
    path = path_of(address, "ras/gpu_vram_bad_pages")
    text = host.read(path)
    lines = [line for line in text.splitlines() if line.strip()]
    states = [match.group(1) for match in map(_PAGE.match, lines) if match]
    if len(states) != len(lines):
        raise strange(path, text)
    words = {"R": "reserved", "P": "pending", "F": "failed"}
    evidence = "bad pages: " + ", ".join(f"{states.count(key)} {word}" for key, word in words.items())
    if "P" in states and "F" not in states:
        subject = replace(subject, **_PENDING)
    good = not {"P", "F"} & {*states}
    return subject.judged(good, evidence, expected="none pending or failed")
