# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of a fat tree for a number of nodes, and of a rail-optimized one.

Both are folded Clos networks of switches with equal ports and equal links. They differ in the leaves only:
a fat tree fills one leaf after the other, a rail-optimized one has a leaf for each rail of a group of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

from ...module_utils._mlnode.model.errors import DeclarationError

_BITS = 8

#: 49 ports at 6:1 are 42 and not 41, whatever the last bit of the quotient
_ROUNDING = 1e-9


class Plan(NamedTuple):
    """rails: ports of a node. ports: of a switch. ratio: oversubscription, 1 for none. gbit: of a link."""

    nodes: int
    rails: int = 8
    ports: int = 64
    ratio: float = 1.0
    gbit: float = 400.0

    @property
    def down(self) -> int:
        """Ports of a leaf for nodes: as many as the ratio allows."""
        return int(self.ports * self.ratio / (1 + self.ratio) + _ROUNDING)

    @property
    def up(self) -> int:
        return self.ports - self.down


class Fabric(NamedTuple):
    """Switches and links of a design. bisection: GB/s in each direction between two halves of the nodes."""

    design: str
    tiers: int
    leaves: int
    spines: int
    cores: int
    node_links: int
    leaf_links: int
    core_links: int
    bisection: float

    @property
    def switches(self) -> int:
        return self.leaves + self.spines + self.cores


def fabrics(plan: Plan) -> tuple[Fabric, Fabric]:
    """The fat tree and the rail-optimized fabric. Raises DeclarationError if three tiers do not suffice."""
    links = plan.nodes * plan.rails
    if links <= plan.ports:
        tree = Fabric("fat tree", 1, 1, 0, 0, links, 0, 0, _bisection(plan, links))
    else:
        tree = _tree(plan, "fat tree", -(-links // plan.down))
    if plan.rails == 1:
        return tree, tree._replace(design="rail-optimized")
    return tree, _tree(plan, "rail-optimized", plan.rails * -(-plan.nodes // plan.down))


def _tree(plan: Plan, design: str, leaves: int) -> Fabric:
    """Leaves under spines, and under cores if the spines have too few ports."""
    links, up = leaves * plan.up, plan.nodes * plan.rails
    capacity = _bisection(plan, min(up, links))
    if leaves <= plan.ports:
        spines = _even(plan.up, leaves, plan.ports)
        return Fabric(design, 2, leaves, spines, 0, up, links, 0, capacity)
    # A pod: half of the ports of a spine are for its leaves, the other half for the cores.
    half = plan.ports // 2
    pods = -(-leaves // half)
    if pods > plan.ports:
        most = plan.ports * half // plan.rails * plan.down
        raise DeclarationError(
            f"--nodes: expected at most {most} nodes of {plan.rails} rails, as many as three tiers of "
            f"{plan.ports}-port switches hold, got {plan.nodes}; use switches with more --ports"
        )
    spines = pods * plan.up
    cores = plan.up * _even(half, pods, plan.ports)
    return Fabric(design, 3, leaves, spines, cores, up, links, spines * half, capacity)


def _even(up: int, below: int, ports: int) -> int:
    """Fewest switches over `below` switches of `up` uplinks each, with as many links from each to each: all
    paths are then equal, as adaptive routing and ECMP expect."""
    return next(count for count in range(1, up + 1) if up % count == 0 and below * (up // count) <= ports)


def _bisection(plan: Plan, links: int) -> float:
    """Half of the links at the narrowest tier. Spines and cores have as many links up as down."""
    return links / 2 * plan.gbit / _BITS
