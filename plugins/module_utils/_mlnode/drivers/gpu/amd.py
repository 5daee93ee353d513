# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AMD's driver: files of amdgpu in sysfs, amd-smi if a kernel lacks them, and the kernel's log.

Written from the sources and documentation of kernel and ROCm; no such GPU was at hand.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterable, Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.check import Check, Nothing
from ...model.errors import HostError, listed
from ...model.log import Event, Line
from ...model.record import replace
from . import amd_links, amd_messages, amd_ras, amd_speed, topics
from .amd_sysfs import (
    DEVICES,
    LOADED,
    MODULE,
    NODES,
    compute_nodes,
    computing,
    path_of,
    required,
    strange,
    value,
)
from .awake import AmdAwake
from .driver import Ask, GpuDriver, models, supports
from .module import Card

PERSISTENCE = replace(
    topics.PERSISTENCE,
    reference="power/runtime_pm.rst; ABI/testing/sysfs-devices-power",
    source="/sys/bus/pci/devices/*/power/control",
)
ANSWERING = replace(
    topics.ANSWERING,
    reference="gpu/amdgpu/driver-core.rst; kfd_topology.c",
    advice="look at dmesg for amdgpu; drain the node, and reboot or power it off and on",
    source=NODES,
)
PARTITION = replace(
    topics.PARTITION,
    reference="amdgpu_gfx.c, amdgpu_gmc.c; AMD, GPU Partitioning Overview",
    advice="set one mode for all: amd-smi set --compute-partition, --memory-partition",
    source="/sys/bus/pci/devices/*/current_compute_partition, current_memory_partition",
)
VERSIONS = replace(
    topics.VERSIONS,
    reference="gpu/amdgpu/driver-misc.rst (vbios_version); amdgpu_ucode.c (fw_version)",
    advice="bring all GPUs to one firmware",
    source="/sys/bus/pci/devices/*/fw_version, vbios_version",
)
IMEX = replace(topics.IMEX, reference="amdgpu_xgmi.c", source="/sys/bus/pci/devices/*/xgmi_hive_info")

#: Names of the modes (amdgpu_gfx.c: amdgpu_gfx_compute_mode_desc; amdgpu_gmc.c: nps_desc)
_COMPUTE = ("SPX", "DPX", "TPX", "QPX", "CPX")
_MEMORY = ("NPS1", "NPS2", "NPS3", "NPS4", "NPS6", "NPS8")
_ALL = "every GPU that the driver holds"


def _ours(cards: Sequence[Card]) -> list[Card]:
    return [card for card in cards if card.driver in (None, MODULE)]


def _answering(host: Host, cards: Sequence[Card]) -> Check:
    """A GPU answers if it has a file for rendering and computes."""
    ours = _ours(cards)
    able = {*compute_nodes(host).values()} if host.exists(NODES) else None
    lost = [
        card.address
        for card in ours
        if not host.names(path_of(card.address, "drm")) or (able is not None and card.address not in able)
    ]
    evidence = f"{len(ours) - len(lost)} of {len(ours)} on PCI"
    if lost:
        evidence += f", and not {listed(lost, topics.NAMED)}"
    others = len(cards) - len(ours)
    evidence += f"; {others} with another driver" if others else ""
    if able is None and not lost:
        return ANSWERING.unknown(f"{evidence}, but {NODES} does not exist: whether they compute is unknown")
    return ANSWERING.judged(not lost, evidence, expected=_ALL)


