# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.agent import registry
from mlnode.model import schema
from mlnode.model.errors import DeclarationError

OWN = """\
sysctl:
  settings:
    vm.swappiness: 1
    vm.max_map_count: {at_least: 65530}
    vm.nr_hugepages: {for_bytes: 1048576}
irq:
  rules:
    nics: {strategy: spread, nics: {drivers: [mlx5_core]}}
  irqbalance: agree
modules:
  modules: {ib_uverbs: true, rdma_ucm: true}
qos:
  rules:
    rails: {dscp: {26: 3, 48: 6}, pfc: [3]}
"""


@pytest.fixture
def own(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "own.yml"
    path.write_text(OWN)
    return str(path)


def declared(own: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """As the node understands it, and keeps it."""
    areas = profile.combined(own, overrides).areas
    found = {area: schema.checked(area, spec, registry.options(area)) for area, spec in areas.items()}
    return {area: spec for area, spec in found.items() if spec}


def test_without_overrides_it_is_the_profile(own: str) -> None:
    expected = yaml.safe_load(OWN)
    expected["qos"]["rules"]["rails"]["dscp"] = {"26": 3, "48": 6}
    assert profile.combined(own, {}).areas == expected


def test_the_node_understands_rules_by_name_as_a_list(own: str) -> None:
    assert declared(own, {}) == {
        "sysctl": yaml.safe_load(OWN)["sysctl"],
        "irq": {
            "rules": [{"name": "nics", "strategy": "spread", "nics": {"drivers": ["mlx5_core"]}}],
            "irqbalance": "agree",
        },
        "modules": {"modules": ["ib_uverbs", "rdma_ucm"]},
        "qos": {"rules": [{"name": "rails", "dscp": {"26": 3, "48": 6}, "pfc": [3]}]},
    }


@cases.table
def test_an_override_replaces_the_value_of_one_setting(own: str, key: str, value: Any, found: Any) -> None:
    before = profile.combined(own, {}).areas["sysctl"]["settings"]

    settings = profile.combined(own, {"sysctl": {"settings": {key: value}}}).areas["sysctl"]["settings"]

    assert settings == {**before, key: found}


def test_one_value_for_all_gives_way_to_one_for_each(own: str) -> None:
    each = {"login": "unlimited", "systemd": 65536}
    assert profile.combined("training", {"limits": {"memlock": each}}).areas["limits"]["memlock"] == each
    rings = {"fabric": {"rings": {"rx": 1024}}}
    assert profile.combined("training", {"nic": {"rules": rings}}).areas["nic"]["rules"]["fabric"][
        "rings"
    ] == {"rx": 1024}


@cases.table
def test_null_takes_away(own: str, override: dict[str, Any], area: str, left: Any) -> None:
    assert declared(own, override).get(area) == left


def test_a_rule_of_which_nothing_is_left_is_named(own: str) -> None:
    with pytest.raises(
        DeclarationError, match=r"qos\.rules\.rails: give it at least one of global_pause, trust"
    ):
        declared(own, {"qos": {"rules": {"rails": {"dscp": None, "pfc": None}}}})


def test_a_rule_is_merged_by_its_name_and_another_one_comes_after_it(own: str) -> None:
    rules = {"more": {"strategy": "spread"}, "nics": {"strategy": "housekeeping"}}

    assert declared(own, {"irq": {"rules": rules}})["irq"]["rules"] == [
        {"name": "nics", "strategy": "housekeeping", "nics": {"drivers": ["mlx5_core"]}},
        {"name": "more", "strategy": "spread"},
    ]


def test_a_list_replaces_a_list(own: str) -> None:
    rules = [{"name": "all", "strategy": "spread"}]
    found = profile.combined(own, {"irq": {"rules": rules}, "qos": {"rules": {"rails": {"pfc": [4]}}}}).areas

    assert found["irq"]["rules"] == rules
    assert found["qos"]["rules"]["rails"]["pfc"] == [4]


@pytest.mark.parametrize("keys", [(46, 48), ("46", "48")])
def test_a_number_as_a_key_is_the_same_as_text(own: str, keys: tuple[Any, Any]) -> None:
    """An inventory in JSON has text."""
    new, old = keys
    found = profile.combined(own, {"qos": {"rules": {"rails": {"dscp": {new: 6, old: None}}}}}).areas

    assert found["qos"]["rules"]["rails"]["dscp"] == {"26": 3, "46": 6}


def test_of_several_profiles_each_replaces_what_those_before_it_say(own: str, tmp_path: pathlib.Path) -> None:
    site = tmp_path / "site.yml"
    site.write_text(
        "qos: {rules: {rails: {dscp: {48: null, 46: 6}}}}\nsysctl: {settings: {vm.swappiness: 10}}\n"
    )
    found = profile.combined([own, "", str(site)], {"sysctl": {"settings": {"vm.max_map_count": None}}}).areas
    assert found["qos"]["rules"]["rails"] == {"dscp": {"26": 3, "46": 6}, "pfc": [3]}
    assert found["sysctl"]["settings"] == {"vm.swappiness": 10, "vm.nr_hugepages": {"for_bytes": 1048576}}


def test_a_preset_comes_on_top_of_the_profile_that_is_named_before_it() -> None:
    areas = profile.combined(["fabric", "roce_gcp"], {}).areas
    assert {*areas} == {*profile.combined("fabric", {}).areas}
    assert areas["nccl"]["variables"] == {
        **profile.load("fabric")["nccl"]["variables"],
        "NCCL_IB_TC": 52,
        "NCCL_IB_FIFO_TC": 84,
    }


def test_without_a_profile_the_overrides_are_all(own: str) -> None:
    thp = {
        "thp": {"enabled": "madvise"},
        "cpu": {},
        "nic": {"rules": {}},
        "sysctl": {"settings": {}, "allow": []},
    }

    assert profile.combined("", thp).areas == thp
    assert declared("", thp) == {"thp": {"enabled": "madvise"}}


def test_what_is_merged_leaves_the_profile_as_it_was(own: str) -> None:
    before = profile.combined(own, {}).areas
    profile.combined(own, {"sysctl": {"settings": {"vm.swappiness": 99}}}).areas["qos"]["rules"].clear()

    assert profile.combined(own, {}).areas == before


def test_an_area_that_is_no_dictionary_is_left_to_the_node_which_names_it(own: str) -> None:
    assert profile.combined(own, {"irq": "spread"}).areas["irq"] == "spread"


@cases.table
def test_an_unknown_profile_is_named(name: str, words: str) -> None:
    with pytest.raises(AnsibleError) as raised:
        profile.combined(name, {})

    assert words in str(raised.value)
    assert "No such file" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"), [("- thp\n", "not a dictionary of areas"), ("thp: [\n", "own.yml: while parsing")]
)
def test_a_damaged_profile_is_named_with_its_file(tmp_path: pathlib.Path, text: str, words: str) -> None:
    path = tmp_path / "own.yml"
    path.write_text(text)

    with pytest.raises(AnsibleError) as raised:
        profile.combined(str(path), {})

    assert f"profile: {path}: " in str(raised.value)
    assert words in str(raised.value)


@cases.table
def test_what_is_a_profiles_is_what_no_override_names(
    own: str, overrides: dict[str, Any], left: dict[str, Any]
) -> None:
    assert profile.combined(own, overrides).profile == profile.combined(own, left).areas
    both = profile.declared({"profile": own, **overrides}, {}, lambda value: value)
    assert both == profile.combined(own, overrides)


def test_without_a_profile_all_is_the_operators() -> None:
    assert profile.combined("", {"thp": {"enabled": "never"}}).profile == {}


def left(names: list[str], **overrides: Any) -> profile.Declared:
    return profile.declared({"profile": "training", "without": names, **overrides}, {}, lambda value: value)


def test_an_area_is_left_out_whatever_declares_it() -> None:
    whole = profile.combined("training", {"thp": {"enabled": "always"}})
    without = left(["thp"], thp={"enabled": "always"})
    assert without.areas == {area: spec for area, spec in whole.areas.items() if area != "thp"}
    assert "thp" not in without.profile


@pytest.mark.parametrize(
    ("name", "area", "path"),
    [
        ("sysctl.vm.swappiness", "sysctl", ["settings", "vm.swappiness"]),
        ("sysctl.settings.vm.swappiness", "sysctl", ["settings", "vm.swappiness"]),
        ("thp.defrag", "thp", ["defrag"]),
        ("limits.nofile.login", "limits", ["nofile", "login"]),
    ],
)
def test_a_setting_is_left_out_and_all_else_is_declared(name: str, area: str, path: list[str]) -> None:
    whole, without = left([]), left([name])
    *above, key = path
    for areas, was in zip(without, whole):
        inner, before = areas[area], was[area]
        for step in above:
            assert {other: inner[other] for other in inner if other != step} == {
                other: before[other] for other in before if other != step
            }
            inner, before = inner[step], before[step]
        assert key in before
        assert inner == {other: before[other] for other in before if other != key}
    assert profile.declares(whole.areas, name)
    assert not profile.declares(without.areas, name)


@pytest.mark.parametrize("name", ["", "gpus", "thp.", "thp.enabled.x", "sysctl.vm", "sysctl.vm.swappines"])
def test_a_name_that_is_not_declared_changes_nothing(name: str) -> None:
    assert left([name]) == left([])
    assert not profile.declares(left([]).areas, name)
