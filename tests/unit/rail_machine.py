# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with IPv4 addresses, rules and routes behind ip(8), which prints what the real one prints.

Knows the formats by itself, so that a mistake in the library is none here.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import HostError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.system import Finished
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import NicMachine

CONF = "/proc/sys/net/ipv4/conf"
KNOBS = ("arp_ignore", "arp_announce", "rp_filter")

#: What every kernel begins with
_RULES = [
    {"priority": 0, "src": "all", "table": "255"},
    {"priority": 32766, "src": "all", "table": "254"},
    {"priority": 32767, "src": "all", "table": "253"},
]


class _RefusalError(Exception):
    """What the tool says before it ends with 2."""


class RailMachine(NicMachine):
    """refuses: begin of a command → the words of a refusal. ignores: begins of commands that do nothing.
    prints: what of `addr`, `rule` and `route` → what is printed whatever there is. missing: ip is not there.
    calls: the commands that change something."""

    def wire(self) -> None:
        """No addresses yet, and the usual rules."""
        self.addresses: dict[str, list[dict[str, Any]]] = {}
        self.rules: list[dict[str, Any]] = [dict(rule) for rule in _RULES]
        self.routes: list[dict[str, Any]] = []
        self.refuses: dict[str, str] = {}
        self.idle: set[str] = set()
        self.prints: dict[str, str] = {}
        self.calls: list[str] = []
        self.missing = False
        for name in ("all", "default"):
            self.knobs(name)

    # -- arranging -----------------------------------------------------------------------

    def knobs(self, name: str, **values: int) -> None:
        for knob in KNOBS:
            self.put(f"{CONF}/{name}/{knob}", f"{values.get(knob, 0)}\n")

    def address(self, name: str, *addresses: str, up: bool = True) -> None:
        """The interface has these, and no others, and the kernel what follows from them."""
        self.put(f"/sys/class/net/{name}/flags", "0x1003\n" if up else "0x1002\n")
        self.routes = [route for route in self.routes if route["dev"] != name]
        self.addresses[name] = []
        for text in addresses:
            own = ipaddress.ip_interface(text)
            self.addresses[name].append(
                {"family": "inet", "local": str(own.ip), "prefixlen": own.network.prefixlen, "scope": "0"}
            )
            if up:
                self.routes.append(
                    {
                        "dst": str(own.network),
                        "dev": name,
                        "protocol": "2",
                        "scope": "253",
                        "prefsrc": str(own.ip),
                        "flags": [],
                    }
                )

    def ours(self) -> list[str]:
        """What carries our number, in words."""
        rules = [
            f"{rule['priority']}: from {rule['src']} lookup {rule['table']}"
            for rule in self.rules
            if rule.get("protocol") == "109"
        ]
        routes = [
            f"{route['dst']} via {route.get('gateway', '-')} dev {route['dev']} table {route['table']}"
            for route in self.routes
            if route["protocol"] == "109"
        ]
        return sorted([*rules, *routes])

    # -- ip ------------------------------------------------------------------------------

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "ip":
            return super().run(command, seconds)
        if self.missing:
            raise HostError("run", "ip", 2)
        words = [word for word in command[1:] if not word.startswith("-")]
        flags = [word for word in command[1:] if word.startswith("-")]
        text = " ".join(words)
        for begin, said in self.refuses.items():
            if text.startswith(begin):
                return Finished(2, "", f"{said}\n")
        if words[1] == "show":
            assert flags == ["-j", "-N", "-4"], "names would be printed, or another family"
            return Finished(0, self.prints.get(words[0]) or self._show(words) + "\n", "")
        assert flags == ["-4"]
        self.calls.append(text)
        if any(text.startswith(begin) for begin in self.idle):
            return Finished(0, "", "")
        try:
            given = dict(zip(words[3::2], words[4::2])) if words[0] == "route" else None
            if given is None:
                self._rule(words[1], dict(zip(words[2::2], words[3::2])))
            else:
                self._route(words[1], words[2], given)
        except _RefusalError as error:
            return Finished(2, "", f"{error}\n")
        return Finished(0, "", "")

    def _show(self, words: Sequence[str]) -> str:
        if words[0] == "addr":
            return json.dumps(
                [
                    {"ifindex": number, "ifname": name, "flags": ["UP"], "addr_info": found}
                    for number, (name, found) in enumerate(self.addresses.items(), 2)
                ]
            )
        if words[0] == "rule":
            return json.dumps(sorted(self.rules, key=lambda rule: int(rule["priority"])))
        assert words == ["route", "show", "table", "all"]
        return json.dumps(self.routes)

    def _rule(self, verb: str, given: dict[str, str]) -> None:
        assert {*given} == {"from", "lookup", "priority", "protocol"}
        rule = {
            "priority": int(given["priority"]),
            "src": given["from"],
            "table": given["lookup"],
            "protocol": given["protocol"],
        }
        if verb == "add":
            if rule in self.rules:
                raise _RefusalError("RTNETLINK answers: File exists")
            self.rules.append(rule)
            return
        if rule not in self.rules:
            raise _RefusalError("RTNETLINK answers: No such file or directory")
        self.rules.remove(rule)

    def _route(self, verb: str, network: str, given: dict[str, str]) -> None:
        assert {*given} - {"via"} == {"dev", "table", "protocol"}
        same = [one for one in self.routes if (one.get("table"), one["dst"]) == (given["table"], network)]
        if verb == "del":
            if not same or same[0].get("gateway") != given.get("via") or same[0]["dev"] != given["dev"]:
                raise _RefusalError("RTNETLINK answers: No such process")
            self.routes.remove(same[0])
            return
        if same:
            raise _RefusalError("RTNETLINK answers: File exists")
        if not int(self.now(f"/sys/class/net/{given['dev']}/flags"), 16) & 1:
            raise _RefusalError("Error: Device for nexthop is not up.")
        route: dict[str, Any] = {"dst": network, "dev": given["dev"], "table": given["table"]}
        route.update({"protocol": given["protocol"], "flags": []})
        if "via" not in given:
            self.routes.append({**route, "scope": "253"})
            return
        near = [one["dst"] for one in self.routes if one["dev"] == given["dev"] and "gateway" not in one]
        if not any(ipaddress.ip_address(given["via"]) in ipaddress.ip_network(one) for one in near):
            raise _RefusalError("Error: Nexthop has invalid gateway.")
        self.routes.append({**route, "gateway": given["via"]})

    # -- files ---------------------------------------------------------------------------

    def write_kernel(self, path: str, value: str) -> None:
        if not path.startswith("/rail/"):
            super().write_kernel(path, value)
            return
        if path in self.fails:
            raise HostError(f"write {value!r} to", path, self.fails[path])
        self.writes.append((path, value))
        Host.write_kernel(self, path, value)

    def blocked(self, path: str) -> str:
        return super().blocked(path) or (Host.blocked(self, path) if path.startswith("/rail/") else "")
