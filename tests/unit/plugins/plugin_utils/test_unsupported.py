# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile, unsupported


def setting(key: str, status: str = "unsupported", kind: str = "sysctl") -> dict[str, Any]:
    return {"kind": kind, "key": key, "status": status, "reason": "not here"}


def lines(overrides: dict[str, Any], *settings: dict[str, Any], by_area: bool = False) -> list[str]:
    declared = profile.Declared(
        profile.areas("training", overrides), profile.of_profile("training", overrides)
    )
    answer = {"areas": {"any": {"settings": [*settings]}}} if by_area else {"settings": [*settings]}
    return unsupported.lines(answer, [declared])


def test_what_the_inventory_asks_for_is_named_and_not_what_the_profile_does() -> None:
    own = {"sysctl": {"settings": {"lnet.debug": 1, "vm.swappiness": 10}}}
    found = [setting("lnet.debug"), setting("vm.swappiness"), setting("kernel.numa_balancing")]

    expected = ["lnet.debug: not here", "vm.swappiness: not here"]
    assert lines(own, *found) == expected
    assert lines(own, *found, by_area=True) == expected
    assert lines({}, *found) == []


def test_what_is_supported_is_not_named() -> None:
    own = {"sysctl": {"settings": {"lnet.debug": 1}}}
    assert lines(own, setting("lnet.debug", "ok"), setting("thp.enabled", kind="thp")) == []


def test_an_override_of_any_area_counts() -> None:
    own = {"thp": {"enabled": "never"}}
    assert lines(own, setting("thp.enabled", kind="thp"), setting("thp.defrag", kind="thp")) == [
        "thp.enabled: not here"
    ]


def test_an_area_that_the_node_refuses_names_nothing() -> None:
    assert lines({"sysctl": {"settings": {"vm.x": True}}}, setting("vm.x")) == []


def test_no_kind_is_imported_for_what_a_profile_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host has a process of its own, in which Ansible compiles what is imported there."""
    monkeypatch.setattr(unsupported.registry, "KINDS", {})
    assert lines({"thp": {"enabled": "never"}}, setting("kernel.numa_balancing")) == []
    with pytest.raises(KeyError):
        lines({"sysctl": {"settings": {"lnet.debug": 1}}}, setting("kernel.numa_balancing"))
