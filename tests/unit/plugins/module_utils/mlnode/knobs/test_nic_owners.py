# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else sets the values of a NIC: what all owners share, and that none of them stumbles."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic_owner, nic_owners
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owners import Target, Word
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core", "pci-0000:01:00.0")
LINK = "/etc/systemd/network/10-a.link"
KEYFILE = "/etc/NetworkManager/system-connections/a.nmconnection"
MANAGER = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"

#: One file of each owner
EVERYWHERE = {
    LINK: "[Match]\nOriginalName=*\n[Link]\nMTUBytes=9001\n",
    "/etc/systemd/network/10-a.network": "[Match]\nName=*\n[Link]\nMTUBytes=9003\n",
    KEYFILE: "[connection]\ntype=ethernet\n[ethernet]\nmtu=9004\n",
    "/etc/network/interfaces": "auto eth0\niface eth0 inet manual\n mtu 9002\n",
}


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/sys/class/net/eth0/type", "1\n")
    return machine


def start_all(host: Machine) -> None:
    host.link(MANAGER, "/usr/lib/systemd/system/NetworkManager.service")
    host.link(NETWORKD, "/usr/lib/systemd/system/systemd-networkd.service")
    host.put("/usr/sbin/ifup", "", 0o755)


def test_nothing_is_said_where_nobody_says_anything(host: Machine) -> None:
    assert nic_owners.of(host, [ETH0]) == {}
    assert nic_owners.problems(host, [ETH0]) == []
    assert nic_owners.of(host, []) == {}


def test_the_order_is_that_of_the_boot(host: Machine) -> None:
    start_all(host)
    for path, text in EVERYWHERE.items():
        host.put(path, text)
    words = nic_owners.of(host, [ETH0])["eth0"]
    assert [(word.owner, word.value) for word in words] == [
        ("systemd .link", "9001"),
        ("ifupdown", "9002"),
        ("systemd-networkd", "9003"),
        ("NetworkManager", "9004"),
    ]
    assert nic_owners.problems(host, [ETH0]) == []


def test_what_nothing_starts_sets_nothing(host: Machine) -> None:
    for path, text in EVERYWHERE.items():
        host.put(path, text)
    assert [word.owner for word in nic_owners.of(host, [ETH0])["eth0"]] == ["systemd .link"]


def test_a_masked_unit_does_not_start(host: Machine) -> None:
    start_all(host)
    assert nic_owner.starts(host, "NetworkManager.service")
    host.link("/etc/systemd/system/NetworkManager.service", "/dev/null")
    assert not nic_owner.starts(host, "NetworkManager.service")


@pytest.mark.parametrize(
    "path",
    [
        "/run/systemd/generator/multi-user.target.wants/a.service",
        "/usr/lib/systemd/system/network.target.requires/a.service",
        "/sys/fs/cgroup/system.slice/a.service/cgroup.procs",
        "/sys/fs/cgroup/systemd/system.slice/a.service/cgroup.procs",
    ],
)
def test_what_starts_a_unit(host: Machine, path: str) -> None:
    assert not nic_owner.starts(host, "a.service")
    host.put(path, "")
    assert nic_owner.starts(host, "a.service")


@pytest.mark.parametrize("path", [path for path in EVERYWHERE if path != KEYFILE])
def test_what_cannot_be_read_is_told_and_stops_nobody_else(host: Machine, path: str) -> None:
    start_all(host)
    for other, text in EVERYWHERE.items():
        host.put(other, text)
    host.unreadable[path] = errno.EACCES
    assert len(nic_owners.of(host, [ETH0])["eth0"]) == len(EVERYWHERE) - 1
    (problem,) = nic_owners.problems(host, [ETH0])
    assert path in problem
    assert "EACCES" in problem


def test_a_profile_that_cannot_be_read_hides_no_other(host: Machine) -> None:
    """It might be the one that is activated, and that is what the problem is for."""
    start_all(host)
    host.put(KEYFILE, EVERYWHERE[KEYFILE] + "[connection]\nautoconnect-priority=-1\n")
    host.put(KEYFILE.replace("/a.", "/b."), "")
    host.unreadable[KEYFILE.replace("/a.", "/b.")] = errno.EACCES
    assert [word.value for word in nic_owners.of(host, [ETH0])["eth0"]] == ["9004"]
    assert "b.nmconnection: EACCES" in nic_owners.problems(host, [ETH0])[0]


