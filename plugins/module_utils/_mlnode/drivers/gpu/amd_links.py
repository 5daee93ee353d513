# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""XGMI, the links between AMD's GPUs (amdgpu_xgmi.c).

GPUs that are joined form a hive. Its files name the hive, the other GPUs, and the links to each of them; the
states of the links are in gpu_metrics since 1.7.
"""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...model.check import Check, Subject
from ...model.errors import HostError, listed
from ...model.record import NamedTuple, regex, replace
from . import amd_metrics, topics
from .amd_sysfs import path_of, required, strange, value
from .driver import models
from .module import Card

FABRIC = replace(
    topics.FABRIC,
    reason="collectives in the node run over XGMI; without a link they are slower, or go over PCIe",
    reference="amdgpu_xgmi.c (AMDGPU XGMI Support); kgd_pp_interface.h (xgmi_link_status)",
    advice="look at amd-smi xgmi --link-status and at dmesg; power the node off and on",
    source="/sys/bus/pci/devices/*/xgmi_hive_info",
)

#: `00 01 01 01 `: links to each GPU of the hive, this one among them, in hexadecimal
_LINKS = regex(r"(?:[0-9a-f]{2} ?){1,64}\s*\Z", re.ASCII)
_NODE = regex(r"node[0-9]{1,3}\Z", re.ASCII)


class _Hive(NamedTuple):
    """id: of the hive; "" for a GPU in none. nodes: GPUs in it. links: of this GPU to all others."""

    id: str
    nodes: int = 0
    links: tuple[int, ...] = ()


def fabric(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    for alike in models(cards):
        yield from _fabric(host, alike)


def _fabric(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    hives: dict[str, _Hive | HostError] = {}
    for card in cards:
        try:
            hives[card.address] = _hive(host, card.address)
        except HostError as error:
            hives[card.address] = error
    known = [hive for hive in hives.values() if isinstance(hive, _Hive) and hive.id]
    most = max((sum(hive.links) for hive in known), default=0)
    for address, hive in hives.items():
        subject = replace(FABRIC, target=f"GPU {address}")
        if isinstance(hive, HostError):
            yield subject.unknown(str(hive))
        elif not hive.id and not known:
            yield subject.skip("no GPU here has XGMI links to others")
        else:
            yield _judged(host, subject, address, hive, [other.id for other in known], most)


def _hive(host: Host, address: str) -> _Hive:
    """Raises HostError."""
    folder = path_of(address, "xgmi_hive_info")
    if not host.exists(folder):
        return _Hive("")
    hive = required(host, f"{folder}/xgmi_hive_id").strip()
    path = path_of(address, "xgmi_num_links")
    text = value(host, path)
    if text.unreadable is not None or (text.text is not None and not _LINKS.match(text.text)):
        raise (
            strange(path, text.text) if text.text is not None else HostError("read", path, None, text.problem)
        )
    links = tuple(int(word, 16) for word in (text.text or "").split())
    return _Hive(hive, sum(bool(_NODE.match(name)) for name in host.names(folder)), links)


def _judged(host: Host, subject: Subject, address: str, hive: _Hive, ids: Sequence[str], most: int) -> Check:
    """ids: the hive of each GPU. most: links of the GPU with most of them."""
    if not hive.id:
        return subject.judged(False, "in no hive, and others are", expected="one hive of all GPUs")
    same = ids.count(hive.id)
    evidence = f"hive of {hive.nodes or 'unnamed'} GPUs, {same} of them here"
    if len({*ids}) > 1:
        evidence += f"; {len({*ids})} hives"
    links = sum(hive.links)
    evidence += f"; {links} links" if hive.links else "; the kernel does not name its links"
    good = hive.nodes in (0, same) and same == len(ids) and links == most
    try:
        metrics = amd_metrics.read(host, address)
    except HostError as error:
        return (
            subject.unknown(f"{evidence}; their states are unknown: {error}")
            if good
            else _bad(subject, evidence)
        )
    up, unclear = metrics.links.count(amd_metrics.UP), metrics.links.count(amd_metrics.UNCLEAR)
    if metrics.links:
        down = [str(number) for number, state in enumerate(metrics.links) if state == amd_metrics.DOWN]
        evidence += f", {up} active" + (
            f", and not {listed(down, topics.NAMED)}" if down and up < links else ""
        )
        evidence += f", {unclear} unknown" if unclear and up < links else ""
        good = good and up + unclear >= links
    elif hive.links:
        evidence += "; gpu_metrics does not show their states"
    evidence += f", {metrics.width} lanes wide" if metrics.width else ""
    if not good:
        return _bad(subject, evidence)
    if not hive.nodes or not hive.links or up < links:
        return subject.unknown(evidence)
    return subject.judged(True, evidence, expected=_EXPECTED)


_EXPECTED = "one hive of all GPUs, with as many links as the others, all active"


def _bad(subject: Subject, evidence: str) -> Check:
    return subject.judged(False, evidence, expected=_EXPECTED)
