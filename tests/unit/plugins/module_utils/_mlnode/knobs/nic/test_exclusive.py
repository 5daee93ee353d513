# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that exclude each other, or that the state of the host excludes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Bits, Nic
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic import node
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import NicNode
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.host.system import Finished
from mlnode.knobs.nic.kind import kind as nic
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Layer, Status

LRO = "nic.data.feature.lro"
#: Files of a host that forwards, or whose NIC is a port
FORWARDING = [
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/conf/all/forwarding",
    "/proc/sys/net/ipv4/conf/eth2/forwarding",
    "/proc/sys/net/ipv6/conf/all/forwarding",
    "/proc/sys/net/ipv6/conf/eth2/forwarding",
]


@pytest.fixture
def host(tmp_path: pathlib.Path) -> NicNode:
    return NicNode.made(tmp_path / "node", node.WITHOUT_RDMA)


def rule(name: str = "data", **more: Any) -> dict[str, Any]:
    return {"name": name, "nics": {"names": ["eth2"]}, **more}


def lro(host: NicNode, profile: frozenset[str] = frozenset()) -> tuple[Status, str]:
    spec = {"rules": [rule(features={"lro": True})]}
    (row,) = engine.evaluate(host, Request("site", nic, spec, profile=profile)).rows
    return row.status, row.reason


@pytest.mark.parametrize("path", FORWARDING)
def test_lro_of_a_host_that_forwards_is_not_written(host: NicNode, path: str) -> None:
    assert lro(host)[0] is Status.DRIFTED
    host.put(path, "1\n")
    host.forget()
    status, reason = lro(host)
    key = path[len("/proc/sys/") :].replace("/", ".")
    assert (status, f"eth2: {key} is 1" in reason, "declare lro: false" in reason) == (
        Status.REFUSED,
        True,
        True,
    )
    assert lro(host, frozenset({LRO}))[0] is Status.UNSUPPORTED
    host.put(path, "0\n")
    host.forget()
    assert lro(host)[0] is Status.DRIFTED


def test_another_interface_that_forwards_excludes_nothing(host: NicNode) -> None:
    host.put("/proc/sys/net/ipv4/conf/eth9/forwarding", "1\n")
    assert lro(host)[0] is Status.DRIFTED


def test_lro_of_a_port_of_a_bridge_is_not_written(host: NicNode) -> None:
    host.put("/sys/class/net/eth2/brport/state", "3\n")
    status, reason = lro(host)
    assert (status, "eth2 is a port of a bridge" in reason) == (Status.REFUSED, True)


def test_lro_that_is_on_although_the_host_forwards_is_told(host: NicNode) -> None:
    """ethtool gives it back to whoever asks."""
    bits = host.nics["eth2"].features["rx-lro"]
    bits.requested = bits.active = True
    host.put(FORWARDING[0], "1\n")
    (row,) = engine.evaluate(host, Request("site", nic, {"rules": [rule(features={"lro": True})]})).rows
    assert "net.ipv4.ip_forward is 1, and a host that forwards cannot have LRO" in row.reading.note


@cases.table
def test_lro_and_a_sysctl_that_forwards_are_refused_together(host: NicNode, key: str, value: Any) -> None:
    declare(host, sysctl={"settings": {key: value}})
    with pytest.raises(DeclarationError, match=f"{key} is declared 1 .other., and .*nothing was changed"):
        door.apply(host, Request("site", nic, {"rules": [rule(features={"lro": True})]}))
    assert lro(host)[0] is Status.REFUSED


def test_a_sysctl_that_ends_forwarding_lets_lro_be(host: NicNode) -> None:
    host.put(FORWARDING[0], "1\n")
    declare(host, sysctl={"settings": {"net.ipv4.ip_forward": 0}})
    assert lro(host)[0] is Status.DRIFTED


def declare(host: NicNode, **kinds: Any) -> None:
    text = json.dumps({"format": 1, "name": "other", "kinds": kinds}, indent=2)
    host.put("/etc/mlnode/declared.d/other.json", text + "\n", 0o644)


@cases.table
def test_features_that_exclude_each_other_are_refused(features: dict[str, bool], words: str) -> None:
    with pytest.raises(DeclarationError, match=f"nic.data.features: .*{words} exclude each other"):
        door.parse("nic", {"rules": [rule(features=features)]})
    for name, on in features.items():  # each of them alone may be
        assert door.parse("nic", {"rules": [rule(features={name: on})]})


