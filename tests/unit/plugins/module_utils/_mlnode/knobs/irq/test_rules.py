# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from mlnode.engine import engine
from mlnode.engine.kind import AGENT_UNIT, Context, Facts
from mlnode.knobs.irq.kind import kind as irq
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Status, Value

from .node import IrqNode, apply, plan, request, row, rows, with_cpus

SPREAD = {"name": "all", "strategy": "spread"}
ETH2_SPREAD = {"name": "two", "nics": {"names": ["eth2"]}, "strategy": "spread"}


# -- rules together ------------------------------------------------------------------------


def test_two_rules_that_want_something_else_of_one_nic_are_both_named(node: IrqNode) -> None:
    rule = {"name": "one", "nics": {"drivers": ["mlx5_core"]}, "strategy": "list", "cpus": "7"}
    with pytest.raises(DeclarationError) as caught:
        plan(node, ETH2_SPREAD, rule)
    assert str(caught.value) == (
        "irq.two and irq.one both rule /proc/irq/28/smp_affinity_list, and one wants 0, the other 7: have "
        "them choose different devices"
    )


def test_two_rules_that_agree_on_a_nic_may_meet_there(node: IrqNode) -> None:
    again = {**ETH2_SPREAD, "name": "again"}
    apply(node, ETH2_SPREAD, again)
    assert not apply(node, ETH2_SPREAD, again).changed


def test_a_rule_that_is_refused_anyway_is_no_rival(node: IrqNode) -> None:
    rule = {**ETH2_SPREAD, "name": "one", "strategy": "list", "cpus": "99"}
    assert rows(node, ETH2_SPREAD, rule)["irq.one"].status is Status.REFUSED


def test_rules_of_two_declarations_are_compared_as_well(node: IrqNode) -> None:
    apply(node, ETH2_SPREAD, name="fabric")
    rule = {"name": "serving", "strategy": "housekeeping", "cpus": "4-5"}
    with pytest.raises(DeclarationError) as caught:
        plan(node, rule, name="inference")
    assert "irq.serving and irq.two (declared by fabric) both rule /proc/irq/28/smp_affinity_list" in str(
        caught.value
    )
    assert rows(node, {**rule, "nics": {"names": ["eth3"]}}, name="inference")["irq.serving"]


def test_what_is_allowed_in_one_declaration_is_not_in_the_other(folder: pathlib.Path) -> None:
    node = IrqNode.made(str(folder), with_cpus(isolated=(0, 8)))
    apply(node, ETH2_SPREAD, name="fabric", allow=["isolated_cpus"])
    rule = {**ETH2_SPREAD, "name": "mine"}
    with pytest.raises(DeclarationError, match=r"irq\.mine and irq\.two \(declared by fabric\) both rule"):
        plan(node, rule, name="other")


def test_another_declaration_that_makes_no_sense_is_its_own_affair(node: IrqNode) -> None:
    apply(node, ETH2_SPREAD)
    bad = {"format": 1, "name": "bad", "kinds": {"irq": {"rules": "all"}}}
    node.put("/etc/mlnode/declared.d/bad.json", json.dumps(bad))
    node.put("/etc/mlnode/declared.d/worse.json", "{")
    alone = request(ETH2_SPREAD)._replace(alone=True)
    assert [item.status for item in engine.evaluate(node, alone).rows] == [Status.OK]


def test_a_selection_that_matches_nothing_is_unsupported(node: IrqNode) -> None:
    found = row(node, {**SPREAD, "nics": {"drivers": ["bnxt_en"]}})
    assert found.status is Status.UNSUPPORTED
    assert found.reason.startswith(
        "no NIC here matches drivers bnxt_en; here are: eth4 (virtio_net, 0000:00:03.0)"
    )


# -- the boot layer ------------------------------------------------------------------------


def test_the_agent_brings_a_rule_back(node: IrqNode) -> None:
    apply(node, ETH2_SPREAD)
    found = row(node, ETH2_SPREAD)
    assert found.reading.boot.source == AGENT_UNIT
    assert found.reading.boot.value.text == "eth2: 0..3"
    assert node.names("/etc/mlnode/declared.d") == ["default.json"]


def test_without_the_agent_nothing_brings_it_back(folder: pathlib.Path) -> None:
    found = row(IrqNode.made(str(folder)), ETH2_SPREAD)
    assert found.reason.startswith("boot: nothing brings it back")


def test_the_origin_is_what_there_was_before(node: IrqNode) -> None:
    node.place(28, "9")
    apply(node, ETH2_SPREAD)
    assert row(node, ETH2_SPREAD).origin == "eth2: 9 1..3"
    context = Context(node, Facts(node))
    (found,) = irq.read(door.parse("irq", {"rules": [ETH2_SPREAD]}), context)
    assert found.origin is None


# -- the rest of a kind --------------------------------------------------------------------


def test_a_rule_may_have_the_name_of_a_topic() -> None:
    assert (
        irq.info("irq.rps", Value()) == irq.info("irq.rails", Value()) != irq.info("irq.rails.rps", Value())
    )


def test_the_command_line_is_mentioned_where_it_speaks_of_interrupts(node: IrqNode) -> None:
    assert irq.boot_sources("irq.rails", node) == []
    node.put("/proc/cmdline", "ro irqaffinity=0-1\n")
    assert irq.boot_sources("irq.rails", node) == ["/proc/cmdline: irqaffinity=0-1"]
