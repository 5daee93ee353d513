# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's driver: nvidia-smi, the kernel's log, and the persistence mode."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Mapping, Sequence

from ...host.host import Host
from ...model import values
from ...model.check import Check, if_installed
from ...model.errors import HostError
from ...model.log import Event, Line
from ...model.record import regex, replace
from ...model.setting import Severity
from . import nvidia_query, topics, xid
from . import nvidia_smi as smi
from .awake import NvidiaAwake
from .driver import GpuDriver, supports
from .module import Card

_ERRORS = "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"
_ECC_QUERY = (smi.TOOL, f"--query-gpu=index,pci.bus_id,ecc.mode.current,{_ERRORS}", "--format=csv,noheader")

#: Processes that compute on a GPU: with CUDA, a process may hold the files of all GPUs
_APPS = (smi.TOOL, "--query-compute-apps=pid,gpu_bus_id", "--format=csv,noheader")

ECC = replace(topics.ECC, reference="nvidia-smi(1), ECC Errors", source=f"{smi.TOOL} --query-gpu={_ERRORS}")
PERSISTENCE = replace(
    topics.PERSISTENCE,
    reference="NVIDIA, Driver Persistence",
    source=" ".join(smi.QUERY[:2]),
)


_VERSION = regex(r"Kernel Module[^\n]*?\s([0-9]{2,4}(?:\.[0-9]{1,4}){1,3})\s", 0)
#: nv-procfs.c: one folder for each GPU
_GPUS = "/proc/driver/nvidia/gpus"
_BIOS = regex(r"^Video BIOS:\s*([0-9a-fA-F.]{4,40})\s*$", re.MULTILINE | re.ASCII)


def _ecc(host: Host, _cards: Sequence[Card]) -> Iterator[Check]:
    with if_installed():
        table = smi.rows(smi.ask(host, _ECC_QUERY), 3)
    for address, (mode, corrected, uncorrected) in table.items():
        subject = replace(ECC, target=f"GPU {address}")
        if mode in smi.NOT_THERE:
            yield subject.skip("this GPU has no ECC")
        elif mode == "Disabled":
            advice = "switch it on with nvidia-smi -e 1, and reset the GPU"
            subject = replace(subject, severity=Severity.MEDIUM)
            yield subject.judged(False, "ECC is disabled", expected="ECC enabled", advice=advice)
        elif mode != "Enabled":
            yield subject.unknown(f"ECC is {mode[:40]!r}: not known here")
        elif values.number(corrected) is None or values.number(uncorrected) is None:
            yield subject.unknown(
                f"it counts {corrected[:20]!r} and {uncorrected[:20]!r}, which are not numbers"
            )
        else:
            evidence = f"{uncorrected} not corrected, {corrected} corrected since the driver was loaded"
            yield subject.judged(values.number(uncorrected) == 0, evidence, expected="0 not corrected")


class Nvidia(NvidiaAwake, GpuDriver):
    LOOKS = (((ECC,), _ecc), (nvidia_query.TOPICS, nvidia_query.checks))
    MESSAGES = xid.XID
    PERSISTENCE = PERSISTENCE
    SUPPORTS = supports(
        LOOKS,
        PERSISTENCE,
        MESSAGES,
        gpudirect="peer memory, DMA-BUF of the open kernel modules; `ib_write_bw --use_cuda`",
    )

    def events(self, lines: Sequence[Line]) -> Iterator[tuple[str, Event]]:
        return xid.events(lines)

    def alike(self, host: Host, cards: Sequence[Card]) -> str:
        del cards
        version = _VERSION.search(host.read(self.LOADED))
        if version is None:
            raise HostError("understand", self.LOADED, None, "it names no version")
        paths = [f"{_GPUS}/{name}/information" for name in host.names(_GPUS)]
        bios = {match.group(1) for match in map(_BIOS.search, map(host.read, paths)) if match}
        return f"{self.MODULE} {version.group(1)}, vbios {', '.join(sorted(bios)) or 'unknown'}"

    def computing(self, host: Host) -> Mapping[int, tuple[str, ...]]:
        try:
            answer = smi.ask(host, _APPS)
        except HostError:
            return {}
        computing: dict[int, set[str]] = {}
        for line in answer.splitlines():
            pid, _comma, bus_id = (word.strip() for word in line.partition(","))
            address = smi.address(bus_id)
            if pid.isascii() and pid.isdigit() and address is not None:
                computing.setdefault(int(pid), set()).add(address)
        return {pid: tuple(sorted(addresses)) for pid, addresses in computing.items()}

    def numbered(self, host: Host, addresses: Iterable[str]) -> Sequence[str]:
        """With CUDA_DEVICE_ORDER=PCI_BUS_ID, as nvidia-smi."""
        del host
        return sorted(addresses)
