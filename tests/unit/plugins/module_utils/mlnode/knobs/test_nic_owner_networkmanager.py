# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager's key files, and the ifcfg files of Red Hat's distributions."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import nic_owners
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nic_owners import Target
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core", "pci-0000:01:00.0")
ETC, RUN, LIB = (f"{top}/NetworkManager/system-connections" for top in ("/etc", "/run", "/usr/lib"))
A = f"{ETC}/a.nmconnection"
IFCFG = "/etc/sysconfig/network-scripts/ifcfg-eth0"
WANTS = "/etc/systemd/system/multi-user.target.wants"


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/sys/class/net/eth0/type", "1\n")
    machine.put("/sys/class/net/eth0/addr_assign_type", "0\n")
    machine.link(f"{WANTS}/NetworkManager.service", "/usr/lib/systemd/system/NetworkManager.service")
    return machine


def said(host: Machine, target: Target = ETH0) -> dict[str, tuple[str, str]]:
    host.forget()
    words = nic_owners.of(host, [target]).get(target.name, [])
    return {word.file: (word.value, word.source) for word in words}


def profile(more: str = "", values: str = "[ethernet]\nmtu=9000\n", kind: str = "ethernet") -> str:
    return f"[connection]\nid=a\ntype={kind}\n{more}\n{values}"


@pytest.mark.parametrize(
    "values, file, value",
    [
        ("[ethernet]\nmtu=9000", "mtu", "9000"),
        ("[802-3-ethernet]\nmtu=1500", "mtu", "1500"),
        ("[ethernet]\nmtu=0", "", ""),
        ("[ethernet]\nmtu=auto", "", ""),
        ("[bridge]\nmtu=9000", "", ""),
        ("[link]\ntx-queue-length=1000", "tx_queue_len", "1000"),
        ("[link]\ntx-queue-length=-1", "", ""),
        ("[ethtool]\nring-rx=4096", "ring/rx", "4096"),
        ("[ethtool]\nring-rx-jumbo=1", "ring/rx-jumbo", "1"),
        ("[ethtool]\nring-rx=max", "", ""),
        ("[ethtool]\nchannels-combined=8", "channels/combined", "8"),
        ("[ethtool]\ncoalesce-rx-usecs=8", "coalesce/rx-usecs", "8"),
        ("[ethtool]\ncoalesce-adaptive-rx=1", "coalesce/adaptive-rx", "on"),
        ("[ethtool]\ncoalesce-adaptive-rx=0", "coalesce/adaptive-rx", "off"),
        ("[ethtool]\npause-autoneg=false", "pause/autoneg", "off"),
        ("[ethtool]\nfeature-tso=true", "feature/tso", "on"),
        ("[ethtool]\nfeature-tx-udp_tnl-segmentation=false", "feature/tx-udp_tnl-segmentation", "off"),
        ("[ethtool]\nfeature-tso=perhaps", "", ""),
        ("[ethtool]\nfec-mode=8", "fec/encoding", "rs"),
        ("[ethtool]\nfec-mode=18", "fec/encoding", "auto baser"),
        ("[ethtool]\nfec-mode=1", "", ""),
        ("[ethtool]\neee-enabled=true", "", ""),
        ("[ipv4]\nring-rx=4096", "", ""),
    ],
)
def test_what_a_line_sets(host: Machine, values: str, file: str, value: str) -> None:
    host.put(A, profile(values=values))
    assert said(host) == ({file: (value, f"{A}:6")} if file else {})


def test_the_last_of_two_lines_counts(host: Machine) -> None:
    host.put(A, profile(values="[ethernet]\nmtu=9000\n[ethtool]\nring-rx=1\n[ethernet]\nmtu=1500\n"))
    assert said(host)["mtu"] == ("1500", f"{A}:10")


