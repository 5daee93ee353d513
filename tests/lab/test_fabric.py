# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in the groups training and fabric at once.

Its RoCE device is Soft-RoCE over e1000e, and the NIC that has priorities is netdevsim: what one real NIC has,
two devices have here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from . import guest_facts as facts
from .born import Born
from .collection import Collection, Hosts, Played
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

PORT = "/sys/class/infiniband/rxe0/ports/1"
TOS = "/sys/kernel/config/rdma_cm/rxe0"
DECLARED = "/etc/mlnode/declared.d/fabric.json"

#: A service that would set governors, as far as systemd and the module know
RIVAL = "/etc/systemd/system/tlp.service"

#: Drift of each kind that can drift here: a machine without GPU and boot loader
DRIFT = {
    "service.tlp": f"printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >{RIVAL}; "
    "systemctl daemon-reload; systemctl start tlp",
    "module.rdma_ucm": "modprobe --remove rdma_ucm",
    "thp.enabled": "echo always >/sys/kernel/mm/transparent_hugepage/enabled",
    "vm.swappiness": "sysctl -w vm.swappiness=60",
    "limits.systemd.nofile": "rm /etc/systemd/system.conf.d/zz-mlnode-node.conf",
    "cpu.governor": "echo powersave >/sys/devices/system/cpu/cpufreq/policy3/scaling_governor",
    "nic.fabric.ring.rx": "ethtool -G {igb} rx 256",
    "nic.rails.mtu": "ip link set {rail} mtu 1500",
    "rail.rails.arp_ignore": "sysctl -w net.ipv4.conf.{rail}.arp_ignore=0",
    "qos.rails.pfc": "dcb pfc set dev {simulated} prio-pfc all:on",
    "irq.nics": "echo 0 >/proc/irq/{irq}/smp_affinity_list",
    "nccl.NCCL_IB_HCA": "sed -i '/^NCCL_IB_HCA=/d' /etc/nccl.conf",
}

#: What dcb prints of netdevsim as declared
PRIORITIES = {"pfc": "3", "26": "3", "48": "6"}


class Fabric:
    """The node, and what is declared on it besides the profiles."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        machine.write("/etc/systemd/network/20-rail.network", RAIL)
        machine.run("networkctl reload")
        self.rail = facts.nic(machine, "e1000e")
        facts.until(
            lambda: "10.8.0.1" in machine.out(f"ip address show {self.rail}"), "the rail has an address"
        )
        self.simulated = facts.nic(machine, "netdevsim")
        self.born = Born.of(machine)

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

    def play(self, name: str, **variables: Any) -> Played:
        hosts = Hosts.of(self.machine, "training", "fabric")
        return self.collection.play(name, hosts, **{**self.variables, **variables})

    def check(self, **expect: Any) -> dict[str, Any]:
        """Name → verdict and what was found, of the checks of rxe0's port."""
        played = self.collection.task(
            "rdma_check", self.machine, expect={"devices": {"rxe0": expect}}, fail_on="never"
        )
        assert played.status == 0
        return {one["name"]: one for one in played.result["checks"] if one["target"].startswith("rxe0")}

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


@pytest.fixture(scope="module")
def fabric(baremetal: Machine, collection: Collection) -> Fabric:
    return Fabric(baremetal, collection)


# -- what the port says --------------------------------------------------------------------


def test_a_port_that_is_up_passes(fabric: Fabric) -> None:
    found = fabric.check(netdev=fabric.rail, gid_type="RoCE v2")
    assert {
        name: found[name]["verdict"] for name in ("inventory", "state", "phys_state", "gid", "netdev")
    } == (dict.fromkeys(("inventory", "state", "phys_state", "gid", "netdev"), "pass"))
    assert found["state"]["found"] == fabric.machine.read(f"{PORT}/state") == "4: ACTIVE"


def test_what_software_does_not_have_is_no_pass(fabric: Fabric) -> None:
    found = fabric.check()
    assert {found[name]["verdict"] for name in ("slot", "degradation", "aer") if name in found} == {"skip"}
    assert all(one["found"] for one in found.values() if one["verdict"] == "skip")


def test_a_gid_of_another_type_fails(fabric: Fabric) -> None:
    gid = fabric.check(gid_type="IB/RoCE v1")["gid"]
    assert gid["verdict"] == "fail"
    assert gid["advice"]


