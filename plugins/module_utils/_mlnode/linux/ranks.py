# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that hold a GPU: their allowed CPUs, and the NUMA nodes of their memory (proc(5): status, stat,
numa_maps).

CPUs are the main thread's; other threads may have moved, such as NCCL's, which bind themselves.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping

from ..host.host import Host
from ..model import accelerators, values
from ..model.errors import HostError, printable
from ..model.record import NamedTuple, regex
from . import job_status, jobs

#: Device files of accelerators
_GPU = regex(rf"/dev/(?:{'|'.join(accelerators.FILES)})\Z", re.ASCII)
_VFIO = regex(rf"/dev/(?:{jobs.VFIO})\Z", re.ASCII)
#: The last PCI function on a path, or the only one in a file
_PCI = regex(r"(?:.*/)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:/[^:]+)?\Z", re.ASCII | re.IGNORECASE)
_PCI_DEVICES = "/sys/bus/pci/devices"
_NUMBERED, _RENDER = "/dev/nvidia", "/dev/dri/renderD"
_NVIDIA = "/proc/driver/nvidia/gpus"
_MINOR = regex(r"^Device Minor:\s*([0-9]{1,6})\s*$", re.MULTILINE | re.ASCII)
#: The field of /proc/PID/stat after the name, which may contain any text (proc_pid_stat(5): 39, processor)
_PROCESSOR = 39 - 3


class Rank(NamedTuple):
    """cpus, nodes: allowed for its threads and its memory. last: the CPU of its last run, None if unknown."""

    pid: int
    name: str
    devices: tuple[str, ...]
    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    last: int | None

    @property
    def label(self) -> str:
        return f"pid {self.pid} ({self.name})"


class Ranks(NamedTuple):
    """unseen: findings about unreadable processes. shown: /proc has any process; False in a captured tree."""

    found: tuple[Rank, ...]
    unseen: tuple[str, ...]
    shown: bool


def look(host: Host) -> Ranks:
    """Processes with a GPU. Raises HostError if no processes can be read."""
    return host.once("ranks", lambda: _look(host))


def _look(host: Host) -> Ranks:
    ranks: list[Rank] = []
    holders = jobs.holders(host)
    unseen = [*holders.unseen]
    for holder in holders.found:
        try:
            devices = tuple(device for device in holder.devices if _is_of_accelerator(host, device))
            ranks.extend([_rank(host, holder, devices)] if devices else [])
        except HostError as error:
            unseen.extend([] if jobs.is_gone(error) else [f"pid {holder.pid} ({holder.name}): {error}"])
    return Ranks(tuple(ranks), tuple(unseen), any(name.isdigit() for name in host.names("/proc")))


def _rank(host: Host, holder: jobs.Holder, devices: tuple[str, ...]) -> Rank:
    status = job_status.read(host, holder.pid)
    stat = host.text(f"/proc/{holder.pid}/stat").rpartition(")")[2].split()
    last = values.number(stat[_PROCESSOR]) if len(stat) > _PROCESSOR else None
    return Rank(holder.pid, holder.name, devices, status.cpus, status.nodes, last)


# -- the GPU of a device file --------------------------------------------------------------


def address(host: Host, device: str) -> str | None:
    """PCI address of the GPU behind a device file; None if the file is for all GPUs, as /dev/kfd, or the GPU
    is unknown. Raises HostError."""
    if device.startswith(_NUMBERED):
        return _nvidia(host).get(device[len(_NUMBERED) :])
    if _VFIO.match(device):
        return _passed(host, device.rpartition("/")[2])
    name = device[len("/dev/") :]
    for pattern, path in accelerators.FILES.items():
        if path and re.match(rf"(?:{pattern})\Z", name, re.ASCII):
            number = next(iter(re.findall("[0-9]+", name)), "")
            return _function(host, path.format(name=name.rpartition("/")[2], number=number))
    return None


def name_on_node(path: str, number: str) -> str:
    """Path on the node of a device file that a container may have under another name. number: MAJOR:MINOR,
    which no container changes: these files are named by the minor number (drivers/gpu/drm/drm_sysfs.c:
    drm_sysfs_minor_alloc)."""
    minor = number.partition(":")[2]
    return next((f"{stem}{minor}" for stem in (_NUMBERED, _RENDER) if path.startswith(stem)), path)


