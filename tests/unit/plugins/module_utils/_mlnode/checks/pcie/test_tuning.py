# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    GPU,
    NIC,
    ROOT,
    TO_NIC,
    UPSTREAM,
    bad,
    named,
    put_config,
    run,
    virtual,
)
from ansible_collections.mlnode.tuning.tests.unit.pci_config_builder import config
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.checks.expect import Expectations


def test_payloads_that_differ_on_the_way(fabric: Tree) -> None:
    put_config(fabric, ROOT, config("root port", payload=512))
    found = run(fabric.host)
    assert bad(found) == {("max_payload", "mlx5_0"): "fail"}
    words = f"{ROOT} 512, {UPSTREAM} 256, {TO_NIC} 256, {NIC} 256"
    assert named(found, "max_payload")["mlx5_0"].found == words


def test_payload_needs_the_whole_way(fabric: Tree) -> None:
    put_config(fabric, UPSTREAM, config("upstream", size=64))
    check = named(run(fabric.host), "max_payload")["mlx5_0"]
    assert check.verdict == "unknown"
    assert f"{UPSTREAM}/config: only the first 64 bytes" in check.found


def test_a_conventional_bridge_on_the_way(fabric: Tree) -> None:
    put_config(fabric, UPSTREAM, config("conventional"))
    assert named(run(fabric.host), "max_payload")["mlx5_0"].verdict == "skip"


def test_small_read_requests(fabric: Tree) -> None:
    put_config(fabric, NIC, config(read_request=512, ats=False))
    found = run(fabric.host)
    assert bad(found) == {("max_read_request", "mlx5_0"): "warn"}
    check = named(found, "max_read_request")["mlx5_0"]
    assert (check.expected, check.found) == ("4096 bytes", "512 bytes")
    assert f"setpci -s {NIC} CAP_EXP+8.w=5000:7000" in check.advice


@pytest.mark.parametrize(
    "declared, verdict", [(512, "pass"), ("512", "pass"), (1024, "fail"), (None, "warn")]
)
def test_read_requests_as_declared(fabric: Tree, declared: object, verdict: str) -> None:
    put_config(fabric, NIC, config(read_request=512, ats=False))
    assert named(run(fabric.host, {"mrrs": declared}), "max_read_request")["mlx5_0"].verdict == verdict


@cases.table
def test_relaxed_ordering(fabric: Tree, ordered: bool, declared: object, verdict: str) -> None:
    put_config(fabric, NIC, config(relaxed_ordering=ordered, ats=False))
    check = named(run(fabric.host, {"relaxed_ordering": declared}), "relaxed_ordering")["mlx5_0"]
    assert (check.verdict, check.found) == (verdict, "on" if ordered else "off")
    assert bool(check.advice) == (verdict != "pass")


@cases.table
def test_ats(fabric: Tree, enabled: bool | None, declared: object, verdict: str) -> None:
    put_config(fabric, NIC, config(ats=enabled))
    assert named(run(fabric.host, {"ats": declared}), "ats")["mlx5_0"].verdict == verdict


def test_ats_without_extended_space_is_unknown(fabric: Tree) -> None:
    put_config(fabric, NIC, config(ats=False, size=256))
    assert bad(run(fabric.host)) == {("ats", "mlx5_0"): "unknown"}


def test_a_card_that_fell_off_the_bus(fabric: Tree) -> None:
    put_config(fabric, NIC, b"\xff" * 4096)
    names = ("max_payload", "max_read_request", "relaxed_ordering", "ats")
    assert bad(run(fabric.host)) == {(name, "mlx5_0"): "unknown" for name in names}
    assert "does not answer" in named(run(fabric.host), "ats")["mlx5_0"].found


def test_virtual_machines_only_as_declared(fabric: Tree) -> None:
    virtual(fabric)
    put_config(fabric, NIC, config(read_request=128, relaxed_ordering=False, payload=128, ats=True))
    assert {verdict for (_name, target), verdict in bad(run(fabric.host)).items() if target == "mlx5_0"} == {
        "skip"
    }
    found = run(fabric.host, {"mrrs": 4096, "relaxed_ordering": "on", "ats": "off"})
    failed = {name for (name, _target), verdict in bad(found).items() if verdict == "fail"}
    assert failed == {"max_read_request", "relaxed_ordering", "ats"}


def test_virtual_functions_are_their_physical_ones(fabric: Tree) -> None:
    folder = os.path.relpath(os.path.realpath(fabric.host.real(f"/sys/bus/pci/devices/{NIC}")), fabric.root)
    path = folder[len("sys/devices/") :].replace(NIC, "0000:14:00.1")
    card = fabric.pci(path, "0x020000", "15b3:101e", 0, "mlx5_core", physfn=NIC)
    fabric.rdma("mlx5_9", card)
    found = run(fabric.host)
    assert bad(found) == {}
    assert "mlx5_9" not in {check.target for check in found}


def test_what_is_declared_of_one_device(fabric: Tree) -> None:
    expect = Expectations(targets={("mlx5_1", None): {"mrrs": 512}})
    found = run(fabric.host, expect)
    assert {*named(found, "max_read_request")} == {"mlx5_1"}
    assert bad(found) == {("max_read_request", "mlx5_1"): "fail"}


def test_gpus_may_read_as_they_like(fabric: Tree) -> None:
    put_config(fabric, GPU, config(read_request=128, relaxed_ordering=False, ats=True))
    assert bad(run(fabric.host)) == {}
