# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with InfiniBand ports on which infiniband-diags runs, and says of a subnet what it would."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import HostError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.system import Finished

from ..fixtures.infiniband import Subnet
from .machine import Machine

TOOLS = ("sminfo", "ibnetdiscover", "iblinkinfo", "ibqueryerrors")


class SubnetMachine(Machine):
    """subnet: what is out there. says: tool → what it leaves instead. hangs, missing: tools that do."""

    def __init__(self, root: str, subnet: Subnet) -> None:
        super().__init__(root)
        for device, layer in {"mlx5_0": "InfiniBand", "mlx5_1": "Ethernet", "mlx5_4": "InfiniBand"}.items():
            port = f"/sys/devices/virtual/infiniband/{device}/ports/1"
            self.link(f"/sys/class/infiniband/{device}", f"../../devices/virtual/infiniband/{device}")
            self.put(f"{port}/link_layer", f"{layer}\n")
            self.put(f"{port}/state", "4: ACTIVE\n")
            self.put(f"{port}/rate", "400 Gb/sec (4X NDR)\n")
        self.subnet = subnet
        self.says: dict[str, Callable[[str], Finished]] = {}
        self.hangs: set[str] = set()
        self.missing: set[str] = set()
        self.commands: list[list[str]] = []
        self._texts: dict[str, tuple[Subnet, str]] = {}
        self.put("/dev/infiniband/umad0", "")

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        tool = command[0]
        if tool not in TOOLS:
            return super().run(command, seconds)
        self.commands.append([*command])
        if tool in self.missing:
            raise HostError("run", tool, errno.ENOENT)
        if tool in self.hangs:
            raise HostError("run", tool, None, f"no answer in {seconds:.0f} s")
        if tool not in self._texts or self._texts[tool][0] is not self.subnet:
            self._texts[tool] = self.subnet, getattr(self.subnet, tool)()
        text = self._texts[tool][1]
        rc = int(tool == "ibqueryerrors" and bool(self.subnet.counters))
        return self.says[tool](text) if tool in self.says else Finished(rc, text, "")

    def without_umad(self) -> None:
        os.unlink(self.root + "/dev/infiniband/umad0")
