# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is judged on an NVIDIA machine is judged on its AMD twins; what a Trainium node lacks has a reason."""

from __future__ import annotations

import functools
import pathlib
import tempfile

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, twins

#: Machine → look → topics that it does not have, with the reason
LACKS: dict[str, dict[str, dict[str, str]]] = cases.load(pathlib.Path(__file__).parent / "twins.yml")


@functools.lru_cache(maxsize=None)
def judged(name: str, look: str) -> dict[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        return twins.LOOKS[look](twins.Twin(name, pathlib.Path(folder)))


@pytest.mark.parametrize("look", twins.LOOKS)
@pytest.mark.parametrize("name", LACKS)
def test_what_is_judged_on_the_twin_is_judged(name: str, look: str) -> None:
    lacks = {**LACKS[name].get("any", {}), **LACKS[name].get(look, {})}
    assert twins.missing(judged("hgx", look), judged(name, look)) - {*lacks} == set()


@pytest.mark.parametrize("name", LACKS)
def test_no_reason_is_left_over(name: str) -> None:
    """A topic that is judged by now needs none."""
    missing = {look: twins.missing(judged("hgx", look), judged(name, look)) for look in twins.LOOKS}
    for look, reasons in LACKS[name].items():
        here = set().union(*missing.values()) if look == "any" else missing[look]
        assert {*reasons} <= here, look
    assert all(reason for reasons in LACKS[name].values() for reason in reasons.values())


def test_the_twin_is_judged_on_its_gpus() -> None:
    """Or nothing would be compared."""
    for look, topics in (
        ("audit", {"gpu_ecc", "gpu_clocks", "gpu_fabric", "gpu_messages", "nic_messages", "pcie_link"}),
        ("preflight", {"gpu_messages", "jobs", "gid"}),
        ("rdma_check", {"gpudirect", "ecn", "cnp", "pfc", "trust", "dscp", "pcie_link"}),
        ("plan", {"gpu.persistence", "nccl.NCCL_IB_HCA", "nccl.NCCL_IB_TC", "qos.rails.pfc"}),
    ):
        assert topics <= {topic for topic, is_judged in judged("hgx", look).items() if is_judged}, look


def test_gpus_of_any_vendor_have_the_same_topics_in_a_preflight() -> None:
    """No vendor's tool is asked: the answer of one would come late."""
    assert {*judged("mi300x", "preflight")} >= {*judged("hgx", "preflight")} - {"relaxed_ordering"}
