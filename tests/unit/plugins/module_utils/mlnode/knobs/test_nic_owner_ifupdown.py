# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's ifupdown, and the commands of a shell that people write there."""

from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic_owner_commands, nic_owners
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owner_commands import Said
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owners import Target
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core")
ETH1 = Target("eth1", "aa:bb:cc:00:00:02", "mlx5_core")
FILE = "/etc/network/interfaces"


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/sbin/ifup", "", 0o755)
    machine.put("/etc/network/if-up.d/ethtool", "", 0o755)
    return machine


def said(host: Machine, text: str, target: Target = ETH0) -> list[tuple[str, str, str]]:
    host.put(FILE, text)
    host.forget()
    words = nic_owners.of(host, [ETH0, ETH1]).get(target.name, [])
    assert {word.owner for word in words} <= {"ifupdown"}
    return [(word.file, word.value, word.source.replace(f"{FILE}:", ":")) for word in words]


def stanza(options: str, first: str = "auto eth0", name: str = "eth0") -> str:
    return f"{first}\niface {name} inet manual\n{options}\n"


@pytest.mark.parametrize(
    "option, file, value",
    [
        ("mtu 9000", "mtu", "9000"),
        ("\tmtu\t9000", "mtu", "9000"),
        ("mtu lots", "", ""),
        ("hardware-dma-ring-rx 4096", "ring/rx", "4096"),
        ("hardware-dma-ring-rx-jumbo 1", "ring/rx-jumbo", "1"),
        ("hardware-irq-coalesce-rx-usecs 8", "coalesce/rx-usecs", "8"),
        ("hardware-irq-coalesce-adaptive-rx on", "coalesce/adaptive-rx", "on"),
        ("ethernet-pause-rx off", "pause/rx", "off"),
        ("offload-tso off", "feature/tso", "off"),
        ("offload-tx_udp_tnl_segmentation off", "feature/tx-udp-tnl-segmentation", "off"),
        ("offload-tso perhaps", "", ""),
        ("ethernet-wol g", "", ""),
        ("address 10.0.0.1/24", "", ""),
        ("post-up ethtool -G $IFACE rx 4096", "ring/rx", "4096"),
        ("up ip link set dev ${IFACE} mtu 9000 || true", "mtu", "9000"),
        ("down ethtool -G eth0 rx 4096", "", ""),
        ("# mtu 9000", "", ""),
    ],
)
def test_what_an_option_sets(host: Machine, option: str, file: str, value: str) -> None:
    assert said(host, stanza(option)) == ([(file, value, ":3")] if file else [])


def test_the_order_is_that_of_ifup(host: Machine) -> None:
    text = "up ip link set eth0 mtu 3\npre-up ip link set eth0 mtu 1\nmtu 2\npost-up ip link set eth0 mtu 4"
    assert [value for _file, value, _source in said(host, stanza(text))] == ["1", "2", "3", "4"]


def test_options_of_ethtool_count_where_its_script_is(host: Machine) -> None:
    text = stanza("offload-tso off\nmtu 9000")
    assert len(said(host, text)) == 2
    assert said(host, f"no-scripts eth0\n{text}") == [("mtu", "9000", ":5")]
    host.remove("/etc/network/if-up.d/ethtool")
    assert said(host, text) == [("mtu", "9000", ":4")]


@pytest.mark.parametrize(
    "first, name, expected",
    [
        ("auto eth0", "eth0", True),
        ("auto lo eth0", "eth0", True),
        ("allow-hotplug eth0", "eth0", True),
        ("auto eth1", "eth0", False),
        ("no-auto-down eth0", "eth0", False),
        ("auto /eth*", "eth0", True),
        ("auto /eth*/1=fast", "fast", True),
        ("auto /eth*=fast", "eth0", False),
        ("auto mac/AA:BB:CC:*:01=fast", "fast", True),
        ("auto mac/00:*=fast", "fast", False),
        ("auto operstate/up=fast", "fast", False),
        ("auto /", "eth0", False),
    ],
)
def test_what_is_brought_up_at_boot(host: Machine, first: str, name: str, expected: bool) -> None:
    assert bool(said(host, stanza("mtu 9000", first, name))) is expected


