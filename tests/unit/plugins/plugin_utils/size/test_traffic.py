# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of the gradient exchange, worked by hand and counted rank by rank."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.size.traffic import Job, Traffic, traffic
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model.errors import DeclarationError

BIG = Job(parameters=175e9, bytes_each=2, gpus=1024, step=20)
SMALL = Job(parameters=7e9, bytes_each=2, gpus=64, step=0.5)


def values(found: Traffic) -> dict[str, float]:
    return {figure.name: figure.value for figure in found.figures}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        # 350 GB, twice around a ring of 1,024: 350 x 2 x 1023/1024
        (BIG, {"gradients of a GPU": 350, "sent by a GPU": 699.31640625, "rate of a GPU": 34.9658203125}),
        # The ring leaves each node once, over eight rails of 50 GB/s; or each GPU sends over its own.
        (BIG, {"leaves a node": 699.31640625, "share of a rail": 8.741}),
        (BIG, {"share of a rail, no NVLink": 69.932}),
        (BIG, {"nodes": 128, "data-parallel group": 1024}),
        # 175e9 x 2 / 64 = 5.47 GB, twice around a ring of 16; eight such rings leave the node.
        (
            BIG._replace(tensor=8, pipeline=8),
            {"gradients of a GPU": 5.46875, "sent by a GPU": 10.25390625, "leaves a node": 82.03125},
        ),
        # 14 GB x 2 x 63/64; FSDP gathers once more, 14 x 3 x 63/64.
        (SMALL, {"sent by a GPU": 27.5625, "rate of a GPU": 55.125, "share of a rail": 13.78125}),
        (SMALL._replace(zero=2), {"sent by a GPU": 27.5625}),
        (SMALL._replace(zero=3), {"sent by a GPU": 41.34375}),
        (SMALL._replace(bytes_each=4), {"sent by a GPU": 55.125}),
        # One node: NVLink has it all. One GPU: there is nothing to exchange.
        (SMALL._replace(gpus=8), {"nodes": 1, "sent by a GPU": 24.5, "leaves a node": 0}),
        (SMALL._replace(gpus=1), {"nodes": 1, "sent by a GPU": 0, "leaves a node": 0}),
        # All 64 hold another part of the model.
        (SMALL._replace(tensor=8, pipeline=8), {"data-parallel group": 1, "leaves a node": 0}),
        # Four data-parallel GPUs are neighbours on one node.
        (SMALL._replace(tensor=2, pipeline=8), {"data-parallel group": 4, "leaves a node": 0}),
        # Tensor-parallel over two nodes: each of the 8 GPUs has a ring of its own.
        (SMALL._replace(tensor=16), {"data-parallel group": 4, "leaves a node": 8 * 14 / 16 * 2 * 3 / 4}),
    ],
)  # fmt: skip
def test_worked_numbers(job: Job, expected: dict[str, float]) -> None:
    found = values(traffic(job))

    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_efficiency_of_the_worked_job() -> None:
    """27.56 GB over eight rails of 50 GB/s take 68.9 ms, in a step of 100 ms."""
    found = traffic(SMALL._replace(step=0.1)).efficiency

    assert [one.ratio for one in found] == [1, 2, 4]
    assert [one.exchange for one in found] == pytest.approx([0.06890625, 0.1378125, 0.275625])
    assert [one.without_overlap for one in found] == pytest.approx([0.5920, 0.4205, 0.2662], abs=1e-4)
    assert [one.with_overlap for one in found] == pytest.approx([1, 0.7256, 0.3628], abs=1e-4)


def test_measured_rate_of_a_rail() -> None:
    found = traffic(SMALL._replace(usable=0.8)).efficiency
    assert found[0].exchange == pytest.approx(0.06890625 / 0.8)


def test_only_what_depends_on_placement_is_an_estimate() -> None:
    bases = {figure.name: figure.basis for figure in traffic(BIG).figures}
    estimates = {"leaves a node", "rate of a rail", "share of a rail"}
    assert {name for name, basis in bases.items() if basis == "estimate"} == estimates


@cases.table
def test_sizes_that_do_not_fit(change: dict[str, int], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        traffic(SMALL._replace(**change))
    assert message in str(caught.value)


def leaving(job: Job) -> int:
    """Rings that leave the busiest node, counted rank by rank in the order of Megatron-LM."""
    groups: dict[tuple[int, int], set[int]] = {}
    for rank in range(job.gpus):
        place, lane = divmod(rank, job.tensor)
        groups.setdefault((lane, place // job.data), set()).add(rank // job.gpus_per_node)
    crossing = [nodes for nodes in groups.values() if len(nodes) > 1]
    return max(sum(node in nodes for nodes in crossing) for node in range(job.gpus))


@given(
    tensor=st.sampled_from([1, 2, 4, 8, 16]),
    data=st.integers(1, 24),
    pipeline=st.integers(1, 12),
    per_node=st.sampled_from([4, 8]),
)
def test_rings_are_counted_at_the_busiest_node(tensor: int, data: int, pipeline: int, per_node: int) -> None:
    job = BIG._replace(
        gpus=tensor * data * pipeline, tensor=tensor, pipeline=pipeline, gpus_per_node=per_node
    )
    try:
        found = values(traffic(job))
    except DeclarationError:
        return
    counted = leaving(job) * found["sent by a GPU"]
    if job.data % max(1, per_node // tensor) and job.gpus > per_node:  # two at most, where groups are cut
        assert counted <= found["leaves a node"] + 1e-9
        assert found["leaves a node"] <= 2 * counted + 1e-9
    else:
        assert found["leaves a node"] == pytest.approx(counted)
