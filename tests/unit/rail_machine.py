# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with IP behind ip(8), which prints what the real one prints, also over a captured tree.

Knows the formats by itself, so that a mistake in the library is none here.
"""

from __future__ import annotations

import ipaddress
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.nic_machine import NicMachine
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

CONF = "/proc/sys/net/ipv4/conf"
KNOBS = ("arp_ignore", "arp_announce", "rp_filter")


class Ip:
    """addresses: interface → address/length, in the order of the kernel's routes. down: those not raised.
    rules: address → the interface to which a rule of its own leads. vrfs: interface → its VRF. prints: `addr`
    or `route` → what is printed whatever there is. missing: ip is not there."""

    def __init__(self) -> None:
        self.addresses: dict[str, Sequence[str]] = {}
        self.down: set[str] = set()
        self.rules: dict[str, str] = {}
        self.vrfs: dict[str, str] = {}
        self.prints: dict[str, str] = {}
        self.missing = False

    @classmethod
    def of_gids(cls, root: str) -> Ip:
        """As a captured tree has it: each interface with the address of its GID, and a subnet of its own."""
        made = cls()
        for entry in sorted(pathlib.Path(root, "sys/class/infiniband").glob("*/ports/*/gids/*")):
            mapped = ipaddress.IPv6Address(entry.read_text().strip() or "::").ipv4_mapped
            name = entry.parents[1] / "gid_attrs/ndevs" / entry.name
            if mapped and name.exists():
                made.addresses[name.read_text().strip()] = [f"{mapped}/24"]
        return made

    def run(self, command: Sequence[str]) -> Finished:
        if self.missing:
            raise HostError("run", "ip", 2)
        assert command[:2] == ["ip", "-j"], "names for people"
        words = [word for word in command[2:] if word != "-d"]
        if words[0] in self.prints:
            return Finished(0, self.prints[words[0]], "")
        if words == ["addr", "show"]:
            assert "-d" in command, "VRFs are not told without it"
            return Finished(0, json.dumps([self._shown(name) for name in self.addresses]), "")
        return self._route(words)

    def _shown(self, name: str) -> dict[str, Any]:
        own = [ipaddress.ip_interface(text) for text in self.addresses[name]]
        shown: dict[str, Any] = {"ifname": name, "flags": ["BROADCAST"] if name in self.down else ["UP"]}
        if name in self.vrfs:
            shown.update(master=self.vrfs[name], linkinfo={"info_slave_kind": "vrf"})
        shown["addr_info"] = [
            {
                "family": "inet6" if one.version == 6 else "inet",
                "local": str(one.ip),
                "prefixlen": one.network.prefixlen,
                "scope": "link" if one.ip.is_link_local else "global",
            }
            for one in own
        ]
        return shown

    def _route(self, words: Sequence[str]) -> Finished:
        assert (words[:2], words[3]) == (["route", "get"], "from")
        to, source, vrf = words[2], words[4], "".join(words[6:])
        assert words[5:6] == (["vrf"] if vrf else [])
        reached = [
            name
            for name, own in self.addresses.items()
            for text in own
            if name not in self.down
            and self.vrfs.get(name, "") == vrf
            and ipaddress.ip_address(to) in ipaddress.ip_interface(text).network
        ]
        if not any(text.startswith(f"{to}/") for own in self.addresses.values() for text in own) and reached:
            name = self.rules.get(source, reached[0])
            return Finished(0, json.dumps([{"dst": to, "from": source, "dev": name, "flags": []}]), "")
        return Finished(2, "", "RTNETLINK answers: Network is unreachable\n")


class CapturedWithIp(Host):
    """A captured tree whose routes are asked for, too."""

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "ip":
            return super().run(command, seconds)
        return Ip.of_gids(self.root).run(command)


class RailMachine(NicMachine):
    """ip: what the tool shows."""

    def wire(self) -> None:
        """No addresses yet."""
        self.ip = Ip()
        for name in ("all", "default"):
            self.knobs(name)

    def knobs(self, name: str, **values: int) -> None:
        for knob in KNOBS:
            self.put(f"{CONF}/{name}/{knob}", f"{values.get(knob, 0)}\n")

    def address(self, name: str, *addresses: str) -> None:
        """The interface has these, and no others."""
        self.ip.addresses[name] = addresses

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        return self.ip.run(command) if command[0] == "ip" else super().run(command, seconds)
