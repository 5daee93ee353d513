# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and RDMA devices that a job sees: device files of its /dev, RDMA namespaces, and GIDs.

A job sees an RDMA device if its /dev has the file, its device cgroup allows it, and, in exclusive mode, the
device is in its network namespace (drivers/infiniband/core/device.c: rdma_dev_access_netns).
"""

from __future__ import annotations

import errno
from typing import Iterator, Mapping, Sequence

from ...linux import cgroup_files, uverbs
from ...linux import ranks as rank_files
from ...linux.uverbs import Uverbs
from ...model.errors import HostError, listed, printable
from ...model.record import NamedTuple, replace
from ...model.setting import Severity
from ...topology.model import RdmaDevice, Topology
from ...topology.rdma import RDMA
from ..model import Check, Subject, Verdict
from . import homes, ranks, remedy
from .model import Node, Place

#: Names of values
_GPUS, _DEVICES, _RAILS, _MODE, _GIDS = OF_PLACE = (
    "gpus visible", "rdma devices visible", "rails visible", "rdma namespaces", "rdma devices with gids",
)  # fmt: skip
OF_HARDWARE = (_GPUS, _RAILS, _GIDS)

GPUS, RAILS, MODE, GIDS = "job_gpus", "job_rails", "job_rdma_namespace", "job_gids"

#: Whether all network namespaces share the RDMA devices, as `rdma system` shows it
_NETNS = "/sys/module/ib_core/parameters/netns_mode"
_RDMA_FILES, _VFIO_FILES = "/dev/infiniband/", "/dev/vfio/"

_TEXTS = {
    GPUS: (Severity.MEDIUM, "a rank computes on the GPUs that its runtime gives it", "NCCL user guide"),
    RAILS: (
        Severity.HIGH,
        "NCCL uses the rails that it sees; without any it falls back to TCP sockets",
        "NCCL user guide, Troubleshooting, RDMA; docs/guide/topology.md",
    ),
    MODE: (
        Severity.HIGH,
        "in exclusive mode the kernel refuses to open a device of another network namespace (EPERM)",
        "rdma-system(8); drivers/infiniband/core/uverbs_main.c: ib_uverbs_open",
    ),
    GIDS: (
        Severity.MEDIUM,
        "RoCE takes its address from an interface; connections of RDMA-CM need one in the own namespace",
        "drivers/infiniband/core/roce_gid_mgmt.c; drivers/infiniband/core/cma.c",
    ),
}


class _Seen(NamedTuple):
    """RDMA devices whose files a job has. elsewhere: those in a network namespace other than the node's."""

    files: tuple[Uverbs, ...]
    denied: tuple[Uverbs, ...]
    elsewhere: tuple[Uverbs, ...]


def checks(place: Place, node: Node) -> Iterator[Check]:
    """Raises HostError."""
    topology = node.topology
    mode = _mode(place, node) if "net" in place.own else ""
    if _MODE in place.unknown:
        yield replace(_subject(place, MODE), source=_NETNS).unknown(place.unknown[_MODE])
    files = place.devices
    if isinstance(files, str):
        place.lost(OF_PLACE, files)
        yield from (_subject(place, name).unknown(printable(files)) for name in (GPUS, RAILS))
        return
    yield from _gpus(place, node, topology, files)
    if not topology.rdma and not uverbs.every(node.host):
        place.values.update(dict.fromkeys((_DEVICES, _RAILS), "0"))
        yield _subject(place, RAILS).skip("the node has no RDMA device")
        return
    if not _computes(place, files):
        yield _subject(place, RAILS).skip("it has no GPU in its /dev, and no device open")
        return
    try:
        seen = _seen(place, node, topology, files)
    except HostError as error:
        if not node.has_ended(place.first):
            place.lost((_DEVICES, _RAILS, _GIDS), str(error))
            yield _subject(place, RAILS).unknown(str(error))
        return
    yield _rails(place, node, topology, seen, mode)
    yield from _namespace(place, seen, mode)
    yield from _gids(place, node, topology, seen, mode)


def _subject(place: Place, name: str) -> Subject:
    severity, reason, reference = _TEXTS[name]
    source = f"/proc/{place.first.pid}/root/dev"
    return place.subject(name, source=source, severity=severity, reason=reason, reference=reference)


# -- GPUs ----------------------------------------------------------------------------------


def _gpus(place: Place, node: Node, topology: Topology, files: Mapping[str, str]) -> Iterator[Check]:
    """Number of GPUs; a job may have been given a part of them. Raises HostError."""
    count = len(_seen_gpus(node, topology, files))
    place.values[_GPUS] = str(count)
    if topology.gpus:
        yield _subject(place, GPUS).skip(f"{count} of {len(topology.gpus)} GPUs are in its /dev")


