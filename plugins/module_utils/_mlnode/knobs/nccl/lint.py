# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in NCCL's variables, in any file that sets them: values that disable a device, that match no
device or not all rails, or that NCCL misreads.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Sequence

from ...model import accelerators, schema
from ...model.errors import several
from ...model.record import NamedTuple
from ...topology.model import Topology
from . import matching, names, reading
from .jobs import LOST, Assigned

#: Kinds of a finding
DISABLED, DEVICES, VALUES = "disabled", "devices", "values"

HCA, IFNAME = "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"
#: Link layers of NCCL's own transport (src/transport/net_ib: IBV_LINK_LAYER_*)
_LAYERS = ("InfiniBand", "Ethernet")
#: Interfaces that NCCL uses only if there are no others (src/misc/socket.cc: ncclFindInterfaces)
_INSIDE = ("docker", "lo", "virbr")
#: The most names in one finding
_NAMED = 6


class Node(NamedTuple):
    """rails: device and port of each. ports: all RDMA ports that NCCL may use. gpus: their number. near: for
    each GPU the kind of its nearest rail. coherent: GPUs are connected to CPUs by NVLink-C2C. plugin: some
    rails need a plugin (EFA).
    """

    rails: tuple[tuple[str, int], ...]
    ports: tuple[tuple[str, int], ...]
    nics: tuple[str, ...]
    gpus: int
    near: tuple[str, ...] = ()
    coherent: bool = False
    plugin: bool = False


class Finding(NamedTuple):
    """sure: the value certainly costs something on this node; otherwise it may be right."""

    kind: str
    line: Assigned
    problem: str
    advice: str
    sure: bool = True


def node(topology: Topology, nics: Sequence[str]) -> Node:
    """The node for the lint. nics: names of all interfaces."""
    on_rails = {nic.name for nic in topology.nics if nic.rail is not None}
    ports, rails = [], []
    plugin = False
    for device in topology.rdma:
        of_nics = on_rails.intersection(device.netdevs)
        for port in device.ports:
            if port.link_layer not in _LAYERS:
                plugin = plugin or device.rail is not None
                continue
            ports.append((device.name, port.number))
            if device.rail is not None and (not of_nics or of_nics.intersection(port.netdevs)):
                rails.append((device.name, port.number))
    gpus = [gpu for gpu in topology.gpus if gpu.vendor in accelerators.CONFS]
    return Node(
        rails=tuple(rails),
        ports=tuple(ports),
        nics=tuple(nics),
        gpus=len(gpus),
        near=_near(topology, [gpu.address for gpu in gpus]),
        coherent=any(gpu.coherent for gpu in gpus),
        plugin=plugin,
    )


def _near(topology: Topology, gpus: Sequence[str]) -> tuple[str, ...]:
    names = {nic.name for nic in topology.nics if nic.rail is not None}
    names |= {device.name for device in topology.rdma if device.rail is not None}
    known: dict[str, list[str]] = {}
    for distance in topology.distances:
        if distance.gpu in gpus and distance.nic in names and distance.kind in _DISTANCES:
            known.setdefault(distance.gpu, []).append(distance.kind)
    return tuple(min(kinds, key=lambda kind: _DISTANCES[kind]) for kinds in known.values())


def findings(lines: Sequence[Assigned], here: Node) -> list[Finding]:
    """Findings of lines that some job may have, in their order. A line with a value that only a shell knows
    has none.
    """
    return [finding for line in lines for finding in (_lost(line) or _of_line(line, line.value, here))]


def _lost(line: Assigned) -> list[Finding]:
    problem = "a name begins in the first column, is in capitals, and ends at ="
    return [Finding(VALUES, line, problem, f"write {line.name}=")] if line.why == LOST else []


def _of_line(line: Assigned, text: str | None, here: Node) -> Iterator[Finding]:
    if text is None:
        return
    if line.name in names.UNFIT:
        if line.name not in _FOR_JOBS:
            yield Finding(VALUES, line, names.UNFIT[line.name], "remove it")
        return
    if line.name not in names.KNOWN:
        yield from _unknown(line)
        return
    why = reading.misread(line.name, text)
    if why:
        better = reading.instead(line.name, text)
        advice = f"write {better}" if better else f"write {reading.expected(line.name)}"
        yield Finding(VALUES, line, why, advice)
    yield from _disabled(line, text, here)
    if line.name == HCA:
        yield from _hcas(line, text, here)
    elif line.name == IFNAME:
        yield from _nics(line, text, here)


