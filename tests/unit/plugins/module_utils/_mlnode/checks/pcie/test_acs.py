# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    GPU,
    ROOT,
    TO_GPU,
    TO_NIC,
    UPSTREAM,
    bad,
    menu,
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
    assert bad(found) == {("acs", TARGET): "warn"}, "jobs run with it, and no role sets it"
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
    word = f"pci=config_acs=xx000x0@{TO_GPU};xx000x0@{TO_NIC} (module boot_params)"
    # Of the kernels between, one takes a single bridge only, and neither word does what it did.
    newer = "boot a kernel since 6.15 with"
    for release, boot in (
        ("6.11.0-26-generic", newer),
        ("6.12.22", newer),
        ("6.14.0-37-generic", newer),
        ("6.12.118+deb13-amd64", "boot with"),
        ("6.15.3", "boot with"),
    ):
        fabric.put("/proc/sys/kernel/osrelease", release)
        found = named(run(fabric.host), "acs")
        for bridge in (TO_GPU, TO_NIC):
            advice = found[f"PCIe bridge {bridge}"].advice
            assert f"{boot} {word}" in advice
            assert f"setpci -s {bridge} " in advice


def test_one_parameter_keeps_what_it_did_for_others(fabric: Tree) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    fabric.put("/proc/sys/kernel/osrelease", "6.15.3")
    fabric.put("/proc/cmdline", f"ro iommu=pt pci=config_acs=xx000x0@{TO_GPU}")
    advice = named(run(fabric.host), "acs")[TARGET].advice
    assert f"pci=config_acs=xx000x0@{TO_GPU};xx000x0@{TO_NIC} " in advice


def test_egress_control_which_rdma_topo_leaves_alone_is_cleared_where_it_redirects(fabric: Tree) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL | 0x20))
    fabric.put("/proc/sys/kernel/osrelease", "6.15.3")
    assert f"pci=config_acs=x0000x0@{TO_NIC} " in named(run(fabric.host), "acs")[TARGET].advice


BOTH = f"xx000x0@{TO_GPU};xx000x0@{TO_NIC}"


@cases.table
def test_what_the_next_boot_brings_is_pending(fabric: Tree, words: str, named_option: str) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    menu(fabric, words, words)
    check = named(run(fabric.host), "acs")[TARGET]
    assert (check.verdict, check.advice) == ("pending", "reboot")
    assert check.found == (
        "0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+); "
        f"the next boot has pci={named_option} (/boot/grub/grub.cfg:3)"
    )


@cases.table
def test_what_leaves_the_bridge_as_it_is_does_not_count(fabric: Tree, words: str) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    menu(fabric, words, words)
    assert named(run(fabric.host), "acs")[TARGET].verdict == "warn"


def test_what_did_not_help_at_this_boot_is_not_pending(fabric: Tree) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    word = f"pci=disable_acs_redir={TO_NIC}"
    menu(fabric, word, running=word)
    assert named(run(fabric.host), "acs")[TARGET].verdict == "warn"


@pytest.mark.parametrize("declared", ["off", "auto"])
def test_it_fails_where_it_is_declared_and_nothing_brings_it(fabric: Tree, declared: str) -> None:
    put_config(fabric, TO_NIC, config("downstream", acs=ACS_BY_KERNEL))
    menu(fabric, "quiet")
    assert named(run(fabric.host, {"acs": declared}), "acs")[TARGET].verdict == "fail"
    menu(fabric, f"pci=disable_acs_redir={TO_NIC}")
    assert named(run(fabric.host, {"acs": declared}), "acs")[TARGET].verdict == "pending"


def test_one_parameter_keeps_what_waits_for_the_next_boot(fabric: Tree) -> None:
    for bridge in (TO_GPU, TO_NIC):
        put_config(fabric, bridge, config("downstream", acs=ACS_BY_KERNEL))
    menu(fabric, f"pci=disable_acs_redir={TO_NIC}")
    found = named(run(fabric.host), "acs")
    assert found[TARGET].verdict == "pending"
    assert f"pci=disable_acs_redir={TO_GPU};{TO_NIC} " in found[f"PCIe bridge {TO_GPU}"].advice


@pytest.mark.parametrize("control, verdict", [(0x11, "pass"), (0x04, "warn"), (0x08, "warn"), (0x20, "warn")])
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
    assert "all their traffic passes the CPU anyway" in found["node"].found


def test_off_may_be_declared(fabric: Tree) -> None:
    assert bad(run(fabric.host, {"acs": "off"})) == {}
