# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else sets the values of a NIC: which files are searched, and who manages an interface."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.nics import owners as nics_owners
from mlnode.knobs.nics.owner_lines import Target
from mlnode.knobs.nics.owners import Word

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core")
ETH1 = Target("eth1", "aa:bb:cc:00:00:02", "ice")
FOLDER = "/etc/systemd/network"
LINK, NETWORK = f"{FOLDER}/10-a.link", f"{FOLDER}/10-a.network"
KEYFILE = "/etc/NetworkManager/system-connections/a.nmconnection"
IFCFG = "/etc/sysconfig/network-scripts/ifcfg-eth0"
INTERFACES = "/etc/network/interfaces"
YAML = "/etc/netplan/01-netcfg.yaml"

#: One file of each owner
EVERYWHERE = {
    LINK: "[Match]\nOriginalName=*\n[Link]\nMTUBytes=9001\n",
    INTERFACES: "auto eth0\niface eth0 inet manual\n mtu 9002\n",
    NETWORK: "[Match]\nName=*\n[Link]\nMTUBytes=9003\n",
    KEYFILE: "[connection]\ninterface-name=eth0\n[ethernet]\nmtu=9004\n",
}


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    return Machine.debian(str(tmp_path / "node"))


@pytest.fixture
def started(host: Machine) -> Machine:
    start_all(host)
    return host


def start_all(host: Machine) -> None:
    for unit in ("NetworkManager.service", "systemd-networkd.service"):
        start(host, unit)
    host.put("/usr/sbin/ifup", "", 0o755)