@pytest.mark.parametrize(
    "more, expected",
    [
        ("interface-name=eth0", True),
        ("interface-name=eth1", False),
        ("autoconnect=false", False),
        ("autoconnect=0", False),
        ("autoconnect=true", True),
        ("[ethernet]\nmac-address=AA:BB:CC:00:00:01", True),
        ("[802-3-ethernet]\nmac-address=AA:BB:CC:00:00:02", False),
        ("[ethernet]\nmac-address-blacklist=00:00:00:00:00:01;AA:BB:CC:00:00:01;", False),
        ("[ethernet]\nmac-address-denylist=00:00:00:00:00:01", True),
        ("[match]\ninterface-name=ens*;eth*;", True),
        ("[match]\ninterface-name=ens*;", False),
        ("[match]\ninterface-name=!eth0", False),
        ("[match]\ninterface-name=!eth1", True),
        ("[match]\ninterface-name=eth*;!eth0", False),
        ("[match]\ninterface-name=&eth*;&*0", True),
        ("[match]\ninterface-name=&eth*;&*1", False),
        ("[match]\ninterface-name=|!eth0;|eth0", True),
        ("[match]\ninterface-name=\\eth0", True),
        ("[match]\ninterface-name=[z-a]", False),
        ("[match]\ninterface-name=!", True),
        ("[match]\ndriver=mlx5*", True),
        ("[match]\npath=pci-0000:81:*", False),
        ("[match]\npath=pci-0000:01:*\ndriver=ice", False),
        ("[match]\nkernel-command-line=quiet", True),
        ("[match]\nkernel-command-line=root", True),
        ("[match]\nkernel-command-line=root=/dev/vda1", True),
        ("[match]\nkernel-command-line=qui*", False),
        ("[match]\nkernel-command-line=!nosmt", True),
    ],
)
def test_which_profiles_fit(host: Machine, more: str, expected: bool) -> None:
    host.put(A, profile(more))
    assert bool(said(host)) is expected
    assert nic_owners.problems(host, [ETH0]) == []


def test_a_profile_without_a_name_is_for_devices_of_its_type(host: Machine) -> None:
    host.put(A, profile(kind="802-3-ethernet"))
    assert said(host)
    for kind in ("infiniband", "wifi", "vlan", "bond"):
        host.put(A, profile(kind=kind))
        assert not said(host)
    host.put(A, profile("interface-name=eth0", kind="vlan"))
    assert said(host)
    host.put("/sys/class/net/eth0/uevent", "DEVTYPE=wlan\n")
    host.put(A, profile())
    assert not said(host)


@pytest.mark.parametrize(
    "target, more",
    [
        (Target("eth9", "aa:bb:cc:00:00:09", "ice"), ""),
        (Target("eth9", "aa:bb:cc:00:00:09", "ice"), "interface-name=eth9\n[match]\npath=pci-*"),
        (Target("eth9", "", ""), "interface-name=eth9\n[match]\ndriver=ice"),
        (Target("eth9", "", ""), "interface-name=eth9\n[ethernet]\nmac-address=aa:bb:cc:00:00:09"),
    ],
)
def test_what_nobody_can_tell_is_a_problem(host: Machine, target: Target, more: str) -> None:
    host.put(A, profile(more))
    assert said(host, target) == {}
    (problem,) = nic_owners.problems(host, [target])
    assert problem.endswith("sets mtu to 9000; whether that is for eth9 is not known")
    host.put(A, profile(more, values=""))
    assert said(host, target) == {}
    assert nic_owners.problems(host, [target]) == []


# -- which of several ----------------------------------------------------------------------


def test_the_highest_priority_is_activated(host: Machine) -> None:
    host.put(A, profile("autoconnect-priority=-5"))
    host.put(f"{ETC}/b.nmconnection", profile("autoconnect-priority=3", "[ethtool]\nring-rx=1\n"))
    host.put(f"{ETC}/c.nmconnection", profile("autoconnect-priority=much", "[ethtool]\nring-tx=1\n"))
    assert set(said(host)) == {"ring/rx"}


def test_of_equals_the_one_that_was_used_last(host: Machine) -> None:
    host.put(A, profile("uuid=one"))
    host.put(f"{ETC}/b.nmconnection", profile("uuid=two", "[ethtool]\nring-rx=1\n"))
    assert set(said(host)) == {"mtu", "ring/rx"}
    host.put("/var/lib/NetworkManager/timestamps", "[timestamps]\none=1700000001\ntwo=1700000000\n")
    assert set(said(host)) == {"mtu"}
    host.put("/var/lib/NetworkManager/timestamps", f"[timestamps]\none={'9' * 5000}\ntwo=17\n")
    assert set(said(host)) == {"ring/rx"}


def test_run_hides_etc_and_etc_hides_lib(host: Machine) -> None:
    host.put(f"{LIB}/x.nmconnection", profile("uuid=one", "[ethernet]\nmtu=1\n"))
    assert said(host)["mtu"] == ("1", f"{LIB}/x.nmconnection:6")
    host.put(A, profile("uuid=one", "[ethernet]\nmtu=2\n"))
    assert said(host)["mtu"][0] == "2"
    host.put(f"{RUN}/y.nmconnection", profile("uuid=one", "[ethernet]\nmtu=3\n"))
    assert said(host)["mtu"][0] == "3"


def test_a_profile_that_was_deleted_is_gone(host: Machine) -> None:
    host.put(f"{LIB}/x.nmconnection", profile("uuid=one"))
    host.link(f"{ETC}/one.nmmeta", "/dev/null")
    assert said(host) == {}


