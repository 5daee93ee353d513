# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs with data center bridging behind dcb(8) and mlnx_qos, which print what the real tools print, and RDMA
devices behind configfs.

Knows the formats by itself, so that a mistake in the library is none here.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.nic_machine import NicMachine
from mlnode.drivers.dcb import TOP, files, tools
from mlnode.drivers.dcb.device import Device
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

CONFIG = "/sys/kernel/config/rdma_cm"
_SHOWN = ("/dcb/", "/roce/", "/ethtool/")
_DCBX = ("host", "lld_managed", "cee", "ieee", "static")


class _RefusalError(Exception):
    """What the tool says before it ends with 1."""


@dataclass
class Bridge:
    """What a NIC and its driver keep. A group that is None is one that the driver does not have; without any
    the driver has no DCB at all.

    order: of apptrust; None where the driver has no such thing. single: a DSCP takes one priority, and
    another only once that is gone (ice). moves: PFC sizes the buffers anew. ignores: groups whose change is
    accepted without effect. refuses: group → the words of a refusal. prints: object → what is printed
    whatever there is. fails: object → the words of a look that fails. calls: the commands so far.
    """

    pfc: set[int] | None = field(default_factory=set)
    pfc_cap: int = 8
    ets_cap: int = 8
    ets: dict[str, list[Any]] | None = field(
        default_factory=lambda: {"prio-tc": [0] * 8, "tc-tsa": ["strict"] * 8, "tc-bw": [0] * 8}
    )
    apps: set[tuple[int, int]] | None = field(default_factory=set)
    buffer: dict[str, list[int]] | None = field(
        default_factory=lambda: {"prio-buffer": [0] * 8, "buffer-size": [262016, *[0] * 7]}
    )
    total: int = 262144
    dcbx: tuple[str, ...] = ("host", "ieee")
    order: list[str] | None = None
    single: bool = False
    moves: bool = False
    ignores: set[str] = field(default_factory=set)
    refuses: dict[str, str] = field(default_factory=dict)
    prints: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    calls: list[list[str]] = field(default_factory=list)

    @classmethod
    def bare(cls) -> Bridge:
        """Of a driver without dcbnl_ops."""
        return cls(pfc=None, ets=None, apps=None, buffer=None)

    @property
    def none(self) -> bool:
        return self.pfc is None and self.ets is None and self.apps is None and self.buffer is None

    def set(self, group: str, change: Callable[[], object]) -> None:
        if group in self.refuses:
            raise _RefusalError(self.refuses[group])
        if group not in self.ignores:
            change()

    # -- changes -------------------------------------------------------------------------

    def set_pfc(self, wanted: set[int]) -> None:
        def change() -> None:
            if wanted != self.pfc and self.moves and self.buffer:
                self.buffer["buffer-size"] = [65536, *[0] * 2, 131072, *[0] * 4]
            self.pfc = set(wanted)

        self.set("pfc", change)

    def add(self, pairs: Sequence[tuple[int, int]]) -> None:
        assert self.apps is not None
        for dscp, priority in pairs:
            if (dscp, priority) in self.apps:
                raise _RefusalError("Attribute write: File exists")
            if self.single and any(one == dscp for one, _priority in self.apps):
                raise _RefusalError("Attribute write: Invalid argument")
            self.set("app", lambda pair=(dscp, priority): self.apps.add(pair))

    def remove(self, pairs: Sequence[tuple[int, int]]) -> None:
        assert self.apps is not None
        for pair in pairs:
            if pair not in self.apps:
                raise _RefusalError("Attribute write: No such file or directory")
            self.set("app", lambda pair=pair: self.apps.discard(pair))

    # -- dcb -----------------------------------------------------------------------------

    def dcb(self, thing: str, verb: str, words: list[str], numeric: bool) -> str:
        if verb == "show" and thing in self.fails:
            raise _RefusalError(self.fails[thing])
        if verb == "show":
            return self.prints.get(thing, None) or self._show(thing, numeric)
        if self.none:
            raise _RefusalError("Attribute write: Operation not supported")
        return self._write(thing, verb, words)

    def _show(self, thing: str, numeric: bool) -> str:
        assert numeric, "names of DSCPs would be printed"
        if self.none:
            raise _RefusalError("Attribute read: Operation not supported")
        missing = {
            "pfc": self.pfc,
            "ets": self.ets,
            "app": self.apps,
            "buffer": self.buffer,
            "apptrust": self.order,
        }
        if thing in missing and missing[thing] is None:
            raise _RefusalError("Attribute not found: Success")
        document: dict[str, Any] = {
            "pfc": lambda: {
                "pfc_cap": self.pfc_cap,
                "macsec_bypass": False,
                "delay": 0,
                "prio_pfc": [number in (self.pfc or ()) for number in range(8)],
            },
            "ets": lambda: {
                "willing": False,
                "ets_cap": self.ets_cap,
                "cbs": False,
                "tc_bw": (self.ets or {})["tc-bw"],
                "pg_bw": [0] * 8,
                "tc_tsa": (self.ets or {})["tc-tsa"],
                "prio_tc": (self.ets or {})["prio-tc"],
                "reco_tc_bw": [0] * 8,
                "reco_tc_tsa": ["strict"] * 8,
                "reco_prio_tc": [0] * 8,
            },
            "app": lambda: (
                {"dscp_prio": [[*pair, " "] for pair in sorted(self.apps or ())]} if self.apps else {}
            ),
            "buffer": lambda: {
                "prio_buffer": (self.buffer or {})["prio-buffer"],
                "buffer_size": (self.buffer or {})["buffer-size"],
                "total_size": self.total,
            },
            "apptrust": lambda: {"order": self.order},
            "dcbx": lambda: {name: True for name in _DCBX if name in self.dcbx},
        }[thing]()
        return json.dumps(document, separators=(",", ":")) + "\n"

    def _write(self, thing: str, verb: str, words: list[str]) -> str:
        if thing == "pfc":
            assert words[0] == "prio-pfc"
            wanted = set(self.pfc or ())
            for key, value in (word.split(":") for word in words[1:]):
                for number in range(8) if key == "all" else [int(key)]:
                    (wanted.add if value == "on" else wanted.discard)(number)
            self.set_pfc(wanted)
        elif thing == "app":
            assert words[0] == "dscp-prio"
            pairs = [(int(one), int(two)) for one, two in (word.split(":") for word in words[1:])]
            {"add": self.add, "del": self.remove}[verb](pairs)
        elif thing == "apptrust":
            assert words[0] == "order"
            self.set(thing, lambda: setattr(self, "order", words[1:]))
        else:
            kept = {"ets": self.ets, "buffer": self.buffer}[thing]
            assert kept is not None
            self._arrays(thing, kept, words)
        return ""

    def _arrays(self, thing: str, kept: dict[str, list[Any]], words: list[str]) -> None:
        wanted = {name: list(values) for name, values in kept.items()}
        name = ""
        for word in words:
            if ":" not in word:
                name = word
                continue
            key, value = word.split(":")
            for number in range(8) if key == "all" else [int(key)]:
                wanted[name][number] = value if name == "tc-tsa" else int(value)
        if thing == "ets" and sum(wanted["tc-bw"]) != (100 if "ets" in wanted["tc-tsa"] else 0):
            raise _RefusalError(
                f"Bandwidth percentages in tc-bw sum to {sum(wanted['tc-bw'])}%, expected 100%"
            )
        self.set(thing, lambda: kept.update(wanted))

    # -- mlnx_qos ------------------------------------------------------------------------

    def mlnx_qos(self, words: list[str]) -> str:
        if self.none:
            raise _RefusalError("OSError: [Errno 95] Operation not supported")
        for option, value in zip(words[::2], words[1::2]):
            self._option(option, value)
        return self._pretty()

    def _option(self, option: str, value: str) -> None:
        values = value.split(",")
        if option == "--pfc":
            self.set_pfc({number for number, bit in enumerate(values) if bit == "1"})
        elif option == "--trust":
            if value == "pcp":
                self.remove(sorted(self.apps or ()))
            elif not self.apps:
                self.add([(dscp, dscp >> 3) for dscp in range(64)])
        elif option == "--dscp2prio":
            pair = (int(values[1]), int(values[2]))
            if values[0] == "set":  # of the last one to come
                self.remove([one for one in (self.apps or ()) if one[0] == pair[0]])
            {"set": self.add, "del": self.remove}[values[0]]([pair])
        else:
            table, name = {
                "--prio_tc": (self.ets, "prio-tc"),
                "--tsa": (self.ets, "tc-tsa"),
                "--tcbw": (self.ets, "tc-bw"),
                "--prio2buffer": (self.buffer, "prio-buffer"),
                "--buffer_size": (self.buffer, "buffer-size"),
            }[option]
            assert table is not None
            table[name] = values if name == "tc-tsa" else [int(one) for one in values]

    def _pretty(self) -> str:
        trusted = bool(self.apps)
        lines = ["DCBX mode: OS controlled" if "host" in self.dcbx else "DCBX mode: Firmware controlled"]
        lines.append(f"Priority trust state: {'dscp' if trusted else 'pcp'}")
        if trusted:
            lines.append("dscp2prio mapping:")
            for priority in range(8):
                text = "".join(
                    f"{dscp:02d}," for dscp, of in sorted(self.apps or (), reverse=True) if of == priority
                )
                while text:
                    lines.append(f"\tprio:{priority} dscp:{text[:24]}")
                    text = text[24:]
        lines.append("default priority:")
        if self.buffer:
            sizes = "".join(f"{size}," for size in self.buffer["buffer-size"])
            lines.append(f"Receive buffer size (bytes): {sizes}total_size={self.total}")
        else:
            lines.insert(0, "Buffers commands are not supported on your system")
        lines += ["Cable len: 7", "PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7"]
        bits = "".join(f"{int(number in (self.pfc or ()))}   " for number in range(8))
        lines.append(f"\tenabled     {bits}")
        if self.buffer:
            lines.append("\tbuffer      " + "".join(f"{number}   " for number in self.buffer["prio-buffer"]))
        ets = self.ets or {}
        for number in range(8):
            tsa = ets["tc-tsa"][number]
            share = f", bw: {ets['tc-bw'][number]}%" if tsa == "ets" else ""
            lines.append(f"tc: {number} ratelimit: unlimited, tsa: {tsa}{share}")
            lines += [f"\t priority:  {up}" for up in range(8) if ets["prio-tc"][up] == number]
        return "\n".join(lines) + "\n"