@cases.table
def test_values_that_go_together_are_not_refused(features: dict[str, bool]) -> None:
    """GRO in hardware goes with rx-gro in two drivers only: see below."""
    assert door.parse("nic", {"rules": [rule(features=features)]})


def feature(host: NicNode, name: str, on: bool, more: dict[str, bool] | None = None) -> tuple[Status, str]:
    spec = {"rules": [rule(features={name: on, **(more or {})})]}
    rows = engine.evaluate(host, Request("site", nic, spec, (Layer.RUNTIME,))).rows
    (row,) = [row for row in rows if row.setting.key == f"nic.data.feature.{name}"]
    return row.status, row.reason


def switched(host: NicNode, **features: bool) -> None:
    """As the kernel shows them; underscores stand for dashes."""
    for name, on in features.items():
        host.nics["eth2"].features[name.replace("_", "-")] = Bits(True, on, on)


#: A feature, what is off now, and what is then reported of it
MISSING: list[tuple[str, dict[str, bool], str]] = [
    ("tx-udp-segmentation", {"tx_checksum_ip_generic": False}, "tx-checksum-ip-generic"),
    ("tx-tcp-segmentation", {"tx_checksum_ip_generic": False}, "tx-checksum-ip-generic"),
    ("tx-tcp6-segmentation", {"tx_scatter_gather": False}, "tx-scatter-gather is off"),
    ("tx-generic-segmentation", {"tx_scatter_gather": False}, "tx-scatter-gather is off"),
    ("rx-gro-hw", {"rx_checksum": False}, "rx-checksum is off"),
]


@pytest.mark.parametrize(("name", "off", "words"), MISSING)
def test_a_feature_whose_base_is_off_is_not_written(
    host: NicNode, name: str, off: dict[str, bool], words: str
) -> None:
    switched(host, **{name.replace("-", "_"): False}, **off)
    status, reason = feature(host, name, True)
    assert (status, words in reason, "with it" in reason) == (Status.REFUSED, True, True)
    base = next(iter(off)).replace("_", "-")
    assert feature(host, name, True, {base: True})[0] is Status.DRIFTED


def test_checksums_of_one_protocol_are_enough_for_its_segmentation(host: NicNode) -> None:
    switched(host, tx_tcp_segmentation=False, tx_checksum_ip_generic=False, tx_checksum_ipv4=True)
    assert feature(host, "tx-tcp-segmentation", True)[0] is Status.DRIFTED


@pytest.mark.parametrize(("driver", "status"), [("bnxt_en", Status.REFUSED), ("igb", Status.DRIFTED)])
def test_gro_in_hardware_goes_with_gro_in_some_drivers(host: NicNode, driver: str, status: Status) -> None:
    host.nics["eth2"].driver = driver
    switched(host, rx_gro_hw=False, rx_gro=False)
    found = feature(host, "rx-gro-hw", True)
    assert (found[0], "this driver switches it off without rx-gro" in found[1]) == (
        status,
        status is Status.REFUSED,
    )
    both = {"rules": [rule(features={"rx-gro-hw": True, "gro": False})]}
    if driver == "bnxt_en":
        with pytest.raises(DeclarationError, match="rx-gro-hw on and rx-gro off of eth2 exclude each other"):
            engine.evaluate(host, Request("site", nic, both))
    else:
        assert engine.evaluate(host, Request("site", nic, both)).rows


@cases.table
def test_what_goes_along_with_a_base_is_told(host: NicNode, name: str, lost: str) -> None:
    switched(host, **{lost.replace("-", "_"): True})
    assert f"takes {lost} along, as the kernel switches {lost} off" in feature(host, name, False)[1]


# -- what stands on a NIC ------------------------------------------------------------------


def test_lro_of_a_port_of_open_vswitch_is_not_written(host: NicNode) -> None:
    host.link("/sys/class/net/eth2/upper_ovs-system", "../ovs-system")
    status, reason = lro(host)
    assert (status, "eth2 is a port of Open vSwitch" in reason) == (Status.REFUSED, True)
    assert lro(host, frozenset({LRO}))[0] is Status.UNSUPPORTED