def _unknown(line: Assigned) -> Iterator[Finding]:
    """Findings of unknown names. Variables of plugins are not known here, and may be right."""
    if line.name.startswith("NCCL_"):
        near = schema.nearest(line.name, [*names.KNOWN, *names.UNFIT])
        advice = f"did you mean {near}?" if near else "remove it, unless a plugin or a newer NCCL reads it"
        yield Finding(VALUES, line, "no known version of NCCL reads it", advice, sure=False)


#: Correct in a job's environment, but not in a file for all jobs
_FOR_JOBS = ("NCCL_CONF_FILE", "NCCL_PARAM_DUMP_ALL", "NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_PSK")


# -- disabled features ------------------------------------------------------------------------------------


class _Switch(NamedTuple):
    """takes: tests whether a value disables the feature. lost: the feature. needs: tests whether a node may
    have it. sure: every such node has it.
    """

    takes: Callable[[str], bool]
    lost: str
    needs: Callable[[Node], bool]
    sure: bool = True


def _is_set(text: str) -> bool:
    return bool(text) and reading.strtoll(text) not in (0, None)


def _is_one(text: str) -> bool:
    """NCCL_P2P_DISABLE is read by its level, which accepts only 1 (ncclGetLevel)."""
    return reading.strtoll(text) == 1


def _is_zero(text: str) -> bool:
    return bool(text) and reading.strtoll(text) == 0


def _is_local(text: str) -> bool:
    return text == "LOC" or (text[:1].isdigit() and reading.strtoll(text) == 0)


def _is_pinned(text: str) -> bool:
    return bool(text) and not text.startswith("^")


def _has_rails(here: Node) -> bool:
    return bool(here.rails)


def _has_any_rails(here: Node) -> bool:
    return bool(here.rails) or here.plugin


def _has_gpudirect(here: Node) -> bool:
    return bool(here.rails) and here.gpus > 0


def _has_gpus(here: Node) -> bool:
    return here.gpus > 1


def _has_coherent(here: Node) -> bool:
    return here.coherent and bool(here.rails)


_GPUDIRECT = "GPUDirect RDMA: everything between nodes goes through the host's memory"
_P2P = "NVLink and PCIe between GPUs: everything in the node goes through the host's memory"

#: Values as in src/graph/paths.cc and in NCCL_PARAM of src/transport, effects as in the guide
_SWITCHES: Mapping[str, _Switch] = {
    "NCCL_IB_DISABLE": _Switch(_is_set, "RDMA: NCCL uses IP sockets", _has_rails),
    "NCCL_NET": _Switch(
        lambda text: text.casefold() == "socket", "RDMA: NCCL uses IP sockets", _has_any_rails
    ),
    "NCCL_NET_PLUGIN": _Switch(
        lambda text: text.casefold() == "none", "the plugin that the rails take", lambda here: here.plugin
    ),
    "NCCL_NET_GDR_LEVEL": _Switch(_is_local, _GPUDIRECT, _has_gpudirect),
    "NCCL_NET_GDR_READ": _Switch(_is_zero, "GPUDirect RDMA for sending", _has_gpudirect),
    "NCCL_P2P_DISABLE": _Switch(_is_one, _P2P, _has_gpus),
    "NCCL_P2P_LEVEL": _Switch(_is_local, _P2P, _has_gpus),
    "NCCL_SHM_DISABLE": _Switch(
        _is_set, "shared memory: GPUs without P2P use the network inside of the node", _has_gpus
    ),
    "NCCL_NVLS_ENABLE": _Switch(_is_zero, "NVLink SHARP, if this node has NVSwitches", _has_gpus, False),
    "NCCL_PXN_DISABLE": _Switch(
        _is_set, "PXN: a GPU cannot use the rail of another one over NVLink", _has_gpudirect
    ),
    "NCCL_NET_GDR_C2C": _Switch(_is_zero, "GPUDirect RDMA over NVLink-C2C", _has_coherent),
    "NCCL_CUMEM_ENABLE": _Switch(
        _is_zero, "what needs cuMem: NVLink SHARP, and NVLink between nodes", _has_gpus, False
    ),
    "NCCL_MNNVL_ENABLE": _Switch(_is_zero, "NVLink between nodes, if this node has it", _has_coherent, False),
    "NCCL_DMABUF_ENABLE": _Switch(
        _is_zero, "GPUDirect RDMA, unless a module for peer memory is loaded", _has_gpudirect, False
    ),
    "NCCL_ALGO": _Switch(_is_pinned, "NCCL's choice of the algorithm for each size", _has_gpus, False),
    "NCCL_PROTO": _Switch(_is_pinned, "NCCL's choice of the protocol for each size", _has_gpus, False),
}