def _partition(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    """Judged against the mode that most GPUs of the node have."""
    modes: dict[str, str] = {}
    for card in cards:
        subject = replace(PARTITION, target=f"GPU {card.address}")
        try:
            mode = _mode(host, card.address)
        except HostError as error:
            yield subject.unknown(str(error))
            continue
        if mode:
            modes[card.address] = mode
        else:
            yield subject.skip("this GPU or kernel has no partitions")
    usual = topics.usual([*modes.values()])
    for address, mode in modes.items():
        subject = replace(PARTITION, target=f"GPU {address}")
        yield subject.judged(mode == usual, mode, expected=f"{usual}, as most GPUs here")


def _mode(host: Host, address: str) -> str:
    """Compute and memory partition; "" without any. Raises HostError."""
    paths = [path_of(address, f"current_{name}_partition") for name in ("compute", "memory")]
    values = [value(host, path) for path in paths]
    texts = [(mode.text or "").strip() for mode in values]
    for path, mode, text, known in zip(paths, values, texts, (_COMPUTE, _MEMORY)):
        if mode.unreadable is not None:
            raise HostError("read", path, None, mode.problem)
        if mode.text is not None and text not in known:
            raise strange(path, text)
    return "/".join(filter(None, texts))


def _versions(host: Host, cards: Sequence[Card]) -> Check:
    """The driver, and the firmware that GPUs of one model have. Raises HostError."""
    driver = _driver(host)
    same, different = [], []
    for alike in models(cards):
        versions: dict[str, Counter[str]] = {}
        for card in alike:
            for name, text in _firmware(host, card.address).items():
                versions.setdefault(name, Counter())[text] += 1
        if not versions:
            return VERSIONS.unknown(f"{driver}; no firmware is shown of {alike[0].address}")
        for name, counts in sorted(versions.items()):
            if len(counts) == 1 and sum(counts.values()) == len(alike):
                same.append(f"{name} {next(iter(counts))}")
            else:
                texts = ", ".join(f"{text} ({number})" for text, number in counts.items())
                different.append(f"{name} {texts}")
    expected = "one of each, for each model"
    if different:
        return VERSIONS.judged(False, f"{driver}; {listed(different, topics.NAMED)}", expected=expected)
    return VERSIONS.judged(True, f"{driver}; {', '.join(same)}", expected=expected)


def _driver(host: Host) -> str:
    """Raises HostError."""
    version = value(host, f"{LOADED}/version")
    if version.unreadable is not None:
        raise HostError("read", f"{LOADED}/version", None, version.problem)
    return f"{MODULE} {version.text.strip()}" if version.text else f"{MODULE} of the kernel"


def _firmware(host: Host, address: str) -> dict[str, str]:
    """Name → version. Raises HostError."""
    versions = {}
    bios = value(host, path_of(address, "vbios_version"))
    if bios.unreadable is not None:
        raise HostError("read", path_of(address, "vbios_version"), None, bios.problem)
    if bios.text is not None:
        versions["vbios"] = bios.text.strip()
    folder = path_of(address, "fw_version")
    for name in host.names(folder):
        if name.endswith("_fw_version"):
            text = required(host, f"{folder}/{name}").strip()
            versions[name[: -len("_fw_version")]] = text
    return {name: text for name, text in versions.items() if text.strip("0x")}


def _imex(_host: Host, _cards: Sequence[Card]) -> Check:
    return IMEX.skip("XGMI joins the GPUs of one node only")


class Amd(AmdAwake, GpuDriver):
    PERSISTENCE = PERSISTENCE
    LOOKS = (
        ((amd_ras.ECC,), amd_ras.ecc),
        ((ANSWERING,), _answering),
        ((amd_speed.CLOCKS,), amd_speed.clocks),
        ((amd_links.FABRIC,), amd_links.fabric),
        ((amd_ras.RECOVERY,), amd_ras.recovery),
        ((PARTITION,), _partition),
        ((amd_speed.POWER_CAP,), amd_speed.power_cap),
        ((VERSIONS,), _versions),
        # The last one only says that there is nothing to judge.
        ((IMEX,), _imex),
    )
    MESSAGES = amd_messages.MESSAGES
    SUPPORTS = supports(
        LOOKS[:-1], PERSISTENCE, MESSAGES, gpudirect="peer memory, DMA-BUF; `ib_write_bw --use_rocm`"
    )
    LACKS = {"imex": "XGMI joins the GPUs of one node only"}

    def _look(self, look: Ask, host: Host, cards: Sequence[Card]) -> Check | Iterable[Check]:
        """A GPU of another driver, such as a guest's, is only counted: nothing can be read of it."""
        self.require(host)
        ours = _ours(cards)
        if not ours:
            raise Nothing(f"no GPU here belongs to {MODULE}", DEVICES)
        return look(host, cards if look is _answering else ours)

    def events(self, lines: Sequence[Line]) -> Iterator[tuple[str, Event]]:
        return amd_messages.events(lines)

    def alike(self, host: Host, cards: Sequence[Card]) -> str:
        import hashlib  # loads OpenSSL, and few nodes have these cards

        firmware = sorted(
            {f"{name} {text}" for card in cards for name, text in _firmware(host, card.address).items()}
        )
        bios = [text for text in firmware if text.startswith("vbios ")]
        digest = hashlib.sha256("\n".join(firmware).encode()).hexdigest()[:8]
        modes = {mode for card in cards for mode in [_mode(host, card.address)] if mode}
        words = [_driver(host), *bios, f"all firmware {digest}", *sorted(modes)]
        return ", ".join(words)

    def computing(self, host: Host) -> Mapping[int, tuple[str, ...]]:
        try:
            return computing(host)
        except HostError:
            return {}

    def numbered(self, host: Host, addresses: Iterable[str]) -> Sequence[str]:
        """HIP counts the compute driver's nodes: a public report of MI350X has 75:00.0 before 05:00.0."""
        del addresses
        return [*compute_nodes(host).values()]
