# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access of a NIC to a GPU's memory: through a peer memory module or through DMA-BUF.

Expectation: `gpudirect`, see pcie_values.py. A loaded module alone is not enough. It must register with an
interface of the RDMA core that only the vendor's driver package adds.
"""

from __future__ import annotations

from typing import Sequence

from ...drivers.gpu import drivers as gpu_drivers
from ...drivers.gpu.driver import GpuDriver
from ...host.host import Host
from ...knobs.modules import needed
from ...linux import modules_load
from ...model import values
from ...model.errors import HostError
from ...model.record import dataclass, replace
from ...topology.model import Topology
from .. import pcie_values
from ..expect import Expectations
from ..model import Check, Subject, Verdict
from ..pcie import subjects as pcie_subjects

NAME = "gpudirect"
NAMES = (NAME,)

#: Folder of an RDMA core with the peer memory interface: registered modules, by the name each one chooses
PEERS = "/sys/kernel/mm/memory_peers"
_OF_EFA = "efa_nv_peermem"

RELEASE = "/proc/sys/kernel/osrelease"
#: The first kernel whose NIC drivers accept memory as DMA-BUF (drivers/infiniband/core/umem_dmabuf.c)
_DMABUF_SINCE = (5, 12)


@dataclass(frozen=True)
class Way:
    """Peer memory or DMA-BUF. works: None if unknown. half: incomplete. listed: module of the next boot."""

    works: bool | None
    words: str
    source: str
    half: bool = False
    listed: str = ""


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    """One check per GPU vendor."""
    want, declared = pcie_values.wanted(expect, "gpudirect")
    cards = pcie_subjects.subjects(topology, expect).cards
    vendors = sorted({gpu.vendor for gpu in topology.gpus})
    subject = Subject(NAME, source="/sys/bus/pci/devices")
    if not vendors or not cards:
        return [subject.skip(f"no {'RDMA device on PCIe' if vendors else 'GPU'}")]
    # Jobs also run without it, through the host's memory, so it fails only if it is declared.
    subject = replace(subject, bad=pcie_subjects.severity(declared))
    addresses = tuple(card.address for card in cards)
    return [
        _vendor(host, topology, replace(subject, target=f"{vendor} GPUs"), vendor, addresses, want, declared)
        for vendor in vendors
    ]


def _vendor(
    host: Host,
    topology: Topology,
    subject: Subject,
    vendor: str,
    cards: tuple[str, ...],
    want: str,
    declared: bool,
) -> Check:
    driver = next(iter(gpu_drivers.for_vendors([vendor])), None)
    if driver is None:
        why = f"nothing is known here of GPUDirect with GPUs of {vendor}"
        return subject.unknown(why) if declared else subject.skip(why)
    ways = []
    if want in ("auto", "peermem"):
        try:
            ways.append(peer_memory(host, driver, cards))
        except HostError as error:
            ways.append(Way(None, str(error), error.path))
    if want in ("auto", "dmabuf"):
        ways.append(_dmabuf(host, topology, driver))
    expected = {"auto": "peer memory or DMA-BUF", "peermem": "peer memory", "dmabuf": "DMA-BUF"}[want]
    working = [way for way in ways if way.works]
    evidence = "; ".join(way.words for way in working or ways)
    source = ", ".join(dict.fromkeys(way.source for way in working or ways))
    subject = replace(subject, source=source, expected=expected, advice=driver.PEER_ADVICE)
    if not working and any(way.works is None for way in ways):
        return subject.unknown(evidence)
    listed = next((way.listed for way in ways if way.listed), "")
    if listed and not working:
        advice = f"modprobe {listed}, or reboot; if it does not load: {driver.PEER_ADVICE}"
        return subject.made(Verdict.PENDING, evidence, advice=advice)
    bad = Verdict.WARN if any(way.half for way in ways) else None
    return subject.judged(bool(working), evidence, bad=bad)


def peer_memory(host: Host, driver: GpuDriver, cards: Sequence[str]) -> Way:
    """Whether the RDMA core takes the memory of GPUs from their driver. cards: addresses of NICs. Raises
    HostError."""
    registered = [name for name in driver.PEERS if host.exists(f"{PEERS}/{name}/version")]
    loaded = [name for name in driver.PEER_MODULES if host.exists(f"/sys/module/{name}")]
    if registered:
        name = registered[0]
        return Way(True, f"{name} is registered with the RDMA core", f"{PEERS}/{name}/version")
    # EFA's driver keeps a separate list and shows the registered vendor.
    for address in cards:
        path = f"/sys/bus/pci/devices/{address}/p2p"
        says = host.text(path).strip()
        if says.startswith(driver.VENDOR):
            return Way(True, f"{path} says {says}", path)
    if loaded:
        reason = f"{', '.join(loaded)} is loaded, but not registered with the RDMA core: it is not in {PEERS}"
        return Way(False, reason, PEERS, half=True)
    listed = _listed(host, driver)
    if listed is not None:
        return listed
    modules = ", ".join(driver.PEER_MODULES)
    reason = f"none of {modules} is loaded" if modules else f"no module is registered in {PEERS}"
    return Way(False, reason, PEERS)


def _listed(host: Host, driver: GpuDriver) -> Way | None:
    """A module that the next boot loads, and that can be loaded here. Raises HostError."""
    config, release = modules_load.load(host), host.value(RELEASE).text or ""
    for name in driver.PEER_MODULES:
        line = config.listing(name)
        if line is None or not modules_load.is_loadable(host, release, name):
            continue
        barred = config.barred(name) or modules_load.on_command_line(host, name)[1]
        # EFA's module does not need an RDMA core with peer memory.
        if barred is None and (name == _OF_EFA or not needed.lacking(host, release, driver, name)):
            return Way(False, f"{name} is not loaded, and {line.where} lists it", line.where, listed=name)
    return None


def _dmabuf(host: Host, topology: Topology, driver: GpuDriver) -> Way:
    release = host.value(RELEASE)
    version = values.kernel_version(release.text)
    if version is None:
        strange = f"{RELEASE}: {(release.text or '')[:60]!r} is not a version"
        return Way(None, release.problem or strange, RELEASE)
    if version < _DMABUF_SINCE:
        return Way(False, f"kernel {release.text} has no DMA-BUF for RDMA, which came with 5.12", RELEASE)
    gpus = [gpu for gpu in topology.gpus if gpu.vendor == driver.VENDOR]
    return Way(*driver.exports(host, gpus, str(release.text)))
