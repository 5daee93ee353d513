# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a training fleet on a machine that really boots: one story, in the order of the file.

It is in the groups training and fabric at once, as in a fleet. A virtual machine with the same profile is in
test_bake.py and test_power.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import claims
from . import guest_facts as facts
from .born import Born
from .collection import Collection, Hosts, Played
from .fabric_node import Fabric
from .machine import Machine

OFFERED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control: "
DEBUG_COST = "/sys/kernel/debug/sched/migration_cost_ns"
SHARE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
#: Of the disk that the profile's rule for data sets means; 128 as the kernel starts it
READ_AHEAD = "/sys/block/vda/queue/read_ahead_kb"

#: A value that no other area sets (admin-guide/mm/ksm.rst); 20 as the kernel starts it
KSM = "/sys/kernel/mm/ksm/sleep_millisecs"

#: Where all interrupts may go that are not a NIC's
OTHER_IRQS = (
    "cd /proc/irq; for irq in [0-9]*; do ls -d /sys/class/net/*/device/msi_irqs/$irq "
    "/sys/class/net/*/device/../msi_irqs/$irq >/dev/null 2>&1 || "
    "echo $irq $(cat $irq/smp_affinity_list); done"
)

#: What CPUs may need to wake up, so that the test can tell it from the kernel's 0 (no limit)
LATENCY = 20

#: Packets of the second node's NIC, with all three ways to steer them; the masks are those of CPUs 2 and 3
STEERED = {"rps": "2-3", "xps": "auto", "rfs_entries": 4096}

#: igb hangs on the second node, which has two cores, and its rings have 4096 entries at most. Two receive
#: queues of 1024 entries with 8 KiB each are 16 MiB, and twice as many would be over 1 % of 2 GiB.
NIC = {"channels.combined": "2", "rings.rx": "1024", "rings.tx": "4096", "features.tx-tcp-segmentation": "on"}

#: The cost of a migration is in no profile; since Linux 5.13 it is in debugfs, with a path of its own.
SETTINGS = {
    **claims.WITH_MODULES,
    "kernel.sched_migration_cost_ns": 5000000,
    "vm.nr_hugepages": None,
    "vm.nr_hugepages@node0": 16,
    "vm.nr_hugepages@node1": 48,
}

#: Some carried by the drop-in, one by each of the ways that only the agent has
DEFAULTS = {
    "vm.swappiness": "1",
    "vm.max_map_count": "1048576",
    "kernel.numa_balancing": "0",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.core.somaxconn": "65535",
}

#: A service that would set governors, as far as systemd and the module know
RIVAL = "/etc/systemd/system/tlp.service"

#: Drift of each kind that can drift here: a machine without GPU and boot loader. Both limits are in the file
#: that is gone; memory is in that of the fabric, too.
DRIFT = {
    "vm.swappiness": "sysctl -w vm.swappiness=60",
    "net.ipv4.tcp_congestion_control": "sysctl -w net.ipv4.tcp_congestion_control=cubic",
    "thp.enabled": f"echo always >{THP}",
    "sysfs.kernel/mm/k*/sleep_millisecs": f"echo 20 >{KSM}",
    "kernel.sched_migration_cost_ns": f"echo 500000 >{DEBUG_COST}",
    "vm.nr_hugepages@node1": f"echo 0 >{SHARE.format(1)}",
    "service.tlp": f"printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >{RIVAL}; "
    "systemctl daemon-reload; systemctl start tlp",
    "module.rdma_ucm": "modprobe --remove rdma_ucm",
    "limits.systemd.nofile": "rm /etc/systemd/system.conf.d/zz-mlnode-node.conf",
    "cpu.governor": f"echo powersave >{facts.GOVERNOR.format(3)}",
    "nic.fabric.ring.rx": "ethtool -G {igb} rx 256",
    "nic.rails.mtu": "ip link set {rail} mtu 1500",
    "rail.rails.arp_ignore": "sysctl -w net.ipv4.conf.{rail}.arp_ignore=0",
    "qos.rails.pfc": "dcb pfc set dev {simulated} prio-pfc all:on",
    "irq.nics": "echo 0 >/proc/irq/{irq}/smp_affinity_list",
    "nccl.NCCL_IB_HCA": "sed -i '/^NCCL_IB_HCA=/d' /etc/nccl.conf",
}


