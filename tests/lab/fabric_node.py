# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine in a RoCE fabric: what is declared on it besides the profile, and what has to be so then.

Its RoCE device is Soft-RoCE over e1000e, and the NIC that has priorities is netdevsim: what one real NIC has,
two devices have here.
"""

from __future__ import annotations

import re
from typing import Any

from . import guest_facts as facts
from .machine import Machine

RAIL = """\
[Match]
Driver=e1000e

[Network]
Address=10.8.0.1/24
LinkLocalAddressing=no
"""

#: Between the usual 1500 and 9000, and enough for RDMA's 4096
MTU = 4200

TOS = "/sys/kernel/config/rdma_cm/rxe0"
#: What dcb prints of netdevsim as declared
PRIORITIES = {"pfc": "3", "26": "3", "48": "6"}


class Fabric:
    """The machine with an address on its rail."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.write("/etc/systemd/network/20-rail.network", RAIL)
        machine.run("networkctl reload")
        self.rail = facts.nic(machine, "e1000e")
        facts.until(
            lambda: "10.8.0.1" in machine.out(f"ip address show {self.rail}"), "the rail has an address"
        )
        self.simulated = facts.nic(machine, "netdevsim")

    @property
    def variables(self) -> dict[str, Any]:
        """Soft-RoCE makes e1000e the rail that the profile's rules are for, as its interface is on the port;
        what has priorities is no rail, and named."""
        simulated = {"names": [self.simulated], "rails": None, "link_layer": None}
        lacking = dict.fromkeys(("ecn", "cnp", "rdma_cm_tos", "traffic_class"))
        # e1000e takes `pause off` and ignores it as long as it negotiates, which would be an error.
        connections = {"name": "connections", "nics": {"rdma": ["rxe0"]}, "rdma_cm_tos": 106}
        return {
            "fabric_qos_preset": "nvidia",
            "fabric_nic": {
                "rules": {
                    "rails": {"mtu": MTU},
                    "simulated": {"name": "simulated", "nics": {"names": [self.simulated]}, "mtu": MTU},
                }
            },
            "fabric_qos": {"rules": {"rails": {"nics": simulated, **lacking}, "connections": connections}},
            # QEMU's e1000e tells an interface of 1000 Mb/s, and Soft-RoCE a rate of its own.
            "fabric_expect": {"devices": {"rxe0": {"netdev": self.rail, "netdev_mtu": MTU, "mtu": 4096}}},
        }

    def priorities(self) -> dict[str, str]:
        """What dcb(8) itself prints."""
        on = re.findall(r"(\d):on", self.machine.out(f"dcb pfc show dev {self.simulated} prio-pfc"))
        shown = self.machine.out(f"dcb -N app show dev {self.simulated} dscp-prio")
        return {"pfc": ",".join(on), **dict(re.findall(r"(\d+):(\d)", shown))}

    def assert_as_declared(self) -> None:
        """Asked of the kernel itself."""
        machine = self.machine
        assert self.priorities().items() >= PRIORITIES.items()
        assert facts.nics(machine)[self.simulated]["pause.rx"] == "off"
        assert {"ib_uverbs", "rdma_ucm"} <= facts.loaded(machine)
        conf = f"net.ipv4.conf.{self.rail}".replace(".", "/")
        found = [
            machine.read(f"/proc/sys/{conf}/{name}") for name in ("arp_ignore", "arp_announce", "rp_filter")
        ]
        assert found == ["1", "2", "2"]
        mtus = [machine.read(f"/sys/class/net/{nic}/mtu") for nic in (self.rail, self.simulated)]
        assert mtus == [str(MTU)] * 2
        for family in ("ipv4", "ipv6"):
            assert facts.sysctl(machine, f"net.{family}.neigh.default.gc_thresh3") == "32768"
        variables = machine.read("/etc/nccl.conf").splitlines()
        assert "NCCL_IB_HCA==rxe0:1" in variables
        # The class of RoCE means nothing where the only rail has no priorities.
        assert "NCCL_IB_TC" not in machine.read("/etc/nccl.conf")
        machine.run(f"mkdir {TOS}")
        assert machine.read(f"{TOS}/ports/1/default_roce_tos") == "106"
        machine.run(f"rmdir {TOS}")