#: Kinds of the topology, by NCCL's order of distances (src/graph/topo.h: PATH_PIX and so on)
_DISTANCES = {"PIX": 4, "PXB": 5, "PHB": 8, "NODE": 8, "SYS": 9}
_LEVELS = {word: distance for distance, word in enumerate(reading.DISTANCES)}
#: Default of NCCL (src/graph/paths.cc: ncclTopoCheckGdr)
_DEFAULT_LEVEL = _LEVELS["PXB"]


def _disabled(line: Assigned, text: str, here: Node) -> Iterator[Finding]:
    if line.name == "NCCL_NET_GDR_LEVEL" and not _is_local(text):
        yield from _too_near(line, text, here)
    switch = _SWITCHES.get(line.name)
    if switch and switch.takes(text) and switch.needs(here):
        advice = "remove it, unless it works around a fault"
        yield Finding(DISABLED, line, f"takes away {switch.lost}", advice, switch.sure)


def _too_near(line: Assigned, text: str, here: Node) -> Iterator[Finding]:
    """Findings of a level that excludes rails which GPUs use by default."""
    word = reading.level(text)
    lost = [kind for kind in here.near if _LEVELS.get(word, 9) < _DISTANCES[kind] <= _DEFAULT_LEVEL]
    if lost:
        count = f"{len(lost)} of {here.gpus} GPUs"
        problem = (
            f"takes away GPUDirect RDMA of {count}, whose nearest rail is at {', '.join(sorted({*lost}))}"
        )
        yield Finding(DISABLED, line, problem, "remove it: PXB is what NCCL takes")


# -- devices in a list --------------------------------------------------------------------------------------


def _hcas(line: Assigned, text: str, here: Node) -> Iterator[Finding]:
    if not here.ports:
        return
    pattern = matching.parse(text)
    taken = [port for port in here.ports if pattern.takes(*port)]
    advice = f"{_instead(line)}, which names all rails"
    if not taken:
        yield Finding(DEVICES, line, f"meets none of {_ports(here.ports)}: NCCL uses IP sockets", advice)
        return
    lacking = [port for port in here.rails if port not in taken]
    if lacking:
        count = f"{len(lacking)} of {len(here.rails)} rails"
        yield Finding(DEVICES, line, f"leaves out {count}: {_ports(lacking)}", advice)
    others = [port for port in taken if here.rails and port not in here.rails]
    if others:
        problem = f"takes ports that are not rails: {_ports(others)}"
        yield Finding(DEVICES, line, problem, advice, sure=False)
    yield from _entries(line, pattern, [device for device, _port in here.ports], here.ports)


def _nics(line: Assigned, text: str, here: Node) -> Iterator[Finding]:
    if len(text) < 2 or not here.nics:  # NCCL chooses on its own
        return
    pattern = matching.parse(text)
    taken = [name for name in here.nics if pattern.takes(name)]
    if not taken:
        problem = f"meets none of {several(here.nics, _NAMED)}: jobs end at their start"
        yield Finding(DEVICES, line, problem, _instead(line))
        return
    if all(name.startswith(_INSIDE) for name in taken):
        problem = f"takes {several(taken, _NAMED)} alone, which other nodes cannot reach"
        yield Finding(DEVICES, line, problem, _instead(line), sure=_has_any_rails(here))
        return
    yield from _entries(line, pattern, here.nics, [(name, -1) for name in here.nics])


def _instead(line: Assigned) -> str:
    """The remedy. A declaration precedes all other lines of NCCL's file, but an environment beats both."""
    own = (f"{path}:" for path in accelerators.CONFS.values())
    gone = "" if line.where.startswith(tuple(own)) else "remove it, and "
    return f"{gone}declare {line.name}: auto"


def _entries(
    line: Assigned, pattern: matching.Pattern, all_names: Sequence[str], places: Sequence[tuple[str, int]]
) -> Iterator[Finding]:
    """Findings of entries that match nothing, or more than intended."""
    lost = [
        entry.text for entry in pattern.entries if not any(pattern.meets(entry, *place) for place in places)
    ]
    if lost and not pattern.negated:
        problem = f"{several(lost, _NAMED)}: not on this machine"
        yield Finding(DEVICES, line, problem, "take it off the list", sure=False)
    for text, others in pattern.wider(sorted({*all_names})).items():
        advice = f"write {'^=' if pattern.negated else '='} in front of the list"
        yield Finding(DEVICES, line, f"{text} also means {several(others, _NAMED)}", advice, sure=False)


def _ports(ports: Sequence[tuple[str, int]]) -> str:
    return several([f"{device}:{port}" for device, port in ports], _NAMED)
