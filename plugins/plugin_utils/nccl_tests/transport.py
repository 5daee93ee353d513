# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transport that NCCL took, by its own log (NCCL_DEBUG=INFO).

A line for each channel ends in `via NET/IB/0/GDRDMA`, `via NET/Socket/1`, `via P2P/CUMEM`, `via SHM/direct`
and the like (src/transport of NCCL). A plugin has its own name, such as IBext_v8, gIB and AWS Libfabric.
Lines may be counted, as by uniq -c. All ranks must have one network, with as many devices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable
from ..fleet_report.names import few

_COUNT = re.compile(r"^\s*([0-9]+) (?:via |NET/|Using )")
_NET = re.compile(r"\bvia NET/([^/\n]+)/[0-9]+(?:\([0-9]+\))?(/GDRDMA)?")
#: src/init.cc, and src/transport/net_ib with its devices: ` [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth`,
#: or ` [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}` for joined ones
_NETWORK = re.compile(r"\bUsing network ([^\n]+)")
_DEVICES = re.compile(r"\bNET/[^:\n]{1,40}: Using ([^;\n]*)")
_DEVICE = re.compile(r"([\w.-]+:[0-9]+)[0-9:]*/(?:IB|RoCE)\b", re.ASCII)
_LOCAL = re.compile(r"\bvia (P2P/MNNVL|P2P|SHM|direct shared memory)\b")
#: Network → another name of it. HPC-X's plugin calls itself IBext_v8 and the like once it starts, and NCCL
#: copies interfaces of older versions before that. aws-ofi-nccl has the shorter name since 1.16.
_ALSO = {"IB": "NCCL RDMA Plugin", "AWS Libfabric": "Libfabric"}
#: From NCCL 2.30 on. With NCCL_IGNORE_NET_MISMATCH=1, which is its default, it goes on with what all have.
_MIXED = re.compile(r"Detected mixed local Net device counts[^\n]*")


class Seen(NamedTuple):
    """Channels of one node: by the name of the network, the part with GPUDirect RDMA, and channels inside the
    node by P2P, MNNVL (NVLink between nodes) and SHM. networks, devices: of its ranks, as far as they
    differ. by_rank: each rank has one line of devices; a plugin may write several."""

    nets: Mapping[str, int]
    direct: int
    local: Mapping[str, int]
    mixed: str = ""
    networks: tuple[str, ...] = ()
    devices: tuple[frozenset[str], ...] = ()
    by_rank: bool = False


class Transport(NamedTuple):
    verdict: Verdict
    reason: str
    nodes: Mapping[str, Seen]


def seen(log: str) -> Seen:
    nets: Counter[str] = Counter()
    local: Counter[str] = Counter()
    networks: Counter[str] = Counter()
    devices: Counter[frozenset[str]] = Counter()
    direct = 0
    for line in log.splitlines():
        counted = _COUNT.match(line)
        number = int(counted[1]) if counted else 1
        net, inside = _NET.search(line), _LOCAL.search(line)
        if net:
            nets[printable(net[1])] += number
            direct += number if net[2] else 0
        elif inside:
            local["SHM" if inside[1].startswith("direct") else inside[1].rpartition("/")[2]] += number
        for name in _NETWORK.findall(line):
            networks[printable(name.strip())] += number
        for ports in map(_DEVICE.findall, _DEVICES.findall(line)):
            devices[frozenset(ports)] += number if ports else 0
    mixed = _MIXED.search(log)
    known = tuple(ports for ports in devices if ports)
    by_rank = 0 < sum(devices.values()) <= sum(networks.values())
    return Seen(nets, direct, local, printable(mixed[0]) if mixed else "", tuple(networks), known, by_rank)


def judge(logs: Mapping[str, str], nodes: Sequence[str], expected: str) -> Transport:
    """nodes: participants. expected: begin of the network's name: IB also matches IBext_v8."""
    known = {name: seen(logs.get(name, "")) for name in nodes}
    verdict, reason = _among(known, expected) if len(nodes) > 1 else _inside(known)
    return Transport(verdict, reason, known)


def _among(known: Mapping[str, Seen], expected: str) -> tuple[Verdict, str]:
    mixed = [node.mixed for node in known.values() if node.mixed]
    if mixed:
        return Verdict.FAIL, mixed[0]
    other: dict[str, list[str]] = {}
    for name, node in known.items():
        for net in node.nets:
            if not net.startswith((expected, _ALSO.get(expected, expected))):
                other.setdefault(net, []).append(name)
    if other:
        parts = [f"NET/{net} on {few(names)}" for net, names in other.items()]
        return Verdict.FAIL, f"{'; '.join(parts)}, where NET/{expected} was expected"
    differing = _differing(known)
    if differing:
        return Verdict.FAIL, differing
    # Between nodes of one NVLink domain there may be no network at all.
    silent = [name for name, node in known.items() if not node.nets and not node.local.get("MNNVL")]
    if silent:
        return Verdict.UNKNOWN, f"no log of NCCL proves the transport of {few(silent)}"
    names = {name: frozenset().union(*node.devices) for name, node in known.items() if node.devices}
    lacking = [name for name, node in known.items() if names and node.nets and not node.devices]
    if lacking:
        return Verdict.UNKNOWN, f"no log of NCCL names the devices of {few(lacking)}, as of the others"
    channels = sum(sum(node.nets.values()) for node in known.values())
    direct = sum(node.direct for node in known.values())
    if direct < channels:
        return Verdict.WARN, f"{channels - direct} of {channels} channels without GPUDirect RDMA"
    if len({*names.values()}) > 1:
        return Verdict.WARN, f"devices of other names: {_each(names)}"
    return Verdict.PASS, ""


def _differing(known: Mapping[str, Seen]) -> str:
    """Networks or numbers of devices that not all ranks have; "" if all are alike, or none is logged."""
    nets = {name: frozenset({*node.nets, *node.networks}) for name, node in known.items()}
    if len({net for of_node in nets.values() for net in of_node}) > 1:
        return f"not all ranks use one network: {_each(nets)}"
    sizes = {name: {len(ports) for ports in node.devices} for name, node in known.items() if node.devices}
    between = any(of_node != other for of_node in sizes.values() for other in sizes.values())
    if between or any(len(of_node) > 1 and known[name].by_rank for name, of_node in sizes.items()):
        each = {f"{name}/{at}": ports for name in sizes for at, ports in enumerate(known[name].devices)}
        return f"not all ranks have as many devices: {_each(each)}"
    return ""


def _each(names: Mapping[str, frozenset[str]]) -> str:
    """The values, each with the nodes that have it."""
    nodes: dict[frozenset[str], dict[str, None]] = {}
    for name, value in names.items():
        nodes.setdefault(value, {})[name.partition("/")[0]] = None
    every = [f"{few(sorted(value)) or 'none'} on {few([*having])}" for value, having in nodes.items()]
    return "; ".join(map(printable, every))


def _inside(known: Mapping[str, Seen]) -> tuple[Verdict, str]:
    (node,) = known.values()
    others = {"SHM": node.local.get("SHM", 0), **{f"NET/{name}": count for name, count in node.nets.items()}}
    detours = [f"{count} channels by {name}" for name, count in others.items() if count]
    if detours:
        return Verdict.WARN, f"{', '.join(detours)}, and not by P2P"
    if not node.local:
        return Verdict.UNKNOWN, "no log of NCCL proves the transport"
    return Verdict.PASS, ""
