# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of a fabric, against published designs."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.size.fabric import Plan, fabrics
from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model.errors import DeclarationError


@cases.table
def test_rail_optimized_fabrics_of_the_reference_architecture(
    nodes: int, leaves: int, spines: int, cores: int, leaf_links: int, core_links: int
) -> None:
    _tree, rails = fabrics(Plan(nodes))

    assert rails.design == "rail-optimized"
    assert (rails.leaves, rails.spines, rails.cores) == (leaves, spines, cores)
    assert (rails.leaf_links, rails.core_links) == (leaf_links, core_links)


@pytest.mark.parametrize("ports", [4, 24, 48])
def test_full_fat_trees_of_the_paper(ports: int) -> None:
    """Al-Fares et al.: k^3/4 hosts, k^2/2 edge, k^2/2 aggregation and k^2/4 core switches of k ports, with
    full bisection bandwidth; 27,648 hosts and 2,880 switches of 48."""
    hosts = ports**3 // 4
    tree, _rails = fabrics(Plan(hosts, rails=1, ports=ports, gbit=1))

    assert (tree.tiers, tree.leaves, tree.spines, tree.cores) == (
        3,
        ports**2 // 2,
        ports**2 // 2,
        ports**2 // 4,
    )
    assert tree.switches == 5 * ports**2 // 4
    assert tree.bisection == pytest.approx(hosts / 2 / 8)
    with pytest.raises(DeclarationError, match=f"--nodes: expected at most {hosts} nodes of 1 rails"):
        fabrics(Plan(hosts + 1, rails=1, ports=ports))


def test_bisection_bandwidth() -> None:
    """128 nodes of 8 x 50 GB/s: half of them send 25.6 TB/s. At 4:1, 21 leaves of 13 uplinks."""
    assert [one.bisection for one in fabrics(Plan(128))] == [25600, 25600]
    four = fabrics(Plan(128, ratio=4))[0]
    assert (four.leaves, four.leaf_links, four.bisection) == (21, 273, 273 / 2 * 50)


def test_small_fabrics() -> None:
    tree, rails = fabrics(Plan(8))
    assert (tree.tiers, tree.switches, tree.leaf_links) == (1, 1, 0)
    assert (rails.tiers, rails.leaves) == (2, 8), "a leaf for each rail, and spines between them"
    assert fabrics(Plan(65, rails=1))[1] == fabrics(Plan(65, rails=1))[0]._replace(design="rail-optimized")


@given(
    nodes=st.integers(1, 3000),
    rails=st.sampled_from([1, 2, 4, 8]),
    ports=st.integers(4, 130),
    ratio=st.floats(1, 8),
)
def test_every_link_has_a_port(nodes: int, rails: int, ports: int, ratio: float) -> None:
    plan = Plan(nodes, rails, ports, ratio)
    assert plan.down >= 1 <= plan.up
    assert plan.down / plan.up <= ratio + 1e-6
    try:
        found = fabrics(plan)
    except DeclarationError:
        assert nodes * rails > ports**2 // 2
        return
    for one in found:
        if one.tiers == 1:
            assert one.node_links <= ports
            continue
        assert one.node_links == nodes * rails <= one.leaves * plan.down
        assert one.leaf_links == one.leaves * plan.up
        assert one.leaf_links + one.core_links <= one.spines * ports
        assert one.core_links <= one.cores * ports
        assert one.bisection <= nodes * rails / 2 * 50
        if one.tiers == 2:
            assert plan.up % one.spines == 0, "as many links from each leaf to each spine"
        else:
            assert one.leaves > ports, "two tiers do not suffice"
