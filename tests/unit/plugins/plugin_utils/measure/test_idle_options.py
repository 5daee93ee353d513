# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that have no effect with others."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import idle_options

SPEC = options_of.module("measure")

#: Options of effect.yml with an effect in every run: a new option belongs here or into the table
ALWAYS = {
    *(f"effect_{name}" for name in ("kinds", "by", "before", "put_back", "settle", "lease")),
    *(f"effect_{name}" for name in ("blocks", "least", "precision", "budget", "fail_on")),
    # The seed of the pairs, or of a screening design
    "campaign_seed",
    "campaign_allow",
    "campaign_results",
}

#: Type → a value that is not the default of any option
OTHER = {"int": 77, "float": 7.7, "str": "other", "path": "/other", "list": ["other"], "raw": "other"}

Needed = idle_options.Needs


def other(name: str) -> Any:
    about = SPEC[name]
    return not about.get("default") if about["type"] == "bool" else OTHER[about["type"]]


def refused(kind: str, own: set[str], **given: Any) -> list[str]:
    usual = {name: about.get("default") for name, about in SPEC.items()}
    return idle_options.refused({**usual, "kind": kind, **given}, SPEC, own)


def rows() -> list[tuple[str, Needed, str]]:
    return [
        (kind, needs, name)
        for kind, all_of in idle_options.NEEDS.items()
        for needs in all_of
        for name in needs.options
    ]


@pytest.mark.parametrize(
    ("kind", "needs", "name"), rows(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_option_without_an_effect_is_refused_with_its_reason(
    kind: str, needs: Needed, name: str
) -> None:
    without: Any = {"effect_kinds": ["memory"], "effect_launcher": "ssh", "nccl_launcher": "ssh"}
    without = {needs.other: {**without, "campaign_kind": "rdma_bw"}.get(needs.other, False)}
    without = {} if needs.other == "kind" else without

    [reason] = [
        line for line in refused(kind, {name}, **{name: other(name), **without}) if line.startswith(name)
    ]

    word = "with" if needs.values else "without"
    assert f"{name}: has no effect {word} {needs.other}" in reason
    assert not needs.values or str(needs.values[0]).lower() in reason
    # Its default has been asked for by nobody.
    assert refused(kind, {name}, **without) == []
    if needs.other != "kind":
        first = needs.values[0] if needs.values else ["thp"]
        given = {needs.other: [first] if needs.other == "effect_kinds" else first, name: other(name)}
        assert not [line for line in refused(kind, {name}, **given) if f" {needs.other}" in line]


def test_every_option_of_an_effect_has_a_place() -> None:
    options = {name for name in SPEC if name.startswith(("effect_", "campaign_"))}
    needed = {name for kind, _needs, name in rows() if kind == "effect"}

    assert options == needed | ALWAYS
    assert not needed & ALWAYS


def test_a_variable_of_campaigns_may_be_in_the_inventory() -> None:
    assert refused("effect", set(), campaign_kind="rdma_bw") == []
    assert refused("campaign", set(), campaign_kind="rdma_bw", campaign_streams=8) == []


def test_the_options_of_a_run_may_be_given_to_put_it_back() -> None:
    assert refused("effect", {"effect_runs"}, effect_put_back=True, effect_runs=3) == []
