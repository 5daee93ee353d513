# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of Grace and Blackwell with a ConnectX-8 at one root port, whose Data Direct is at the GPU's."""

from __future__ import annotations

import errno
import pathlib
import struct

import pytest
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import menu, named, put_config, run
from ansible_collections.mlnode.tuning.tests.unit.pci_config_builder import ACS_BY_KERNEL, FOR_ANYBODY, config
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    BRIDGE,
    GPU,
    NET,
    Tree,
    two_nodes,
)

#: Of the GPU's side, from the root port down: the switch of the NIC, on which Data Direct and, behind another
#: switch, the GPU are
ROOT, UPSTREAM, TO_DIRECT, DIRECT = "0008:00:00.0", "0008:01:00.0", "0008:02:00.0", "0008:03:00.0"
TO_GPU, INNER, INNER_DOWN, THE_GPU = "0008:02:03.0", "0008:04:00.0", "0008:05:00.0", "0008:06:00.0"
NIC_ROOT, NIC = "0000:00:00.0", "0000:01:00.0"
#: Of another NIC, which is like the first and at a root port of its own
OTHER = "0002:01:00.0"

DIRECT_VPD, NIC_VPD = f"/sys/bus/pci/devices/{DIRECT}/vpd", f"/sys/bus/pci/devices/{NIC}/vpd"
RIGHT = {ROOT: 0x1C, TO_DIRECT: 0x19, TO_GPU: 0x15}
#: As rdma_topo of rdma-core at 691953d8d (August 2026) prints them for this tree
WORDS = f"xx111x0@{ROOT};xx110x1@{TO_DIRECT};xx101x1@{TO_GPU}"


def vpd(identifier: str) -> bytes:
    """As `lspci -vv` shows it: product name, PN, EC, V3, SN, checksum, and the end."""
    fields = b"".join(
        name + bytes([len(value)]) + value
        for name, value in (
            (b"PN", b"900-9X86E"),
            (b"EC", b"A4"),
            (b"V3", identifier.encode()),
            (b"SN", b"MT1"),
            (b"RV", b"\x4f\0\0"),
        )
    )
    name = b"NVIDIA ConnectX-8 Mezz"
    return (
        b"\x82"
        + struct.pack("<H", len(name))
        + name
        + b"\x90"
        + struct.pack("<H", len(fields))
        + fields
        + b"\x78\xff"
    )


def put_vpd(tree: Tree, address: str, data: bytes) -> None:
    (tree.root / f"sys/bus/pci/devices/{address}/vpd").write_bytes(data)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Tree:
    tree = two_nodes(Tree(tmp_path))
    shared = f"pci0008:00/{ROOT}/{UPSTREAM}"
    to_gpu = f"{shared}/{TO_GPU}/{INNER}/{INNER_DOWN}"
    for path, ids in (
        (f"pci0008:00/{ROOT}", "10de:22b1"),
        (shared, "15b3:197c"),
        (f"{shared}/{TO_DIRECT}", "15b3:197c"),
        (f"{shared}/{TO_GPU}", "15b3:197c"),
        (f"{shared}/{TO_GPU}/{INNER}", "15b3:197c"),
        (to_gpu, "15b3:197c"),
        (f"pci0000:00/{NIC_ROOT}", "10de:22b8"),
    ):
        tree.pci(path, BRIDGE, ids, 0)
        kind = {ROOT: "root port", NIC_ROOT: "root port", UPSTREAM: "upstream", INNER: "upstream"}.get(
            path[-12:], "downstream"
        )
        acs = None if kind == "upstream" else RIGHT.get(path[-12:], ACS_BY_KERNEL)
        put_config(tree, path[-12:], config(kind, ident=ids, acs=acs))
    tree.pci(f"{to_gpu}/{THE_GPU}", GPU, "10de:31c2", 0, "nvidia")
    # A class that the topology does not list
    tree.pci(f"{shared}/{TO_DIRECT}/{DIRECT}", "0x080100", "15b3:2100", 0)
    for number, path in enumerate((f"pci0002:00/0002:00:00.0/{OTHER}", f"pci0000:00/{NIC_ROOT}/{NIC}")):
        card = tree.pci(path, NET, "15b3:1023", 0, "mlx5_core")
        tree.net(f"rail{number}", card, speed=400000)
        tree.rdma(f"mlx5_{number}", card)
        put_config(tree, path[-12:], config(ident="15b3:1023"))
    for address, identifier in ((OTHER, "9f2c"), (NIC, "5b1e"), (DIRECT, "5b1e")):
        put_vpd(tree, address, vpd(identifier))
    tree.put("/proc/sys/kernel/osrelease", "6.17.0-1014-nvidia-64k")
    tree.put("/proc/cmdline", "ro quiet")
    return tree


def test_the_nic_and_its_data_direct_are_paired_and_the_three_bridges_judged(node: Tree) -> None:
    found = named(run(node.host), "acs")
    assert {target: str(check.verdict) for target, check in found.items()} == {
        f"PCIe bridge {one}": "pass" for one in RIGHT
    }
    bridge = found[f"PCIe bridge {TO_DIRECT}"]
    assert bridge.expected == f"xx110x1 between GPU0 ({THE_GPU}) and mlx5_1 (Data Direct)"


