# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that manage networks, as Debian ships them: what they are told of a NIC is named, and what is
declared holds when they restart, when a link goes down and up, and when a driver or device is reset.

igb has interrupts, queues and rings, and PCIe errors; netdevsim has priorities, and a reload by devlink.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine import units
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nics import owner_lines
from ansible_collections.mlnode.tuning.tests.system import link_files

from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

pytestmark = pytest.mark.long

DECLARED: dict[str, dict[str, Any]] = {
    "nic_ethtool": {
        "rules": [
            {"name": "fast", "nics": {"drivers": ["igb"]}, "rings": {"rx": 512}, "mtu": 1400},
            {"name": "sim", "nics": {"drivers": ["netdevsim"]}, "rings": {"rx": 64}, "mtu": 1400},
        ]
    },
    "irq_affinity": {
        "rules": [
            {"name": "fast", "nics": {"drivers": ["igb"]}, "strategy": "list", "cpus": "1", "xps": "1"},
        ]
    },
    "roce_qos": {"rules": [{"name": "sim", "nics": {"drivers": ["netdevsim"]}, "dscp": {26: 3}, "pfc": [3]}]},
}
STATE = "declared"


class Manager(NamedTuple):
    """Files with {igb}, {sim}, {mtu} and {ring}; the line of each value; commands of its own. again: for one
    that does not raise an interface again that has gone and come."""

    files: dict[str, str]
    lines: dict[str, str]
    start: str
    restart: str
    down: str
    up: str
    again: str = "true"


def _profile(nic: str, more: str = "") -> str:
    return (
        f"[connection]\nid={{{nic}}}\ntype=ethernet\ninterface-name={{{nic}}}\n"
        f"[ethernet]\nmtu={{mtu}}\n{more}[ipv4]\nmethod=disabled\n[ipv6]\nmethod=disabled\n"
    )


PROFILES = "/etc/NetworkManager/system-connections"
MANAGERS = {
    "networkd": Manager(
        {
            "/etc/systemd/network/05-lab.network": "[Match]\nName={igb} {sim}\n[Link]\nMTUBytes={mtu}\n"
            "[Network]\nLinkLocalAddressing=no\n",
            "/etc/systemd/network/05-lab.link": "[Match]\nDriver=igb\n[Link]\nRxBufferSize={ring}\n"
            "NamePolicy=keep kernel database onboard slot path\n",
        },
        {"mtu": "/etc/systemd/network/05-lab.network:4", "ring.rx": "/etc/systemd/network/05-lab.link:4"},
        start="networkctl reload",
        restart="systemctl restart systemd-networkd",
        down="networkctl down {igb}",
        up="networkctl up {igb}",
    ),
    "NetworkManager": Manager(
        {
            "/etc/NetworkManager/conf.d/lab.conf": "[keyfile]\nunmanaged-devices=mac:52:54:00:6c:61:00\n",
            f"{PROFILES}/igb.nmconnection": _profile("igb", "[ethtool]\nring-rx={ring}\n"),
            f"{PROFILES}/sim.nmconnection": _profile("sim"),
        },
        {"mtu": f"{PROFILES}/igb.nmconnection:6", "ring.rx": f"{PROFILES}/igb.nmconnection:8"},
        start="systemctl start NetworkManager",
        restart="systemctl restart NetworkManager",
        down="nmcli device disconnect {igb}",
        up="nmcli device connect {igb}",
    ),
    "ifupdown": Manager(
        {
            "/etc/network/interfaces": "source /etc/network/interfaces.d/*\n",
            "/etc/network/interfaces.d/lab": "auto {igb} {sim}\nallow-hotplug {igb} {sim}\n"
            "iface {igb} inet manual\n mtu {mtu}\n hardware-dma-ring-rx {ring}\n"
            "iface {sim} inet manual\n mtu {mtu}\n",
        },
        {"mtu": "/etc/network/interfaces.d/lab:4", "ring.rx": "/etc/network/interfaces.d/lab:5"},
        start="systemctl start networking",
        restart="systemctl restart networking",
        down="ifdown {igb}",
        up="ifup {igb}",
        again="ifdown --force {igb} {sim}; ifup {igb} {sim}",
    ),
    "netplan": Manager(
        {
            "/etc/netplan/10-lab.yaml": "network:\n  version: 2\n  ethernets:\n"
            "    {igb}:\n      mtu: {mtu}\n      link-local: []\n"
            "    {sim}:\n      mtu: {mtu}\n      link-local: []\n",
        },
        {"mtu": "/etc/netplan/10-lab.yaml:5, /run/systemd/network/10-netplan-{igb}.network:"},
        start="netplan apply",
        restart="netplan apply",
        down="networkctl down {igb}",
        up="networkctl up {igb}",
    ),
}

