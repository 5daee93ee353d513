# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After one play for all groups: each node has the combined declarations of its groups."""

from __future__ import annotations

import json

DECLARED = "/etc/mlnode/declared.d"


def is_trainer(host):
    return host.backend.get_hostname() == "mlnode-trainer"


def test_each_node_has_the_declarations_of_its_groups(host):
    expected = ["fabric.json", "node.json"] if is_trainer(host) else ["node.json"]
    assert sorted(host.file(DECLARED).listdir()) == expected


def test_values_of_its_own_namespace_differ_by_group(host, kernel):
    assert kernel["net.ipv4.tcp_fin_timeout"] == (["30"] if is_trainer(host) else ["20"])


def test_two_declarations_stand_beside_each_other(host, check):
    if not is_trainer(host):
        return
    names = {name for item in check.document["settings"] for name in item["declared_by"]}
    assert names == {"fabric", "node"}
    # Declared for the next boot only; the running kernel does not have it yet.
    assert check.settings["net.ipv4.tcp_mtu_probing"]["declared_by"] == ["fabric"]
    assert check.settings["vm.swappiness"]["declared_by"] == ["node"]
    kinds = json.loads(host.file(f"{DECLARED}/fabric.json").content_string)["kinds"]
    assert "rail" in kinds
    assert "qos" not in kinds, "no scheme of priorities is named"


def test_nothing_else_is_wrong(host, check):
    wrong = [*check.keys("drifted", "overridden", "unknown", "refused")]
    waiting = {"net.ipv4.tcp_mtu_probing", "nccl.NCCL_SOCKET_IFNAME"} if is_trainer(host) else set()
    assert {*wrong} <= waiting, check.document["summary"]
