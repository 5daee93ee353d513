# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of amdgpu for one GPU, below its PCI device.

No file with a side effect is read: xgmi_error clears its register (amdgpu_xgmi.c: amdgpu_xgmi_show_error).
"""

from __future__ import annotations

import re
from typing import Mapping

from ...host.host import Host
from ...model.errors import HostError, printable
from ...model.record import regex
from ...model.setting import Value

MODULE = "amdgpu"
DEVICES = "/sys/bus/pci/devices"
LOADED = f"/sys/module/{MODULE}"
NODES = "/sys/class/kfd/kfd/topology/nodes"
PROCESSES = "/sys/class/kfd/kfd/proc"

#: Bytes of a value that a message repeats
_SHOWN = 40
#: kfd_topology.c: bus and function in the lower 16 bits, the number of a partition in the highest four
_PLACE = 0xFFFF
_PROPERTY = regex(r"([a-z0-9_]{1,40}) ([0-9]{1,20})", re.ASCII)
_ADDRESS = regex(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z", re.ASCII)


def path_of(address: str, name: str) -> str:
    return f"{DEVICES}/{address}/{name}"


def value(host: Host, path: str) -> Value:
    """Content of a file. A file that exists and answers `no such device` is unreadable, not absent: its GPU
    is lost."""
    content = host.value(path)
    if content.absent is not None and host.exists(path):
        return Value(unreadable=f"cannot read {path}: the GPU does not answer")
    if content.text is not None and not content.text.strip():
        return Value(unreadable=f"{path} is empty")
    return content


def strange(path: str, text: str) -> HostError:
    return HostError("understand", path, None, f"it says {printable(text[:_SHOWN])!r}")


def number(path: str, text: str, base: int = 10) -> int:
    """The number in a file. Raises HostError."""
    digits = text.strip()
    if not re.match(r"(0x)?[0-9a-fA-F]{1,20}\Z", digits, re.ASCII):
        raise strange(path, text)
    try:
        return int(digits, base)
    except ValueError as error:
        raise strange(path, text) from error


def required(host: Host, path: str) -> str:
    """Raises HostError if the file is absent, unreadable or empty."""
    content = value(host, path)
    if content.text is None:
        raise HostError("read", path, None, content.problem)
    return content.text


# -- the compute driver's nodes -------------------------------------------------------------------


def compute_nodes(host: Host) -> Mapping[int, str]:
    """GPU id of the compute driver → PCI address, in the order of its nodes; a GPU in partitions has several
    ids. Raises HostError."""
    return host.once("compute nodes of GPUs", lambda: _compute_nodes(host))


def _compute_nodes(host: Host) -> dict[int, str]:
    addresses = {}
    for name in sorted(host.names(NODES), key=lambda name: (len(name), name)):
        folder = f"{NODES}/{name}"
        gpu = number(f"{folder}/gpu_id", required(host, f"{folder}/gpu_id"))
        if not gpu:  # a CPU's node has no GPU
            continue
        properties = dict(_PROPERTY.findall(required(host, f"{folder}/properties")))
        if not {"location_id", "domain"} <= {*properties}:
            raise HostError("understand", f"{folder}/properties", None, "it lacks location_id or domain")
        place = int(properties["location_id"]) & _PLACE
        addresses[gpu] = (
            f"{int(properties['domain']):04x}:{place >> 8:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
        )
    return addresses


def computing(host: Host) -> dict[int, tuple[str, ...]]:
    """Process id → addresses of the GPUs whose memory it holds; without processes that hold none. Raises
    HostError."""
    nodes = compute_nodes(host)
    gpus = {int(pid): _held(host, pid, nodes) for pid in host.names(PROCESSES) if pid.isdecimal()}
    return {pid: held for pid, held in gpus.items() if held}


def _held(host: Host, pid: str, nodes: Mapping[int, str]) -> tuple[str, ...]:
    held = set()
    for name in host.names(f"{PROCESSES}/{pid}"):
        word, _underscore, gpu = name.partition("_")
        known = nodes.get(int(gpu)) if word == "vram" and gpu.isdecimal() else None
        path = f"{PROCESSES}/{pid}/{name}"
        # The file vanishes with its process.
        text = host.text(path).strip() if known is not None else ""
        if known is not None and text and number(path, text):
            held.add(known)
    return tuple(sorted(held))
