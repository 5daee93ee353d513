# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import shutil

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic_owners
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owners import Target
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core", "pci-0000:01:00.0")
ETH1 = Target("eth1", "aa:bb:cc:00:00:02", "ice", "pci-0000:81:00.0")
FOLDER = "/etc/systemd/network"
NET = "/sys/class/net/eth0"


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    """As Debian has it, with its own two files and a NIC of its own hardware."""
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put(
        "/usr/lib/systemd/network/99-default.link",
        "[Match]\nOriginalName=*\n\n[Link]\nNamePolicy=keep kernel\nMACAddressPolicy=persistent\n",
    )
    for name in ("eth0", "eth1"):
        machine.put(f"/sys/class/net/{name}/type", "1\n")
        machine.put(f"/sys/class/net/{name}/device/vendor", "0x15b3\n")
    return machine


@pytest.fixture
def networkd(host: Machine) -> Machine:
    host.link(
        "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service",
        "/usr/lib/systemd/system/systemd-networkd.service",
    )
    return host


def said(host: Machine, target: Target = ETH0) -> dict[str, tuple[str, str]]:
    host.forget()
    words = nic_owners.of(host, [target]).get(target.name, [])
    return {word.file: (word.value, word.source) for word in words}


def link(match: str, values: str = "MTUBytes=9000") -> str:
    return f"[Match]\n{match}\n[Link]\n{values}\n"


def test_the_default_says_nothing(host: Machine) -> None:
    assert said(host) == {}
    assert nic_owners.problems(host, [ETH0]) == []


# -- values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, file, value",
    [
        ("MTUBytes=9000", "mtu", "9000"),
        ("MTUBytes=9K", "mtu", "9216"),
        ("MTUBytes=67", "mtu", "67"),
        ("MTUBytes=0", "", ""),
        ("MTUBytes=1M", "mtu", "1048576"),
        ("MTUBytes=9 000", "", ""),
        ("MTUBytes=5G", "", ""),
        ("TransmitQueueLength=0", "tx_queue_len", "0"),
        ("TransmitQueueLength=4294967296", "", ""),
        ("RxBufferSize=4096", "ring/rx", "4096"),
        ("RxBufferSize=max", "ring/rx", "max"),
        ("RxBufferSize=0", "", ""),
        ("TxBufferSize=512", "ring/tx", "512"),
        ("RxMiniBufferSize=1", "ring/rx-mini", "1"),
        ("RxJumboBufferSize=1", "ring/rx-jumbo", "1"),
        ("CombinedChannels=8", "channels/combined", "8"),
        ("OtherChannels=1", "channels/other", "1"),
        ("RxFlowControl=no", "pause/rx", "off"),
        ("AutoNegotiationFlowControl=1", "pause/autoneg", "on"),
        ("TxFlowControl=maybe", "", ""),
        ("UseAdaptiveRxCoalesce=yes", "coalesce/adaptive-rx", "on"),
        ("RxCoalesceSec=20us", "coalesce/rx-usecs", "20"),
        ("RxCoalesceSec=1ms 5us", "coalesce/rx-usecs", "1005"),
        ("RxCoalesceSec=0.5ms", "coalesce/rx-usecs", "500"),
        ("RxCoalesceSec=1", "coalesce/rx-usecs", "1000000"),
        ("RxCoalesceSec=0", "coalesce/rx-usecs", "0"),
        ("RxCoalesceSec=infinity", "", ""),
        ("RxCoalesceSec=5000s", "", ""),
        ("RxCoalesceSec=3 parsecs", "", ""),
        ("StatisticsBlockCoalesceSec=0", "", ""),
        ("StatisticsBlockCoalesceSec=1s", "coalesce/stats-block-usecs", "1000000"),
        ("CoalescePacketRateSampleIntervalSec=1500ms", "coalesce/sample-interval", "2"),
        ("CoalescePacketRateSampleIntervalSec=0", "", ""),
        ("RxMaxCoalescedFrames=64", "coalesce/rx-frames", "64"),
        ("TCPSegmentationOffload=off", "feature/tx-tcp-segmentation", "off"),
        ("TransmitChecksumOffload=true", "feature/tx", "on"),
        ("GenericReceiveOffloadHardware=t", "feature/rx-gro-hw", "on"),
        ("WakeOnLan=magic", "", ""),
    ],
)
def test_what_a_line_sets(host: Machine, line: str, file: str, value: str) -> None:
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*", line))
    assert said(host) == ({file: (value, f"{FOLDER}/10-a.link:4")} if file else {})


