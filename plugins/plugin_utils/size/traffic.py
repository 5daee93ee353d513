# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gradient exchange of a training job: bytes of a step, share of the links, and efficiency.

Layout of the ranks: tensor-parallel ranks are neighbours, then data-parallel ones, then pipeline stages, as
Megatron-LM places them. A ring passes each node once, in the order of the ranks.
"""

from __future__ import annotations

from typing import NamedTuple

from ...module_utils._mlnode.model.errors import DeclarationError
from .figure import MEGATRON, NCCL, ZERO, Figure

#: Bits of a byte, and bytes of a GB: rates of links and of NCCL are decimal
_BITS, _GB = 8, 1e9

#: Leaf switches without oversubscription, with the usual limit for training, and with twice that
RATIOS = (1, 2, 4)

#: ZeRO stage → how often each byte of a parameter goes around the ring in a step. Up to stage 2 a
#: reduce-scatter and an all-gather, as in an all-reduce; stage 3, as FSDP, gathers the parameters twice.
PASSES = {0: 2, 1: 2, 2: 2, 3: 3}

_EXCHANGE = {
    0: "ring all-reduce: 2(d-1)/d x gradients",
    1: "reduce-scatter + all-gather: 2(d-1)/d x gradients",
    2: "reduce-scatter + all-gather: 2(d-1)/d x gradients",
    3: "reduce-scatter + 2 all-gathers: 3(d-1)/d x gradients",
}


class Job(NamedTuple):
    """parameters: of the model. bytes_each: bytes per parameter in the exchange. step: seconds of computation
    in a step, without waiting for the exchange. gpus_per_node: also where the job is smaller than a node.
    gbit: Gb/s of a rail. usable: fraction of that rate which an exchange reaches."""

    parameters: float
    bytes_each: float
    gpus: int
    step: float
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0
    gpus_per_node: int = 8
    rails: int = 8
    gbit: float = 400.0
    usable: float = 1.0

    @property
    def data(self) -> int:
        return self.gpus // (self.tensor * self.pipeline)


class Efficiency(NamedTuple):
    """Computation as a fraction of a step, if all traffic between nodes passes leaf switches of that
    oversubscription. exchange: seconds."""

    ratio: int
    exchange: float
    without_overlap: float
    with_overlap: float


class Traffic(NamedTuple):
    figures: tuple[Figure, ...]
    efficiency: tuple[Efficiency, ...]


def check(job: Job) -> None:
    """Raises DeclarationError for sizes that do not fit together."""
    group = job.tensor * job.pipeline
    if job.gpus % group:
        raise DeclarationError(
            f"--gpus: expected a multiple of {group} (--tensor {job.tensor} x --pipeline {job.pipeline}), "
            f"got {job.gpus}"
        )
    if job.gpus > job.gpus_per_node and job.gpus % job.gpus_per_node:
        raise DeclarationError(
            f"--gpus: expected whole nodes of {job.gpus_per_node} GPUs (--gpus-per-node), got {job.gpus}"
        )
    size = _node(job)
    if size % job.tensor and job.tensor % size:
        raise DeclarationError(
            f"--tensor: expected a divisor or a multiple of the {size} GPUs of a node, got {job.tensor}"
        )


def traffic(job: Job) -> Traffic:
    """Figures of a job. Raises DeclarationError for sizes that do not fit together."""
    check(job)
    data, passes = job.data, PASSES[job.zero]
    gradients = job.parameters * job.bytes_each / (job.tensor * job.pipeline) / _GB
    sent = passes * (data - 1) / data * gradients
    leaving = _rings(job) * sent
    line = job.gbit / _BITS
    rail = leaving / job.rails / job.step
    exchange = leaving / (job.rails * line * job.usable)
    figures = (
        Figure("nodes", -(-job.gpus // job.gpus_per_node), "", "gpus / gpus per node"),
        Figure("data-parallel group", data, "GPUs", "d = gpus / (tensor x pipeline)", MEGATRON),
        Figure("gradients of a GPU", gradients, "GB", "parameters x bytes / (tensor x pipeline)", MEGATRON),
        Figure("sent by a GPU", sent, "GB/step", _EXCHANGE[job.zero], ZERO if job.zero else NCCL),
        Figure("rate of a GPU", sent / job.step, "GB/s", "sent by a GPU / step"),
        Figure(
            "share of a rail, no NVLink", 100 * sent / job.step / line, "%", f"rate of a GPU / {line:g} GB/s"
        ),
        Figure("leaves a node", leaving, "GB/step", f"{_rings(job)} x sent by a GPU", NCCL, True),
        Figure("rate of a rail", rail, "GB/s", "leaves a node / (rails x step)", "", True),
        Figure("share of a rail", 100 * rail / line, "%", f"rate of a rail / {line:g} GB/s", "", True),
    )
    return Traffic(figures, tuple(_efficiency(job.step, exchange, ratio) for ratio in RATIOS))


def _efficiency(step: float, exchange: float, ratio: int) -> Efficiency:
    longer = exchange * ratio
    return Efficiency(ratio, longer, step / (step + longer), step / max(step, longer))


def _node(job: Job) -> int:
    """GPUs of the job on one node."""
    return min(job.gpus, job.gpus_per_node)


def _rings(job: Job) -> int:
    """Rings of data-parallel groups that leave the node with the most of them.

    A node holds as many rows of data-parallel ranks as it has tensor-parallel ranks. Each row has `places`
    consecutive ranks on the node. A group that fits in leaves no node, and a group that begins or ends inside
    a node shares it with its neighbour.
    """
    if job.gpus <= job.gpus_per_node or job.data == 1:
        return 0
    rows, places = min(job.tensor, _node(job)), max(1, _node(job) // job.tensor)
    if places % job.data == 0:
        return 0
    return rows if job.data % places == 0 else 2 * rows
