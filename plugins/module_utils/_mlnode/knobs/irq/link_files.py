# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of systemd's .link files that choose CPUs for a NIC when it arrives: systemd.link(5),
src/udev/net/link-config.c."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model import cpulist
from ...topology.model import Topology
from ..nics import owners
from ..nics.ports import Port
from ..summary import Files

#: Topic → the file of its line, as in nics/owner_lines.py
FILES = {"irq": "irq/policy", "rps": "rps/cpus"}


def others(
    host: Host, machine: Topology, topic: str, ports: Sequence[Port], all_files: Sequence[Files]
) -> list[owners.Other]:
    """Lines with other CPUs than the wanted ones, each with its interface. topic: of FILES. all_files: one
    for each port."""
    words = owners.interface_words(host, owners.of_machine(host))
    return [
        (name, word)
        for port, files in zip(ports, all_files)
        for name in port.names
        for word, text in _texts(words.get(name, ()), topic, machine)
        if any(part.want != text for part in files.parts)
    ]


def _texts(
    words: Sequence[owners.Word], topic: str, machine: Topology
) -> Iterator[tuple[owners.Word, str | None]]:
    """Lines with the text that the kernel shows for each queue afterwards; None if it is not known here."""
    for word in words:
        if word.file == FILES[topic]:
            beside = {other.file: other.value for other in words if other.sure == word.sure}
            yield word, _mask(word.value, machine) if topic == "rps" else _cpu(word.value, beside)


def _mask(text: str, machine: Topology) -> str | None:
    if text in ("all", "off"):
        # As many as are online, from 0 (shared/cpu-set-util.c: cpu_set_add_all).
        return cpulist.mask(range(len(machine.cpus.online)) if text == "all" else ())
    try:
        return cpulist.mask(cpulist.parse(text))
    except ValueError:
        return None


def _cpu(policy: str, beside: Mapping[str, str]) -> str | None:
    """The policy `spread` follows caches, and a NUMA node adds CPUs: neither is computed here."""
    if policy != "single" or "irq/nodes" in beside:
        return None
    try:
        return str(cpulist.parse(beside.get("irq/cpus", "0"))[0])
    except (ValueError, IndexError):
        return None