def _seen_gpus(node: Node, topology: Topology, files: Mapping[str, str]) -> set[str]:
    """Addresses of GPUs; the path of a GPU that is not known. A GPU may have two files, and
    a graphics processor of the board has such a file alone. Raises HostError."""
    gpus = {gpu.address for gpu in topology.gpus}
    seen = set()
    for path, number in files.items():
        if not path.startswith(_RDMA_FILES):
            address = rank_files.address(node.host, rank_files.name_on_node(path, number))
            if address is None and path.startswith(_VFIO_FILES):
                continue  # a NIC, for a network stack in the job
            seen.update([address or path] if not gpus or address is None or address in gpus else [])
    return seen


def _computes(place: Place, files: Mapping[str, str]) -> bool:
    """False for a helper in a pod, such as its first process or a sidecar."""
    gpus = any(not path.startswith((_RDMA_FILES, _VFIO_FILES)) for path in files)
    return gpus or any(process.about.devices for process in place.processes)


# -- RDMA devices --------------------------------------------------------------------------


def _seen(place: Place, node: Node, topology: Topology, files: Mapping[str, str]) -> _Seen:
    """Raises HostError."""
    allowed = cgroup_files.devices(node.host, place.first.pid)
    numbers = {number for path, number in files.items() if path.startswith(_RDMA_FILES)}
    there = [file for file in uverbs.every(node.host) if file.number in numbers]
    denied = [file for file in there if allowed is not None and not allowed.allows(file.number)]
    here = {device.name for device in topology.rdma}
    usable = tuple(file for file in there if file not in denied)
    place.values[_DEVICES] = str(len(usable))
    return _Seen(usable, tuple(denied), tuple(file for file in usable if file.device not in here))


def _mode(place: Place, node: Node) -> str:
    """shared, exclusive, or empty if it is not known. The file came with the mode, in Linux 5.2."""
    value = node.host.value(_NETNS)
    mode = (
        "shared"
        if value.absent is not None
        else {"Y": "shared", "N": "exclusive"}.get((value.text or "").strip(), "")
    )
    if mode:
        place.values[_MODE] = mode
    else:
        place.lost((_MODE,), value.problem or f"{_NETNS} is neither Y nor N")
    return mode


def _rail_of(topology: Topology, file: Uverbs) -> int | None:
    """Rail of a device file. A virtual function belongs to the rail of its physical one."""
    physical = next((device.physfn for device in topology.pci if device.address == file.address), None)
    for device in topology.rdma:
        is_its = device.name == file.device or (physical is not None and device.address == physical)
        if device.rail is not None and is_its:
            return device.rail
    return None


# -- rails ---------------------------------------------------------------------------------


def _rails(place: Place, node: Node, topology: Topology, seen: _Seen, mode: str) -> Check:
    """Rails next to the GPUs of the job, or all rails if these are not known. Raises HostError."""
    subject = _subject(place, RAILS)
    rails = {device.rail: device.name for device in topology.rdma if device.rail is not None}
    if not rails:
        place.values[_RAILS] = "0"
        return subject.skip("the node has no rail")
    private = "net" in place.own
    if private and mode != "shared" and seen.elsewhere:
        place.unknown[_RAILS] = f"{_names(seen.elsewhere)}: {_UNSURE}"
        return subject.unknown(place.unknown[_RAILS])
    if private and not mode:
        place.unknown[_RAILS] = place.unknown[_MODE]
        return subject.unknown(place.unknown[_MODE])
    usable = () if private and mode == "exclusive" else seen.files
    visible = {_rail_of(topology, file) for file in usable} & {*rails}
    place.values[_RAILS] = str(len(visible))
    wanted = _next_to(place, node, topology) or {*rails}
    lacking = [name for rail, name in sorted(rails.items()) if rail in wanted - visible]
    evidence = f"{len(visible)} of {len(rails)} rails"
    if not lacking:
        return subject.judged(True, evidence)
    evidence += f", not {listed(lacking)}{'' if wanted == {*rails} else ' next to its GPUs'}"
    evidence += f"; its device cgroup denies {_names(seen.denied)}" if seen.denied else ""
    several = _nodes(place)
    if several is False:
        return subject.skip(f"{evidence}; all of its ranks are on this node")
    bad = Verdict.FAIL if not visible and several else Verdict.WARN
    closed = [file.device for file in seen.files if file not in usable]
    advice = remedy.exclusive(place, closed[0]) if closed else remedy.rdma_devices(place)
    return subject.judged(False, evidence, expected=f"{listed(lacking)} in its /dev", advice=advice, bad=bad)


