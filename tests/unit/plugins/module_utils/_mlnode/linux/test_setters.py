# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of networkd and udev that set a kernel file, and the rows that name them."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import causes
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.modules.kind import kind as modules
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.linux import networkd, setters, udev_rules
from mlnode.model.setting import Status

FILTER = "/proc/sys/net/ipv4/conf/eth0/rp_filter"
KEY = "net.ipv4.conf.eth0.rp_filter"
NETWORK = "/etc/systemd/network"
RULES = "/etc/udev/rules.d"
AHEAD = "/sys/block/sda/queue/read_ahead_kb"


@pytest.fixture
def node(machine: Machine) -> Machine:
    machine.put("/run/systemd/netif/state", "OPER_STATE=routable\n")
    machine.put(FILTER, "2\n")
    machine.put("/sys/class/net/eth0/address", "0c:42:a1:00:00:01\n")
    machine.put("/sys/class/net/eth0/addr_assign_type", "0\n")
    machine.put("/sys/class/net/eth0/type", "1\n")
    machine.link("/sys/class/net/eth0/device/driver", "../../../bus/pci/drivers/mlx5_core")
    return machine


def row(machine: Machine, key: str = KEY, value: Any = 2) -> Row:
    machine.forget()
    return engine.evaluate(machine, Request("one", sysctl, {"settings": {key: value}})).rows[0]


# -- networkd ------------------------------------------------------------------------------


@cases.table
def test_the_file_for_an_interface(node: Machine, match: str, sure: bool | None) -> None:
    node.put(f"{NETWORK}/a.network", f"{match}[Network]\nIPv4ReversePathFilter=strict\n")
    found = networkd.sets(node, FILTER)
    assert (None if found is None else found.sure) is sure
    assert found is None or (found.value, found.line.key) == ("1", "IPv4ReversePathFilter")


@cases.table
def test_the_permanent_address_of_an_interface(
    node: Machine, files: Mapping[str, str | None], sure: bool | None
) -> None:
    for name, text in files.items():
        path = f"/sys/class/net/eth0/{name}"
        node.remove(path) if text is None else node.put(path, text)
    match = "[Match]\nPermanentMACAddress=0c:42:a1:00:00:01\n"
    node.put(f"{NETWORK}/a.network", f"{match}[Network]\nIPv4ReversePathFilter=strict\n")
    found = networkd.sets(node, FILTER)
    assert (None if found is None else found.sure) is sure


def test_the_first_file_that_fits_counts_with_its_drop_ins(node: Machine) -> None:
    text = "[Match]\nName=eth0\n[Network]\n"
    node.put(f"{NETWORK}/20-b.network", f"{text}IPv4ReversePathFilter=strict\n")
    node.put(f"{NETWORK}/10-a.network", text)
    assert networkd.sets(node, FILTER) is None
    node.put("/run/systemd/network/10-a.network.d/x.conf", "[Network]\nIPv4ReversePathFilter=loose\n")
    node.forget()
    found = networkd.sets(node, FILTER)
    assert found is not None
    assert (found.value, found.line.where) == ("2", "/run/systemd/network/10-a.network.d/x.conf:2")
    node.link(f"{NETWORK}/10-a.network.d/x.conf", "/dev/null")
    node.forget()
    assert networkd.sets(node, FILTER) is None


@cases.table
def test_options_and_their_values(node: Machine, option: str, path: str, value: str | None) -> None:
    node.put(f"{NETWORK}/a.network", f"[Match]\nName=eth0\n[Network]\n{option}\n")
    found = networkd.sets(node, path)
    assert (found.value if found else None) == value


@cases.table
def test_what_it_sets_on_each_interface_without_being_told(
    node: Machine, network: str, path: str, value: str | None
) -> None:
    node.put(f"{NETWORK}/a.network", f"[Match]\nName=*\n[Network]\n{network}\n")
    found = networkd.sets(node, f"/proc/sys/net/{path}")
    assert (found.value if found else None) == value


def test_an_interface_follows_the_global_options_where_its_file_says_nothing(node: Machine) -> None:
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=yes\nIPv6PrivacyExtensions=yes\n")
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n")
    for path, value in (("ipv4/conf/eth0/forwarding", "1"), ("ipv6/conf/eth0/use_tempaddr", "2")):
        found = networkd.sets(node, f"/proc/sys/net/{path}")
        assert found is not None
        assert (found.value, found.line.file) == (value, "/etc/systemd/networkd.conf")
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nIPv4Forwarding=no\n")
    node.forget()
    found = networkd.sets(node, "/proc/sys/net/ipv4/conf/eth0/forwarding")
    assert found is not None
    assert found.value == "0"