def test_a_command_may_be_meant_for_another_interface(host: Machine) -> None:
    text = stanza("post-up ethtool -K eth1 gro off", "auto bond0", "bond0")
    assert said(host, text, ETH1) == [("feature/gro", "off", ":3")]
    assert said(host, text) == []
    assert said(host, stanza("up ip link set eth1 mtu 1", "auto eth0\niface ../../eth1\0 inet manual"), ETH1)


def test_templates_and_repeated_stanzas(host: Machine) -> None:
    text = """\
auto eth0
iface base inet static
    mtu 9000
    offload-tso off
iface base inet6 static
    mtu 5
iface eth0 inet static inherits base
    mtu 1500
iface eth0 inet6 auto
    mtu 1600
"""
    assert said(host, text) == [
        ("mtu", "9000", ":3"),
        ("feature/tso", "off", ":4"),
        ("mtu", "1500", ":8"),
        ("mtu", "1600", ":10"),
    ]


def test_a_template_of_itself_ends(host: Machine) -> None:
    text = "auto eth0\niface a inet manual inherits b\niface b inet manual inherits a\nmtu 1\n"
    assert said(host, f"{text}iface eth0 inet manual inherits a\n") == [("mtu", "1", ":4")]
    assert said(host, "auto eth0\niface eth0 inet manual inherits eth0\nmtu 1\n") == [("mtu", "1", ":3")]
    assert said(host, "auto eth0\niface\niface eth0 inet manual inherits\nmtu 1\n") == [("mtu", "1", ":4")]


def test_lines_that_go_on_and_comments_that_do_not(host: Machine) -> None:
    text = stanza("hardware-dma-ring-rx \\\n  4096\n# mtu 1 \\\n  mtu 9000 \\")
    assert said(host, text) == [("ring/rx", "4096", ":3"), ("mtu", "9000", ":6")]


def test_options_after_another_statement_belong_to_nobody(host: Machine) -> None:
    for statement in ("auto lo", "allow-hotplug lo", "mapping lo", "source nothing", "rename a=b"):
        assert said(host, stanza(f"{statement}\nmtu 9000")) == []


def test_files_that_are_sourced(host: Machine) -> None:
    folder = "/etc/network/interfaces.d"
    host.put(f"{folder}/a.cfg", "iface eth0 inet manual\nmtu 1\n")
    host.put(f"{folder}/b", "iface eth0 inet manual\nmtu 2\n")
    host.put("/opt/c", f"source {FILE}\niface eth0 inet manual\nmtu 3\n")
    assert said(host, "auto eth0\nsource interfaces.d/*\nsource /opt/c\nsource /opt/none\n") == [
        ("mtu", "1", f"{folder}/a.cfg:2"),
        ("mtu", "2", f"{folder}/b:2"),
        ("mtu", "3", "/opt/c:3"),
    ]
    assert said(host, "auto eth0\nsource-directory interfaces.d\n") == [("mtu", "2", f"{folder}/b:2")]


def test_no_chain_of_files_or_templates_is_too_long(host: Machine) -> None:
    for number in range(300):
        host.put(f"/opt/{number}", f"source /opt/{number + 1}\n")
    assert said(host, stanza("mtu 1") + "source /opt/0\n") == [("mtu", "1", ":3")]
    assert "more than 200" in nic_owners.problems(host, [ETH0, ETH1])[0]
    chain = "".join(f"iface t{number} inet manual inherits t{number + 1}\n" for number in range(1500))
    text = f"auto eth0\niface eth0 inet manual inherits t0\n{chain}iface t1500 inet manual\nmtu 7\n"
    assert [value for _file, value, _source in said(host, text)] == ["7"]