def test_lro_below_an_interface_with_lro_off_is_not_written(host: NicNode) -> None:
    stand(host, "bond0", "eth2", lro=False)
    status, reason = lro(host)
    assert (status, "bond0 stands on it and has LRO off" in reason) == (Status.REFUSED, True)


def test_only_the_interface_directly_above_counts(host: NicNode) -> None:
    """netdev_sync_upper_features looks no further; forwarding of any of them counts (dev_disable_lro)."""
    stand(host, "bond0", "eth2", lro=True)
    stand(host, "bond0.7", "bond0", lro=False)
    assert lro(host)[0] is Status.DRIFTED
    host.put("/proc/sys/net/ipv4/conf/bond0.7/forwarding", "1\n")
    host.forget()
    assert "net.ipv4.conf.bond0.7.forwarding is 1" in lro(host)[1]
    host.put("/proc/sys/net/ipv4/conf/bond0.7/forwarding", "0\n")
    host.put("/sys/class/net/bond0/brport/state", "3\n")
    host.forget()
    assert "bond0 is a port of a bridge" in lro(host)[1]


@pytest.mark.parametrize("name", ["lro", "rx-gro-hw"])
def test_an_xdp_program_excludes_both(host: NicNode, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    switched(host, rx_lro=False, rx_gro_hw=False)
    shown = [{"ifname": "eth2", "xdp": {"mode": 1, "prog": {"id": 5}}}, {"ifname": "eth3"}]
    run = host.run

    def answer(command: Sequence[str], seconds: float = 60) -> Finished:
        return Finished(0, json.dumps(shown), "") if command[-1] == "show" else run(command, seconds)

    monkeypatch.setattr(host, "run", answer)
    status, reason = feature(host, name, True)
    assert (status, "an XDP program is attached to eth2" in reason) == (Status.REFUSED, True)
    shown[0].pop("xdp")
    host.forget()
    assert feature(host, name, True)[0] is Status.DRIFTED


def stand(host: NicNode, upper: str, lower: str, lro: bool) -> None:
    """An interface on another one."""
    folder = f"/sys/devices/virtual/net/{upper}"
    for name, text in {"operstate": "up", "mtu": "1500", "type": "1", "carrier": "1"}.items():
        host.put(f"{folder}/{name}", f"{text}\n")
    host.link(f"/sys/class/net/{upper}", f"../../devices/virtual/net/{upper}")
    host.link(f"/sys/class/net/{lower}/upper_{upper}", f"../{upper}")
    host.nics[upper] = Nic(
        "bonding", **{**BARE, "features": {**Nic().features, "rx-lro": Bits(True, lro, lro)}}
    )


# -- together ------------------------------------------------------------------------------


def test_one_declaration_that_forwards_and_wants_lro_is_refused_at_its_first_run(host: NicNode) -> None:
    """Nothing is on the node then that says so."""
    kinds = {
        "sysctl": {"settings": {"net.ipv4.ip_forward": 1}},
        "nic": {"rules": [rule(features={"lro": True})]},
    }
    host.put(FORWARDING[0], "0\n")
    with pytest.raises(DeclarationError, match=r"net.ipv4.ip_forward is declared 1"):
        engine.apply_together(
            host, lambda: [door.request("site", name, spec) for name, spec in kinds.items()]
        )
    assert not host.nics["eth2"].features["rx-lro"].active
    assert host.now(FORWARDING[0]) == "0"


def test_two_rules_of_one_nic_may_not_exclude_each_other(host: NicNode) -> None:
    rules = [rule(coalesce={"adaptive-rx": True}), rule("more", coalesce={"rx-usecs": 8})]
    with pytest.raises(DeclarationError, match="rx-usecs 8 and adaptive-rx on of eth2 exclude each other"):
        node.plan(host, *rules)


def test_a_number_of_a_nic_that_adapts_is_told(host: NicNode) -> None:
    (row,) = node.plan(host, rule(coalesce={"rx-usecs": 16})).rows
    assert "adaptive-rx is on, and a NIC that adapts chooses rx-usecs" in row.reason
    rows = node.plan(host, rule(coalesce={"rx-usecs": 16, "adaptive-rx": False})).rows
    assert not any("adapts" in row.reason for row in rows)
