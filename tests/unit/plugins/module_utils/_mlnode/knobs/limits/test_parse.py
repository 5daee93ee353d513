# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given, strategies
from mlnode.knobs.limits import parse as limits_parse
from mlnode.knobs.limits import units as limits_units
from mlnode.knobs.limits.parse import LIMITS, Amount
from mlnode.model.errors import DeclarationError


def keys(spec: dict[str, Any]) -> list[str]:
    return [setting.key for setting in door.parse("limits", spec)]


def test_who_gets_a_limit() -> None:
    assert keys({"nofile": 65536}) == [
        "limits.login.*.nofile",
        "limits.login.root.nofile",
        "limits.systemd.nofile",
        "limits.services.nofile",
    ]
    assert keys({"nofile": 65536, "domains": ["@a.b", "@a.b"], "services": [], "defaults": False}) == [
        "limits.login.@a.b.nofile"
    ]
    assert keys({"domains": ["*"]}) == keys({"nofile": None}) == keys({}) == []


def test_keys_can_be_taken_apart() -> None:
    for name in LIMITS:
        for key in keys({name: 1 << 30, "domains": ["*", "@a.b", "c"]}):
            scope, domain, limit = limits_parse.taken_apart(key)
            assert limit.name == name
            assert key == ".".join(filter(None, ["limits", scope, domain, name]))


def test_claims_tell_services_that_are_named() -> None:
    def claim(**spec: Any) -> str:
        return door.parse("limits", {"nofile": 65536, **spec})[-1].claim

    assert claim() == claim(services=["auto"]) == "65536"
    assert (
        claim(services=["slurmd.service", "sshd"])
        == claim(services=["slurmd", "sshd"])
        == "65536 for slurmd, sshd"
    )


SCOPED: dict[str, Any] = {
    "login": "65536:1048576",
    "systemd": "1024:1048576",
    "services": "1024:1048576",
    "slurmd": "65536:1048576",
}


def test_each_scope_may_have_its_own_amount() -> None:
    found = {setting.key: setting.want for setting in door.parse("limits", {"nofile": SCOPED})}
    assert found == {
        "limits.login.*.nofile": "65536:1048576",
        "limits.login.root.nofile": "65536:1048576",
        "limits.systemd.nofile": "1024:1048576",
        "limits.services.nofile": "1024:1048576; 65536:1048576 (slurmd)",
    }
    assert keys({"nofile": {"systemd": 65536}}) == ["limits.systemd.nofile"]
    assert keys({"nofile": {"containerd": 65536}}) == ["limits.services.nofile"]
    assert keys({"nofile": {"containerd": 65536}, "services": ["slurmd"]}) == []
    assert keys({"nofile": {"login": None}}) == keys({"nofile": {}}) == []


def test_an_amount_that_waits_for_the_hardware_has_no_value_yet() -> None:
    found = door.parse("limits", {"memlock": {"login": "auto", "systemd": 0}})
    assert [(setting.want, setting.claim) for setting in found] == [
        (None, "auto"), (None, "auto"), ("0", "0"),
    ]  # fmt: skip


@cases.table
def test_an_amount_is_the_least_or_exact(name: str, raw: Any, text: str, exact: bool) -> None:
    """For all, and for one scope."""
    limit = LIMITS[name]
    for spec in (raw, {"services": raw}):
        texts = limits_parse.declared({name: spec}, limits_parse.SERVICES, limit)
        assert texts == {"": text}
        assert limits_parse.wanted(limit, text).exact is exact


@cases.table
def test_amounts(name: str, raw: Any, text: str) -> None:
    (setting,) = door.parse("limits", {name: raw, "domains": [], "services": []})
    assert setting.want == text


@quick
@given(strategies.sampled_from([*LIMITS]), values, values)
def test_what_is_taken_is_one_word_that_everybody_reads_alike(name: str, soft: str, hard: str) -> None:
    limit = LIMITS[name]
    for raw in (soft, f"{soft}:{hard}"):
        try:
            amount = limits_parse.amount(limit, raw)
        except DeclarationError:
            continue
        assert limits_parse.amount(limit, str(amount)) == amount
        assert limits_units.amount(limit, amount.in_systemd()) == amount
        for _kind, text in amount.in_pam(limit):
            assert text == "unlimited" or text.isdigit()


numbers = strategies.one_of(strategies.none(), strategies.integers(1 << 13, 1 << 51))


@quick
@given(numbers, numbers)
def test_memory_survives_the_unit_of_pam(soft: int | None, hard: int | None) -> None:
    limit = LIMITS["memlock"]
    given = Amount(*(None if number is None else number * 1024 for number in (soft, hard)))
    lines = dict(given.in_pam(limit))
    found = [lines.get(kind, lines.get("-")) for kind in ("soft", "hard")]
    assert found == ["unlimited" if number is None else str(number) for number in (soft, hard)]


# -- as systemd takes them -----------------------------------------------------------------


@cases.table
def test_systemd_passes_over_what_it_does_not_understand(
    name: str, text: str, found: tuple[int | None, int | None] | None
) -> None:
    assert limits_units.amount(LIMITS[name], text) == (Amount(*found) if found else None)
