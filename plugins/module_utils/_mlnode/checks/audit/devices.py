# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and their links: anything slower than possible, and reported errors."""

from __future__ import annotations

from typing import Iterator

from ...drivers import nvidia
from ...host.host import Host
from ...knobs.gpu.kind import kind as gpu_knobs
from ...model import values
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology.model import Gpu, Topology
from ..expect import Expectations
from ..model import DEVIATIONS, Check, Nothing, Verdict, content, if_installed
from ..pcie import link as pcie_link
from ..pcie import subjects as pcie_subjects
from . import gpus as gpu_details
from . import xid
from .model import Looks, topic
from .xid import XID

_ERRORS = "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"

LINK = topic(
    pcie_link.NAME,
    Severity.HIGH,
    "all that goes over this link is slower by the same factor, and one such GPU slows down the whole job",
    "PCI Express Base Specification; ABI/testing/sysfs-bus-pci",
)
ECC = topic(
    "gpu_ecc",
    Severity.HIGH,
    "an error that cannot be corrected ends the job, and an undetected one corrupts its result",
    "nvidia-smi(1), ECC Errors",
    "drain the node and run the vendor's field diagnostic",
    f"{nvidia.TOOL} --query-gpu={_ERRORS}",
)
GPU_NODES = topic(
    "gpu_nodes",
    Severity.LOW,
    "a rank that runs at another NUMA node than its GPU copies over the link between sockets",
    "admin-guide/mm/numaperf.rst; docs/guide/topology.md",
    source="/sys/bus/pci/devices/*/numa_node",
)
PERSISTENCE = topic(
    "gpu_persistence",
    *gpu_knobs.info("gpu.persistence", Value(nvidia.OFF)),
    "set it on: the module gpu_persistence",
    " ".join(nvidia.QUERY[:2]),
)

ECC_QUERY = (
    nvidia.TOOL,
    f"--query-gpu=index,pci.bus_id,ecc.mode.current,{_ERRORS}",
    "--format=csv,noheader",
)


def _links(host: Host, topology: Topology) -> Iterator[Check]:
    for check in pcie_link.checks(host, pcie_subjects.subjects(topology, Expectations())):
        # The slot limits the card.
        slot = check.verdict is Verdict.WARN
        yield replace(
            check,
            advice=check.advice if check.verdict in DEVIATIONS else "",
            severity=Severity.MEDIUM if slot else LINK.severity,
            reason=LINK.reason,
            reference=LINK.reference,
        )


def _nodes(_host: Host, topology: Topology) -> Check:
    """Reported only: machines are built this way, and it is right if ranks are bound."""
    if not topology.gpus:
        return GPU_NODES.skip("there is no GPU")
    counts: dict[str, int] = {}
    for gpu in topology.gpus:
        where = "a node that the firmware does not name" if gpu.node is None else f"node {gpu.node}"
        counts[where] = counts.get(where, 0) + 1
    evidence = ", ".join(f"{number} at {where}" for where, number in counts.items())
    bind = "; bind each rank to its GPU's node: mlnode topology" if len(counts) > 1 else ""
    return GPU_NODES.skip(evidence + bind)


def _driven(host: Host, topology: Topology) -> list[Gpu]:
    """NVIDIA's GPUs, with a loaded driver. Raises Nothing, HostError."""
    gpus = [gpu for gpu in topology.gpus if gpu.vendor == "NVIDIA"]
    others = ", ".join(dict.fromkeys(gpu.vendor for gpu in topology.gpus))
    if not gpus:
        why = f"nothing here reads this of GPUs of {others}" if others else "there is no GPU"
        raise Nothing(why, "/sys/bus/pci/devices")
    content(host, nvidia.DRIVER)
    return gpus


def _ecc(host: Host, topology: Topology) -> Iterator[Check]:
    _driven(host, topology)
    with if_installed():
        table = nvidia.rows(nvidia.ask(host, ECC_QUERY), 3)
    for address, (mode, corrected, uncorrected) in table.items():
        subject = replace(ECC, target=f"GPU {address}")
        if mode in nvidia.NOT_THERE:
            yield subject.skip("this GPU has no ECC")
        elif mode != "Enabled":
            advice = "switch it on with nvidia-smi -e 1, and reset the GPU"
            subject = replace(subject, severity=Severity.MEDIUM)
            yield subject.judged(False, f"ECC is {mode[:20].lower()}", expected="ECC enabled", advice=advice)
        elif values.number(corrected) is None or values.number(uncorrected) is None:
            yield subject.unknown(
                f"it counts {corrected[:20]!r} and {uncorrected[:20]!r}, which are not numbers"
            )
        else:
            evidence = f"{uncorrected} not corrected, {corrected} corrected since the driver was loaded"
            yield subject.judged(values.number(uncorrected) == 0, evidence, expected="0 not corrected")


def _xid(host: Host, topology: Topology) -> Iterator[Check]:
    _driven(host, topology)
    return xid.checks(host)


def _persistence(host: Host, topology: Topology) -> Iterator[Check]:
    gpus = _driven(host, topology)
    with if_installed():
        modes = nvidia.persistence(host)
    for gpu in gpus:
        subject, mode = replace(PERSISTENCE, target=f"GPU {gpu.address}"), modes.get(gpu.address, "")
        if mode in (nvidia.ON, nvidia.OFF):
            yield subject.judged(mode == nvidia.ON, mode, expected=nvidia.ON)
        elif mode:
            yield subject.skip("this GPU has no such mode")
        elif gpu.driver not in (None, "nvidia"):
            yield subject.skip(f"it belongs to {gpu.driver}")
        else:
            yield subject.unknown(f"{nvidia.TOOL} does not show this GPU: it may have failed")


def _details(host: Host, topology: Topology) -> Iterator[Check]:
    return gpu_details.checks(host, _driven(host, topology))


LOOKS: Looks = (
    ((LINK,), _links),
    ((GPU_NODES,), _nodes),
    ((ECC,), _ecc),
    ((XID,), _xid),
    ((PERSISTENCE,), _persistence),
    (gpu_details.TOPICS, _details),
)
