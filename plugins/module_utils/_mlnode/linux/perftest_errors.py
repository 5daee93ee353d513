# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error messages and completion statuses of perftest, each with a remedy."""

from __future__ import annotations

from ..model.record import regex

PATH = (
    "packets get lost between the ports: look at their MTUs (path_mtu), at VLANs, and at firewalls and "
    "routes for UDP port 4791; are both sides on one rail?"
)
_QUEUES = (
    "the port cannot reach the other one's address: compare GID index, its type (rdma_check: gid) and the "
    "MTU of both sides, and that both are InfiniBand, or both RoCE"
)
_BUSY_PORT = (
    "something listens on this TCP port already, maybe another measurement: wait for its end, or give both "
    "sides another tcp_port"
)
_NO_SERVER = "no server listens there: start the other side first, and let its TCP port through the firewall"
_PROTECTION = (
    "the port may not access the memory of the test on its own side. GPU memory: look at nvidia_peermem or "
    "DMA-BUF, and at ACS and IOMMU between port and GPU (rdma_check: gpudirect, acs, iommu). Host memory: at "
    "the IOMMU and dmesg"
)
_REMOTE_ACCESS = (
    "the other side's memory refused the access: run one version with the same options on both sides; "
    "with GPU memory look there at gpudirect, acs and iommu (rdma_check)"
)
_REMOTE = (
    "the other side's port could not finish the request: look at its own words and dmesg, and there at "
    "gpudirect, acs and iommu (rdma_check)"
)
_REQUEST = (
    "the other side does not take such a request: compare versions, options, message size and MTU of both"
)
_LENGTH = "a message exceeds the buffer or the port's limit: compare size and MTU of both sides"
_NOT_READY = (
    "the other side is reached, but has no buffer ready: it hangs or is overloaded; look at its CPUs, and at "
    "its counter out_of_buffer (rdma_check: counters)"
)
_LOST_QUEUE = "the queue had failed before: look for the first error, also on the other side"
_BROKEN = "the device or its driver failed: look at dmesg and the firmware's version, and reset the device"
_UNEXPECTED = "reliable connections do not have this error: look at dmesg, and update driver and firmware"
_FLUSHED = 5

#: Old and new wording of a failed completion (src/perftest_resources.h): `Failed status 12: wr_id 0`, `Failed
#: status-transport retry counter exceeded (12): wr_id 0`
_STATUS = regex(r"Failed status(?:-[^\n(]{0,60}\(| )([0-9]{1,5})\)?")
#: enum ibv_wc_status (libibverbs/verbs.h) → remedy. 12: no answer to any of the retries; 20: late answer
_STATUSES = {
    1: _LENGTH, 2: _BROKEN, 4: _PROTECTION, _FLUSHED: _LOST_QUEUE, 6: _PROTECTION, 7: _BROKEN, 8: _PROTECTION,
    9: _REQUEST, 10: _REMOTE_ACCESS, 11: _REMOTE, 12: PATH, 13: _NOT_READY, 15: _REQUEST, 16: _REMOTE,
    19: _BROKEN, 20: PATH, 21: _BROKEN,
}  # fmt: skip
_MEMORY = "a queue cannot be made or memory not be locked: look at that limit (rdma_check: memlock)"
WITHOUT_CUDA = (
    "this perftest was built without CUDA, like the packages of distributions: build it on both sides, with "
    "./configure CUDA_H_PATH=/usr/local/cuda/include/cuda.h"
)
_DRIVER = "CUDA does not start: look at the driver of the GPUs, and at its libcuda.so.1"
_PEER_MEMORY = "the port cannot register memory of the GPU: load nvidia_peermem (rdma_check: gpudirect)"
_PROVIDER = "user space does not know the device: install its driver's part of rdma-core (ibverbs-providers)"