def test_nobody_can_tell_what_is_started(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in EVERYWHERE.items():
        host.put(path, text)
    real = host.names

    def names(path: str) -> list[str]:
        if path == "/etc/systemd/system":
            raise nic_owner.HostError("list", path, errno.EACCES)
        return real(path)

    monkeypatch.setattr(host, "names", names)
    assert [word.owner for word in nic_owners.of(host, [ETH0])["eth0"]] == ["systemd .link"]
    assert "EACCES" in nic_owners.problems(host, [ETH0])[0]


def test_a_folder_that_cannot_be_listed_is_told(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    host.put(LINK, EVERYWHERE[LINK])
    real = host.names

    def names(path: str) -> list[str]:
        if path == "/run/systemd/network":
            raise nic_owner.HostError("list", path, errno.EACCES)
        return real(path)

    monkeypatch.setattr(host, "names", names)
    assert [word.value for word in nic_owners.of(host, [ETH0])["eth0"]] == ["9001"]
    assert "/run/systemd/network: EACCES" in nic_owners.problems(host, [ETH0])[0]


def test_a_device_that_cannot_be_looked_at(host: Machine) -> None:
    host.link("/sys/class/net/eth5/device", "device")
    target = Target("eth5", "", "")
    assert nic_owners.of(host, [target]) == {}
    assert "ELOOP" in nic_owners.problems(host, [target])[0]


def test_a_folder_in_place_of_a_file_sets_nothing(host: Machine) -> None:
    host.put(f"{LINK}/file", "")
    assert nic_owners.of(host, [ETH0]) == {}
    assert nic_owners.problems(host, [ETH0]) == []


def test_odd_names_of_files_are_shown_in_plain_letters(host: Machine) -> None:
    host.put("/etc/systemd/network/10-\n\x1b[2J.link", EVERYWHERE[LINK])
    (word,) = nic_owners.of(host, [ETH0])["eth0"]
    assert word.source == "/etc/systemd/network/10-\\n\\x1b[2J.link:4"


@pytest.mark.parametrize(
    "file, group, field, expected",
    [
        ("mtu", "mtu", "mtu", True),
        ("mtu", "tx_queue_len", "tx_queue_len", False),
        ("ring/rx", "ring", "rx", True),
        ("ring/rx", "channels", "rx", False),
        ("ring/rx", "ring", "tx", False),
        ("ring/mtu", "mtu", "mtu", False),
        ("feature/tso", "feature", "tx-tcp6-segmentation", True),
        ("feature/tcp-segmentation-offload", "feature", "tx-tcp6-segmentation", True),
        ("feature/tx-tcp-segmentation", "feature", "tx-tcp6-segmentation", False),
        ("feature/rx-gro", "feature", "rx-gro", True),
        ("feature/rx", "ring", "rx", False),
        ("ring/rx", "feature", "rx", False),
    ],
)
def test_which_file_a_word_is_about(file: str, group: str, field: str, expected: bool) -> None:
    assert nic_owners.means(Word(file, "on", "a:1", "somebody"), group, field) is expected


# -- the interface -------------------------------------------------------------------------


def test_a_port_of_a_bond_is_known_by_its_own_address(host: Machine) -> None:
    host.put("/sys/class/net/eth0/bonding_slave/perm_hwaddr", "AA:BB:CC:00:00:99\n")
    host.put("/sys/class/net/eth0/addr_assign_type", "3\n")
    device = nic_owner.device(host, ETH0)
    assert (device.mac, device.own_mac) == ("aa:bb:cc:00:00:99", True)


def test_what_udev_knows_of_a_device(host: Machine) -> None:
    host.put("/sys/class/net/eth0/ifindex", "7\n")
    host.put("/run/udev/data/n7", "I:1\nE:ID_PATH=pci-0000:09:00.0\nE:ID_NET_DRIVER=ice\nG:systemd\n")
    host.put("/run/systemd/netif/links/7", "# state\nNETWORK_FILE=/etc/systemd/network/a.network\n")
    host.put("/sys/class/net/eth0/uevent", "DEVTYPE=vlan\nINTERFACE=eth0\n")
    device = nic_owner.device(host, Target("eth0", "", "mlx5_core"))
    assert (device.path, device.driver, device.type) == ("pci-0000:09:00.0", "ice", "vlan")
    assert device.network_file == "/etc/systemd/network/a.network"
    assert nic_owner.device(host, ETH0).path == "pci-0000:01:00.0"


def test_nothing_is_known_of_a_device_that_is_not_there(host: Machine) -> None:
    device = nic_owner.device(host, Target("eth9", "", ""))
    assert (device.path, device.driver, device.type, device.kind, device.own_mac) == (
        None,
        None,
        None,
        None,
        False,
    )


# -- spellings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0", "0"),
        ("4096", "4096"),
        ("0x1F", "31"),
        ("", ""),
        ("010", ""),
        ("-1", ""),
        ("1 2", ""),
        ("٣", ""),
        ("9" * 11, ""),
        ("4096\n", ""),
    ],
)
def test_numbers(text: str, expected: str) -> None:
    assert nic_owner.number(text) == expected