def start(host: Machine, unit: str) -> None:
    host.put(f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs", "1\n")


def found(host: Machine, target: Target = ETH0) -> list[tuple[str, str, str]]:
    host.forget()
    words = nics_owners.interface_words(host, [ETH0, ETH1]).get(target.name, [])
    return [(word.file, word.value, word.source if word.sure else f"{word.source}?") for word in words]


def link(match: str, values: str = "MTUBytes=9000") -> str:
    return f"[Match]\n{match}\n[Link]\n{values}\n"


def test_files_are_searched_in_the_order_of_the_boot(started: Machine) -> None:
    assert nics_owners.interface_words(started, [ETH0]) == {}
    started.forget()
    for path, text in EVERYWHERE.items():
        started.put(path, text)
    words = nics_owners.interface_words(started, [ETH0])["eth0"]
    assert [(word.owner, word.value, word.sure) for word in words] == [
        ("systemd .link", "9001", True),
        ("ifupdown", "9002", True),
        ("systemd-networkd", "9003", True),
        ("NetworkManager", "9004", True),
    ]
    assert nics_owners.problems(started, [ETH0]) == []


def test_what_nothing_starts_sets_nothing(host: Machine) -> None:
    for path, text in EVERYWHERE.items():
        host.put(path, text)
    assert [word.owner for word in nics_owners.interface_words(host, [ETH0])["eth0"]] == ["systemd .link"]


@cases.table
def test_what_starts_a_program_and_what_masks_it(host: Machine, path: str) -> None:
    host.put(KEYFILE, EVERYWHERE[KEYFILE])
    host.put(path, "")
    assert found(host) == [("mtu", "9004", f"{KEYFILE}:4")]
    host.link("/etc/systemd/system/NetworkManager.service", "/dev/null")
    assert found(host) == []


@pytest.mark.parametrize("path", [*EVERYWHERE])
def test_a_file_that_cannot_be_read_is_a_problem_and_hides_no_other(started: Machine, path: str) -> None:
    for other, text in EVERYWHERE.items():
        started.put(other, text)
    started.unreadable[path] = errno.EACCES
    assert len(nics_owners.interface_words(started, [ETH0])["eth0"]) == len(EVERYWHERE) - 1
    (problem,) = nics_owners.problems(started, [ETH0])
    assert path in problem
    assert "EACCES" in problem


def test_a_folder_that_cannot_be_listed_is_a_problem(host: Machine) -> None:
    host.put(LINK, EVERYWHERE[LINK])
    host.unreadable["/run/systemd/network"] = errno.EACCES
    assert [value for _file, value, _source in found(host)] == ["9001"]
    assert "/run/systemd/network: EACCES" in nics_owners.problems(host, [ETH0, ETH1])[0]


def test_a_folder_in_place_of_a_file_sets_nothing(host: Machine) -> None:
    host.put(f"{LINK}/file", "")
    assert found(host) == []
    assert nics_owners.problems(host, [ETH0, ETH1]) == []


@cases.table
def test_which_file_a_word_is_about(file: str, group: str, field: str, expected: bool) -> None:
    assert nics_owners.means(Word(file, "on", "a:1", "systemd .link"), group, field) is expected


# -- systemd -------------------------------------------------------------------------------


def test_only_the_first_file_for_an_interface_counts(host: Machine) -> None:
    host.put(f"{FOLDER}/20-b.link", link("OriginalName=*", "RxBufferSize=1"))
    host.put("/usr/lib/systemd/network/10-a.link", link("OriginalName=eth0"))
    assert found(host) == [("mtu", "9000", "/usr/lib/systemd/network/10-a.link:4")]
    assert found(host, ETH1) == [("ring/rx", "1", f"{FOLDER}/20-b.link:4")]


def test_an_earlier_folder_hides_and_an_empty_file_masks(host: Machine) -> None:
    host.put("/usr/lib/systemd/network/10-a.link", link("OriginalName=*", "MTUBytes=1"))
    host.put("/run/systemd/network/10-a.link", link("OriginalName=*"))
    host.put(f"{LINK}.d/b.conf", "[Link]\nMTUBytes=2000\n")
    assert found(host) == [("mtu", "2000", f"{LINK}.d/b.conf:2")]
    host.link(LINK, "/dev/null")
    assert found(host) == []


def test_a_match_that_is_not_resolved_leaves_a_line_unsure(host: Machine) -> None:
    host.put(LINK, link("Host=other"))
    host.put(f"{FOLDER}/20-b.link", link("Driver=mlx5_core", "MTUBytes=1500"))
    # udev takes the first one if it is for this host.
    assert found(host) == [("mtu", "9000", f"{LINK}:4?"), ("mtu", "1500", f"{FOLDER}/20-b.link:4?")]
    host.put(LINK, link("Driver=!mlx5_core"))
    assert found(host) == [("mtu", "1500", f"{FOLDER}/20-b.link:4")]


def test_files_of_systemd_have_its_syntax(host: Machine) -> None:
    host.put(LINK, "[Match]\nOriginalName=\\\n# of this node\n  eth0\n[Link]\nMTUBytes=9000 # jumbo\n")
    assert found(host) == [("mtu", "9000 # jumbo", f"{LINK}:6")]


def test_the_last_line_counts_and_an_empty_one_takes_back(host: Machine) -> None:
    host.put(LINK, link("OriginalName=*", "MTUBytes=1500\nMTUBytes=9000\nRxBufferSize=1\nRxBufferSize="))
    assert found(host) == [("mtu", "9000", f"{LINK}:5")]


def test_networkd_sets_the_mtu_alone(started: Machine) -> None:
    started.put(NETWORK, link("Name=eth0", "MTUBytes=9000\nRxBufferSize=1"))
    assert found(started) == [("mtu", "9000", f"{NETWORK}:4")]


# -- NetworkManager and ifcfg files ----------------------------------------------------------


@pytest.mark.parametrize("name", [".hidden", "a.nmconnection~", "one.nmmeta"])
def test_files_that_are_not_profiles(started: Machine, name: str) -> None:
    started.put(f"/etc/NetworkManager/system-connections/{name}", EVERYWHERE[KEYFILE])
    assert found(started) == []


@cases.table
def test_an_ifcfg_file(host: Machine, unit: str, owner: str) -> None:
    host.put(
        IFCFG, "DEVICE=eth0\nMTU='9000' # jumbo\nETHTOOL_OPTS=\"-G ${DEVICE} rx 4096; -K eth1 gro off\"\n"
    )
    host.put(f"{IFCFG}.rpmsave", "DEVICE=eth0\nMTU=1\n")
    assert found(host) == []
    start(host, unit)
    assert found(host) == [("mtu", "9000", f"{IFCFG}:2"), ("ring/rx", "4096", f"{IFCFG}:3")]
    assert {word.owner for word in nics_owners.interface_words(host, [ETH0, ETH1])["eth0"]} == {owner}


# -- ifupdown ------------------------------------------------------------------------------


def test_stanzas_of_ifupdown(started: Machine) -> None:
    started.put(
        INTERFACES,
        "auto eth0\nmtu 1\niface eth0 inet manual\n\tmtu\t9000\n  offload-tx_udp_tnl off\n# mtu 2\n"
        "  down ethtool -G eth0 rx 3\niface bond0 inet manual\n  mtu 4\n  post-up ethtool -G eth1 rx 5\n"
        "  up ip link set $IFACE mtu 6\niface\nmtu 7\n"
        "source interfaces.d/*\nsource-directory /srv/net\nsource\n",
    )
    started.put("/srv/net/c", "source /etc/network/interfaces\niface eth1 inet6 auto\nmtu 10\n")
    started.put("/srv/net/.d", "iface eth1 inet6 auto\nmtu 11\n")
    started.put("/etc/network/elsewhere/e", "iface eth1 inet6 auto\nmtu 12\n")
    started.put(f"{INTERFACES}.d/b", "iface eth1 inet manual\nhardware-dma-ring-tx 8\nauto eth0\nmtu 9\n")
    assert found(started) == [
        ("mtu", "9000", f"{INTERFACES}:4"),
        ("feature/tx-udp-tnl", "off", f"{INTERFACES}:5"),
    ]
    assert found(started, ETH1) == [
        ("ring/rx", "5", f"{INTERFACES}:10"),
        ("ring/tx", "8", f"{INTERFACES}.d/b:2"),
        ("mtu", "10", "/srv/net/c:3"),
    ]
    started.unreadable["/srv/net"] = errno.EIO
    started.forget()
    assert "/srv/net: EIO" in nics_owners.problems(started, [ETH0])[0]


# -- netplan -------------------------------------------------------------------------------


def test_what_netplan_made_is_its_own(started: Machine) -> None:
    network = "/run/systemd/network/10-netplan-eth0.network"
    started.put(YAML, "network:\n  ethernets:\n    eth0: {mtu: 9000}\n")
    started.put(network, link("Name=eth0"))
    assert found(started) == [("mtu", "9000", f"{YAML}:3, {network}:4")]
    assert [word.owner for word in nics_owners.interface_words(started, [ETH0])["eth0"]] == ["netplan"]
    started.put(YAML, "{}")
    assert found(started) == [("mtu", "9000", f"{network}:4 (made from /etc/netplan)")]


def test_the_line_of_an_interface_is_in_its_stanza(started: Machine) -> None:
    started.put(
        YAML,
        "network:\n  ethernets:\n    eth1:\n      mtu: 9000\n    'eth0':\n# mtu: 1\n"
        "\n      mtu: 9000\n    other:\n      match: {name: 'x*'}\n      mtu: 9000\n",
    )
    for name in ("eth0", "eth1"):
        started.put(f"/run/systemd/network/10-netplan-{name}.network", link(f"Name={name}"))
    made = "/run/systemd/network/10-netplan-{}.network:4"
    assert found(started) == [("mtu", "9000", f"{YAML}:8, {made.format('eth0')}")]
    assert found(started, ETH1) == [("mtu", "9000", f"{YAML}:4, {made.format('eth1')}")]
    # After a change without netplan's next run.
    started.put(YAML, "network:\n  ethernets:\n    eth0:\n      mtu: 1500\n    eth1: {}\n")
    assert found(started) == [
        ("mtu", "9000", f"{made.format('eth0')} (made from /etc/netplan)"),
        ("mtu", "1500", f"{YAML}:4?"),
    ]
    assert len(found(started, ETH1)) == 1


@cases.table
def test_what_netplan_has_made_nothing_of_is_unsure(
    host: Machine, text: str, expected: list[tuple[str, str, str]]
) -> None:
    host.put(YAML, text)
    host.put(f"{YAML}.save", "eth0: {mtu: 1}")
    assert found(host) == expected


# -- who manages an interface --------------------------------------------------------------


@cases.table
def test_the_program_that_manages_an_interface(
    host: Machine, path: str, text: str, owner: str, place: str
) -> None:
    host.put("/sys/class/net/eth0/ifindex", "7\n")
    assert nics_owners.advice(host, [ETH0, ETH1]) == []
    host.put(path, text)
    (words,) = nics_owners.advice(host, [ETH0, ETH1])
    assert words.startswith(f"eth0: managed by {owner}; ")
    assert place in words


@cases.table
def test_an_interface_that_none_of_them_manages(host: Machine, path: str, text: str) -> None:
    host.put("/sys/class/net/eth0/ifindex", "7\n")
    host.put(path, text)
    assert nics_owners.advice(host, [ETH0]) == []


# -- anything ------------------------------------------------------------------------------

WORDS = [
    *"[]=#;!&|\\\n\n\n\t\"'$(){}*?,:-",
    *("[Match]\n", "[Link]\n", "[connection]\n", "[ethernet]\n", "[ethtool]\n", "[match]\n"),
    *("OriginalName=", "Name=", "Property=", "MACAddress=", "Host=", "type=ethernet\n", "interface-name="),
    *("MTUBytes=", "RxBufferSize=", "RxCoalesceSec=", "mtu=", "ring-rx=", "fec-mode=", "path=", "uuid="),
    *("auto eth0\n", "iface eth0 inet manual\n", "source ", "mtu ", "mtu: ", "match: "),
    *("up ethtool -G eth0 rx ", "up ip link set ", "hardware-dma-ring-rx ", "ETHTOOL_OPTS=", "MTU="),
    *("max", "1ms", "9000", "0x", "on", "eth0", "[z-a]", "\0", "\udc80", "é", "٣", "-K ${DEVICE} tso off"),
]
PLACES = [*EVERYWHERE, IFCFG, YAML, "/run/udev/data/n7", "/sys/class/net/eth0/ifindex"]


@pytest.fixture(name="folder", scope="module")
def _folder() -> Iterator[pathlib.Path]:
    yield from in_memory()