@dataclass
class Port:
    """What rdma_cm keeps of a port."""

    tos: int = 0
    mode: str = "RoCE v2"


class DcbMachine(NicMachine):
    """A node with such NICs and tools.

    bridges: by interface. cm: device → port → what configfs has of it. old: dcb knows no apptrust.
    """

    bridges: Mapping[str, Bridge]
    cm: Mapping[str, Mapping[int, Port]]
    old: bool = False

    def install(self, *names: str) -> None:
        """These tools, and no others."""
        for name in ("dcb", "mlnx_qos"):
            path = f"/usr/sbin/{name}"
            if os.path.lexists(self.root + path):
                self.remove(path)
            if name in names:
                self.put(path, "", 0o755)

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.mounts = {**self.mounts, TOP: lambda: files.Files(lambda _host, name: self.bridging(name))}

    def with_rdma_cm(self, **devices: Sequence[int]) -> None:
        """The module is loaded, and knows these devices with their ports."""
        os.makedirs(self.root + CONFIG, exist_ok=True)
        self.cm = {name: {port: Port() for port in ports} for name, ports in devices.items()}

    def bridging(self, name: str) -> Device:
        return tools.device(self, name)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] not in ("dcb", "mlnx_qos"):
            return super().run(command, seconds)
        words = list(command)
        nic = words[words.index("dev" if command[0] == "dcb" else "-i") + 1]
        bridge = self.bridges.get(nic) or Bridge.bare()
        bridge.calls.append(words)
        try:
            if command[0] == "dcb":
                return Finished(0, self._dcb(bridge, words[1:]), "")
            return Finished(0, bridge.mlnx_qos([word for word in words[3:] if word != "-a"]), "")
        except _RefusalError as error:
            # dcb ends its JSON, of which there is none, with a line end.
            return Finished(
                1, "\n" if command[0] == "dcb" else f"{error}\n", f"{error}\n" * (command[0] == "dcb")
            )

    def _dcb(self, bridge: Bridge, words: list[str]) -> str:
        flags = [word for word in words if word.startswith("-")]
        thing, verb, dev, _nic, *rest = [word for word in words if not word.startswith("-")]
        assert dev == "dev"
        if thing == "apptrust" and self.old:
            raise _RefusalError('Object "apptrust" is unknown')
        return bridge.dcb(thing, verb, rest, flags == ["-j", "-N"])

    # -- files ---------------------------------------------------------------------------

    def write_kernel(self, path: str, value: str) -> None:
        if path.startswith(_SHOWN[:2]):
            if path in self.fails:
                raise HostError(f"write {value!r} to", path, self.fails[path])
            self.writes.append((path, value))
            Host.write_kernel(self, path, value)
        elif path.startswith(CONFIG):
            device, port, name = self._cm_file(path)
            assert name == "default_roce_tos"
            self.cm[device][port].tos = int(value)
            self._show_cm(device)
        elif path.endswith("/traffic_class"):
            self.put(path, f"Global tclass={value}\n" if int(value) >= 0 else "")
        else:
            super().write_kernel(path, value)

    def blocked(self, path: str) -> str:
        return super().blocked(path) or (Host.blocked(self, path) if path.startswith(_SHOWN[:2]) else "")

    def make_folder(self, path: str) -> None:
        device = path.rpartition("/")[2]
        if device not in self.cm:
            raise HostError("make", path, errno.ENODEV)
        if os.path.isdir(self.root + path):
            raise HostError("make", path, errno.EEXIST)
        self._show_cm(device)

    def remove_folder_if_empty(self, path: str, may_stay: bool = False) -> None:
        if path.startswith(f"{CONFIG}/"):
            shutil.rmtree(self.root + path)
        else:
            super().remove_folder_if_empty(path, may_stay)

    def _show_cm(self, device: str) -> None:
        for port, kept in self.cm[device].items():
            self.put(f"{CONFIG}/{device}/ports/{port}/default_roce_tos", f"{kept.tos}\n")
            self.put(f"{CONFIG}/{device}/ports/{port}/default_roce_mode", f"{kept.mode}\n")

    def _cm_file(self, path: str) -> tuple[str, int, str]:
        device, _ports, port, name = path[len(CONFIG) + 1 :].split("/")
        return device, int(port), name
