# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    GPU,
    ROOT,
    TO_GPU,
    TO_NIC,
    UPSTREAM,
    bad,
    named,
    put_config,
    run,
    virtual,
)
from ansible_collections.mlnode.tuning.tests.unit.pci_config_builder import ACS_BY_KERNEL, config
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree

TARGET = f"PCIe bridge {TO_NIC}"


def test_which_bridges_are_asked(fabric: Tree) -> None:
    """The common one and those below it on both sides; what is above all of them sees nothing of it."""
    found = [*named(run(fabric.host), "acs")]
    assert found[:3] == [f"PCIe bridge {one}" for one in (UPSTREAM, TO_GPU, TO_NIC)]
    assert len(found) == 6
    put_config(fabric, ROOT, config("root port", acs=ACS_BY_KERNEL))
    assert bad(run(fabric.host)) == {}


def test_redirection(fabric: Tree) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    found = run(fabric.host)
    assert bad(found) == {("acs", TARGET): "fail"}
    check = named(found, "acs")[TARGET]
    assert check.expected == f"redirection off between GPU0 ({GPU}) and mlx5_0"
    assert check.found == "0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+)"
    assert f"pci=disable_acs_redir={TO_NIC}" in check.advice
    assert f"setpci -s {TO_NIC} ECAP_ACS+6.w=0000:002c" in check.advice


def test_one_parameter_is_for_all_bridges_and_is_that_of_rdma_topo_where_the_kernel_has_it(
    fabric: Tree,
) -> None:
    for bridge in (TO_GPU, TO_NIC):
        put_config(fabric, bridge, config("downstream", acs=ACS_BY_KERNEL))
    both = f"pci=disable_acs_redir={TO_GPU};{TO_NIC} "
    assert [check.advice for check in named(run(fabric.host), "acs").values() if both in check.advice] != []
    word = f"pci=config_acs=x0000x0@{TO_GPU};x0000x0@{TO_NIC} (module boot_params)"
    # Of the kernels between, one takes a single bridge only, and neither word does what it did.
    for release, boot in (("6.11.0-26-generic", "boot a kernel since 6.15 with"), ("6.15.3", "boot with")):
        fabric.put("/proc/sys/kernel/osrelease", release)
        found = named(run(fabric.host), "acs")
        for bridge in (TO_GPU, TO_NIC):
            advice = found[f"PCIe bridge {bridge}"].advice
            assert f"{boot} {word}" in advice
            assert f"setpci -s {bridge} " in advice


def test_with_data_direct_rdma_topo_knows_the_bits(fabric: Tree) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    fabric.put(f"/sys/bus/pci/devices/{TO_GPU}/vendor", "0x15b3")
    fabric.put(f"/sys/bus/pci/devices/{TO_GPU}/device", "0x2100")
    advice = named(run(fabric.host), "acs")[TARGET].advice
    assert advice.startswith("run `rdma_topo write-grub-acs` (rdma-core), as ConnectX-8 with Data Direct")
    assert "pci=" not in advice


@pytest.mark.parametrize("control, verdict", [(0x11, "pass"), (0x04, "fail"), (0x08, "fail"), (0x20, "fail")])
def test_only_redirection_counts(fabric: Tree, control: int, verdict: str) -> None:
    put_config(fabric, TO_GPU, config("downstream", acs=control))
    assert named(run(fabric.host), "acs")[f"PCIe bridge {TO_GPU}"].verdict == verdict


@pytest.mark.parametrize("declared", ["on", True])
def test_redirection_may_be_wanted(fabric: Tree, declared: object) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    found = named(run(fabric.host, {"acs": declared}), "acs")
    assert found[TARGET].verdict == "pass"
    assert found[f"PCIe bridge {TO_GPU}"].verdict == "fail"
    assert found[f"PCIe bridge {UPSTREAM}"].verdict == "skip"
    put_config(fabric, TO_NIC, config("downstream"))
    assert named(run(fabric.host, {"acs": declared}), "acs")[TARGET].verdict == "fail"


def test_a_virtual_machine_leaves_it_to_its_host(fabric: Tree) -> None:
    virtual(fabric)
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    check = named(run(fabric.host), "acs")[TARGET]
    assert check.verdict == "skip"
    assert "ReqRedir+" in check.found
    assert named(run(fabric.host, {"acs": "off"}), "acs")[TARGET].verdict == "fail"


@pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci"])
def test_a_host_of_virtual_machines_keeps_it(fabric: Tree, driver: str) -> None:
    fabric.pci("pci0000:a0/0000:a0:01.0/0000:a1:00.0", "0x030200", "10de:2330", 1, driver)
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    check = named(run(fabric.host), "acs")[TARGET]
    assert check.verdict == "skip"
    assert "0000:a1:00.0 is passed through" in check.found


def test_a_list_of_capabilities_that_ends_in_nonsense(fabric: Tree) -> None:
    data = config("downstream")
    put_config(fabric, TO_NIC, data[:0x102] + b"\x41\x00" + data[0x104:])
    check = named(run(fabric.host), "acs")[TARGET]
    assert check.verdict == "unknown"
    assert check.found.startswith(f"/sys/bus/pci/devices/{TO_NIC}/config: ")


def test_a_bridge_that_the_bus_does_not_show(fabric: Tree) -> None:
    os.unlink(str(fabric.root) + f"/sys/bus/pci/devices/{TO_NIC}")
    assert named(run(fabric.host), "acs")[TARGET].verdict == "unknown"


def test_far_apart_it_does_not_matter(fabric: Tree) -> None:
    """A GPU and a NIC on root ports of their own."""
    for bus in ("1", "9"):
        for address in (f"0000:{bus}2:01.0", f"0000:{bus}4:00.0"):
            os.unlink(str(fabric.root) + f"/sys/bus/pci/devices/{address}")
        card = fabric.pci(
            f"pci0000:{bus}8/0000:{bus}8:01.0/0000:{bus}9:00.0",
            "0x020000",
            "15b3:1021",
            int(bus == "9"),
            "mlx5_core",
        )
        fabric.rdma(f"mlx5_2{bus}", card)
    found = named(run(fabric.host), "acs")
    assert [*found] == ["node"]
    assert "all of their traffic passes the CPU anyhow" in found["node"].found


def test_off_may_be_declared(fabric: Tree) -> None:
    assert bad(run(fabric.host, {"acs": "off"})) == {}
