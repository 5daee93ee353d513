# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs of several drivers for RoCE, each as a small kernel behind files: what it reads back, refuses, changes
by itself and forgets. eth2 and eth3 are the fabric; eth4 is virtio with the default route.

Knows the formats by itself, from the drivers' sources, so that a mistake in the library is none here.
"""

from __future__ import annotations

import errno
import os
import pathlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Function, Nic, Rdma, Vectors
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Machine as Hardware
from ansible_collections.mlnode.tuning.tests.fixtures.parts import ETHERNET, GEN5_X16, mac
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic as Interface
from ansible_collections.mlnode.tuning.tests.unit.nicctl import Card, Nicctl
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    ETH2,
    ETH3,
    HARDWARE,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import virtio
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import QosNode
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

NICS = {"eth2": ETH2, "eth3": ETH3}

BNXT_CONFIG, IRDMA_CONFIG = "/sys/kernel/config/bnxt_re", "/sys/kernel/config/irdma"
DEBUG = "/sys/kernel/debug"


def hardware(driver: str, ident: str, names: str) -> Hardware:
    """The machine of irq/node.py with other cards. names: of their RDMA devices, with {}."""
    cards = [
        Function(
            address,
            ident,
            ETHERNET,
            driver,
            link=GEN5_X16,
            vectors=Vectors(tuple((f"{nic}-TxRx-{queue}",) for queue in range(2))),
            nics=(Nic(nic, mac(number), speed=400000),),
            rdma=(Rdma(names.format(number), "Ethernet", "400 Gb/sec (4X NDR)", f"0200:0:0:{number}", nic),),
        )
        for number, (nic, address) in enumerate(NICS.items())
    ]
    roots = [replace(root, functions=(card,)) for root, card in zip(HARDWARE.roots[1:], cards)]
    return replace(HARDWARE, roots=(HARDWARE.roots[0], *roots))


class RoceNode(QosNode):
    """What all of them have: DCB through dcb(8), pause through ethtool, and configfs of rdma_cm."""

    DRIVER, IDENT, DEVICE = "", "", ""

    @classmethod
    def made(cls, folder: pathlib.Path) -> RoceNode:
        build.build(hardware(cls.DRIVER, cls.IDENT, cls.DEVICE), str(folder))
        node = cls(str(folder))
        node.nics = {"eth2": Interface(cls.DRIVER), "eth3": Interface(cls.DRIVER), "eth4": virtio()}
        node.bridges = {"eth2": cls.bridging_of(), "eth3": cls.bridging_of(), "eth4": Bridge.bare()}
        node.carry("eth4")
        node.enable_agent()
        node.put("/run/.keep", "")
        node.put("/var/lib/.keep", "")
        node.install("dcb")
        node.with_rdma_cm(**{cls.DEVICE.format(number): [1] for number in range(2)})
        for name in NICS:
            node.put(f"/sys/class/net/{name}/carrier", "1\n")
        node.load()
        return node

    @staticmethod
    def bridging_of() -> Bridge:
        return Bridge(buffer=None)

    def load(self) -> None:
        """The RDMA driver is loaded, with its defaults."""

    def kept(self) -> dict[str, str]:
        """State of the hardware that no file shows."""
        return {}


# -- Broadcom, with its own driver -------------------------------------------------------------


@dataclass
class Congestion:
    """Of one bnxt_re device: values that are staged, and those of the hardware. table: DSCP → priority in the
    firmware. owned: a service profile. plain: an older driver, whose `apply` names no files."""

    staged: dict[str, int] = field(
        default_factory=lambda: {
            "ecn_enable": 1,
            "ecn_marking": 1,
            "roce_dscp": 26,
            "roce_prio": 3,
            "cnp_dscp": 48,
            "cnp_prio": 7,
        }
    )
    hardware: dict[str, int] = field(default_factory=dict)
    mask: set[str] = field(default_factory=set)
    table: dict[int, int] = field(default_factory=lambda: {26: 3, 48: 7})
    owned: bool = False
    plain: bool = False
    allowed: frozenset[int] = frozenset({48})

    def __post_init__(self) -> None:
        self.hardware = dict(self.staged)

    def store(self, name: str, text: str) -> None:
        value = int(text, 16)  # sscanf("%x")
        if name == "apply":
            if value == 1:
                self.apply()
            return
        if name.endswith("_prio") and self.owned:
            raise OSError(errno.EINVAL, "")
        if name.endswith("_dscp") and (value > 63 or (self.owned and value not in self.allowed)):
            raise OSError(errno.EINVAL, "")
        if name == "ecn_marking" and value > 2:
            raise OSError(errno.EINVAL, "")
        self.staged[name] = value & 7 if name.endswith("_prio") else value & 0xFF
        self.mask.add(name)

    def apply(self) -> None:
        if not self.mask:
            return
        if not self.owned:
            self.table = {}
            if not self.staged["ecn_enable"]:
                self.mask -= {"cnp_prio", "cnp_dscp"}
                self.staged.update(cnp_prio=0, cnp_dscp=0)
            pairs = (("roce_dscp", "roce_prio"), ("cnp_dscp", "cnp_prio"))
            if self.mask & {"roce_dscp", "cnp_dscp"}:
                self.table = {
                    self.staged[dscp]: self.staged[prio] for dscp, prio in pairs if {dscp, prio} & self.mask
                }
        self.hardware.update({name: self.staged[name] for name in self.mask})
        if not self.staged["ecn_enable"] and not self.owned:
            self.hardware.update(cnp_prio=0, cnp_dscp=0)
        self.mask = set()

    def shown(self) -> str:
        now = self.hardware
        lines = [
            f"ecn status (ecn_enable)\t\t\t\t\t: {'Enabled' if now['ecn_enable'] else 'Disabled'}",
            f"ecn marking (ecn_marking)\t\t\t\t: {('Not-ECT', 'ECT(1)', 'ECT(0)')[now['ecn_marking']]}",
            "congestion control mode (cc_mode)\t\t\t: DCQCN-P",
            f"roce prio (roce_prio)\t\t\t\t\t: {now['roce_prio']}",
            f"roce dscp (roce_dscp)\t\t\t\t\t: {now['roce_dscp']}",
        ]
        if now["ecn_enable"]:
            lines += [
                f"cnp prio (cnp_prio)\t\t\t\t\t: {now['cnp_prio']}",
                f"cnp dscp (cnp_dscp)\t\t\t\t\t: {now['cnp_dscp']}",
            ]
        text = "".join(f"{line}\n" for line in lines)
        return re.sub(r" \(\w+\)", "", text) if self.plain else text


class BnxtNode(RoceNode):
    """Broadcom's driver package: bnxt_re/configfs.c."""

    DRIVER, IDENT, DEVICE = "bnxt_en", "14e4:1760", "bnxt_re{}"
    congestion: dict[str, Congestion]

    def load(self) -> None:
        self.congestion = {self.DEVICE.format(number): Congestion() for number in range(2)}
        os.makedirs(self.root + BNXT_CONFIG, exist_ok=True)
        self.profiles(False)

    def profiles(self, owned: bool) -> None:
        for name, congestion in self.congestion.items():
            congestion.owned = owned
            text = (
                f"bnxt_re debug info:\n\tcmdq_full_dbg_cnt : 0\n\tfw_service_prof_type_sup : {int(owned)}\n"
            )
            self.put(f"{DEBUG}/bnxt_re/{name}/info", text)

    def _show(self, device: str) -> None:
        congestion = self.congestion[device]
        cc = f"{BNXT_CONFIG}/{device}/ports/1/cc"
        for name, value in congestion.staged.items():
            self.put(f"{cc}/{name}", f"{value:#x}\n" if value else "0\n")
        self.put(f"{cc}/apply", congestion.shown())

    def make_folder(self, path: str) -> None:
        if not path.startswith(f"{BNXT_CONFIG}/"):
            super().make_folder(path)
            return
        device = path.rpartition("/")[2]
        if device not in self.congestion:
            raise HostError("make", path, errno.ENODEV)
        self._show(device)

    def remove_folder_if_empty(self, path: str, may_stay: bool = False) -> None:
        if path.startswith(f"{BNXT_CONFIG}/"):
            shutil.rmtree(self.root + path)
        else:
            super().remove_folder_if_empty(path, may_stay)

    def write_kernel(self, path: str, value: str) -> None:
        if not path.startswith(f"{BNXT_CONFIG}/"):
            super().write_kernel(path, value)
            return
        device, _ports, _port, _cc, name = path[len(BNXT_CONFIG) + 1 :].split("/")
        try:
            self.congestion[device].store(name, value)
        except OSError as error:
            raise HostError(f"write {value!r} to", path, error.errno) from error
        self._show(device)

    def kept(self) -> dict[str, str]:
        return {name: repr(one.hardware) for name, one in self.congestion.items()}