@pytest.mark.parametrize(
    "path, expected",
    [
        (f"{ETC}/Wired 1", True),
        (f"{LIB}/wired", False),
        (f"{RUN}/wired", False),
        (f"{ETC}/.hidden", False),
        (f"{ETC}/a.nmconnection~", False),
        (f"{ETC}/a.nmconnection.X1Y2Z3", False),
        (f"{ETC}/a.PEM", False),
        (f"{ETC}/one.nmmeta", False),
    ],
)
def test_which_files_are_profiles(host: Machine, path: str, expected: bool) -> None:
    host.put(path, profile())
    assert bool(said(host)) is expected


def test_glib_refuses_a_file_with_a_damaged_line(host: Machine) -> None:
    for damage in ("[ethtool", "mtu", "; mtu"):
        host.put(A, f"{profile()}{damage}\n")
        assert said(host) == {}
    host.put(A, f"mtu=1\n{profile()}")
    assert said(host) == {}


def test_a_file_without_a_connection_is_no_profile(host: Machine) -> None:
    host.put(A, "[ethernet]\nmtu=9000\n")
    assert said(host) == {}


# -- ifcfg files ---------------------------------------------------------------------------


def test_an_ifcfg_file(host: Machine) -> None:
    host.put(
        IFCFG,
        "# made by hand\nDEVICE=eth0\nMTU='9000' # jumbo\n"
        'ETHTOOL_OPTS="-G ${DEVICE} rx 4096 tx 512; -K eth0 gro off;-A $DEVICE rx on; '
        '-C eth1 rx-usecs 1; speed 1000"\n',
    )
    assert said(host) == {
        "mtu": ("9000", f"{IFCFG}:3"),
        "ring/rx": ("4096", f"{IFCFG}:4"),
        "ring/tx": ("512", f"{IFCFG}:4"),
        "feature/gro": ("off", f"{IFCFG}:4"),
        "pause/rx": ("on", f"{IFCFG}:4"),
    }


@pytest.mark.parametrize(
    "text, expected",
    [
        ("DEVICE=eth0", True),
        ("DEVICE=eth1", False),
        ("DEVICE=eth0\nONBOOT=no", False),
        ("DEVICE=eth0\nONBOOT=yes", True),
        ("HWADDR=AA:BB:CC:00:00:01", True),
        ("HWADDR=AA:BB:CC:00:00:02", False),
        ("TYPE=Ethernet", True),
        ("TYPE=InfiniBand", False),
        ("NAME=any", True),
        ("DEVICE=eth0\nNM_CONTROLLED=no", False),
        ("DEVICE=eth0\nMTU=0", False),
        ("DEVICE=eth0\nNAME='not closed", True),
    ],
)
def test_which_ifcfg_files_apply(host: Machine, text: str, expected: bool) -> None:
    host.put(IFCFG, f"MTU=9000\n{text}\n")
    assert bool(said(host)) is expected


def test_ifcfg_files_and_profiles_compete(host: Machine) -> None:
    host.put(IFCFG, "DEVICE=eth0\nMTU=9000\nAUTOCONNECT_PRIORITY=1\nUUID=two\n")
    host.put(A, profile("uuid=one", "[ethtool]\nring-rx=1\n"))
    assert set(said(host)) == {"mtu"}


@pytest.mark.parametrize(
    "name", ["ifcfg-lo", "ifcfg-eth0.bak", "ifcfg-eth0~", "ifcfg-eth0.rpmsave", "route-eth0"]
)
def test_what_is_no_ifcfg_file(host: Machine, name: str) -> None:
    host.put(f"/etc/sysconfig/network-scripts/{name}", "DEVICE=eth0\nMTU=9000\n")
    assert said(host) == {}


def test_the_old_service_reads_ifcfg_files_too(host: Machine) -> None:
    host.remove(f"{WANTS}/NetworkManager.service")
    host.put(IFCFG, "DEVICE=eth0\nMTU=9000\n")
    assert said(host) == {}
    host.put("/run/systemd/generator.late/multi-user.target.wants/network.service", "")
    host.forget()
    assert [word.owner for word in nic_owners.of(host, [ETH0])["eth0"]] == ["network-scripts"]


@pytest.mark.parametrize("target", [Target("eth9", "", "")])
@pytest.mark.parametrize("text", ["HWADDR=AA:BB:CC:00:00:01", "NAME=any"])
def test_an_ifcfg_file_of_which_nobody_can_tell(host: Machine, text: str, target: Target) -> None:
    host.put(IFCFG, f"MTU=9000\n{text}\n")
    assert said(host, target) == {}
    assert "is not known" in nic_owners.problems(host, [target])[0]
