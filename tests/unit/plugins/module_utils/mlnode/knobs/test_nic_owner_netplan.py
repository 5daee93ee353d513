# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic_owners
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owners import Target
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core", "pci-0000:01:00.0")
YAML = "/etc/netplan/01-netcfg.yaml"
TEXT = """\
network:
  version: 2
  # mtu: 1
  ethernets:
    eth0:
      mtu: 9000
      receive-checksum-offload: false
"""


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/sys/class/net/eth0/type", "1\n")
    machine.put(YAML, TEXT)
    return machine


def test_files_that_netplan_made_for_systemd(host: Machine) -> None:
    link, network = (f"/run/systemd/network/10-netplan-eth0.{kind}" for kind in ("link", "network"))
    host.put(
        link,
        "[Match]\nPermanentMACAddress=aa:bb:cc:00:00:01\n[Link]\nMTUBytes=9000\nReceiveChecksumOffload=no\n",
    )
    host.put(network, "[Match]\nName=eth0\n[Link]\nMTUBytes=9000\n")
    host.put("/run/systemd/generator/multi-user.target.wants/systemd-networkd.service", "")
    words = nic_owners.of(host, [ETH0])["eth0"]
    assert {word.owner for word in words} == {"netplan"}
    assert [(word.file, word.value, word.source) for word in words] == [
        ("mtu", "9000", f"{link}:4 (made from /etc/netplan)"),
        ("feature/rx-checksum", "off", f"{link}:5 (made from /etc/netplan)"),
        ("mtu", "9000", f"{network}:4 (made from /etc/netplan)"),
    ]
    assert nic_owners.problems(host, [ETH0]) == []


def test_profiles_that_netplan_made_for_networkmanager(host: Machine) -> None:
    path = "/run/NetworkManager/system-connections/netplan-eth0.nmconnection"
    host.put(path, "[connection]\ntype=ethernet\ninterface-name=eth0\n[ethernet]\nmtu=9000\n")
    host.put("/etc/systemd/system/multi-user.target.wants/NetworkManager.service", "")
    (word,) = nic_owners.of(host, [ETH0])["eth0"]
    assert (word.owner, word.source) == ("netplan", f"{path}:5 (made from /etc/netplan)")


def test_a_file_of_that_name_elsewhere_is_not_netplans(host: Machine) -> None:
    host.put("/etc/systemd/network/10-netplan-eth0.link", "[Match]\nOriginalName=*\n[Link]\nMTUBytes=9000\n")
    (word,) = nic_owners.of(host, [ETH0])["eth0"]
    assert word.owner == "systemd .link"


def test_what_netplan_has_made_nothing_of_is_a_problem(host: Machine) -> None:
    assert nic_owners.of(host, [ETH0]) == {}
    (problem,) = nic_owners.problems(host, [ETH0])
    assert problem.startswith(f"{YAML}:6 says mtu, and netplan has made nothing of it yet")


@pytest.mark.parametrize(
    "text, key",
    [
        ("network: {ethernets: {eth0: {mtu: 9000}}}", "mtu"),
        ('{"network": {"ethernets": {"eth0": {"mtu": 9000}}}}', "mtu"),
        ("  generic-receive-offload: no", "generic-receive-offload"),
        ("          ethtool.ring-rx: '4096'", "ethtool.ring-rx"),
        ("  dhcp4: true", ""),
        ("  # mtu: 9000", ""),
        ("  ipv6-mtux: 9000", ""),
        ("", ""),
    ],
)
def test_which_keys_matter(host: Machine, text: str, key: str) -> None:
    host.put(YAML, text)
    problems = nic_owners.problems(host, [ETH0])
    assert [f":1 says {key}," in problem for problem in problems] == ([True] if key else [])


def test_files_that_are_not_netplans_are_not_read(host: Machine) -> None:
    host.remove(YAML)
    host.put("/etc/netplan/01-netcfg.yaml.save", TEXT)
    assert nic_owners.problems(host, [ETH0]) == []
    host.put("/usr/lib/netplan/00.yaml", TEXT)
    host.forget()
    assert len(nic_owners.problems(host, [ETH0])) == 1