def _function(host: Host, path: str) -> str | None:
    """PCI function of a link, or of the text of a file; None without one. Raises HostError."""
    text = host.link_target(path) or host.text(path).strip()
    match = _PCI.match(text)
    return match.group(1).lower() if match else None


def _passed(host: Host, name: str) -> str | None:
    """The accelerator that a process drives by itself, as libtpu does; None for other devices. name: of a
    group of the IOMMU, or of a device (Documentation/driver-api/vfio.rst). Raises HostError."""
    if name.startswith(("vfio", "noiommu-vfio")):
        functions = [_function(host, f"/sys/class/vfio-dev/{name}") or ""]
    else:
        functions = host.names(f"/sys/kernel/iommu_groups/{name.rpartition('-')[2]}/devices")
    for function in functions:
        files = (f"{_PCI_DEVICES}/{function}/{name}" for name in ("vendor", "device", "class"))
        if accelerators.vendor_of(*(_number(host, path) for path in files)) is not None:
            return function
    return None


def _number(host: Host, path: str) -> int:
    """0 for a function that was removed. Raises HostError."""
    text = host.text(path).strip()
    try:
        return int(text or "0", 16)
    except ValueError as error:
        raise HostError(
            "understand", path, None, f"expected a number, got {printable(text[:40])!r}"
        ) from error


def _is_of_accelerator(host: Host, device: str) -> bool:
    """Raises HostError."""
    return bool(_GPU.match(device) or (_VFIO.match(device) and address(host, device)))


def _nvidia(host: Host) -> Mapping[str, str]:
    """Number of the device file → address, from NVIDIA's driver (nv-procfs.c)."""
    return host.once("minors of nvidia", lambda: dict(_minors(host)))


def _minors(host: Host) -> Iterator[tuple[str, str]]:
    for name in host.names(_NVIDIA):
        match = _MINOR.search(host.text(f"{_NVIDIA}/{name}/information"))
        if match:
            yield match.group(1), name.lower()


# -- the memory of a process ---------------------------------------------------------------

#: A process with thousands of mappings has a few hundred bytes for each
MOST_BYTES = 8 << 20
_COUNT = regex(r"N([0-9]{1,4})=([0-9]{1,18})\Z", re.ASCII)
_SIZE = regex(r"kernelpagesize_kB=([0-9]{1,9})\Z", re.ASCII)
_SHARED = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")  # noqa: S108  names to compare; no file is created


class Pages(NamedTuple):
    """Bytes on each NUMA node. whole: all of the process was read within the time."""

    on: Mapping[int, int]
    whole: bool


def pages(host: Host, pid: int, seconds: float) -> Pages:
    """Memory of the process itself, as `numastat -p` counts it. Without mapped files: programs and libraries
    are on the node of their first reader. Without memory that a driver pins for its own use. Raises
    HostError."""
    path = f"/proc/{pid}/numa_maps"
    content, whole = host.beginning(path, MOST_BYTES, seconds)
    on: dict[int, int] = {}
    for line in content.decode("utf-8", "replace").split("\n")[: None if whole else -1]:
        try:
            for node, size in _line(line):
                on[node] = on.get(node, 0) + size
        except ValueError as error:
            raise HostError("understand", path, None, str(error)) from error
    return Pages(on, whole)


def _line(line: str) -> Iterator[tuple[int, int]]:
    """Node and bytes of a mapping such as `7f00 default anon=512 dirty=512 N1=512 kernelpagesize_kB=4`.
    Raises ValueError for pages without a size, as in old kernels."""
    words = line.split()
    file = next((word[len("file=") :] for word in words if word.startswith("file=")), "")
    own = not file or file.startswith(_SHARED) or any(word.startswith("anon=") for word in words)
    sizes = [int(match.group(1)) << 10 for match in map(_SIZE.match, words) if match]
    counts = [match for match in map(_COUNT.match, words) if match]
    if counts and not sizes:
        raise ValueError("it has no kernelpagesize_kB")
    if own or "huge" in words:
        yield from ((int(match.group(1)), int(match.group(2)) * sizes[0]) for match in counts)
