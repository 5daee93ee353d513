# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with AMD's GPUs: files of amdgpu and of its compute driver, as the kernel's sources write them.

Layouts of gpu_metrics: kgd_pp_interface.h. Values as an idle MI300X has them. Written from sources and
documentation only.
"""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

MI300X = "0x74a1"
KFD = "/sys/class/kfd/kfd"
PCI = "/sys/bus/pci/devices"
#: amdgpu_ras.c: ras_block_string
BLOCKS = ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl")
REASONS = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
CYCLES = 1_000_000


#: Seven of eight links lead to other GPUs
_SEVEN = (1,) * 7 + (0,)


def residencies(minor: int = 7, cycles: int = CYCLES, links: Sequence[int] = _SEVEN, **slowed: int) -> bytes:
    """gpu_metrics of version 1.6, 1.7 or 1.8. slowed: reason → cycles."""
    size, at = {6: (1100, 32), 7: (1200, 40), 8: (3872, 40)}[minor]
    table = bytearray(size)
    struct.pack_into("<HBB", table, 0, size, 1, minor)
    struct.pack_into("<6I", table, at, cycles, *(slowed.get(name, 0) for name in REASONS))
    struct.pack_into("<2H", table, at + 32, 16, 32)
    if minor > 6:
        struct.pack_into("<8H", table, 264, *links)
    return bytes(table)


def status(bits: int) -> bytes:
    """gpu_metrics of version 1.3, as a MI250 has it."""
    table = bytearray(120)
    struct.pack_into("<HBB", table, 0, len(table), 1, 3)
    struct.pack_into("<Q", table, 112, bits)
    return bytes(table)


def without_reasons() -> bytes:
    """gpu_metrics of version 1.5, in which the driver writes no throttling."""
    table = bytearray(300)
    struct.pack_into("<HBB", table, 0, len(table), 1, 5)
    return bytes(table)


def listed(cycles: int = CYCLES, links: Sequence[int] = _SEVEN, **slowed: int) -> bytes:
    """gpu_metrics of version 1.9: a list of fields."""
    fields = [
        (0, 2, (45,)),  # a temperature, 16 bits
        (9, 6, (cycles,)),
        *((10 + at, 6, (slowed.get(name, 0),)) for at, name in enumerate(REASONS)),
        (18, 2, (16,)),
        (31, 2, tuple(links)),
    ]
    body = b""
    for number, kind, values in fields:
        body += struct.pack("<Q", kind << 20 | number << 10 | len(values))
        body += struct.pack(f"<{len(values)}{ {2: 'H', 6: 'Q'}[kind] }", *values)
    return struct.pack("<HBBi", 8 + len(body), 1, 9, len(fields)) + body


class AmdMachine(GpuMachine):
    """smi: command of amd-smi → its answer; None where it is not installed."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.smi: Mapping[str, Any] | None = None
        self.tables: dict[str, list[bytes]] = {}

    @classmethod
    def with_gpus(cls, root: str, gpus: int = 2) -> AmdMachine:
        machine = cls.of(root, 0, "0x1002")
        assert isinstance(machine, AmdMachine)
        machine.put("/sys/module/amdgpu/version", "6.12.12\n")
        machine.put(f"{KFD}/topology/nodes/0/gpu_id", "0\n")
        for number in range(gpus):
            machine.gpu(number, gpus)
        return machine

    def gpu(self, number: int, gpus: int) -> None:
        address = f"0000:{0x1B + number:02x}:00.0"
        self.add(address, "0x1002", "amdgpu")
        for name, text in self._files(number, gpus).items():
            self.put(f"{PCI}/{address}/{name}", f"{text}\n")
        self.put(f"{PCI}/{address}/gpu_metrics", residencies(links=(1,) * (gpus - 1) + (0,) * (9 - gpus)))
        folder = f"{KFD}/topology/nodes/{number + 1}"
        self.put(f"{folder}/gpu_id", f"{1000 + number}\n")
        place = (0x1B + number) << 8
        self.put(f"{folder}/properties", f"simd_count 1216\nlocation_id {place}\ndomain 0\n")

    def _files(self, number: int, gpus: int) -> dict[str, str]:
        links = " ".join("00" if other == number else "01" for other in range(gpus))
        return {
            "device": MI300X,
            "class": "0x120000",
            f"drm/card{number + 1}/dev": f"226:{number + 1}",
            "power/control": "on",
            "current_compute_partition": "SPX",
            "current_memory_partition": "NPS1",
            "vbios_version": "113-M3000100-102",
            "fw_version/mec_fw_version": "0x000000af",
            "fw_version/vce_fw_version": "0x00000000",
            "hwmon/hwmon5/power1_cap": "750000000",
            "hwmon/hwmon5/power1_cap_default": "750000000",
            "ras/features": "feature mask: 0x5fff",
            **{f"ras/{name}_err_count": "ue: 0\nce: 0\nde: 0" for name in BLOCKS},
            "ras/gpu_vram_bad_pages": "",
            "xgmi_device_id": str(7000 + number),
            "xgmi_num_links": f"{links} ",
            "xgmi_hive_info/xgmi_hive_id": "4711",
            **{f"xgmi_hive_info/node{other + 1}/xgmi_device_id": str(7000 + other) for other in range(gpus)},
        }

    def read_bytes(self, path: str) -> bytes:
        """tables: path → contents of the next reads, each once."""
        if self.tables.get(path):
            return self.tables[path].pop(0)
        return super().read_bytes(path)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "amd-smi":
            return super().run(command, seconds)
        self.asked.append(tuple(command))
        if self.smi is None:
            raise HostError("run", "amd-smi", errno.ENOENT)
        answer = self.smi[command[1]]
        return answer if isinstance(answer, Finished) else Finished(0, json.dumps(answer), "")