class Story:
    """One machine, what it was at first, and what is declared on it."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        self.fabric = Fabric(machine)
        self.born = Born.of(machine)

    def play(self, name: str, *options: str, **variables: Any) -> Played:
        hosts = Hosts.of(self.machine, "training", "fabric")
        if name in ("site", "drift"):
            variables["node_sysctl"] = SETTINGS
            variables["node_sysfs"] = {"settings": {"/sys/kernel/mm/k*/sleep_millisecs": 40}}
            variables["node_cpu"] = {"max_latency_us": LATENCY}
            variables["node_irq"] = {"rules": {"nics": STEERED}}
            variables |= self.fabric.variables
        return self.collection.play(name, hosts, *options, **variables)

    def reported(self, playbook: str, *options: str) -> set[str]:
        """The settings that a playbook's report says are not as declared."""
        report = self.machine.folder / "report.json"
        played = self.play(playbook, *options, mlnode_report_json=str(report))
        assert (played.status == 0) == (playbook == "site"), "drift is a failure, and a look ahead is none"
        outliers = json.loads(report.read_text())["outliers"]
        return {one["key"] for one in outliers if one["kind"] != "rdma_check"}

    def drift(self) -> dict[str, str]:
        """Setting → the command that changes it under us."""
        names = {
            "igb": facts.nic(self.machine, "igb"),
            "rail": self.fabric.rail,
            "simulated": self.fabric.simulated,
            "irq": min(facts.queue_irqs(self.machine, "igb")),
        }
        return {key: command.format(**names) for key, command in DRIFT.items()}

    def assert_as_declared(self) -> None:
        """Asked of the kernel itself, value by value."""
        machine = self.machine
        expected = DEFAULTS | claims.WITH_MODULES
        assert {key: facts.sysctl(machine, key) for key in expected} == expected
        assert {"tcp_bbr", "sch_fq"} <= facts.loaded(machine)
        assert machine.read(DEBUG_COST) == "5000000"
        assert facts.chosen(machine, THP) == "madvise"
        assert machine.read(READ_AHEAD) == "4096"
        assert machine.read(KSM) == "40"
        self.fabric.assert_as_declared()
        assert [machine.read(SHARE.format(node)) for node in (0, 1)] == ["16", "48"]
        assert facts.governors(machine) == ["performance"] * 4
        assert self.nic() == NIC
        assert facts.astray(machine, "igb", {2, 3}) == {}
        self._assert_steered()

    def nic(self) -> dict[str, str]:
        """What ethtool prints of igb."""
        found = facts.nics(self.machine)[facts.nic(self.machine, "igb")]
        return {knob: found[knob] for knob in NIC}

    def nics_are_as_declared(self) -> bool:
        """igb's queues, and where their interrupts go."""
        return self.nic() == NIC and facts.astray(self.machine, "igb", {2, 3}) == {}

    def _assert_steered(self) -> None:
        """Idle states, and packets of igb's queues to the cores of its node: 2 and 3 are mask c."""
        machine, nic = self.machine, facts.nic(self.machine, "igb")
        assert (
            machine.out("cat /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us").split()
            == [str(LATENCY)] * 4
        )
        queues = f"/sys/class/net/{nic}/queues"
        assert set(machine.out(f"cat {queues}/rx-*/rps_cpus").split()) == {"c"}
        # Each of the two queues is for one core of its node and one of the other: 0 and 2 are mask 5.
        assert machine.out(f"cat {queues}/tx-*/xps_cpus").split() == ["5", "a"]
        assert {int(text) > 0 for text in machine.out(f"cat {queues}/rx-*/rps_flow_cnt").split()} == {True}
        assert machine.read("/proc/sys/net/core/rps_sock_flow_entries") == str(STEERED["rfs_entries"])


@pytest.fixture(scope="module")
def story(baremetal: Machine, collection: Collection) -> Story:
    return Story(baremetal, collection)


def test_site_makes_the_node_what_is_declared(story: Story) -> None:
    assert not {"tcp_bbr", "sch_fq"} & facts.loaded(story.machine), "else their loading proves nothing"
    # rdma-core's own rules load it when a device arrives.
    story.machine.run("modprobe --remove rdma_ucm")
    played = story.play("site")
    assert played.status == 0
    assert played.changed > 0
    story.assert_as_declared()


def test_a_second_run_changes_nothing_and_finds_no_drift(story: Story) -> None:
    assert story.play("site").changed == 0
    drift = story.play("drift")
    assert (drift.status, drift.changed) == (0, 0)


