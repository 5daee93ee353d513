# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from datetime import date

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.agent.waivers import judge, parse
from mlnode.model.errors import DeclarationError

TODAY = date(2026, 1, 31)


def waiver(key: str = "vm.*", reason: str = "why", until: str = "2026-01-31") -> dict[str, str]:
    return {"key": key, "reason": reason, "until": until}


@cases.table
def test_an_exception_holds_to_the_end_of_its_day(
    until: str, ignored: bool, expired: bool, state: str
) -> None:
    verdict = judge(parse([waiver(until=until)]), ["vm.swappiness"], TODAY)

    assert ("vm.swappiness" in verdict.ignored) == ignored
    assert ("vm.swappiness" in verdict.expired) == expired
    assert [*verdict.states] == [state]


@cases.table
def test_names_are_as_in_a_shell(key: str, covers: bool) -> None:
    verdict = judge(parse([waiver(key)]), ["vm.swappiness"], TODAY)

    assert bool(verdict.ignored) == covers
    assert [*verdict.states] == (["used"] if covers else ["unused"])


def test_one_that_holds_wins_over_one_that_does_not() -> None:
    both = parse([waiver(until="2020-01-01"), waiver("vm.swap*", until="2030-01-01")])

    verdict = judge(both, ["vm.swappiness"], TODAY)

    assert verdict.ignored["vm.swappiness"].key == "vm.swap*"
    assert verdict.expired == {}


def test_of_two_that_ended_the_later_one_is_told() -> None:
    both = parse([waiver(until="2021-01-01"), waiver(until="2020-01-01")])

    assert judge(both, ["vm.x"], TODAY).expired["vm.x"].until == date(2021, 1, 1)


@quick
@given(strategies.text(), strategies.lists(strategies.text(), max_size=4))
def test_any_name_is_judged(key: str, drifted: list) -> None:
    try:
        given = parse([waiver(key)])
    except DeclarationError:
        return

    verdict = judge(given, drifted, TODAY)

    assert {*verdict.ignored} <= {*drifted}
    assert (verdict.states == ["used"]) == bool(verdict.ignored)
