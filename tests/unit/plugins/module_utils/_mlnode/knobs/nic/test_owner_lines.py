# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keywords, values and matches of the files of network managers."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.nic import owner_lines as nic_owner_lines
from mlnode.knobs.nic.owner_lines import Line, Target

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core")
NET = "/sys/class/net/eth0"


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put(f"{NET}/type", "1\n")
    machine.put(f"{NET}/addr_assign_type", "0\n")
    machine.put(f"{NET}/ifindex", "7\n")
    machine.put("/run/udev/data/n7", "I:1\nE:ID_PATH=pci-0000:01:00.0\nE:ID_NET_DRIVER=mlx5_core\n")
    return machine


@pytest.mark.parametrize(
    "section, key, text, file, value",
    [
        ("Link", "MTUBytes", "9000", "mtu", "9000"),
        ("Link", "MTUBytes", "9K", "mtu", "9216"),
        ("Link", "TransmitQueueLength", "0", "tx_queue_len", "0"),
        ("Link", "RxBufferSize", "max", "ring/rx", "max"),
        ("Link", "CombinedChannels", "8", "channels/combined", "8"),
        ("Link", "RxFlowControl", "no", "pause/rx", "off"),
        ("Link", "UseAdaptiveRxCoalesce", "yes", "coalesce/adaptive-rx", "on"),
        ("Link", "RxCoalesceSec", "20us", "coalesce/rx-usecs", "20"),
        ("Link", "TxCoalesceIrqSec", "1ms", "coalesce/tx-usecs-irq", "1000"),
        ("Link", "RxCoalesceLowSec", "1", "coalesce/rx-usecs-low", "1000000"),
        ("Link", "RxCoalesceSec", "3 parsecs", "coalesce/rx-usecs", "3 parsecs"),
        ("Link", "TxMaxCoalescedHighFrames", "64", "coalesce/tx-frames-high", "64"),
        ("Link", "CoalescePacketRateSampleIntervalSec", "2s", "coalesce/sample-interval", "2"),
        ("Link", "TCPSegmentationOffload", "off", "feature/tx-tcp-segmentation", "off"),
        ("Link", "WakeOnLan", "magic", "", "magic"),
        ("Match", "MTUBytes", "9000", "", "9000"),
        ("ethernet", "mtu", "9000", "mtu", "9000"),
        ("ethernet", "mtu", "auto", "mtu", ""),
        ("infiniband", "mtu", "0", "mtu", ""),
        ("link", "tx-queue-length", "-1", "tx_queue_len", ""),
        ("ethtool", "ring-rx-jumbo", "1", "ring/rx-jumbo", "1"),
        ("ethtool", "coalesce-adaptive-rx", "1", "coalesce/adaptive-rx", "on"),
        ("ethtool", "feature-tx-udp_tnl-segmentation", "false", "feature/tx-udp_tnl-segmentation", "off"),
        ("ethtool", "fec-mode", "18", "fec/encoding", "auto baser"),
        ("ethtool", "fec-mode", "1", "fec/encoding", ""),
        ("ipv4", "ring-rx", "4096", "", "4096"),
        ("", "MTU", "9000", "mtu", "9000"),
        ("iface", "hardware-dma-ring-rx", "4096", "ring/rx", "4096"),
        ("iface", "hardware-irq-coalesce-rx-usecs", "8", "coalesce/rx-usecs", "8"),
        ("iface", "ethernet-pause-rx", "off", "pause/rx", "off"),
        ("iface", "offload-tso", "off", "feature/tso", "off"),
        ("iface", "ethernet-wol", "g", "", "g"),
        ("netplan", "mtu", "9000", "mtu", "9000"),
        ("netplan", "tcp6-segmentation-offload", "false", "feature/tx-tcp6-segmentation", "off"),
    ],
)
def test_the_knob_and_the_value_of_a_line(section: str, key: str, text: str, file: str, value: str) -> None:
    assert nic_owner_lines.file_of(Line(section, key, text, "f:1")) == file
    assert nic_owner_lines.value_of(file, text, key) == value


@pytest.mark.parametrize(
    "text, expected",
    [
        ("ethtool -G eth0 rx 4096 tx 512", [("ring/rx", "4096"), ("ring/tx", "512")]),
        (
            "ethtool -G \"$IFACE\" rx 1; ethtool -K '${DEVICE}' tso off",
            [("ring/rx", "1"), ("feature/tso", "off")],
        ),
        ("(/sbin/ethtool --coalesce eth0 adaptive-rx off >/dev/null)", [("coalesce/adaptive-rx", "off")]),
        ("ethtool --set-fec eth0 encoding RS", [("fec/encoding", "rs")]),
        ("ethtool --set-priv-flags eth0 rx_cqe_compress on", [("private-flag/rx_cqe_compress", "on")]),
        ("ethtool -G eth1 rx 4096", []),
        ("ethtool -G", []),
        ("ethtool -s eth0 speed 1000", []),
        ("-G eth0 rx 4096; -K eth1 gro off", [("ring/rx", "4096")]),
        ("ip link set dev ${IFACE} mtu 9000 txqueuelen 5 || true", [("mtu", "9000"), ("tx_queue_len", "5")]),
        ("ip link set eth1 mtu 9000", []),
        ("ifconfig eth0 mtu 9000", [("mtu", "9000")]),
        ("echo eth0 mtu 9000", []),
        ("", []),
    ],
)
def test_what_a_command_sets(text: str, expected: list[tuple[str, str]]) -> None:
    assert [*nic_owner_lines.commands(text, "eth0", "eth0")] == expected