@pytest.mark.parametrize(
    "text", ["00:11:AA:bb:cc:dd", "00-11-aa-bb-cc-dd", "0011.aabb.ccdd", " 0011aabbccdd\n"]
)
def test_addresses(text: str) -> None:
    assert nic_owner.mac(text) == "00:11:aa:bb:cc:dd"


def test_a_pattern_that_makes_no_sense_matches_nothing() -> None:
    assert not nic_owner.fits("[z-a]", "eth0")
    assert nic_owner.fits("[^w]th*", "eth0")
    assert not nic_owner.fits("[^e]th*", "eth0")


def lines_of(text: str, systemd: bool = True) -> list[tuple[str, str, str, str]]:
    found = nic_owner.entries(text, "f", systemd)
    assert found is not None
    return [(entry.section, entry.key, entry.value, entry.source) for entry in found]


def test_entries_of_systemd() -> None:
    text = """\
A=0
[One]
A = 1
;B=2
  # C
D=3 \\
# between
  4
no equals
[Three]\r
F==\\\\
G=6\\"""
    assert lines_of(text) == [
        ("One", "A", "1", "f:3"),
        ("One", "D", "3    4", "f:6"),
        ("Three", "F", "=\\\\", "f:11"),
        ("Three", "G", "6", "f:12"),
    ]
    assert nic_owner.entries(f"{text}\n\n[Two", "f", systemd=True) is None


def test_entries_of_glib_are_not_continued() -> None:
    assert lines_of("[a]\nb=1\\\nc=2\n", systemd=False) == [("a", "b", "1\\", "f:2"), ("a", "c", "2", "f:3")]
    for text in ("[a]\nb", "b=1\n[a]", "[a", "[a]\n;b"):
        assert nic_owner.entries(text, "f", systemd=False) is None


# -- anything ------------------------------------------------------------------------------

WORDS = [
    *"[]=#;!&|\\\n\n\n\t\"'$(){}*?,:-",
    *("[Match]\n", "[Link]\n", "[connection]\n", "[ethernet]\n", "[ethtool]\n", "[match]\n"),
    *("OriginalName=", "Name=", "Property=", "MACAddress=", "Host=", "type=ethernet\n", "interface-name="),
    *("MTUBytes=", "RxBufferSize=", "RxCoalesceSec=", "mtu=", "ring-rx=", "fec-mode=", "path=", "uuid="),
    *("auto eth0\n", "iface eth0 inet manual\n", "inherits ", "source ", "source-directory ", "mtu "),
    *("up ethtool -G eth0 rx ", "up ip link set ", "hardware-dma-ring-rx ", "ETHTOOL_OPTS=", "MTU="),
    *("max", "1ms", "9000", "0x", "on", "eth0", "[z-a]", "\0", "\udc80", "é", "٣", "-K ${DEVICE} tso off"),
]
PLACES = [
    *EVERYWHERE,
    "/etc/sysconfig/network-scripts/ifcfg-eth0",
    "/etc/netplan/a.yaml",
    "/var/lib/NetworkManager/timestamps",
    "/run/udev/data/n7",
    "/sys/class/net/eth0/ifindex",
    "/sys/class/net/eth0/uevent",
]


@pytest.fixture(name="folder", scope="module")
def _folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


@given(st.sampled_from(PLACES), st.lists(st.sampled_from(WORDS), max_size=20).map("".join))
@example("/etc/network/interfaces", "auto eth0\niface eth0 inet manual\nsource /etc/\0\nsource [z-a]\nup 'a")
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=200)
def test_no_content_of_a_file_makes_it_stumble(folder: pathlib.Path, place: str, text: str) -> None:
    host = Machine(str(folder / "node"))
    start_all_once(host)
    for path in PLACES:
        host.put(path, "7\n" if path.endswith("ifindex") else "")
    with open(host.root + place, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    for words in nic_owners.of(host, [ETH0]).values():
        for word in words:
            assert word.value
            assert f"{word.source}{word.file}{word.value}".isprintable()
    assert all(problem.isprintable() for problem in nic_owners.problems(host, [ETH0]))


def start_all_once(host: Machine) -> None:
    if not host.is_link(MANAGER):
        start_all(host)
