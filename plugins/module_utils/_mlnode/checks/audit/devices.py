# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and their links: what is slower than it could be, and what has reported errors."""

from __future__ import annotations

from typing import Iterator

from ...drivers import nvidia
from ...host.host import Host
from ...knobs.gpu.kind import kind as gpu_knobs
from ...model import values
from ...model.errors import HostError
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology.model import Gpu, Topology
from ..model import Verdict
from ..pcie import link as pcie_link
from ..pcie import subjects as pcie_subjects
from . import gpus as gpu_details
from . import model, xid
from .model import AuditCheck, Topic
from .xid import XID

LINK = Topic(
    pcie_link.NAME,
    Severity.HIGH,
    "all that goes over this link is slower by the same factor, and one such GPU slows down the whole job",
    "PCI Express Base Specification; ABI/testing/sysfs-bus-pci",
)
#: Where the slot cannot do what the card could
_SLOT = replace(LINK, severity=Severity.MEDIUM)
ECC = Topic(
    "gpu_ecc",
    Severity.HIGH,
    "an error that cannot be corrected ends the job, and an undetected one corrupts its result",
    "nvidia-smi(1), ECC Errors",
    "drain the node and run the vendor's field diagnostic",
)
_ECC_OFF = replace(ECC, severity=Severity.MEDIUM)
GPU_NODES = Topic(
    "gpu_nodes",
    Severity.LOW,
    "a rank that runs at another NUMA node than its GPU copies over the link between sockets",
    "admin-guide/mm/numaperf.rst; docs/guide/topology.md",
)
PERSISTENCE = Topic(
    "gpu_persistence",
    *gpu_knobs.info("gpu.persistence", Value(nvidia.OFF)),
    "set it on: the module gpu_persistence",
)

#: Of GPUs of NVIDIA, with its driver
_DRIVEN = (ECC, XID, PERSISTENCE, *gpu_details.TOPICS)
_TOPICS = (LINK, GPU_NODES, *_DRIVEN)
NAMES = tuple(topic.name for topic in _TOPICS)

_ERRORS = "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"
ECC_QUERY = (
    nvidia.TOOL,
    f"--query-gpu=index,pci.bus_id,ecc.mode.current,{_ERRORS}",
    "--format=csv,noheader",
)
_ECC_SOURCE = f"{nvidia.TOOL} --query-gpu={_ERRORS}"


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    for check in pcie_link.checks(host, pcie_subjects.of(topology, {})):
        topic = _SLOT if check.verdict is Verdict.WARN else LINK
        yield model.made(
            topic, check.verdict, check.found, check.source, check.expected, check.target, check.advice
        )
    yield _nodes(topology)
    gpus = [gpu for gpu in topology.gpus if gpu.vendor == "NVIDIA"]
    if not gpus:
        for topic in _DRIVEN:
            yield model.told(topic, _none(topology), "/sys/bus/pci/devices")
        return
    driver = host.value(nvidia.DRIVER)
    if driver.text is None:
        for topic in _DRIVEN:
            yield model.missing(topic, driver, nvidia.DRIVER)
        return
    yield from _ecc(host)
    yield from _xid(host)
    yield from _persistence(host, gpus)
    yield from gpu_details.checks(host, gpus)


def _nodes(topology: Topology) -> AuditCheck:
    """Reported: it is how machines are built, and right where ranks are bound."""
    source = "/sys/bus/pci/devices/*/numa_node"
    if not topology.gpus:
        return model.told(GPU_NODES, "there is no GPU", source)
    counts: dict[str, int] = {}
    for gpu in topology.gpus:
        where = "a node that the firmware does not name" if gpu.node is None else f"node {gpu.node}"
        counts[where] = counts.get(where, 0) + 1
    found = ", ".join(f"{number} at {where}" for where, number in counts.items())
    bind = "; bind each rank to its GPU's node: mlnode topology" if len(counts) > 1 else ""
    return model.told(GPU_NODES, found + bind, source)


def _none(topology: Topology) -> str:
    others = ", ".join(dict.fromkeys(gpu.vendor for gpu in topology.gpus))
    return f"nothing here reads this of GPUs of {others}" if others else "there is no GPU"


def _ecc(host: Host) -> Iterator[AuditCheck]:
    try:
        table = nvidia.rows(nvidia.ask(host, ECC_QUERY), 3)
    except HostError as error:
        yield model.unasked(ECC, error)
        return
    for address, (mode, corrected, uncorrected) in table.items():
        target = f"GPU {address}"
        if mode in nvidia.NOT_THERE:
            yield model.told(ECC, "this GPU has no ECC", _ECC_SOURCE, target)
        elif mode != "Enabled":
            advice = "switch it on with nvidia-smi -e 1, and reset the GPU"
            found = f"ECC is {mode[:20].lower()}"
            yield model.judged(_ECC_OFF, False, found, _ECC_SOURCE, "ECC enabled", target, advice)
        elif values.number(corrected) is None or values.number(uncorrected) is None:
            why = f"it counts {corrected[:20]!r} and {uncorrected[:20]!r}, which are not numbers"
            yield model.unknown(ECC, why, _ECC_SOURCE, target)
        else:
            found = f"{uncorrected} not corrected, {corrected} corrected since the driver was loaded"
            good = values.number(uncorrected) == 0
            yield model.judged(ECC, good, found, _ECC_SOURCE, "0 not corrected", target)


def _xid(host: Host) -> Iterator[AuditCheck]:
    try:
        yield from xid.checks(host)
    except HostError as error:
        yield model.unasked(XID, error)


def _persistence(host: Host, gpus: list[Gpu]) -> Iterator[AuditCheck]:
    try:
        modes = nvidia.persistence(host)
    except HostError as error:
        yield model.unasked(PERSISTENCE, error)
        return
    source = " ".join(nvidia.QUERY[:2])
    for gpu in gpus:
        target, mode = f"GPU {gpu.address}", modes.get(gpu.address, "")
        if mode in (nvidia.ON, nvidia.OFF):
            yield model.judged(PERSISTENCE, mode == nvidia.ON, mode, source, nvidia.ON, target)
        elif mode:
            yield model.told(PERSISTENCE, "this GPU has no such mode", source, target)
        elif gpu.driver not in (None, "nvidia"):
            yield model.told(PERSISTENCE, f"it belongs to {gpu.driver}", source, target)
        else:
            why = f"{nvidia.TOOL} does not show this GPU: it may have failed"
            yield model.unknown(PERSISTENCE, why, source, target)