class BnxtKernelNode(RoceNode):
    """The kernel's own bnxt_re, with cc_config: drivers/infiniband/hw/bnxt_re/debugfs.c."""

    DRIVER, IDENT, DEVICE = "bnxt_en", "14e4:1760", "bnxt_re{}"

    def load(self) -> None:
        for address in NICS.values():
            for name, value in (("enable_cc", 1), ("tos_ecn", 1), ("alt_vlan_dscp", 48), ("alt_vlan_pcp", 7)):
                self.put(self.file(address, name), f"{value}\n")

    @staticmethod
    def file(address: str, name: str) -> str:
        return f"{DEBUG}/bnxt_re/{address}/cc_config/{name}"


# -- Intel -------------------------------------------------------------------------------------


class IrdmaNode(RoceNode):
    """Intel's driver package: irdma/configfs.c. kernels: the kernel's own driver, without that folder."""

    DRIVER, IDENT, DEVICE = "ice", "8086:1592", "rocep{}"
    dcqcn: dict[str, int]

    def load(self) -> None:
        self.dcqcn = {self.DEVICE.format(number): 0 for number in range(2)}
        os.makedirs(self.root + IRDMA_CONFIG, exist_ok=True)

    def kernels(self) -> None:
        os.rmdir(self.root + IRDMA_CONFIG)

    def make_folder(self, path: str) -> None:
        if path.startswith(f"{IRDMA_CONFIG}/"):
            self.put(f"{path}/roce_dcqcn_enable", f"{self.dcqcn[path.rpartition('/')[2]]}\n")
        else:
            super().make_folder(path)

    def remove_folder_if_empty(self, path: str, may_stay: bool = False) -> None:
        if path.startswith(f"{IRDMA_CONFIG}/"):
            shutil.rmtree(self.root + path)
        else:
            super().remove_folder_if_empty(path, may_stay)

    def kept(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.dcqcn.items()}

    def write_kernel(self, path: str, value: str) -> None:
        if path.startswith(f"{IRDMA_CONFIG}/"):
            self.dcqcn[path.split("/")[5]] = int(value)
            self.put(path, f"{value}\n")
        else:
            super().write_kernel(path, value)