def test_the_last_of_two_counts_and_an_empty_one_takes_back(host: Machine) -> None:
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*", "MTUBytes=1500\nMTUBytes=9000\nMTUBytes=few"))
    assert said(host)["mtu"] == ("9000", f"{FOLDER}/10-a.link:5")
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*", "RxBufferSize=1\nMTUBytes=1\nRxBufferSize="))
    assert set(said(host)) == {"mtu"}
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*", "MTUBytes=1500\nMTUBytes="))
    assert said(host)["mtu"][0] == "1500"


# -- files ---------------------------------------------------------------------------------


def test_only_the_first_file_that_matches_counts(host: Machine) -> None:
    host.put(f"{FOLDER}/20-b.link", link("OriginalName=*", "RxBufferSize=1"))
    host.put("/usr/lib/systemd/network/10-a.link", link("OriginalName=eth0"))
    assert set(said(host)) == {"mtu"}
    assert set(said(host, ETH1)) == {"ring/rx"}


def test_an_earlier_folder_hides_a_file_of_the_same_name(host: Machine) -> None:
    host.put("/usr/lib/systemd/network/10-a.link", link("OriginalName=*", "MTUBytes=1"))
    host.put("/run/systemd/network/10-a.link", link("OriginalName=*"))
    assert said(host)["mtu"][1] == "/run/systemd/network/10-a.link:4"


def test_an_empty_file_and_a_link_to_null_mask(host: Machine) -> None:
    for folder in ("/run", "/usr/lib"):
        host.put(f"{folder}/systemd/network/10-a.link", link("OriginalName=*"))
    host.put(f"{FOLDER}/10-a.link.d/b.conf", "[Link]\nMTUBytes=1500\n")
    assert said(host)["mtu"][0] == "1500"
    host.link(f"{FOLDER}/10-a.link", "/dev/null")
    assert said(host) == {}
    host.remove(f"{FOLDER}/10-a.link")
    host.put(f"{FOLDER}/10-a.link", "")
    assert said(host) == {}


def test_what_is_dropped_in_comes_after_the_file_in_the_order_of_the_names(host: Machine) -> None:
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=nobody"))
    host.put("/usr/lib/systemd/network/10-a.link.d/20.conf", "[Link]\nMTUBytes=2000\n")
    host.put(
        "/run/systemd/network/10-a.link.d/10.conf",
        "[Match]\nOriginalName=\nOriginalName=eth*\n[Link]\nMTUBytes=1000\n",
    )
    host.put("/usr/lib/systemd/network/10-a.link.d/10.conf", "[Link]\nRxBufferSize=1\n")
    host.put("/usr/lib/systemd/network/10-a.link.d/10.txt", "[Link]\nRxBufferSize=1\n")
    assert said(host) == {"mtu": ("2000", "/usr/lib/systemd/network/10-a.link.d/20.conf:2")}


