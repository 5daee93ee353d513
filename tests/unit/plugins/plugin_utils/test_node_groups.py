# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import node_groups
from ansible_collections.mlnode.tuning.tests.unit import cases

KNOWN = ["training", "inference", "fabric"]


def check(groups: dict[str, list[str]], chosen: list[str] | None = None, **options: Any) -> node_groups.Found:
    everyone = [*dict.fromkeys(host for hosts in groups.values() for host in hosts)]
    known = options.pop("known", KNOWN)
    given = {"exclusive": KNOWN[:2], **options}
    return node_groups.check({"all": everyone, **groups}, known, chosen or everyone, given)


FINE = {"training": ["gpu1", "gpu2"], "fabric": ["gpu1"]}


@pytest.mark.parametrize(
    ("groups", "options", "words"),
    [
        ({"trainig": ["gpu3"]}, {}, "The group `trainig` (gpu3) is not known here; did you mean `training`?"),
        ({"trainings": ["gpu3"]}, {}, "did you mean `training`?"),
        ({"fabrics": ["leaf1"]}, {}, "mlnode_other_groups: [fabrics]"),
        ({"fabrics": ["leaf1"]}, {"others": ["fabrics"]}, ""),
        # Names of their own, and a part of the group
        ({"training_new": ["gpu3"], "web": ["web1"]}, {}, ""),
        ({"trainings": ["gpu1"]}, {}, ""),
        ({"inference": ["gpu1"]}, {}, "In the group `training` and in `inference`: gpu1."),
        ({}, {"known": ["gpus", *KNOWN]}, "The inventory has no group gpus"),
        ({}, {"needed": ["inference"]}, "are about hosts of the group `inference` only"),
        (
            {},
            {"known": ["fabric"], "option": "x_group", "least": 2},
            "has 1 host in this inventory, exp",
        ),
        (
            {},
            {"known": ["fabrik"], "option": "x_group"},
            "has no hosts in this inventory, exp",
        ),
    ],
)
def test_what_would_be_left_alone_by_mistake_is_a_fault(
    groups: dict[str, list[str]], options: dict[str, Any], words: str
) -> None:
    faults = check({**FINE, **groups}, **options).faults

    assert len(faults) == bool(words), faults
    assert words in "".join(faults)


def test_hosts_of_other_groups_are_named_with_their_groups() -> None:
    web = {"web": ["web2", "web10"], "rack1": ["gpu1", "web2"]}
    groups = {**FINE, **web, "monitoring": ["mon"], "ungrouped": ["x"]}

    found = check(groups, others=["monitoring"])

    assert found == ([], {"web2": "rack1, web", "web10": "web", "x": "no group"})
    assert check(groups, strangers=True) == ([], {})


@cases.table
def test_a_limit_leaves_nodes(limit: str, chosen: list[str], options: dict[str, Any], words: str) -> None:
    faults = check({**FINE, "web": ["web1"]}, chosen, limit=limit, **options).faults

    assert len(faults) == bool(words), faults
    assert words in "".join(faults)