#: A shell command that ends well once the kernel has what is declared, as the kernel itself shows it
HOLDS = """
set -e
[ "$(cat /sys/class/net/{igb}/mtu) $(cat /sys/class/net/{sim}/mtu)" = "1400 1400" ]
ethtool -g {igb} | tail -n +7 | grep -q "^RX:.*\\b512$"
ethtool -g {sim} | tail -n +7 | grep -q "^RX:.*\\b64$"
dcb pfc show dev {sim} prio-pfc | grep -q 3:on
[ "$(cat /sys/class/net/{igb}/queues/tx-0/xps_cpus)" = 2 ]
queues=0
for irq in $(ls /sys/class/net/{igb}/device/msi_irqs); do
    for action in /proc/irq/$irq/*-[rt]x-*; do
        [ -d "$action" ] || continue
        queues=$((queues + 1))
        grep -qx 1 /proc/irq/$irq/smp_affinity_list
    done
done
[ $queues -gt 1 ]
"""


class Story:
    """The machine with everything declared, and its two NICs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.igb, self.sim = facts.nic(machine, "igb"), facts.nic(machine, "netdevsim")
        self.address = machine.out(f"basename $(readlink -f /sys/class/net/{self.igb}/device)")

    def text(self, words: str, **values: object) -> str:
        names = {"igb": self.igb, "sim": self.sim, **values}
        for name, value in names.items():
            words = words.replace(f"{{{name}}}", str(value))
        return words

    def tell(self, manager: Manager, mtu: int, ring: int) -> None:
        for path, text in manager.files.items():
            self.machine.write(self.text(path), self.text(text, mtu=mtu, ring=ring))
            self.machine.run(f"chmod 600 {path}" if path.endswith(("yaml", "nmconnection")) else "true")

    @property
    def starts(self) -> int:
        """How often the service of NICs was started."""
        lines = self.machine.out(
            "journalctl -b -o cat _PID=1 UNIT=mlnode-nic.service | grep -c ^Starting; true"
        )
        return int(lines)

    def until_it_holds(self, after: str) -> None:
        """Wait until the kernel has what is declared, report the seconds, and ask the check."""
        begun = time.monotonic()
        facts.until(
            lambda: self.machine.run(self.text(HOLDS), check=False).returncode == 0, after, seconds=600
        )
        print(f"{after}: {time.monotonic() - begun:.0f} s")
        facts.until(self.is_at_rest, f"after {after} the service of NICs ends", seconds=600)
        assert facts.wrong(self.machine) == {}, after

    def is_at_rest(self) -> bool:
        working = "systemctl list-units --state=activating --plain --no-legend 'mlnode*'"
        return self.machine.out(f"{working}; ls {units.NIC_FLAG} 2>/dev/null; true") == ""


@pytest.fixture(scope="module")
def story(managers_agent: Machine, collection: Collection) -> Story:
    machine = managers_agent
    for module, options in DECLARED.items():
        played = collection.task(module, machine, name=module, **options)
        assert played.status == 0, played.output[-3000:]
    made = Story(machine)
    facts.until(made.is_at_rest, "the queues that were declared are handled", seconds=600)
    machine.save(STATE)
    return made


@pytest.fixture(params=[*MANAGERS])
def manager(request: pytest.FixtureRequest, story: Story) -> Iterator[Manager]:
    chosen = MANAGERS[request.param]
    story.machine.load(STATE)
    story.tell(chosen, 1400, 512)
    story.machine.run(story.text(chosen.start), seconds=600)
    yield chosen
    story.machine.assert_no_unit_failed()


def test_what_is_declared_holds_through_all_that_a_manager_does(story: Story, manager: Manager) -> None:
    machine = story.machine
    story.until_it_holds("the start of the manager")
    before = story.starts
    for command in (manager.restart, manager.down, manager.up):
        machine.run(story.text(command), seconds=600)
    machine.run(f"echo 1 >/sys/bus/pci/devices/{story.address}/reset")
    story.until_it_holds("its restart, link down and up, and a reset of the function")
    assert story.starts == before
    machine.run(
        f"cd /sys/bus/pci/drivers/igb && echo {story.address} >unbind && echo {story.address} >bind; "
        "devlink dev reload netdevsim/netdevsim1"
    )
    machine.run(story.text(manager.again), seconds=600)
    story.until_it_holds("a new binding of igb and a reload of netdevsim")
    assert story.starts > before
    at_rest = story.starts
    # The same words are an agreement, and other ones are named with their line.
    story.tell(manager, 1300, 256)
    machine.run("netplan generate" if "netplan" in manager.start else "true")
    wrong = facts.wrong(machine)
    assert {*wrong} == {f"nic.fast.{key}" for key in manager.lines} | {"nic.sim.mtu"}
    for key, place in manager.lines.items():
        reason = wrong[f"nic.fast.{key}"]
        assert reason.startswith("overridden: ")
        assert story.text(place) in reason
    assert story.starts == at_rest


def test_the_link_file_that_is_named_is_the_one_that_udev_takes(story: Story) -> None:
    machine = story.machine
    machine.load(STATE)
    files = link_files.sets(story.igb, story.sim, machine.out(f"cat /sys/class/net/{story.igb}/address"))
    machine.write("/run/files.json", json.dumps(files))
    words = f"/usr/local/bin/mlnode udevadm {story.igb} {story.sim} </run/files.json"
    machine.write("/run/probe.py", link_files.SCRIPT.read_text())
    printed = machine.run(f"python3 /run/probe.py {words}", seconds=1200).stdout
    assert link_files.mistakes(files, printed) == []
    # Both are renamed, so that most names prove nothing.
    assert link_files.resolved(printed) > 15


def test_each_option_of_this_systemd_is_a_knob_or_is_none_of_ours(story: Story) -> None:
    options = story.machine.out("grep -aoE '\\bLink\\.[A-Za-z0-9-]+' /usr/bin/udevadm")
    names = {line.partition(".")[2] for line in options.splitlines() if line.startswith("Link.")}
    known = {name for name in names if owner_lines.file_of(owner_lines.Line("Link", name, "1", ""))}
    assert len(known) > 40
    assert names - known == {
        *("Description", "Alias", "Name", "NamePolicy", "AlternativeName", "AlternativeNamesPolicy"),
        *("MACAddress", "MACAddressPolicy", "Property", "ImportProperty", "UnsetProperty"),
        *("TransmitQueues", "ReceiveQueues", "GenericSegmentOffloadMaxBytes"),
        *("GenericSegmentOffloadMaxSegments", "UDPSegmentationOffload", "SR-IOVVirtualFunctions"),
        *("BitsPerSecond", "Duplex", "AutoNegotiation", "Advertise", "Port", "MDI"),
        *("WakeOnLan", "WakeOnLanPassword"),
    }


# The last test: QEMU restores no state over a port that has reported an error.
def test_a_nic_that_recovers_from_an_error_of_pcie_gets_its_values(story: Story) -> None:
    machine = story.machine
    machine.load(STATE)
    before = story.starts
    machine.run(
        f"ip link set {story.igb} up; ip link set {story.igb} mtu 1500; ethtool -G {story.igb} rx 256; "
        f"for irq in $(ls /sys/class/net/{story.igb}/device/msi_irqs); do "
        "echo 0 >/proc/irq/$irq/smp_affinity_list; done"
    )
    assert {"nic.fast.mtu", "nic.fast.ring.rx", "irq.fast"} <= {*facts.wrong(machine)}
    assert story.starts == before
    machine.pcie_error("slot1", "COMP_TIME")
    facts.until(lambda: "recovery successful" in machine.out("dmesg | tail -n 20"), "the recovery")
    facts.until(lambda: story.starts > before, "the event has started the service")
    story.until_it_holds("an error of PCIe")


# -- systemd's own answers -----------------------------------------------------------------