def test_systemd_refuses_a_file_with_a_damaged_header(host: Machine) -> None:
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*", "MTUBytes=9000\n[Link"))
    host.put(f"{FOLDER}/20-b.link", link("OriginalName=*", "RxBufferSize=1"))
    assert set(said(host)) == {"ring/rx"}
    host.put(f"{FOLDER}/20-b.link.d/c.conf", "[Link\n")
    assert said(host) == {}


def test_split_usr_is_read_too_and_merged_usr_only_once(host: Machine) -> None:
    host.put("/lib/systemd/network/10-a.link", link("OriginalName=*"))
    assert said(host)["mtu"][1] == "/lib/systemd/network/10-a.link:4"
    host.put("/usr/lib/netplan/.keep", "")
    shutil.rmtree(f"{host.root}/lib")
    host.link("/lib", "usr/lib")
    host.put("/usr/lib/systemd/network/10-a.link", link("OriginalName=*"))
    assert said(host)["mtu"][1] == "/usr/lib/systemd/network/10-a.link:4"


# -- [Match] -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "match, expected",
    [
        ("", False),
        ("Colour=red", False),
        ("OriginalName=", False),
        ("OriginalName=eth0", True),
        ("OriginalName=ens* eth?", True),
        ("OriginalName=eth1", False),
        ("OriginalName=!eth1 lo", True),
        ("OriginalName=!eth0 lo", False),
        ("OriginalName=!eth0\nOriginalName=*", False),
        ("OriginalName=eth1\nOriginalName=eth0", True),
        ("OriginalName=eth0\nOriginalName=\nOriginalName=eth1", False),
        ("OriginalName=[z-a]", False),
        ("MACAddress=AA-BB-CC-00-00-01", True),
        ("MACAddress=00:00:00:00:00:00 aabb.cc00.0001", True),
        ("MACAddress=aa:bb:cc:00:00:02", False),
        ("PermanentMACAddress=aa:bb:cc:00:00:01", True),
        ("Path=pci-0000:01:*", True),
        ("Path=!pci-0000:01:*", False),
        ("Driver=mlx5_core ice", True),
        ("Driver=!mlx5_core", False),
        ("Type=ether", True),
        ("Type=wlan", False),
        ("Type=!wlan", True),
        ("Kind=bond", False),
        ("Kind=!bond", True),
        ("WLANInterfaceType=station", False),
        ("SSID=!home", True),
        ("OriginalName=eth0\nDriver=ice", False),
        ("Driver='mlx5_core", False),
    ],
)
def test_what_matches(host: Machine, match: str, expected: bool) -> None:
    host.put(f"{FOLDER}/10-a.link", link(match))
    assert bool(said(host)) is expected
    assert nic_owners.problems(host, [ETH0]) == []


@pytest.mark.parametrize(
    "match",
    [
        "Property=ID_VENDOR=x",
        "Host=other",
        "KernelCommandLine=!quiet",
        "PermanentMACAddress=aa:bb:cc:00:00:09",
        "Driver=mlx5_core\nVirtualization=no",
    ],
)
def test_what_nobody_can_tell_is_a_problem(host: Machine, match: str) -> None:
    host.put(f"{FOLDER}/10-a.link", link(match))
    assert said(host) == {}
    (problem,) = nic_owners.problems(host, [ETH0])
    assert problem == (
        f"{FOLDER}/10-a.link:{4 + match.count(chr(10))} sets mtu to 9000; whether the [Match] of "
        f"{FOLDER}/10-a.link means eth0 is not known"
    )
    # Where it sets nothing of ours, it does not matter; nor where something else rules it out.
    host.put(f"{FOLDER}/10-a.link", link(match, "Name=lan0"))
    assert said(host) == {}
    assert nic_owners.problems(host, [ETH0]) == []
    host.put(f"{FOLDER}/10-a.link", link(f"{match}\nOriginalName=wlan*"))
    assert said(host) == {}
    assert nic_owners.problems(host, [ETH0]) == []


def test_an_empty_condition_is_none(host: Machine) -> None:
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=*\nHost=a\nHost="))
    assert said(host)["mtu"][0] == "9000"