WITHOUT_ROCM = (
    "this perftest was built without ROCm, like the packages of distributions: build it on both sides, with "
    "./configure --with-rocm=/opt/rocm --enable-rocm"
)
_NO_DMABUF = (
    "neither peer memory nor DMA-BUF works between port and GPU: see rdma_check: gpudirect; perftest itself "
    "looks for CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY in /boot/config-RELEASE"
)
_ROCM_DRIVER = "ROCm does not start: look at the driver amdgpu (rocminfo), and at rights to /dev/kfd"
_ROCM_PEER_MEMORY = (
    "the port cannot register memory of the GPU: install the driver's peer memory (rdma_check: gpudirect)"
)

#: CUDA_ERROR_OUT_OF_MEMORY and hipErrorOutOfMemory are 2 (cuda.h, hip_runtime_api.h)
_FULL = (
    regex(r"(?:cu|hip)[A-Z]\w+(?:\(\))? error=2\b"),
    "the GPU has no memory left: end the processes on it",
)

#: As MEANINGS, for requests with memory of a GPU
OF_CUDA = (
    _FULL,
    (regex(r"Unsupported memory type|unrecognized option '--use_cuda.*"), WITHOUT_CUDA),
    (regex(r"DMA-BUF is not supported on this GPU|cuMemGetHandleForAddressRange error.*"), _NO_DMABUF),
    (regex(r"Failed to load CUDA library.*|cu[A-Z]\w+(?:\(.{0,8}\))? (?:returned|error).*"), _DRIVER),
    (regex(r"There are no available device\(s\) that support CUDA|No such device ID.*"), _DRIVER),
    (regex(r"Couldn't allocate MR|[Ff]ailed to create (?:MR|mr)"), _PEER_MEMORY),
)

OF_ROCM = (
    _FULL,
    (regex(r"Unsupported memory type|unrecognized option '--use_rocm.*"), WITHOUT_ROCM),
    (regex(r"hip\w+\(\) returned [0-9]+|hipMalloc error=.*|Couldn't initialize ROCm device"), _ROCM_DRIVER),
    (regex(r"Requested ROCm device .*"), _ROCM_DRIVER),
    (
        regex(r"could not (?:open kernel|verify dmabuf).*|failed to export dmabuf.*|Failed to init memory"),
        _NO_DMABUF,
    ),
    (regex(r"Couldn't allocate MR|[Ff]ailed to create (?:MR|mr)"), _ROCM_PEER_MEMORY),
)

#: Message → remedy. The first match counts: later lines follow from earlier ones
MEANINGS = (
    (regex(r"failed to run command.*"), "install perftest on both sides"),
    (regex(r"Couldn't connect to \S+"), _NO_SERVER),
    (regex(r"Couldn't listen to port.*|Failed to bind socket.*"), _BUSY_PORT),
    (regex(r"Found Incompatibility issue with GID types.*"), _QUEUES),
    (regex(r".*[Ff]ailed to modify QP.*RTR.*|Unable to Connect the HCA's through the link"), _QUEUES),
    (regex(r"Completion with error at (?:client|server)"), "run it by hand on both sides, for the status"),
    (regex(r"Couldn't (?:allocate MR|create).*|[Ff]ailed to create (?:MR|mr)"), _MEMORY),
    (regex(r"Unable to find the Infiniband/RoCE device.*|Did not detect devices.*"), _PROVIDER),
    (
        regex(r"Unable to init the socket connection|Failed to exchange data.*|Couldn't read.*"),
        "the other side has ended: its own words say why",
    ),
)


def completion(text: str) -> tuple[str, str] | None:
    """Words and advice for the first failed completion, other than one of a queue that had failed before."""
    matches = [*_STATUS.finditer(text)]
    if not matches:
        return None
    match = next((match for match in matches if int(match.group(1)) != _FLUSHED), matches[0])
    return line_of(match.group()), _STATUSES.get(int(match.group(1)), _UNEXPECTED)


def line_of(text: str) -> str:
    """Printed words in one line, at most 160 characters of them."""
    return " ".join(text.split())[:160]