# -- AMD ---------------------------------------------------------------------------------------


class IonicNode(RoceNode):
    """The driver has no dcbnl; nicctl prints what AMD's documentation shows."""

    DRIVER, IDENT, DEVICE = "ionic", "1dd8:100c", "ionic_{}"
    tool: Nicctl

    @staticmethod
    def bridging_of() -> Bridge:
        return Bridge.bare()

    @property
    def cards(self) -> dict[str, Card]:
        return self.tool.cards

    @property
    def calls(self) -> list[list[str]]:
        return self.tool.calls

    def load(self) -> None:
        self.tool = Nicctl({f"ionic_{number}": f"0000:{number + 3}6:00.0" for number in range(2)})
        self.put("/usr/sbin/nicctl", "", 0o755)
        self._pauses()

    def _pauses(self) -> None:
        """ethtool shows the flags, of either type (pensando/ionic/ionic_ethtool.c)."""
        for number, name in enumerate(NICS):
            ways = self.cards[f"ionic_{number}"].ways
            self.nics[name].pause = {"autoneg": 0, "rx": int(ways["rx"]), "tx": int(ways["tx"])}

    def write_kernel(self, path: str, value: str) -> None:
        super().write_kernel(path, value)
        if path.startswith("/ethtool/") and "/pause/" in path:
            nic = path.split("/")[2]
            card = self.cards[f"ionic_{[*NICS].index(nic)}"]
            card.pause = "LINK"
            now = self.nics[nic].pause or {}
            card.ways = {"rx": bool(now["rx"]), "tx": bool(now["tx"])}

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "nicctl":
            return super().run(command, seconds)
        done = self.tool.run(command[1:])
        self._pauses()
        return done

    def kept(self) -> dict[str, str]:
        return {name: repr(card) for name, card in self.cards.items()}


#: Name → node
NODES: dict[str, type[RoceNode]] = {
    "bnxt": BnxtNode,
    "bnxt, kernel": BnxtKernelNode,
    "irdma": IrdmaNode,
    "ionic": IonicNode,
}