_UNSURE = "in a network namespace other than the node's, maybe the job's"


def _names(files: Sequence[Uverbs]) -> str:
    return printable(listed([file.device for file in files]))


def _next_to(place: Place, node: Node, topology: Topology) -> set[int]:
    """Rails nearest to the GPUs of its processes. Raises HostError."""
    rails = {device.name: device.rail for device in topology.rdma}
    rails.update((nic.name, nic.rail) for nic in topology.nics)
    near = {nic for home in homes.by_process(place, node).values() if home.gpus for nic in home.nics}
    return {rail for name, rail in rails.items() if name in near and rail is not None}


def _nodes(place: Place) -> bool | None:
    """True if the job has ranks on other nodes, None if unknown."""
    for process in place.processes:
        variables = process.environment.variables
        world, local = ranks.rank(variables).world, ranks.local_ranks(variables)
        if world is not None and local is not None:
            return world > local
    return None


# -- namespaces ----------------------------------------------------------------------------


def _namespace(place: Place, seen: _Seen, mode: str) -> Iterator[Check]:
    """Devices of the node's namespace in exclusive mode, which a job in another one cannot open."""
    subject = replace(_subject(place, MODE), source=_NETNS)
    if "net" not in place.own:
        yield subject.judged(True, "it has the node's network namespace")
        return
    if not mode:  # its check has been made
        return
    if mode == "shared":
        yield subject.judged(True, "mode shared")
        return
    closed = [file for file in seen.files if file not in seen.elsewhere]
    if not closed:
        yield subject.skip("mode exclusive; no device of the node's namespace is in its /dev")
        return
    evidence = f"mode exclusive; {_names(closed)} of its /dev in the node's namespace"
    advice = remedy.exclusive(place, printable(closed[0].device))
    yield subject.judged(False, evidence, expected="devices in the namespace of the job", advice=advice)


# -- GIDs ----------------------------------------------------------------------------------


def _gids(place: Place, node: Node, topology: Topology, seen: _Seen, mode: str) -> Iterator[Check]:
    """GIDs of RoCE devices, if the job has another network namespace than the node: they need an interface
    there."""
    names = {file.device for file in seen.files}
    roce = [device for device in topology.rdma if device.name in names and _is_roce(device)]
    if "net" not in place.own or mode == "exclusive" or not roce:
        return
    subject = replace(_subject(place, GIDS), source=f"{RDMA}/*/ports/*/gid_attrs/ndevs")
    inside = place.network.nics
    if inside is None:
        place.unknown[_GIDS] = "the interfaces of its namespace are not known"
        yield subject.unknown(place.unknown[_GIDS])
        return
    outside = {nic.name for nic in topology.nics}
    lacking, unsure = [], []
    for device in roce:
        owners = _owners(node, device) & {*inside}
        if not owners:
            lacking.append(device.name)
        elif owners <= outside:
            unsure.append(device.name)
    if unsure:
        words = f"{listed(unsure)}: the interface has a name that both the node and the job have"
        place.unknown[_GIDS] = words
        yield subject.unknown(words)
    else:
        place.values[_GIDS] = str(len(roce) - len(lacking))
    if lacking:
        evidence = f"{listed(lacking)}: no GID of an interface in its network namespace"
        yield subject.judged(
            False, evidence, expected="one or more", advice=remedy.gids(place), bad=Verdict.WARN
        )
    elif not unsure:
        yield subject.judged(True, f"{listed([device.name for device in roce])} have GIDs in its namespace")


def _is_roce(device: RdmaDevice) -> bool:
    return any(port.link_layer == "Ethernet" for port in device.ports)


def _owners(node: Node, device: RdmaDevice) -> frozenset[str]:
    """Interfaces of all GIDs of a device, in any namespace. An unused GID answers EINVAL."""
    return node.host.once(
        f"interfaces of GIDs of {device.name}", lambda: frozenset(_interfaces(node, device))
    )


def _interfaces(node: Node, device: RdmaDevice) -> Iterator[str]:
    for port in device.ports:
        folder = f"{RDMA}/{device.name}/ports/{port.number}/gid_attrs/ndevs"
        for index in node.host.names(folder):
            try:
                name = node.host.text(f"{folder}/{index}").strip()
            except HostError as error:
                if error.errno != errno.EINVAL:
                    raise
                continue
            if name:
                yield name
