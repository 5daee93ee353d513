# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of counters: the store itself. How a rise is judged: test_rdma_counters.py."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.linux import link_counters
from mlnode.linux.link_counters import PATH, Book, Rise
from mlnode.model.errors import HostError

ONE, OTHER = "/sys/one", "/sys/other"
CARD = "0000:01:00.0 0200"


@pytest.fixture
def machine(machine: Machine) -> Machine:
    boot(machine, "first")
    at(machine, 100)
    return machine


def boot(machine: Machine, name: str) -> None:
    machine.put("/proc/sys/kernel/random/boot_id", f"{name}\n")


def at(machine: Machine, seconds: float) -> None:
    machine.put("/proc/uptime", f"{seconds:.2f} 5.00\n")


def take(machine: Machine, value: int, identity: str = CARD, **options: bool) -> tuple[tuple[Rise, ...], str]:
    """One run that looks at one counter and keeps it."""
    book = Book(machine, writable=options.pop("writable", True), **options)
    found = book.look("mlx5_0", identity, ONE, value)
    book.save()
    return found.spans, found.why


def test_the_first_look_has_no_rise(machine: Machine) -> None:
    assert take(machine, 5) == ((), "baseline taken")
    assert machine.exists(PATH)


def test_rises_are_those_since_the_baseline_and_since_the_last_look(machine: Machine) -> None:
    take(machine, 5)
    at(machine, 160)
    assert take(machine, 8)[0] == (Rise(3, 60),)
    at(machine, 220)
    assert take(machine, 9)[0] == (Rise(4, 120), Rise(1, 60))


def test_a_counter_that_went_back_starts_anew(machine: Machine) -> None:
    take(machine, 50)
    at(machine, 200)
    assert take(machine, 3) == ((), "went back from 50 to 3: it starts again")
    at(machine, 260)
    assert take(machine, 4)[0] == (Rise(1, 60),)


def test_after_a_reset_it_starts_anew(machine: Machine) -> None:
    take(machine, 5)
    at(machine, 200)
    assert take(machine, 9, reset=True) == ((), "baseline taken")
    at(machine, 300)
    assert take(machine, 9)[0] == (Rise(0, 100),)


def test_after_a_reboot_and_with_another_card_it_starts_anew(machine: Machine) -> None:
    take(machine, 5)
    assert take(machine, 9, identity="0000:02:00.0 0300") == ((), "baseline taken")
    boot(machine, "second")
    assert take(machine, 9, identity="0000:02:00.0 0300") == ((), "baseline taken")
    assert "first" not in machine.read(PATH)


def test_time_that_goes_back_within_a_boot_is_no_time(machine: Machine) -> None:
    take(machine, 5)
    at(machine, 50)
    spans, why = take(machine, 7)
    assert spans == ()
    assert "starts again" in why


def test_what_may_not_write_writes_nothing_and_says_so(machine: Machine) -> None:
    before = machine.tree()
    assert take(machine, 5, writable=False) == ((), "no baseline, and this run may not take one")
    assert machine.tree() == before
    take(machine, 5)
    before = machine.tree()
    at(machine, 160)
    assert take(machine, 6, writable=False)[0] == (Rise(1, 60),)
    assert take(machine, 6, writable=False, reset=True)[0] == ()
    assert {path: what for path, what in machine.tree().items() if path != "/proc/uptime"} == {
        path: what for path, what in before.items() if path != "/proc/uptime"
    }


def test_devices_that_are_not_looked_at_and_counters_that_cannot_be_read_stay_known(machine: Machine) -> None:
    book = Book(machine, writable=True)
    book.look("mlx5_0", CARD, ONE, 1)
    book.look("mlx5_0", CARD, OTHER, 2)
    book.look("mlx5_1", CARD, ONE, 3)
    book.save()
    at(machine, 200)
    book = Book(machine, writable=True)
    book.look("mlx5_0", CARD, ONE, 1)
    book.keep("mlx5_0", CARD, OTHER)
    book.keep("mlx5_0", CARD, "/sys/never")
    book.save()
    book = Book(machine)
    assert book.known("mlx5_0", CARD) == {ONE, OTHER}
    assert book.known("mlx5_1", CARD) == {ONE}
    assert book.known("mlx5_1", "another card") == frozenset()
    assert book.look("mlx5_0", CARD, OTHER, 4).spans == (Rise(2, 100),)


