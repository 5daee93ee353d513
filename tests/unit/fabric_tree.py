# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training node of two sockets with a GPU and a NIC on one switch each, all as it should be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.pci_config_builder import config
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    Tree,
    rail,
    two_nodes,
)
from mlnode.checks import expect as expectations
from mlnode.checks.expect import Expectations
from mlnode.checks.model import Check
from mlnode.checks.pcie import checks as pcie
from mlnode.checks.rdma import gpudirect, memlock
from mlnode.host.host import Host
from mlnode.topology import hardware

#: Of rail 0, from the root port down; its twin on the other socket has 9 for 1
ROOT, UPSTREAM = "0000:10:01.0", "0000:11:00.0"
TO_GPU, TO_NIC = "0000:12:00.0", "0000:12:01.0"
GPU, NIC = "0000:13:00.0", "0000:14:00.0"
BUSES = (0x10, 0x90)

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct  8 16:30:26 UTC 2024"
DROP_IN = "/etc/systemd/system.conf.d/90-rdma.conf"


def healthy(tree: Tree) -> Tree:
    two_nodes(tree)
    for number, bus in enumerate(BUSES):
        rail(tree, bus, number, number)
        put_config(tree, f"0000:{bus:02x}:01.0", config("root port"))
        put_config(tree, f"0000:{bus + 1:02x}:00.0", config("upstream"))
        for slot in (0, 1):
            put_config(tree, f"0000:{bus + 2:02x}:{slot:02x}.0", config("downstream", acs=0x01))
        put_config(tree, f"0000:{bus + 3:02x}:00.0", config(ident="10de:2330", read_request=512))
        put_config(tree, f"0000:{bus + 4:02x}:00.0", config(ats=False))
        nic = f"0000:{bus + 4:02x}:00.0"
        interrupt(tree, nic, 100 + bus, "mlx5_async0", "0-7")
        for queue in range(2):
            interrupt(tree, nic, 101 + bus + queue, f"mlx5_comp{queue}", str(4 * number + queue))
        tree.link(f"/sys/bus/pci/devices/{nic}/iommu_group", f"/sys/kernel/iommu_groups/{bus}")
        tree.put(f"/sys/kernel/iommu_groups/{bus}/type", "identity")
    tree.put("/sys/class/iommu/dmar0/devices/.keep", "")
    tree.put("/proc/cmdline", "root=/dev/sda1 ro intel_iommu=on iommu=pt quiet")
    tree.put("/proc/sys/kernel/osrelease", "6.8.0-60-generic")
    tree.put("/proc/driver/nvidia/version", OPEN)
    daemon(tree, 900, "slurmd")
    daemon(tree, 901, "sshd")
    tree.put("/run/systemd/system/.keep", "")
    tree.put("/etc/systemd/system.conf", "[Manager]\n#DefaultLimitMEMLOCK=8M")
    tree.put(DROP_IN, "[Manager]\nDefaultLimitMEMLOCK=infinity")
    return tree


def put_config(tree: Tree, address: str, data: bytes) -> None:
    file = tree.root / f"sys/bus/pci/devices/{address}/config"
    file.write_bytes(data)


def interrupt(tree: Tree, nic: str, number: int, name: str, cpus: str) -> None:
    tree.put(f"/sys/bus/pci/devices/{nic}/msi_irqs/{number}", "msix")
    tree.put(f"/proc/irq/{number}/effective_affinity_list", cpus)
    (tree.root / f"proc/irq/{number}/{name}@pci:{nic}").mkdir()


def daemon(
    tree: Tree, pid: int, name: str, soft: str = "unlimited", hard: str = "", parent: int = 1, user: int = 0
) -> None:
    uids = "\t".join([str(user)] * 4)
    tree.put(
        f"/proc/{pid}/status",
        f"Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t{uids}",
    )
    tree.put(
        f"/proc/{pid}/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 524288               files     \n"
        f"Max locked memory         {soft:20} {hard or soft:20} bytes     ",
    )


def menu(tree: Tree, *words: str, running: str = "ro quiet") -> None:
    """The running kernel has this command line; GRUB starts one kernel with each of the words."""
    tree.put("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=UUID=1 {running}\n")
    entries = (
        f"menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-{number}-advanced-1' {{\n"
        f"\tlinux\t/boot/vmlinuz-6.{number}.0 root=UUID=1 ro {word}\n}}\n"
        for number, word in enumerate(words)
    )
    tree.put("/boot/grub/grub.cfg", f"### BEGIN /etc/grub.d/10_linux ###\n{''.join(entries)}")
    tree.put("/usr/sbin/update-grub", "")


def virtual(tree: Tree) -> None:
    tree.put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor")


def run(host: Host, expect: Mapping[str, Any] | None = None) -> list[Check]:
    """All checks of these areas, with a fresh look at the machine."""
    host.forget()
    found: list[Check] = []
    wanted = expect if isinstance(expect, Expectations) else expectations.parse({"all": expect or {}})
    for area in (pcie, gpudirect, memlock):
        checks = [*area.checks(host, hardware.topology(host), wanted)]
        assert {check.name for check in checks} <= {*area.NAMES}
        found += checks
    return found


def named(found: Iterable[Check], name: str) -> dict[str, Check]:
    """Target → the only check of this name."""
    mine = [check for check in found if check.name == name]
    assert len(mine) == len({check.target for check in mine})
    return {check.target: check for check in mine}


def bad(found: Iterable[Check]) -> dict[tuple[str, str], str]:
    """Name and target of everything that does not pass → verdict."""
    return {(one.name, one.target): str(one.verdict) for one in found if one.verdict != "pass"}


def files(tree: Tree) -> list[str]:
    """Every file and link, as paths of the machine."""
    found = []
    for folder, folders, names in os.walk(tree.root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [os.path.join(folder, name)[len(str(tree.root)) :] for name in (*names, *links)]
    return sorted(found)