@cases.table
def test_privacy_that_is_left_to_the_kernel(node: Machine, common: str, own: str, value: str | None) -> None:
    line = "IPv6PrivacyExtensions={}\n"
    node.put("/etc/systemd/networkd.conf", f"[Network]\n{line.format(common) if common else ''}")
    text = f"[Match]\nName=eth0\n[Network]\n{line.format(own) if own else ''}"
    node.put(f"{NETWORK}/a.network", text)
    found = networkd.sets(node, "/proc/sys/net/ipv6/conf/eth0/use_tempaddr")
    assert (found.value if found else None) == value


@cases.table
def test_forwarding_is_the_machines_before_256(
    node: Machine, library: str, option: str, path: str, value: str | None, sure: bool
) -> None:
    node.put(f"/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-{library}.so", "")
    node.put(f"{NETWORK}/a.network", f"[Match]\nName=eth0\n[Network]\n{option}\n")
    found = networkd.sets(node, f"/proc/sys/net/{path}")
    assert (found.value if found else None) == value
    assert found is None or found.sure is sure


@pytest.mark.parametrize("agent", [True, False])
def test_a_key_of_networkd_that_the_agent_applies_is_a_race(node: Machine, agent: bool) -> None:
    """No unit waits until networkd has configured an interface, and it does so again at any time."""
    key = "net.ipv6.conf.eth0.accept_ra"
    node.put("/proc/sys/net/ipv6/conf/eth0/accept_ra", "1\n")
    if agent:
        node.enable_agent()
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n")
    door.apply(node, Request("one", sysctl, {"settings": {key: 2}}))
    found = row(node, key)
    assert found.status is (Status.UNKNOWN if agent else Status.OVERRIDDEN), found.reason
    assert f"{NETWORK}/a.network:2" in found.reason
    assert "networkd sets accept_ra = 0" in found.reason
    if agent:
        assert "waits for the other" in found.reason


@cases.table
def test_what_networkd_sets_at_its_start_is_put_right_once_it_is_up(
    node: Machine, order: str, broken: str, status: str
) -> None:
    """mlnode-nic.service waits for network.target, and applies the keys again."""
    node.put("/proc/sys/net/ipv4/ip_forward", "0\n")
    node.enable_agent()
    start = "[Unit]\nDefaultDependencies=no\nWants=network.target\n"
    node.put(f"/usr/lib/systemd/system/{networkd.UNIT}", f"{start}{order}\n")
    node.link(f"/etc/systemd/system/multi-user.target.wants/{networkd.UNIT}", f"/usr/lib/{networkd.UNIT}")
    node.put("/usr/lib/systemd/system/network.target", "[Unit]\n")
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=yes\n")
    node.put("/usr/lib/systemd/libsystemd-shared-257.so", "")
    if broken:
        node.put(broken, "[Unit]\nConditionPathExists=/no\n")
    door.apply(node, Request("one", sysctl, {"settings": {"net.ipv4.ip_forward": 0}}))
    found = row(node, "net.ipv4.ip_forward", 0)
    assert found.status is Status(status), found.reason
    assert "/etc/systemd/networkd.conf:2" in found.reason
    assert found.reading.boot.value.text == ("0" if Status(status) is Status.OK else None)


def test_networkd_conf_of_an_unknown_systemd_may_forward(node: Machine) -> None:
    """Before 256 it has no such option."""
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=yes\n")
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n")
    for path in ("ip_forward", "conf/eth0/forwarding"):
        found = networkd.sets(node, f"/proc/sys/net/ipv4/{path}")
        assert found is not None
        assert (found.value, found.sure) == ("1", False)


def test_what_it_sets_for_all_interfaces(node: Machine) -> None:
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=no\n")
    node.put("/run/systemd/networkd.conf.d/x.conf", "[Network]\nIPv4Forwarding=yes\n")
    found = networkd.sets(node, "/proc/sys/net/ipv4/ip_forward")
    assert found is not None
    assert (found.value, found.line.where) == ("1", "/run/systemd/networkd.conf.d/x.conf:2")


