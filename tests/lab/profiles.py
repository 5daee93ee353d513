# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of lab machines: QEMU's devices, and what the guest is told to make itself."""

from __future__ import annotations

from dataclasses import dataclass

from . import acpi
from .build import LabError, Part
from .parts import (
    ACPI,
    COMMAND_LINE,
    DISK,
    MANAGERS_DISK,
    OLDER_DISK,
    RUNTIMES_DISK,
    SECURITY_DISK,
    TOOLS,
)
from .uefi import FIRMWARE, UEFI_DISK


@dataclass(frozen=True)
class Profile:
    """One kind of machine.

    table: the ACPI table that gives its CPUs frequencies, see acpi.py.
    devices: QEMU's words; guest_devices: the words for guest/usr/lib/lab/devices.
    grub: boots through the disk's own boot loader, so that the command line is the guest's.
    cable: the end of the one cable between two machines that is plugged into the hub of its NICs.
    """

    name: str
    cpus: int = 2
    mebibytes: int = 1536
    cpu: str = "Nehalem"
    table: str = ""
    devices: tuple[str, ...] = ()
    guest_devices: str = ""
    command_line: str = ""
    grub: bool = False
    cable: int | None = None
    disk: Part = DISK

    @property
    def kernel_line(self) -> str:
        """The lab's words, but for those that the profile has itself, and the profile's."""
        own = {word.partition("=")[0] for word in self.command_line.split()}
        words = [word for word in COMMAND_LINE.split() if word.partition("=")[0] not in own]
        return " ".join([*words, self.command_line])

    @property
    def parts(self) -> tuple[Part, ...]:
        return (TOOLS, self.disk, *((ACPI,) if self.table else ()))


def nic(number: int, model: str, bus: str) -> tuple[str, ...]:
    """A NIC in a slot of its own on a PCIe bus. All of a machine's NICs are plugged into one hub."""
    return (
        *("-device", f"pcie-root-port,id=slot{number},bus={bus},chassis={number},slot={number}"),
        *("-netdev", f"hubport,id=net{number},hubid=1"),
        # Without ROM there is no network boot to be waited for.
        *("-device", f"{model},bus=slot{number},netdev=net{number},mac=52:54:00:6c:61:{number:02x},romfile="),
    )


def root_port(device: int) -> tuple[str, ...]:
    """An empty PCIe root port, which has ACS, at a device number of the first bus."""
    name = f"id=port{device},chassis={device},slot={device}"
    return ("-device", f"pcie-root-port,{name},bus=pcie.0,addr={device:#x}")


def _guarded(module: str, words: str) -> Profile:
    """A machine with a security module and its log."""
    return Profile(
        module,
        devices=nic(1, "igb", "pcie.0"),
        guest_devices="up:igb",
        command_line=f"lsm=capability,{module} {words} audit=1 audit_backlog_limit=8192",
        disk=SECURITY_DISK,
    )


#: Two sockets, each a NUMA node with half of the memory; a PCIe bus that hangs on the second
_TWO_NODES = (
    *("-object", "memory-backend-ram,id=memory0,size=1G", "-numa", "node,nodeid=0,cpus=0-1,memdev=memory0"),
    *("-object", "memory-backend-ram,id=memory1,size=1G", "-numa", "node,nodeid=1,cpus=2-3,memdev=memory1"),
    *("-device", "pxb-pcie,id=far,bus=pcie.0,bus_nr=128,numa_node=1"),
)

#: acpi-cpufreq keeps its state in the scratch registers of four serial ports; the first one is the console.
_SERIAL_PORTS = ("-serial", "null") * (len(acpi.SCRATCH_PORTS) - 1)

_ALL = (
    Profile(
        "baremetal",
        cpus=4,
        mebibytes=2048,
        table="pss",
        devices=(
            *_TWO_NODES,
            *_SERIAL_PORTS,
            *nic(1, "igb", "far"),
            *nic(2, "e1000e", "pcie.0"),
            *nic(3, "vmxnet3", "pcie.0"),
        ),
        guest_devices="up:igb up:e1000e rxe:e1000e netdevsim",
        cable=0,
    ),
    Profile("epp", cpu="EPYC-Rome-v1", table="cpc", command_line=f"amd_pstate=active {acpi.MEMMAP}"),
    Profile("boot", grub=True, devices=(*root_port(0x10), *root_port(0x11))),
    Profile("cloud"),
    # A second NIC of a hypervisor, which ignores what it has no command for, and one that negotiates pause.
    Profile(
        "virtual",
        devices=(*nic(1, "virtio-net-pci", "pcie.0"), *nic(2, "igb", "pcie.0")),
        guest_devices="up:igb",
    ),
    # What the nodes under test are reached through: a jump host, and the switch of a network.
    Profile("peer", mebibytes=512, devices=nic(9, "virtio-net-pci", "pcie.0"), cable=1),
    Profile("debian12", disk=OLDER_DISK),
    # Podman, Docker and Slurm; the RDMA device is on the second NUMA node.
    Profile(
        "runtimes",
        cpus=4,
        mebibytes=2048,
        devices=(*_TWO_NODES, *nic(1, "igb", "far")),
        guest_devices="up:igb rxe:igb",
        disk=RUNTIMES_DISK,
    ),
    # What -bios starts keeps no variables: the firmware takes the loader at the path for removable disks.
    Profile("uefi", grub=True, devices=("-bios", f"{UEFI_DISK.path}/{FIRMWARE}"), disk=UEFI_DISK),
    # NetworkManager, netplan and ifupdown beside systemd-networkd.
    Profile(
        "managers",
        devices=nic(1, "igb", "pcie.0"),
        guest_devices="up:igb netdevsim",
        disk=MANAGERS_DISK,
    ),
    # The same disk under either security module
    _guarded("selinux", "selinux=1 enforcing=1"),
    _guarded("apparmor", "apparmor=1"),
)

PROFILES = {profile.name: profile for profile in _ALL}

#: What `make lab` builds and `make test-lab` boots; the older kernel is there for who asks for it.
DEFAULT = ("baremetal", "epp", "boot", "cloud", "virtual", "peer")


#: What they do with LONG=1 as well
LONG = ("runtimes", "uefi", "managers", "selinux", "apparmor")


def named(name: str) -> Profile:
    if name not in PROFILES:
        raise LabError(f"no profile {name}; there are {', '.join(PROFILES)}")
    return PROFILES[name]
