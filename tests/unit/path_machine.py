# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with paths to peers: ping, ip and getent answer as iputils 20221126, iproute2 and glibc print."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

HERE = "10.0.0.1"
ROUTER = "10.0.0.254"
NIC = "rail0"

_ANSWER = "{length} bytes from {peer}: icmp_seq=1 ttl=64 time=0.092 ms"
_FRAGMENT = f"From {ROUTER} icmp_seq=1 Frag needed and DF set (mtu = {{mtu}})"
_LOCAL = "ping: local error: message too long, mtu={mtu}\n"
_LOCAL6 = "ping: local error: message too long, mtu: {mtu}\n"


@dataclass(frozen=True)
class Path:
    """What becomes of the packets to one peer. mtu: what arrives without a report. router: the MTU that a
    router reports. learned: what the kernel knows of. above, report: a line for each packet above a size."""

    mtu: int = 65535
    router: int = 65535
    learned: int = 65535
    above: int = 65535
    report: str = ""


class PathMachine(Machine):
    """paths: address → its path, a good one if it is not there. finds: name → address. missing: programs.
    says: of a program, instead of its answer. sizes: of the IP packets that ping sent, by peer. lost: of
    each burst to a peer, how many are. bursts: to whom, and of how many packets."""

    def __init__(self, root: str, mtu: int = 9000) -> None:
        super().__init__(root)
        self.mtu = mtu
        self.put(f"/sys/class/net/{NIC}/mtu", f"{mtu}\n")
        self.paths: dict[str, Path] = {}
        self.finds: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.missing: set[str] = set()
        self.says: dict[str, Finished] = {}
        self.commands: list[list[str]] = []
        self.sizes: dict[str, list[int]] = {}
        self.lost: dict[str, list[int]] = {}
        self.bursts: list[tuple[str, int]] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "timeout":
            return self._burst([*command[4:]])
        program = command[0]
        answers = {"ping": self._ping, "ip": self._ip, "getent": self._getent}
        if program not in answers:
            return super().run(command, seconds)
        self.commands.append([*command])
        if program in self.missing:
            raise HostError("run", program, errno.ENOENT)
        return self.says.get(program) or answers[program](command)

    def _burst(self, command: Sequence[str]) -> Finished:
        peer, sent = command[-1], int(command[command.index("-c") + 1])
        self.bursts.append((peer, sent))
        header = 40 if ":" in peer else 20
        size = int(command[command.index("-s") + 1]) + header + 8
        lost = self.lost[peer].pop(0) if self.lost.get(peer) else 0
        lost = sent if size > self.paths.get(peer, Path()).mtu else lost
        return Finished(0, f"{sent} packets transmitted, {sent - lost} received, x% packet loss\n", "")

    def _getent(self, command: Sequence[str]) -> Finished:
        address = self.finds.get(command[-1])
        if not address:
            return Finished(2, "", "")
        return Finished(0, f"{address:<15} STREAM {command[-1]}\n{address:<15} DGRAM  \n", "")

    def _ip(self, command: Sequence[str]) -> Finished:
        address = command[4]
        route = {"dst": address, "dev": NIC, "prefsrc": "fd00::1" if ":" in address else HERE, "flags": []}
        if address in self.kinds:
            route = {"type": self.kinds[address], **route}
        return Finished(0, json.dumps([route]), "")

    def _ping(self, command: Sequence[str]) -> Finished:
        peer = command[-1]
        header = 40 if ":" in peer else 20
        size = int(command[command.index("-s") + 1]) + header + 8
        self.sizes.setdefault(peer, []).append(size)
        path = self.paths.get(peer, Path())
        lines, error = self._fate(peer, path, size, header)
        received = int(" bytes from " in lines)
        total = f"1 packets transmitted, {received} received, {100 * (1 - received)}% packet loss, time 0ms"
        out = f"PING {peer} ({peer}) {size - header - 8}({size}) bytes of data.\n{lines}\n\n"
        return Finished(1 - received, f"{out}--- {peer} ping statistics ---\n{total}\n", error)

    def _fate(self, peer: str, path: Path, size: int, header: int) -> tuple[str, str]:
        own = min(self.mtu, path.learned)
        if size > own:
            return "", (_LOCAL6 if header == 40 else _LOCAL).format(mtu=own)
        if size > path.above:
            return path.report, ""
        if size > path.router:
            return _FRAGMENT.format(mtu=path.router), ""
        if size > path.mtu:
            return "", ""
        return _ANSWER.format(length=size - header, peer=peer), ""