def test_its_configuration_and_version_are_read_once(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As each file of each interface is asked for."""
    looks: list[str] = []
    for name in ("read_bytes", "names"):
        real = getattr(Machine, name)
        monkeypatch.setattr(
            Machine, name, lambda host, path, real=real: looks.append(path) or real(host, path)
        )
    folder = "/usr/lib/x86_64-linux-gnu/systemd"
    node.put(f"{folder}/libsystemd-shared-257.so", "")
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=no\n")
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n")
    for path in ("ipv4/ip_forward", "ipv4/conf/eth0/forwarding", "ipv6/conf/eth0/use_tempaddr"):
        assert networkd.sets(node, f"/proc/sys/net/{path}") is not None
    assert looks.count("/etc/systemd/networkd.conf") == 1
    assert looks.count(folder) <= 1
    node.put("/etc/systemd/networkd.conf", "[Network]\nIPv4Forwarding=yes\n")
    node.forget()
    found = networkd.sets(node, "/proc/sys/net/ipv4/ip_forward")
    assert found is not None
    assert found.value == "1"


def test_a_networkd_that_nothing_starts_sets_nothing(node: Machine) -> None:
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nIPv4ReversePathFilter=strict\n")
    node.remove("/run/systemd/netif/state")
    assert networkd.sets(node, FILTER) is None
    node.forget()
    node.put(f"/usr/lib/systemd/system/{networkd.UNIT}", "[Unit]\n")
    node.link(f"/etc/systemd/system/multi-user.target.wants/{networkd.UNIT}", f"/usr/lib/{networkd.UNIT}")
    assert networkd.sets(node, FILTER) is not None


def test_a_row_is_overridden_by_it_and_a_drift_has_it_as_its_cause(node: Machine) -> None:
    door.apply(node, Request("one", sysctl, {"settings": {KEY: 2}}))
    assert row(node).status is Status.OK
    node.put(f"{NETWORK}/a.network", "[Match]\nName=eth0\n[Network]\nIPv4ReversePathFilter=strict\n")
    found = row(node)
    where = f"{NETWORK}/a.network:4"
    assert (found.status, found.reading.boot.value.text) == (Status.OVERRIDDEN, "1")
    assert f"{where} (IPv4ReversePathFilter=strict) sets 1" in found.reason
    node.put(FILTER, "1\n")
    found = row(node)
    assert found.reason.startswith(f"runtime is 1, as {where} sets IPv4ReversePathFilter=strict; boot: ")
    assert causes.find_cause(node, found, causes.Seen(), causes.Seen()).words == where
    node.put(f"{NETWORK}/a.network", "[Match]\nHost=n1\n[Network]\nIPv4ReversePathFilter=strict\n")
    node.put(FILTER, "2\n")
    found = row(node)
    assert (found.status, found.reason) == (Status.OK, f"{where} may set IPv4ReversePathFilter=strict")


# -- udev ----------------------------------------------------------------------------------


@cases.table
def test_rules_for_a_disk(node: Machine, rule: str, value: str | None, sure: bool) -> None:
    node.put("/sys/block/sda/queue/rotational", "0\n")
    node.put(f"{RULES}/60-x.rules", f"# first\n{rule}\n")
    found = udev_rules.sets(node, AHEAD)
    assert [(one.where, one.value, one.sure) for one in found] == (
        [] if value is None else [(f"{RULES}/60-x.rules:2", value, sure)]
    )


def test_the_bdi_of_a_mount_has_rules_of_its_own(node: Machine) -> None:
    node.put(f"{RULES}/99-nfs.rules", 'SUBSYSTEM=="bdi", ATTR{read_ahead_kb}="128"\n')
    path = "/sys/class/bdi/0:52/read_ahead_kb"
    assert str(setters.cause(node, path, "128")) == f'{RULES}/99-nfs.rules:1 sets ATTR{{read_ahead_kb}}="128"'
    assert setters.cause(node, path, "256") is None
    assert setters.cause(node, AHEAD, "128") is None


@cases.table
def test_rules_that_set_a_sysctl(node: Machine, rule: str, words: str) -> None:
    node.put(f"{RULES}/60-x.rules", f"{rule}\n")
    found = setters.cause(node, FILTER, "1")
    assert (f"{RULES}/60-x.rules:1 {words}" in str(found)) if words else found is None


def test_a_rule_that_cannot_be_read_leaves_the_row_as_it_is(node: Machine) -> None:
    door.apply(node, Request("one", sysctl, {"settings": {KEY: 2}}))
    node.put(FILTER, "1\n")
    node.put(f"{RULES}/60-x.rules", "")
    node.unreadable[f"{RULES}/60-x.rules"] = errno.EACCES
    assert (row(node).status, row(node).reason) == (Status.DRIFTED, "runtime is 1")


# -- files of a declaration that are masked ------------------------------------------------


def test_a_file_of_mlnode_that_is_linked_to_nothing_is_named(node: Machine) -> None:
    door.apply(node, Request("one", sysctl, {"settings": {"vm.swappiness": 1}}))
    path = "/etc/sysctl.d/zz-mlnode-one.conf"
    node.remove(path)
    node.link(path, "/dev/null")
    found = row(node, "vm.swappiness", 1)
    assert found.status is Status.DRIFTED
    assert found.reason.endswith(f"; {path} is a link to /dev/null: remove it")
    list_of_modules = "/etc/modules-load.d/mlnode-modules.one.conf"
    node.put(f"/lib/modules/{node.read('/proc/sys/kernel/osrelease').strip()}/modules.builtin", "")
    node.put("/sys/module/tcp_bbr/initstate", "live\n")
    node.link(list_of_modules, "/dev/null")
    node.forget()
    [loaded] = engine.evaluate(node, Request("one", modules, {"modules": ["tcp_bbr"]})).rows
    assert loaded.reason.endswith(f"; {list_of_modules} is a link to /dev/null: remove it")
