# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit import door

from .node import RAILS


def test_a_rule_is_a_setting_for_each_value_in_the_order_of_application() -> None:
    found = door.parse("rail", {"rules": [RAILS, {"name": "b", "arp_ignore": "1"}]})
    assert [item.key for item in found] == [
        "rail.rails.arp_ignore",
        "rail.b.arp_ignore",
        "rail.rails.arp_announce",
        "rail.rails.rp_filter",
    ]
    assert found[0].claim == "1 (all rails)"
    assert found[1].claim == "1 (all NICs)"
    assert found[0].path == "/proc/sys/net/ipv4/conf/*/arp_ignore"