def test_lines_have_their_section_and_place() -> None:
    text = "A=0\n[One]\n ;B=2\nC = 'x y' # z\nno equals\n[Two]\r\n# D=1\nE=\n"
    assert nic_owner_lines.lines(text, "/f\n") == [
        Line("", "A", "0", "/f\\n:1"),
        Line("One", "C", "x y", "/f\\n:4"),
        Line("Two", "E", "", "/f\\n:8"),
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[Match]\nOriginalName=eth0", True),
        ("[Match]\nName=ens* eth?", True),
        ("[Match]\nName=eth1", False),
        ("[Match]\nName=[z-a]", False),
        ("[Match]\nName=eth1\nName=\nName=eth0", True),
        ("[Match]\nName=eth1\nName=eth0", True),
        ("[Match]\nMACAddress=00:00:00:00:00:00 aabb.cc00.0001", True),
        ("[Match]\nPermanentMACAddress=AA-BB-CC-00-00-02", False),
        ("[Match]\nPath=pci-0000:01:*", True),
        ("[Match]\nDriver=mlx5_core ice", True),
        ("[Match]\nName=eth0\nDriver=ice", False),
        ("[Match]\nType=ether", True),
        ("[Match]\nType=wlan", False),
        ("[Match]\nMACAddress=aa:bb:cc:00:00:01\nType=!vlan bond bridge", True),
        ("[Match]\nName=!eth1", None),
        ("[Match]\nName=eth0\nHost=other", None),
        ("[Match]\nName=eth1\nHost=other", False),
        ("[Match]\nProperty=ID_BUS=pci", None),
        ("[Match]\nName=eth0\nHost=a\nHost=", True),
        ("[Link]\nName=eth0", None),
        ("[Match]\nName=eth0\n[Link]\nUnmanaged=yes", False),
        ("[connection]\ninterface-name=eth0\ntype=bond", True),
        ("[connection]\ninterface-name=eth1", False),
        ("[connection]\ntype=802-3-ethernet", True),
        ("[connection]\ntype=infiniband", False),
        ("[connection]\ntype=ethernet\nautoconnect=false", False),
        ("[connection]\ntype=ethernet\n[ethernet]\nmac-address=AA:BB:CC:00:00:01", True),
        ("[connection]\ntype=ethernet\n[match]\ninterface-name=ens*;eth*;", True),
        ("[match]\ninterface-name=&eth*;!eth0", None),
        ("[match]\nkernel-command-line=quiet", None),
        ("DEVICE=eth0", True),
        ("DEVICE='eth1'", False),
        ("HWADDR=AA:BB:CC:00:00:01\nONBOOT=yes", True),
        ("DEVICE=eth0\nONBOOT=no", False),
        ("", None),
    ],
)
def test_the_interfaces_of_a_file(host: Machine, text: str, expected: bool | None) -> None:
    found = nic_owner_lines.lines(text, "/f")
    assert nic_owner_lines.concerns(found, nic_owner_lines.known(host, ETH0)) is expected


@pytest.mark.parametrize(
    "path, value, text",
    [
        (f"{NET}/name_assign_type", "4\n", "[Match]\nOriginalName=enp1s0"),
        (f"{NET}/addr_assign_type", "3\n", "[Match]\nPermanentMACAddress=aa:bb:cc:00:00:09"),
        (f"{NET}/ifindex", "8\n", "[Match]\nPath=pci-0000:01:*"),
        (f"{NET}/type", "772\n", "[Match]\nType=ether"),
    ],
)
def test_what_an_interface_does_not_show_is_not_resolved(
    host: Machine, path: str, value: str, text: str
) -> None:
    found = nic_owner_lines.lines(text, "/f")
    assert nic_owner_lines.concerns(found, nic_owner_lines.known(host, ETH0)) is not None
    host.put(path, value)
    assert nic_owner_lines.concerns(found, nic_owner_lines.known(host, ETH0)) is None


def test_a_port_of_a_bond_is_known_by_its_own_address(host: Machine) -> None:
    host.put(f"{NET}/addr_assign_type", "3\n")
    host.put(f"{NET}/bonding_slave/perm_hwaddr", "AA:BB:CC:00:00:99\n")
    found = nic_owner_lines.lines("[Match]\nPermanentMACAddress=aa:bb:cc:00:00:99", "/f")
    assert nic_owner_lines.concerns(found, nic_owner_lines.known(host, ETH0)) is True
