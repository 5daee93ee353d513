# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with NVIDIA's GPUs, whose nvidia-smi answers as the real one does."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ansible_collections.mlnode.tuning.tests.unit import nvidia_smi
from ansible_collections.mlnode.tuning.tests.unit.service_machine import ServiceMachine
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


class GpuMachine(ServiceMachine):
    """Simulated answers of the tools of GPUs.

    modes: address → Enabled, Disabled or [N/A]. ecc: address → its three columns. details: address → elements
    of its XML, None for a GPU that is lost. answer: what nvidia-smi says instead. hangs: whether it does.
    apps: the lines of its query of computing processes. imex: what nvidia-imex-ctl prints, None where it is
    not installed. log: what dmesg prints, None where it is refused.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.modes: dict[str, str] = {}
        self.ecc: dict[str, str] = {}
        self.details: dict[str, dict[str, str] | None] = {}
        self.imex: str | None = None
        self.apps = ""
        self.answer: Finished | None = None
        self.installed = True
        self.hangs = False
        self.log: str | None = "[    0.000000] Linux version 6.12.0\n"
        self.asked: list[tuple[str, ...]] = []

    @classmethod
    def of(cls, root: str, gpus: int, vendor: str = "0x10de") -> GpuMachine:
        machine = cls.debian(root)
        assert isinstance(machine, GpuMachine)
        machine.enable_agent()
        for number in range(gpus):
            machine.add(f"0000:{0x1B + number:02x}:00.0", vendor)
        if vendor == "0x10de":
            machine.put("/proc/driver/nvidia/version", VERSION)
        machine.put("/proc/uptime", "3600.00 900.00\n")
        return machine

    def add(self, address: str, vendor: str = "0x10de", driver: str = "nvidia") -> None:
        folder = f"/sys/devices/pci{address[:7]}/{address}"
        for name, text in (
            ("vendor", vendor),
            ("device", "0x2330"),
            ("class", "0x030200"),
            ("numa_node", "0"),
        ):
            self.put(f"{folder}/{name}", f"{text}\n")
        self.link(f"/sys/bus/pci/devices/{address}", f"../../../devices/pci{address[:7]}/{address}")
        self.put(f"/sys/bus/pci/drivers/{driver}/.keep", "")
        self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")
        self.modes[address] = "Disabled"
        self.details[address] = dict(nvidia_smi.WELL)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "dmesg":
            if self.log is None:
                return Finished(1, "", "dmesg: read kernel buffer failed: Operation not permitted\n")
            return Finished(0, self.log, "")
        if command[0] == "nvidia-imex-ctl":
            if self.imex is None:
                raise HostError("run", "nvidia-imex-ctl", errno.ENOENT)
            return Finished(0, self.imex, "")
        if command[0] != "nvidia-smi":
            return super().run(command, seconds)
        self.asked.append(tuple(command))
        if not self.installed:
            raise HostError("run", "nvidia-smi", errno.ENOENT)
        if self.hangs:
            raise HostError("run", "nvidia-smi", None, "no answer in 60 s")
        if self.answer is not None:
            return self.answer
        if command[1] == "-i":
            self.modes[command[2]] = "Enabled" if command[4] == "1" else "Disabled"
            return Finished(0, f"Enabled persistence mode for GPU 0000{command[2].upper()}.\nAll done.\n", "")
        if tuple(command[1:]) == ("-q", "-x"):
            here = {address: elements for address, elements in self.details.items() if elements is not None}
            return Finished(0, nvidia_smi.answer(here), "")
        if command[1].startswith("--query-compute-apps"):
            return Finished(0, self.apps, "")
        table = self.ecc if "ecc" in command[1] else self.modes
        lines = [
            f"{number}, 0000{address.upper()}, {text}" for number, (address, text) in enumerate(table.items())
        ]
        return Finished(0, "".join(f"{line}\n" for line in lines), "")