def test_udev_tells_which_file_it_took(host: Machine) -> None:
    host.put(f"{NET}/ifindex", "3\n")
    host.put("/lib/systemd/network/10-a.link", link("Host=here"))
    host.put("/run/udev/data/n3", "E:ID_NET_LINK_FILE=/usr/lib/systemd/network/10-a.link\n")
    assert said(host)["mtu"][0] == "9000"
    host.put("/run/udev/data/n3", "E:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link\n")
    assert said(host) == {}
    assert nic_owners.problems(host, [ETH0]) == []


@pytest.mark.parametrize(
    "match, expected",
    [
        ("Property=ID_BUS=pci", True),
        ('Property="ID_MODEL=a b*" ID_BUS=pci', True),
        ("Property=ID_BUS=usb", False),
        ("Property=ID_BUS=pci ID_NONE=*", False),
        ("Property=!ID_BUS=usb", True),
        ("Property=!ID_BUS=pci", False),
        ("Path=?*", True),
    ],
)
def test_properties_of_udev(host: Machine, match: str, expected: bool) -> None:
    host.put(f"{NET}/ifindex", "3\n")
    host.put("/run/udev/data/n3", "E:ID_BUS=pci\nE:ID_MODEL=a big one\n")
    host.put(f"{FOLDER}/10-a.link", link(match))
    assert bool(said(host)) is expected


def test_the_name_before_a_renaming_is_not_known(host: Machine) -> None:
    host.put(f"{NET}/name_assign_type", "4\n")
    host.put(f"{FOLDER}/10-a.link", link("OriginalName=enp1s0"))
    assert said(host) == {}
    assert len(nic_owners.problems(host, [ETH0])) == 1
    for pattern in ("*", "eth0"):
        host.put(f"{FOLDER}/10-a.link", link(f"OriginalName={pattern}"))
        assert said(host)


# -- systemd-networkd ----------------------------------------------------------------------


def test_networkd_sets_the_mtu_alone(networkd: Machine) -> None:
    networkd.put(f"{FOLDER}/10-a.network", link("Name=eth0", "MTUBytes=9000\nRxBufferSize=1"))
    (word,) = nic_owners.of(networkd, [ETH0, ETH1])["eth0"]
    assert (word.file, word.value, word.owner) == ("mtu", "9000", "systemd-networkd")
    assert word.source == f"{FOLDER}/10-a.network:4"


def test_what_networkd_leaves_alone_it_does_not_set(networkd: Machine) -> None:
    networkd.put(f"{FOLDER}/10-a.network", link("Name=eth0", "Unmanaged=yes\nMTUBytes=9000"))
    networkd.put(f"{FOLDER}/20-b.network", link("Name=*"))
    assert said(networkd) == {}
    assert said(networkd, ETH1)["mtu"][0] == "9000"


def test_original_name_is_no_key_of_networkd_nor_name_one_of_udev(networkd: Machine) -> None:
    networkd.put(f"{FOLDER}/10-a.network", link("OriginalName=eth0"))
    networkd.put(f"{FOLDER}/10-a.link", link("Name=eth0"))
    assert said(networkd) == {}


def test_other_names_that_udev_gave(networkd: Machine) -> None:
    networkd.put(f"{NET}/ifindex", "3\n")
    networkd.put("/run/udev/data/n3", "E:ID_NET_NAME_PATH=enp1s0\n")
    networkd.put(f"{FOLDER}/10-a.network", link("Name=enp1s0"))
    assert said(networkd)["mtu"][0] == "9000"


def test_networkd_tells_which_file_it_took(networkd: Machine) -> None:
    networkd.put(f"{NET}/ifindex", "3\n")
    networkd.put(f"{FOLDER}/10-a.network", link("Host=here"))
    networkd.put(
        "/run/systemd/netif/links/3", f"ADMIN_STATE=configured\nNETWORK_FILE={FOLDER}/10-a.network\n"
    )
    assert said(networkd)["mtu"][0] == "9000"