def test_a_sourced_file_that_cannot_be_read_is_told(host: Machine) -> None:
    host.put("/opt/c", "")
    host.unreadable["/opt/c"] = errno.EIO
    assert said(host, stanza("mtu 1") + "source /opt/c\n") == [("mtu", "1", ":3")]
    assert "/opt/c: EIO" in nic_owners.problems(host, [ETH0, ETH1])[0]


@pytest.mark.parametrize("pattern", ["/etc/a\0b*", "/etc/a\0b", f"/{'a' * 300}"])
def test_a_path_that_cannot_be_one(host: Machine, pattern: str) -> None:
    for word in ("source", "source-directory"):
        assert said(host, stanza("mtu 1") + f"{word} {pattern}\n") == [("mtu", "1", ":3")]


# -- commands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, expected",
    [
        ("ethtool -G eth0 rx 4096 tx 0x200", [("ring/rx", "4096"), ("ring/tx", "512")]),
        ("/usr/sbin/ethtool --set-ring eth0 rx 1", [("ring/rx", "1")]),
        ("ethtool -L eth0 combined 8", [("channels/combined", "8")]),
        (
            "ethtool -C eth0 adaptive-rx off rx-usecs 8",
            [("coalesce/adaptive-rx", "off"), ("coalesce/rx-usecs", "8")],
        ),
        ("ethtool -A eth0 autoneg off rx on", [("pause/autoneg", "off"), ("pause/rx", "on")]),
        ("ethtool --offload eth0 tso off gro on", [("feature/tso", "off"), ("feature/gro", "on")]),
        ("ethtool --set-fec eth0 encoding RS BaseR", [("fec/encoding", "rs baser")]),
        ("ethtool --set-fec eth0 encoding magic", []),
        ("ethtool --set-fec eth0", []),
        ("ethtool --set-priv-flags eth0 rx_cqe_compress on", [("private-flag/rx_cqe_compress", "on")]),
        ("ethtool eth0", []),
        ("ethtool -G", []),
        ("ethtool -G eth0 rx", []),
        ("ethtool -G eth0 ../rx 1", []),
        ("ethtool -s eth0 speed 1000", []),
        ("ip link set eth0 mtu 9000", [("mtu", "9000")]),
        ("ip link set mtu 9000 txqlen 500 dev eth0", [("mtu", "9000"), ("tx_queue_len", "500")]),
        ("ip -force link set dev eth0 up mtu 9000", [("mtu", "9000")]),
        ("ip link show eth0", []),
        ("ip link set eth0 mtu", []),
        ("ip link set dev", []),
        ("ip addr add mtu 1 dev eth0", []),
        ("ifconfig eth0 mtu 9000 txqueuelen 100", [("mtu", "9000"), ("tx_queue_len", "100")]),
        ("ifconfig", []),
        ("sysctl -w x=1 && ethtool -K eth0 lro off; true", [("feature/lro", "off")]),
        ("[ -x /sbin/ethtool ] && { ethtool -G eth0 rx 1; }", [("ring/rx", "1")]),
        ("if true; then A=b sudo ethtool -G eth0 rx 1; fi", [("ring/rx", "1")]),
        ("(ethtool -G eth0 rx 1 >/dev/null 2>&1) || true", [("ring/rx", "1")]),
        ("echo ethtool -G eth0 rx 1", []),
        ("ethtool -G 'eth0 rx 1", []),
        ("A=b", []),
        ("", []),
    ],
)
def test_what_a_command_sets(line: str, expected: list[tuple[str, str]]) -> None:
    assert nic_owner_commands.said(line, {}) == [Said("eth0", file, value) for file, value in expected]


def test_variables() -> None:
    line = 'ethtool -G "$IFACE" rx 1; ethtool -G ${IFACE} tx 2; ethtool -G $OTHER rx 3'
    assert nic_owner_commands.said(line, {"IFACE": "eth7"}) == [
        Said("eth7", "ring/rx", "1"),
        Said("eth7", "ring/tx", "2"),
        Said("$OTHER", "ring/rx", "3"),
    ]
