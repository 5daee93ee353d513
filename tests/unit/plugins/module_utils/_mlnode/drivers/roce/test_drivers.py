# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One declaration on the NICs of all drivers: each option is set, read back and undone, or has a reason."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.nodes import Node
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import (
    ROCE,
    QosNode,
    apply,
    rows,
)
from ansible_collections.mlnode.tuning.tests.unit.roce_machine import (
    ETH2,
    NODES,
    BnxtKernelNode,
    BnxtNode,
    IonicNode,
    IrdmaNode,
    RoceNode,
)
from mlnode.drivers.roce import registry
from mlnode.engine import boot_run, revert
from mlnode.knobs.qos import parse as qos_parse
from mlnode.knobs.qos import schema
from mlnode.model.errors import HostError, MlnodeError
from mlnode.model.setting import Status

FABRIC: dict[str, Any] = {**ROCE, "nics": {"names": ["eth2", "eth3"]}}
MACHINES: dict[str, type[QosNode]] = {"mlx5": QosNode, **NODES}
#: Settings of a rule, by option
GROUPS = [*qos_parse._FILES]
#: What an option needs beside it, or is the same as before without
NEEDED: dict[str, tuple[str, ...]] = {
    "pfc": ("global_pause",),
    "buffer": (),
    "cnp_dscp": ("ecn",),
    "cnp_priority": ("ecn",),
}

every_driver = pytest.mark.parametrize("name", MACHINES)
each_group = pytest.mark.parametrize("group", GROUPS)


def made(name: str, folder: pathlib.Path) -> QosNode:
    kind = type(MACHINES[name].__name__, (Node, MACHINES[name]), {})
    node: QosNode = kind.made(folder / "node")
    if isinstance(node, IonicNode):  # no setting is right by chance
        for card in node.cards.values():
            card.trust = "DSCP"
    return node


def alone(group: str) -> dict[str, Any]:
    """A rule with one setting and what it needs."""
    rule = {key: FABRIC[key] for key in ("name", "nics", *NEEDED.get(group, ()))}
    option, _underscore, part = group.partition("_") if group.startswith("cnp_") else (group, "", "")
    rule[option] = {part: FABRIC[option][part]} if part else FABRIC[option]
    return rule


def differing(node: QosNode) -> None:
    """Values that no rule here declares."""
    if isinstance(node, BnxtNode):
        for congestion in node.congestion.values():
            for text in ("ecn_enable 0x0", "apply 0x1", "ecn_marking 0x0", "apply 0x1"):
                congestion.store(*text.split())
    elif isinstance(node, BnxtKernelNode):
        for name, value in (("enable_cc", 0), ("alt_vlan_dscp", 8), ("alt_vlan_pcp", 1)):
            for nic in node.nics:
                address = {"eth2": ETH2}.get(nic)
                if address:
                    node.put(node.file(address, name), f"{value}\n")
    elif isinstance(node, IonicNode):
        for card in node.cards.values():
            card.trust = "DSCP"


@every_driver
@each_group
def test_an_option_is_set_read_back_and_undone_or_has_a_reason(
    tmp_path: pathlib.Path, name: str, group: str
) -> None:
    node = made(name, tmp_path)
    differing(node)
    driver = registry.of_nic(node, "eth2")
    before = node.state()  # type: ignore[attr-defined]
    row = next(row for key, row in rows(node, alone(group)).items() if key == group)
    assert (group in driver.SUPPORTS) != (row.status is Status.UNSUPPORTED), row.reason
    if row.status is Status.UNSUPPORTED:
        assert row.reason.partition(": ")[2].startswith(driver.LACKS[group][:30]) or "has no" in row.reason
        assert len(row.reason) > 20
    done = apply(node, alone(group))
    after = {one.setting.key.rpartition(".")[2]: one for one in done.rows}[group]
    if group in driver.SUPPORTS:
        assert after.status in (Status.CHANGED, Status.OK)
        assert after.reading.runtime.text == after.reading.want
    node.forget()
    assert not apply(node, alone(group)).changed
    node.forget()
    revert.revert(node)
    node.unload()  # type: ignore[attr-defined]
    assert node.state() == before  # type: ignore[attr-defined]


@every_driver
def test_each_driver_has_a_word_on_each_option(name: str, tmp_path: pathlib.Path) -> None:
    driver = registry.of_nic(made(name, tmp_path), "eth2")
    assert {*driver.SUPPORTS} | {*driver.LACKS} == {*GROUPS}
    assert [*qos_parse.GROUPS] == [
        option for option, one in schema.OPTIONS["rules"].suboptions.items() if one.reason
    ]


@every_driver
def test_the_agent_sets_all_of_it_at_boot(name: str, tmp_path: pathlib.Path) -> None:
    node = made(name, tmp_path)
    declared = {
        key: value
        for key, value in FABRIC.items()
        if key not in ("ets", "buffer", "traffic_class") or name == "mlx5"
    }
    apply(node, declared)
    wanted = node.memory()  # type: ignore[attr-defined]
    if isinstance(node, RoceNode):
        node.load()
    node.bridges = {nic: type(node).bridging_of() if isinstance(node, RoceNode) else bridge  # type: ignore[attr-defined]
                    for nic, bridge in node.bridges.items()}
    node.put("/proc/sys/kernel/random/boot_id", "another\n")
    node.forget()
    boot_run.apply(node)
    assert node.memory() == wanted  # type: ignore[attr-defined]