def test_bbr_and_fq_carry_traffic(story: Story) -> None:
    nic = facts.nic(story.machine, "virtio_net")
    story.machine.run(f"tc qdisc replace dev {nic} root fq")
    assert "qdisc fq " in story.machine.out(f"tc qdisc show dev {nic}")
    # The connection of this very question was made after the change.
    story.machine.hang_up()
    assert " bbr " in story.machine.out("ss --tcp --info --no-header state established")
    story.machine.run(f"tc qdisc del dev {nic} root")


def test_drift_of_every_kind_is_reported_alike_by_the_node_and_both_playbooks(story: Story) -> None:
    machine = story.machine
    # What site has changed of NICs makes the agent look at them twice, and mend what it finds.
    facts.until_at_rest(machine)
    commands = story.drift()
    machine.run(" && ".join(commands.values()))
    assert {*facts.wrong(machine)} == {*commands}
    assert story.reported("drift") == {*commands}
    assert story.reported("site", "--check", "--diff") == {*commands}
    assert {*facts.wrong(machine)} == {*commands}, "looking has changed something"
    assert story.play("site").changed > 0
    assert facts.wrong(machine) == {}
    story.assert_as_declared()
    machine.run(f"rm -f {RIVAL}; systemctl daemon-reload")


@pytest.mark.long
def test_interrupts_stay_when_queues_change_a_nic_arrives_and_irqbalance_runs(story: Story) -> None:
    machine = story.machine
    nic = facts.nic(machine, "igb")
    machine.run(f"ethtool -L {nic} combined 1 && ethtool -L {nic} combined 4")
    facts.until(story.nics_are_as_declared, "the service has seen to the new queues")
    seen = "test -e /run/udev/mlnode-nics"
    # Two looks of the service, ten seconds apart, on an emulated CPU that others use as well.
    facts.until(lambda: machine.run(seen, check=False).returncode != 0, "it is done")
    slot = machine.out(f"basename $(readlink -f /sys/class/net/{nic}/device)")
    drivers = "/sys/bus/pci/drivers/igb"
    machine.run(f"echo {slot} >{drivers}/unbind; echo {slot} >{drivers}/bind; udevadm settle")
    # As whoever configures the network does, at about the same time as the service takes its look.
    machine.run(f"ip link set {facts.nic(machine, 'igb')} up")
    facts.until(story.nics_are_as_declared, "the service has seen to the NIC")
    before, others = facts.queue_irqs(machine, "igb"), machine.out(OTHER_IRQS)
    machine.run("systemctl start irqbalance.service")
    # It looks every ten seconds, and has moved what it may by its second look.
    facts.until(lambda: machine.out(OTHER_IRQS) != others, "irqbalance moves what is not declared")
    assert facts.queue_irqs(machine, "igb") == before
    machine.run("systemctl stop irqbalance.service")


def test_a_reboot_brings_everything_back_without_ansible(story: Story) -> None:
    story.machine.reboot()
    assert story.machine.out("systemctl is-system-running") == "running"
    units = story.machine.out("systemctl is-active mlnode-apply.service mlnode-nic.path")
    assert units.split() == ["active", "active"]
    assert story.machine.out("journalctl -b --grep='ordering cycle' --quiet; true") == ""
    facts.until(lambda: facts.wrong(story.machine) == {}, "the agent has applied it")
    story.assert_as_declared()
    # The drop-in came before the NIC was raised, or its queue would be another one.
    assert "qdisc fq " in story.machine.out(f"tc qdisc show dev {facts.nic(story.machine, 'virtio_net')}")
    assert story.play("drift").status == 0


def test_revert_puts_everything_back_at_once(story: Story) -> None:
    assert story.play("revert").status == 0
    # Sockets that began with bbr, this SSH connection for one, keep its module until they are closed; NICs
    # that came up with fq keep sch_fq until the next boot, which the next test looks at.
    assert story.born.left(story.machine, apart_from=OFFERED) == []
    assert story.fabric.priorities() == {"pfc": ""}
    assert story.play("revert").changed == 0


@pytest.mark.long
def test_after_revert_and_reboot_the_machine_is_as_it_was_born(story: Story) -> None:
    story.machine.reboot()
    assert story.born.left(story.machine) == []
    assert not {"sch_fq", "tcp_bbr"} & set(facts.loaded(story.machine))
    assert story.machine.out("systemctl is-system-running") == "running"
