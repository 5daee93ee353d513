# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small trees of /sys and /proc, as much of a machine as one test needs."""

from __future__ import annotations

import os
import pathlib

from mlnode.host.host import Host
from mlnode.model import cpulist
from mlnode.model.errors import HostError
from mlnode.topology import hardware

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
GEN5 = ("32.0 GT/s PCIe", 16)
GEN4 = ("16.0 GT/s PCIe", 16)
GPU, NET, VGA, BRIDGE = "0x030200", "0x020000", "0x030000", "0x060400"


class Refusing(Host):
    """A host on which some files answer with an error, or where a whole folder cannot be looked at."""

    def __init__(self, root: str, refused: dict[str, int]) -> None:
        super().__init__(root, hardware.MOUNTS)
        self._refused = refused

    def real(self, path: str, follow: bool = True) -> str:
        if path in self._refused:
            raise HostError("open", path, self._refused[path])
        return super().real(path, follow)


class Tree:
    """Writes what the kernel would show."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.host = Host(str(root), hardware.MOUNTS)
        self.put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n")

    def refusing(self, refused: dict[str, int]) -> Host:
        return Refusing(str(self.root), refused)

    def put(self, path: str, text: str | int) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"{text}\n".encode("utf-8", "surrogateescape"))

    def link(self, path: str, target: str) -> None:
        """Relative, as sysfs has them."""
        here = self.root / path.lstrip("/")
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(os.path.relpath(target, os.path.dirname(path)))

    def cpus(self, cores: str, packages: int = 1, online: str = "", **files: str) -> None:
        """cores: the threads of each core, such as `0,2 1,3`, divided evenly among the packages."""
        groups = [cpulist.parse(group) for group in cores.split()]
        present = cpulist.render(cpu for group in groups for cpu in group)
        awake = set(cpulist.parse(online or present))
        for name, text in {
            "possible": present,
            "present": present,
            "online": online or present,
            **files,
        }.items():
            self.put(f"{CPU}/{name}", text)
        for number, group in enumerate(groups):
            for cpu in awake.intersection(group):
                folder = f"{CPU}/cpu{cpu}/topology"
                self.put(f"{folder}/physical_package_id", number * packages // len(groups))
                self.put(f"{folder}/core_id", number)
                self.put(f"{folder}/thread_siblings_list", cpulist.render(awake.intersection(group)))

    def nodes(self, *cpus: str, memory: int = 65536000, far: int = 20) -> None:
        """One NUMA node for each list of CPUs."""
        self.put(f"{NODE}/online", cpulist.render(range(len(cpus))))
        for number, mine in enumerate(cpus):
            folder = f"{NODE}/node{number}"
            self.put(f"{folder}/cpulist", mine)
            self.put(
                f"{folder}/meminfo", f"Node {number} MemTotal:       {memory} kB\nNode {number} MemFree: 1 kB"
            )
            self.put(
                f"{folder}/distance", " ".join("10" if at == number else str(far) for at in range(len(cpus)))
            )

    def pci(
        self,
        path: str,
        kind: str,
        ids: str = "8086:0001",
        node: int | None = -1,
        driver: str = "",
        link: tuple[str, int] | None = None,
        most: tuple[str, int] | None = None,
        physfn: str = "",
    ) -> str:
        """A function below its bridges: `pci0000:15/0000:15:01.0/0000:16:00.0`. Returns its folder."""
        folder = f"/sys/devices/{path}"
        name = path.rpartition("/")[2]
        vendor, device = ids.split(":")
        for file, text in (("class", kind), ("vendor", f"0x{vendor}"), ("device", f"0x{device}")):
            self.put(f"{folder}/{file}", text)
        if node is not None:
            self.put(f"{folder}/numa_node", node)
        if link:
            speed, width = most or link
            self.put(f"{folder}/current_link_speed", link[0])
            self.put(f"{folder}/current_link_width", link[1])
            self.put(f"{folder}/max_link_speed", speed)
            self.put(f"{folder}/max_link_width", width)
        if driver:
            self.link(f"{folder}/driver", f"/sys/bus/pci/drivers/{driver}")
        if physfn:
            self.link(f"{folder}/physfn", f"{os.path.dirname(folder)}/{physfn}")
        self.link(f"/sys/bus/pci/devices/{name}", folder)
        return folder

    def net(
        self, name: str, device: str = "/sys/devices/virtual", queues: int = 1, **files: str | int
    ) -> str:
        """An interface on a device's folder. Returns its own."""
        folder = f"{device}/net/{name}"
        told = {"operstate": "up", "mtu": 1500, "address": "02:00:00:00:00:01", "dev_port": 0, **files}
        for file, text in told.items():
            self.put(f"{folder}/{file}", text)
        for number in range(queues):
            self.put(f"{folder}/queues/rx-{number}/rps_cpus", "0")
            self.put(f"{folder}/queues/tx-{number}/xps_cpus", "0")
        self.link(f"/sys/class/net/{name}", folder)
        return folder

    def rdma(self, name: str, device: str = "/sys/devices/virtual", ports: int = 1, **files: str) -> str:
        """An RDMA device on a device's folder. Returns its own."""
        folder = f"{device}/infiniband/{name}"
        for number in range(1, ports + 1):
            for file, text in (
                ("link_layer", "Ethernet"),
                ("state", "4: ACTIVE"),
                ("rate", "400 Gb/sec (4X NDR)"),
            ):
                self.put(f"{folder}/ports/{number}/{file}", text)
        for file, text in files.items():
            self.put(f"{folder}/{file}", text)
        self.link(f"/sys/class/infiniband/{name}", folder)
        return folder


def two_nodes(tree: Tree) -> Tree:
    """Two sockets of four cores, one NUMA node each: what most tests of devices stand on."""
    tree.cpus("0 1 2 3 4 5 6 7", packages=2)
    tree.nodes("0-3", "4-7")
    return tree


def rail(tree: Tree, bus: int, node: int, number: int, **gpu: tuple[str, int]) -> None:
    """A GPU and a NIC on one switch, as on an HGX board."""
    root = f"pci0000:{bus:02x}"
    switch = f"{root}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
    for part in (f"{root}/0000:{bus:02x}:01.0", switch):
        tree.pci(part, BRIDGE, node=node, link=GEN5)
    for slot in (0, 1):
        tree.pci(f"{switch}/0000:{bus + 2:02x}:{slot:02x}.0", BRIDGE, node=node, link=GEN5)
    tree.pci(
        f"{switch}/0000:{bus + 2:02x}:00.0/0000:{bus + 3:02x}:00.0",
        GPU,
        "10de:2330",
        node,
        "nvidia",
        gpu.get("link", GEN5),
        GEN5,
    )
    card = tree.pci(
        f"{switch}/0000:{bus + 2:02x}:01.0/0000:{bus + 4:02x}:00.0", NET, "15b3:1021", node, "mlx5_core", GEN5
    )
    tree.net(f"rail{number}", card, speed=400000)
    tree.rdma(f"mlx5_{number}", card)
