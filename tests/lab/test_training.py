# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profile training on machines that really boot: one story per machine, in the order of the file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from . import claims
from . import guest_facts as facts
from .born import Born
from .collection import Collection
from .machine import Machine

OFFERED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control: "
DEBUG_COST = "/sys/kernel/debug/sched/migration_cost_ns"
SHARE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
#: Of the disk that the profile's rule for data sets means; 128 as the kernel starts it
READ_AHEAD = "/sys/block/vda/queue/read_ahead_kb"

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

#: Some carried by the drop-in, one by each of the ways that only the agent has
DEFAULTS = {
    "vm.swappiness": "1",
    "vm.max_map_count": "1048576",
    "kernel.numa_balancing": "0",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.core.somaxconn": "65535",
}


class Story:
    """One machine, what it was at first, and what is declared on it."""

    def __init__(self, machine: Machine, collection: Collection) -> None:
        self.machine = machine
        self.collection = collection
        self.born = Born.of(machine)
        self.two_nodes = machine.read("/sys/devices/system/node/online") == "0-1"
        # The last is in no profile; since Linux 5.13 it is in debugfs, with a path of its own.
        self.settings: dict[str, Any] = {**claims.WITH_MODULES, "kernel.sched_migration_cost_ns": 5000000}
        if self.two_nodes:
            self.settings |= {
                "vm.nr_hugepages": None,
                "vm.nr_hugepages@node0": 16,
                "vm.nr_hugepages@node1": 48,
            }

    def play(self, name: str) -> Any:
        variables: dict[str, Any] = {}
        if name in ("site", "drift"):
            variables["node_sysctl"] = self.settings
        if name in ("site", "drift") and self.two_nodes:
            variables["node_cpu"] = {"max_latency_us": LATENCY}
            variables["node_irq"] = {"rules": {"nics": STEERED}}
        return self.collection.play(name, self.machine, **variables)

    def assert_as_declared(self) -> None:
        """Asked of the kernel itself, value by value."""
        machine = self.machine
        expected = DEFAULTS | claims.WITH_MODULES
        if not self.two_nodes:
            del expected["kernel.numa_balancing"]
        assert {key: facts.sysctl(machine, key) for key in expected} == expected
        assert {"tcp_bbr", "sch_fq"} <= facts.loaded(machine)
        assert machine.read(DEBUG_COST) == "5000000"
        assert facts.chosen(machine, THP) == "madvise"
        assert machine.read(READ_AHEAD) == "4096"
        if self.two_nodes:
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


@pytest.fixture(scope="module", params=["baremetal", "cloud"])
def story(request: pytest.FixtureRequest, collection: Collection) -> Story:
    return Story(request.getfixturevalue(request.param), collection)


def test_site_makes_the_node_what_is_declared(story: Story) -> None:
    assert not {"tcp_bbr", "sch_fq"} & facts.loaded(story.machine), "else their loading proves nothing"
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


def test_drift_by_hand_is_found_named_and_mended(story: Story) -> None:
    machine = story.machine
    # What site has changed of NICs makes the agent look at them twice, and mend what it finds.
    working = "systemctl list-units --state=activating --plain --no-legend 'mlnode*'"
    facts.until(lambda: machine.out(working) == "", "the agent has seen to the NICs")
    machine.run("sysctl -w vm.swappiness=60 net.ipv4.tcp_congestion_control=cubic")
    machine.write(THP, "always")
    machine.write(DEBUG_COST, "500000")
    named = [
        "vm.swappiness",
        "net.ipv4.tcp_congestion_control",
        "thp.enabled",
        "kernel.sched_migration_cost_ns",
    ]
    if story.two_nodes:
        machine.write(SHARE.format(1), "0")
        machine.write(facts.GOVERNOR.format(3), "powersave")
        machine.run(f"ethtool -G {facts.nic(machine, 'igb')} rx 256")
        machine.write(f"/proc/irq/{min(facts.queue_irqs(machine, 'igb'))}/smp_affinity_list", "0")
        named += ["vm.nr_hugepages@node1", "cpu.governor", "nic.fabric.ring.rx", "irq.nics"]
    drift = story.play("drift")
    assert drift.status != 0
    assert sorted(re.findall(r"^ *- '?(\S+): drifted", drift.output, re.MULTILINE)) == sorted(named)
    assert story.play("site").changed > 0
    story.assert_as_declared()


def test_interrupts_stay_when_queues_change_a_nic_arrives_and_irqbalance_runs(story: Story) -> None:
    machine = story.machine
    if not story.two_nodes:
        governor = next(row for row in facts.check(machine)["settings"] if row["key"] == "cpu.governor")
        assert (governor["status"], "cpufreq" in governor["reason"]) == ("unsupported", True)
        return
    nic = facts.nic(machine, "igb")
    machine.run(f"ethtool -L {nic} combined 1 && ethtool -L {nic} combined 4")
    facts.until(story.nics_are_as_declared, "the service has seen to the new queues")
    seen = "test -e /run/mlnode-nics"
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
    assert facts.wrong(story.machine) == {}
    story.assert_as_declared()
    # The drop-in came before the NIC was raised, or its queue would be another one.
    assert "qdisc fq " in story.machine.out(f"tc qdisc show dev {facts.nic(story.machine, 'virtio_net')}")
    assert story.play("drift").status == 0
    assert story.play("site").changed == 0


def test_revert_puts_everything_back_at_once(story: Story) -> None:
    assert story.play("revert").status == 0
    # Sockets that began with bbr, this SSH connection for one, keep its module until they are closed; NICs
    # that came up with fq keep sch_fq until the next boot, which the next test looks at.
    assert story.born.left(story.machine, apart_from=OFFERED) == []
    assert story.play("revert").changed == 0


def test_after_revert_and_reboot_the_machine_is_as_it_was_born(story: Story) -> None:
    story.machine.reboot()
    assert story.born.left(story.machine) == []
    assert not {"sch_fq", "tcp_bbr"} & set(facts.loaded(story.machine))
    assert story.machine.out("systemctl is-system-running") == "running"