def test_the_kernel_s_own_bits_warn_with_the_parameter_of_rdma_topo(node: Tree) -> None:
    for bridge in RIGHT:
        put_config(node, bridge, config("downstream", acs=ACS_BY_KERNEL))
    found = named(run(node.host), "acs")
    advice = f"boot with pci=config_acs={WORDS} (module boot_params)"
    assert [(check.verdict, check.advice) for check in found.values()] == [("warn", advice)] * 3
    assert {check.verdict for check in named(run(node.host, {"acs": "off"}), "acs").values()} == {"fail"}
    node.put("/proc/sys/kernel/osrelease", "6.8.0-60-generic")
    advice = named(run(node.host), "acs")[f"PCIe bridge {ROOT}"].advice
    assert advice == f"boot a kernel since 6.15 with pci=config_acs={WORDS} (module boot_params)"


def test_a_bridge_without_acs_is_unknown_and_in_no_parameter(node: Tree) -> None:
    put_config(node, TO_GPU, config("downstream", acs=None))
    put_config(node, ROOT, config("root port", acs=ACS_BY_KERNEL))
    found = named(run(node.host, {"acs": "off"}), "acs")
    assert {one: found[f"PCIe bridge {one}"].verdict for one in (TO_GPU, ROOT)} == {
        TO_GPU: "unknown", ROOT: "fail",
    }  # fmt: skip
    assert TO_GPU not in found[f"PCIe bridge {ROOT}"].advice


def test_it_is_pending_with_that_parameter_in_the_menu(node: Tree) -> None:
    put_config(node, TO_DIRECT, config("downstream", acs=ACS_BY_KERNEL))
    for words, verdict in ((WORDS, "pending"), (WORDS.replace("110", "000"), "warn")):
        menu(node, f'pci="config_acs={words}"')
        assert named(run(node.host), "acs")[f"PCIe bridge {TO_DIRECT}"].verdict == verdict


@pytest.mark.parametrize("bridge, control", [(TO_DIRECT, 0), (TO_GPU, 0), (ROOT, 0), (TO_GPU, 0x19)])
def test_with_data_direct_off_is_wrong_too(node: Tree, bridge: str, control: int) -> None:
    put_config(node, bridge, config("downstream", acs=control))
    assert named(run(node.host), "acs")[f"PCIe bridge {bridge}"].verdict == "warn"


def test_redirection_may_be_wanted(node: Tree) -> None:
    found = named(run(node.host, {"acs": "on"}), "acs")
    assert {check.verdict for check in found.values()} == {"fail"}
    for bridge in RIGHT:
        put_config(node, bridge, config("downstream", acs=ACS_BY_KERNEL))
    assert {check.verdict for check in named(run(node.host, {"acs": "on"}), "acs").values()} == {"pass"}


@pytest.mark.parametrize(
    "data",
    [b"", vpd("5b1e")[:50], vpd("5b1e").replace(b"V3", b"V2"), b"\xff" * 300],
    ids=["empty", "cut", "without", "ones"],
)
def test_without_an_identifier_the_pair_is_unknown(node: Tree, data: bytes) -> None:
    put_vpd(node, DIRECT, data)
    (check,) = named(run(node.host), "acs").values()
    assert (check.target, check.verdict) == (f"Data Direct {DIRECT}", "unknown")
    assert f"{DIRECT_VPD}: no field V3" in check.found


@pytest.mark.parametrize("file", [DIRECT_VPD, NIC_VPD])
def test_what_may_not_be_read_is_unknown(node: Tree, file: str) -> None:
    (check,) = named(run(node.refusing({file: errno.EACCES})), "acs").values()
    assert (check.verdict, "EACCES" in check.found) == ("unknown", True)


def test_another_nic_that_may_not_be_read_is_not_in_the_way(node: Tree) -> None:
    other = f"/sys/bus/pci/devices/{OTHER}/vpd"
    found = named(run(node.refusing({other: errno.EIO})), "acs")
    assert {check.verdict for check in found.values()} == {"pass"}


def test_a_user_reads_no_bits(node: Tree) -> None:
    put_config(node, ROOT, config("root port", size=FOR_ANYBODY))
    assert named(run(node.host), "acs")[f"PCIe bridge {ROOT}"].verdict == "unknown"


def test_a_function_of_no_judged_nic_is_skipped_with_the_reason(node: Tree) -> None:
    put_vpd(node, NIC, vpd("7777"))
    (check,) = named(run(node.host), "acs").values()
    assert (check.verdict, check.found) == ("skip", "no NIC that is judged has its identifier, 5b1e")


def test_a_function_without_a_gpu_beside_it_is_skipped_with_the_reason(node: Tree) -> None:
    (node.root / f"sys/bus/pci/devices/{THE_GPU}").unlink()
    node.pci("pci0009:00/0009:00:00.0", GPU, "10de:31c2", 0, "nvidia")
    (check,) = named(run(node.host), "acs").values()
    assert (check.verdict, check.found) == ("skip", f"no GPU is behind the switch of {DIRECT}")


def test_a_host_of_virtual_machines_keeps_it(node: Tree) -> None:
    node.pci("pci0009:00/0009:00:00.0", GPU, "10de:31c2", 0, "vfio-pci")
    (check,) = named(run(node.host), "acs").values()
    assert (check.verdict, "is passed through" in check.found) == ("skip", True)
