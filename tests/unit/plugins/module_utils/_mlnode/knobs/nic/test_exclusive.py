# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that exclude each other, or that the state of the host excludes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic import node
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import NicNode
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.knobs.nic import kind as nic
from mlnode.knobs.nic import parse as nic_parse
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Status

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


@pytest.mark.parametrize(
    ("key", "value"),
    [("net.ipv4.ip_forward", 1), ("net.ipv6.conf.all.forwarding", "1"), ("net.ipv4.conf.eth2.forwarding", 1)],
)
def test_lro_and_a_sysctl_that_forwards_are_refused_together(host: NicNode, key: str, value: Any) -> None:
    declare(host, sysctl={"settings": {key: value}})
    with pytest.raises(DeclarationError, match=f"{key} is declared 1 .other., and .*nothing was changed"):
        engine.apply(host, Request("site", nic, {"rules": [rule(features={"lro": True})]}))
    assert lro(host)[0] is Status.REFUSED


def test_a_sysctl_that_ends_forwarding_lets_lro_be(host: NicNode) -> None:
    host.put(FORWARDING[0], "1\n")
    declare(host, sysctl={"settings": {"net.ipv4.ip_forward": 0}})
    assert lro(host)[0] is Status.DRIFTED


def declare(host: NicNode, **kinds: Any) -> None:
    text = json.dumps({"format": 1, "name": "other", "kinds": kinds}, indent=2)
    host.put("/etc/mlnode/declared.d/other.json", text + "\n", 0o644)


EXCLUSIVE: list[tuple[dict[str, bool], str]] = [
    ({"lro": True, "rx-gro-hw": True}, "rx-lro on and rx-gro-hw on"),
    ({"large-receive-offload": True, "rx-fcs": True}, "rx-lro on and rx-fcs on"),
    ({"rx-gro-hw": True, "rx": False}, "rx-gro-hw on and rx-checksum off"),
    ({"gso": True, "sg": False}, "tx-generic-segmentation on and tx-scatter-gather off"),
    ({"tso": True, "scatter-gather": False}, "-segmentation on and tx-scatter-gather off"),
    ({"tls-hw-rx-offload": True, "rx-checksumming": False}, "tls-hw-rx-offload on and rx-checksum off"),
]


@pytest.mark.parametrize(("features", "words"), EXCLUSIVE)
def test_features_that_exclude_each_other_are_refused(features: dict[str, bool], words: str) -> None:
    with pytest.raises(DeclarationError, match=f"nic.data.features: .*{words} exclude each other"):
        nic_parse.parse({"rules": [rule(features=features)]})
    for name, on in features.items():  # each of them alone may be
        assert nic_parse.parse({"rules": [rule(features={name: on})]})


def test_two_rules_of_one_nic_may_not_exclude_each_other(host: NicNode) -> None:
    rules = [rule(coalesce={"adaptive-rx": True}), rule("more", coalesce={"rx-usecs": 8})]
    with pytest.raises(DeclarationError, match="rx-usecs 8 and adaptive-rx on of eth2 exclude each other"):
        node.plan(host, *rules)


def test_a_number_of_a_nic_that_adapts_is_told(host: NicNode) -> None:
    (row,) = node.plan(host, rule(coalesce={"rx-usecs": 16})).rows
    assert "adaptive-rx is on, and a NIC that adapts chooses rx-usecs" in row.reason
    rows = node.plan(host, rule(coalesce={"rx-usecs": 16, "adaptive-rx": False})).rows
    assert not any("adapts" in row.reason for row in rows)