def test_a_port_that_is_down_fails_with_its_state(fabric: Fabric) -> None:
    fabric.machine.run(f"ip link set {fabric.rail} down")
    found = fabric.check()
    fabric.machine.run(f"ip link set {fabric.rail} up")
    assert (found["state"]["verdict"], found["state"]["found"]) == ("fail", "1: DOWN")
    assert found["phys_state"]["verdict"] == "fail"
    facts.until(lambda: fabric.machine.read(f"{PORT}/state") == "4: ACTIVE", "the port is up again")


def test_a_device_that_is_not_there_fails(fabric: Fabric) -> None:
    played = fabric.collection.task("rdma_check", fabric.machine, expect={"devices": {"rxe7": {}}})
    assert played.status != 0
    assert "rxe7: inventory fail" in played.result["msg"]


# -- the role ------------------------------------------------------------------------------


def test_a_node_of_another_fabric_is_refused_before_it_is_changed(fabric: Fabric) -> None:
    played = fabric.collection.play(
        "site", Hosts.of(fabric.machine, "fabric"), **{**fabric.variables, "fabric_type": "infiniband"}
    )
    assert played.status != 0
    words = " ".join(played.output.split())
    assert "fabric_type is infiniband, and this node has RDMA ports of Ethernet only" in words
    assert fabric.machine.run(f"test -e {DECLARED}", check=False).returncode != 0


def test_one_play_makes_it_a_training_node_in_the_fabric(fabric: Fabric) -> None:
    # rdma-core's own rules load it when a device arrives, and that would prove nothing.
    fabric.machine.run("modprobe --remove rdma_ucm")
    played = fabric.play("site")
    assert played.status == 0
    fabric.assert_as_declared()
    assert facts.sysctl(fabric.machine, "vm.swappiness") == "1"
    assert facts.wrong(fabric.machine) == {}


def test_a_second_run_changes_nothing_and_finds_no_drift(fabric: Fabric) -> None:
    again = fabric.play("site")
    assert (again.status, again.changed) == (0, 0)
    assert fabric.play("drift").status == 0


def told(fabric: Fabric, playbook: str, *options: str) -> set[str]:
    """The settings that a playbook's report says are not as declared."""
    report = fabric.machine.folder / "report.json"
    hosts = Hosts.of(fabric.machine, "training", "fabric")
    variables = {**fabric.variables, "mlnode_report_json": str(report)}
    fabric.collection.play(playbook, hosts, *options, **variables)
    outliers = json.loads(report.read_text())["outliers"]
    return {one["key"] for one in outliers if one["kind"] != "rdma_check"}


def test_drift_of_every_kind_is_told_alike_by_the_node_and_by_both_playbooks(fabric: Fabric) -> None:
    machine = fabric.machine
    names = {
        "igb": facts.nic(machine, "igb"),
        "rail": fabric.rail,
        "simulated": fabric.simulated,
        "irq": min(facts.queue_irqs(machine, "igb")),
    }
    for command in DRIFT.values():
        machine.run(command.format(**names))
    expected = {*DRIFT}
    # Both limits are in the file that is gone; memory is in that of the fabric, too.
    assert {*facts.wrong(machine)} == expected
    assert told(fabric, "drift") == expected
    assert told(fabric, "site", "--check", "--diff") == expected
    assert {*facts.wrong(machine)} == expected, "looking has changed something"
    assert fabric.play("site").changed > 0
    assert facts.wrong(machine) == {}
    fabric.assert_as_declared()
    machine.run(f"rm {RIVAL}; systemctl daemon-reload")


def test_a_reboot_brings_it_back_without_ansible(fabric: Fabric) -> None:
    fabric.machine.reboot()
    facts.until(lambda: facts.wrong(fabric.machine) == {}, "the agent has applied it")
    fabric.assert_as_declared()
    assert fabric.play("site").changed == 0


def test_a_revert_puts_all_of_it_back(fabric: Fabric) -> None:
    machine = fabric.machine
    assert fabric.play("revert").status == 0
    assert fabric.priorities() == {"pfc": ""}
    machine.reboot()
    assert fabric.born.left(machine) == []
    assert fabric.priorities() == {"pfc": ""}