@pytest.mark.parametrize("path", ["/proc/sys/kernel/random/boot_id", "/proc/uptime"])
def test_without_a_time_no_rise_can_be_told(machine: Machine, path: str) -> None:
    take(machine, 5)
    before = machine.read(PATH)
    machine.remove(path)
    spans, why = take(machine, 5)
    assert spans == ()
    assert path in why
    machine.put(path, "\n")
    assert path in take(machine, 5)[1]
    assert machine.read(PATH) == before


def kept(looks: str, identity: str = '""') -> str:
    device = f'{{"identity": {identity}, "base": {looks}, "last": {{}}}}'
    return f'{{"format": 1, "boot": "first", "devices": {{"mlx5_0": {device}}}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"format": 1, "devices": {}}',
        '{"format": 1, "boot": "first", "devices": []}',
        kept("{}", identity="3"),
        *(
            kept(f'{{"x": {look}}}')
            for look in ("[1]", "[NaN, 1]", "[1, -1]", "[1, 1.5]", "[true, 1]", "[1e999, 1]")
        ),
    ],
)
def test_a_damaged_file_is_kept_and_said_until_it_is_reset(machine: Machine, text: str) -> None:
    machine.put(PATH, text)
    spans, why = take(machine, 5)
    assert spans == ()
    assert why.startswith(f"{PATH} is damaged")
    assert "baseline: reset" in why
    assert machine.read(PATH) == text
    assert take(machine, 5, reset=True) == ((), "baseline taken")
    assert json.loads(machine.read(PATH))["boot"] == "first"


def test_an_unreadable_file_is_not_overwritten(machine: Machine) -> None:
    take(machine, 5)
    machine.unreadable[PATH] = errno.EIO
    assert "EIO" in take(machine, 6)[1]
    machine.unreadable.clear()
    assert take(machine, 5)[0] == (Rise(0, 0),)


def test_a_full_disk_is_an_error_of_the_host(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, *_more: object, **_options: object) -> None:
        raise HostError("write", path, errno.ENOSPC)

    monkeypatch.setattr(machine, "write_file", full)
    with pytest.raises(HostError, match="ENOSPC"):
        take(machine, 5)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["base", "last", "identity", "x"]), inner),
    ),
    max_leaves=8,
)


@settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(json_values)
def test_no_file_makes_it_fail(machine: Machine, devices: Any) -> None:
    machine.put(PATH, json.dumps({"format": 1, "boot": "first", "devices": {"mlx5_0": devices}}))
    take(machine, 5, writable=False)
    machine.put(PATH, json.dumps({"format": 1, "boot": "first", "devices": devices}))
    take(machine, 5, writable=False)


def test_a_rise_that_was_asked_for_is_none(machine: Machine) -> None:
    take(machine, 5)
    at(machine, 160)
    take(machine, 6)
    link_counters.excuse(machine, {ONE: 3, OTHER: 7})
    at(machine, 220)
    assert take(machine, 10)[0] == (Rise(2, 120), Rise(1, 60))


@pytest.mark.parametrize("rises", [{OTHER: 3}, {ONE: 0}, {ONE: -2}, {}], ids=str)
def test_what_is_not_kept_or_has_not_risen_needs_no_excuse(machine: Machine, rises: dict[str, int]) -> None:
    link_counters.excuse(machine, rises)
    assert not machine.exists(PATH)
    take(machine, 5)
    before = machine.text(PATH)
    link_counters.excuse(machine, rises)
    assert machine.text(PATH) == before


def test_what_is_of_another_boot_is_not_excused(machine: Machine) -> None:
    take(machine, 5)
    boot(machine, "second")
    before = machine.text(PATH)
    link_counters.excuse(machine, {ONE: 3})
    assert machine.text(PATH) == before
