# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files as Ubuntu 24.04 and the RHEL family 9 ship them, in trees: neither could be started here."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door, service_machine
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DROP_INS, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.test_silent_failures import applied, look, request
from mlnode.model.setting import Status

#: Of a file in /etc, as the policy of the RHEL family has it
LABEL = b"system_u:object_r:etc_t:s0\0"
ATTRIBUTE = "security.selinux"

#: Kept by systemd and the distributions below /usr/lib, for /etc to override (sysctl.d(5))
RHEL_SYSCTL = {
    "/usr/lib/sysctl.d/50-default.conf": "kernel.sysrq = 16\nnet.ipv4.conf.*.rp_filter = 2\n",
    "/usr/lib/sysctl.d/50-pid-max.conf": "kernel.pid_max = 4194304\n",
    "/usr/lib/sysctl.d/50-libkcapi-optmem_max.conf": "net.core.optmem_max=81920\n",
    "/etc/sysctl.conf": "# sysctl settings are defined through files in /usr/lib/sysctl.d\n",
}
UBUNTU_SYSCTL = {
    "/etc/sysctl.d/10-map-count.conf": "vm.max_map_count=1048576\n",
    "/etc/sysctl.d/10-network-security.conf": (
        "net.ipv4.conf.default.rp_filter=2\nnet.ipv4.conf.all.rp_filter=2\n"
    ),
    "/etc/sysctl.d/10-zeropage.conf": "vm.mmap_min_addr = 65536\n",
    "/usr/lib/sysctl.d/50-pid-max.conf": "kernel.pid_max = 4194304\n",
    "/usr/lib/sysctl.d/99-protect-links.conf": "fs.protected_hardlinks = 1\n",
    "/etc/sysctl.conf": "#net.ipv4.ip_forward=1\n",
}


def node(folder: pathlib.Path, files: dict[str, str]) -> Machine:
    """With the link by which both read sysctl.conf last but for later names."""
    machine = Machine.debian(str(folder))
    machine.enable_agent()
    for path, text in files.items():
        machine.put(path, text)
    machine.link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
    return machine


@pytest.mark.parametrize("files", [RHEL_SYSCTL, UBUNTU_SYSCTL], ids=["rhel", "ubuntu"])
def test_what_is_shipped_gives_way_to_what_is_declared(tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    machine = node(tmp_path, {**files, "/usr/lib/sysctl.d/60-vendor.conf": "vm.swappiness = 30\n"})

    row = applied(machine, "sysctl", {"settings": {"vm.swappiness": 1}})["vm.swappiness"]

    assert row.status is Status.OK
    for path, text in files.items():
        assert machine.now(path) == text.strip(), f"{path} belongs to a package"


@pytest.mark.parametrize("files", [RHEL_SYSCTL, UBUNTU_SYSCTL], ids=["rhel", "ubuntu"])
def test_a_link_to_sysctl_conf_is_read_where_its_name_is(
    tmp_path: pathlib.Path, files: dict[str, str]
) -> None:
    """The same file is also what `sysctl -p` reads: where the last file is not it, it loses at boot."""
    machine = node(tmp_path, {**files, "/etc/sysctl.conf": "vm.swappiness = 30\n"})

    row = applied(machine, "sysctl", {"settings": {"vm.swappiness": 1}})["vm.swappiness"]

    assert row.status is Status.OK
    machine.put("/etc/sysctl.d/zzz-site.conf", "vm.swappiness = 20\n")
    row = look(machine, "sysctl", {"settings": {"vm.swappiness": 1}})["vm.swappiness"]
    assert row.status is Status.OVERRIDDEN
    assert "/etc/sysctl.d/zzz-site.conf:1 sets 20" in row.reason


def test_a_file_of_a_package_that_etc_replaces_counts_no_more(tmp_path: pathlib.Path) -> None:
    """One of the same name in /etc/sysctl.d is read in its place, also where it is a link to /dev/null."""
    name = "zzz-vendor.conf"
    machine = node(tmp_path, {**RHEL_SYSCTL, f"/usr/lib/sysctl.d/{name}": "vm.swappiness = 30\n"})
    spec: dict[str, Any] = {"settings": {"vm.swappiness": 1}}
    assert applied(machine, "sysctl", spec)["vm.swappiness"].status is Status.OVERRIDDEN

    machine.link(f"/etc/sysctl.d/{name}", "/dev/null")

    assert look(machine, "sysctl", spec)["vm.swappiness"].status is Status.OK


@pytest.mark.parametrize("profile", ["virtual-guest", "throughput-performance"])
def test_tuned_runs_on_the_rhel_family_and_is_stopped_and_comes_back(
    tmp_path: pathlib.Path, profile: str
) -> None:
    machine = service_machine.made(str(tmp_path))
    machine.tuned(profile)
    spec = {"services": {"tuned": "stop"}}
    [row] = look(machine, "services", spec).values()
    assert row.status is Status.DRIFTED

    machine.forget()
    door.apply(machine, request("services", spec))

    assert not machine.runs("tuned.service")
    machine.boot()
    assert not machine.runs("tuned.service")


def test_the_file_of_ubuntus_cloud_image_is_read_before_ours_and_kept(tmp_path: pathlib.Path) -> None:
    machine = GrubMachine.debian_with_grub(str(tmp_path), 'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n')
    machine.enable_agent()
    path = f"{DROP_INS}/50-cloudimg-settings.cfg"
    cloud = (
        "# Cloud Image specific Grub settings for Generic Cloud Images\nGRUB_TIMEOUT=0\n"
        'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\nGRUB_TERMINAL=console\n'
    )
    machine.put(path, cloud)

    applied(machine, "boot", {"parameters": {"iommu": "pt"}})

    line = machine.line().split()
    assert {"console=tty1", "console=ttyS0", "iommu=pt"} <= {*line}
    assert "splash" not in line, "the image's file replaces the line of /etc/default/grub"
    assert machine.now(path) == cloud.strip()
    machine.reboot()
    assert look(machine, "boot", {"parameters": {"iommu": "pt"}})["boot.iommu"].status is Status.OK


def test_a_label_of_selinux_stays_on_a_file_of_others(tmp_path: pathlib.Path) -> None:
    """A file whose label is lost cannot be read by the daemon that it is for."""
    machine = Machine.debian(str(tmp_path))
    machine.enable_agent()
    path = "/etc/nccl.conf"
    machine.put(path, "# the administrator's\nNCCL_DEBUG=VERSION\n")
    os.setxattr(f"{machine.root}{path}", ATTRIBUTE, LABEL)

    applied(machine, "nccl", {"variables": {"NCCL_DEBUG": "WARN"}})

    assert "NCCL_DEBUG=WARN" in machine.now(path)
    assert os.getxattr(f"{machine.root}{path}", ATTRIBUTE) == LABEL
