# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs import sizing
from mlnode.knobs.sizing import GIB, KIB, MIB

GIGABIT = 1_000_000_000

positive = st.integers(1, 1 << 45)


@pytest.mark.parametrize(
    ("rate", "rtt_us", "memory", "expected"),
    [
        pytest.param(25 * GIGABIT, 100, 512 * GIB, 16 * MIB, id="25 Gb/s in one hall: the least"),
        pytest.param(400 * GIGABIT, 100, 512 * GIB, 32 * MIB, id="400 Gb/s in one hall"),
        pytest.param(100 * GIGABIT, 20_000, 512 * GIB, 128 * MIB, id="100 Gb/s across a continent: the cap"),
        pytest.param(0, 100, 512 * GIB, 16 * MIB, id="no link tells its speed"),
        pytest.param(100 * GIGABIT, 20_000, 4 * GIB, 64 * MIB, id="a small machine: memory / 64"),
        pytest.param(25 * GIGABIT, 100, 512 * MIB, 8 * MIB, id="a tiny machine: memory counts more"),
        pytest.param(100 * GIGABIT, 1000, 512 * GIB, 64 * MIB, id="4 x 12.5 MB rounded up to a power of two"),
    ],
)
def test_socket_buffer(rate: int, rtt_us: int, memory: int, expected: int) -> None:
    assert sizing.socket_buffer_max(rate, rtt_us, memory) == expected


@pytest.mark.parametrize(("memory_gib", "expected_mib"), [(16, 81.92), (200, 1024), (2048, 1024), (100, 512)])
def test_min_free(memory_gib: int, expected_mib: float) -> None:
    """16 GiB gives 82 MiB, from 200 GiB on it is 1 GiB."""
    assert sizing.min_free_kbytes(memory_gib * GIB // KIB) == int(expected_mib * KIB)


@pytest.mark.parametrize(
    ("memory", "disk", "background", "limit"),
    [
        pytest.param(2048 * GIB, 1_000_000_000, 1907, 9536, id="2 TB and a disk of 1 GB/s: the disk decides"),
        pytest.param(2048 * GIB, 2_000_000_000, 2861, 14305, id="2 TB and one NVMe drive: the cap"),
        pytest.param(2048 * GIB, 50_000_000_000, 2861, 14305, id="2 TB and many drives: the cap"),
        pytest.param(16 * GIB, 2_000_000_000, 1638, 6553, id="16 GiB: memory decides"),
        pytest.param(2048 * GIB, 100_000_000, 190, 953, id="one hard disk"),
        pytest.param(4 * MIB, 1, 1, 1, id="never nothing"),
    ],
)
def test_dirty_limits_are_whole_mib(memory: int, disk: int, background: int, limit: int) -> None:
    assert sizing.dirty_background_bytes(memory, disk) == background * MIB
    assert sizing.dirty_bytes(memory, disk) == limit * MIB


@pytest.mark.parametrize(("memory", "background", "limit"), [(2048 * GIB, 300, 600), (GIB, 102, 409)])
def test_dirty_limits_of_nfs_are_small_whatever_a_disk_could_do(
    memory: int, background: int, limit: int
) -> None:
    for disk in (1, 2_000_000_000, 50_000_000_000):
        assert sizing.dirty_background_bytes(memory, disk, "nfs") == background * MIB
        assert sizing.dirty_bytes(memory, disk, "nfs") == limit * MIB


def test_a_task_that_waits_for_a_slow_disk_is_not_taken_for_hung() -> None:
    """120 s is the kernel's own limit."""
    assert sizing.dirty_bytes(1 << 50, 10**12) / 125e6 <= 120


@pytest.mark.parametrize(
    ("rate", "rtt_us", "need"), [(0, 100, 1), (400 * GIGABIT, 100, 32 * MIB), (100 * GIGABIT, 20_000, GIB)]
)
def test_need_of_a_socket_buffer_knows_no_cap(rate: int, rtt_us: int, need: int) -> None:
    assert sizing.socket_buffer_need(rate, rtt_us) == need


@pytest.mark.parametrize(
    ("hosts", "rails", "expected"), [(1, 1, 4), (128, 8, 4096), (129, 8, 8192), (1024, 8, 32768)]
)
def test_neighbour_table(hosts: int, rails: int, expected: int) -> None:
    assert sizing.neighbour_gc_thresh3(hosts, rails) == expected


@pytest.mark.parametrize(
    ("need", "page", "expected"),
    [
        (0, 2 * MIB, 0),
        (1, 2 * MIB, 1),
        (2 * MIB, 2 * MIB, 2),
        (40 * GIB, 2 * MIB, 21504),
        (20 * GIB, GIB, 21),
        (40 * GIB, GIB, 42),
    ],
)
def test_huge_pages_hold_what_is_needed_and_five_percent(need: int, page: int, expected: int) -> None:
    assert sizing.hugepages(need, page) == expected


@pytest.mark.parametrize(
    ("entries", "queues", "entry", "memory", "expected"),
    [
        pytest.param(8192, 56, 16 * KIB, 2048 * GIB, 8192, id="7 GiB of 2 TB"),
        pytest.param(8192, 63, 16 * KIB, 512 * GIB, 4096, id="mlx5 with 512 GiB"),
        pytest.param(8192, 2, 4 * KIB, GIB, 1024, id="two queues with 1 GiB"),
        pytest.param(8192, 8, 8 * KIB, GIB, 256, id="never under 256"),
        pytest.param(128, 8, 8 * KIB, GIB, 128, id="but no more than there are"),
        pytest.param(8160, 1, 8 * KIB, 2048 * GIB, 8160, id="what is no power of two and fits"),
        pytest.param(4096, 0, 4 * KIB, 2 * GIB, 4096, id="no queue counts as one"),
    ],
)
def test_receive_rings_take_one_percent_of_memory(
    entries: int, queues: int, entry: int, memory: int, expected: int
) -> None:
    assert sizing.fitting_entries(entries, queues, entry, memory) == expected


@quick
@given(st.integers(1, 16384), st.integers(1, 256), st.sampled_from([4096, 16384, 327680]), positive, positive)
def test_rings_grow_with_memory_and_stay_below_one_percent_of_it(
    entries: int, queues: int, entry: int, memory: int, more: int
) -> None:
    found = sizing.fitting_entries(entries, queues, entry, memory)
    assert found <= entries
    assert found * queues * entry * 100 <= memory or found <= 256
    assert sizing.fitting_entries(entries, queues, entry, memory + more) >= found


@pytest.mark.parametrize(("number", "expected"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 4), (4096, 4096)])
def test_next_power_of_two(number: int, expected: int) -> None:
    assert sizing.next_power_of_two(number) == expected


@quick
@given(positive, positive, st.integers(1, 10**13), st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_memory_link_or_distance_never_gives_a_smaller_buffer(
    memory: int, more: int, rate: int, rtt_us: int, farther: int
) -> None:
    size = sizing.socket_buffer_max(rate, rtt_us, memory)
    assert size <= min(128 * MIB, memory // 64)
    assert sizing.socket_buffer_max(rate, rtt_us, memory + more) >= size
    assert sizing.socket_buffer_max(rate, rtt_us + farther, memory) >= size
    assert sizing.socket_buffer_max(rate + more, rtt_us, memory) >= size


@quick
@given(positive, positive, positive)
def test_the_other_formulas_grow_with_the_machine_and_keep_their_bounds(
    memory: int, more: int, disk: int
) -> None:
    for path in sizing.DATA_PATHS:
        for formula in (sizing.dirty_background_bytes, sizing.dirty_bytes):
            assert formula(memory, disk, path) <= formula(memory + more, disk, path)
            assert formula(memory, disk, path) <= formula(memory, disk + more, path)
            assert formula(memory, disk, path) % MIB == 0
        assert sizing.dirty_background_bytes(memory, disk, path) <= sizing.dirty_bytes(memory, disk, path)
    assert sizing.min_free_kbytes(memory) <= sizing.min_free_kbytes(memory + more) <= GIB // KIB
    assert sizing.min_free_kbytes(memory) * 20 <= memory  # far below what the guard refuses


@quick
@given(st.integers(0, 1 << 45), st.sampled_from([64 * KIB, 2 * MIB, 512 * MIB, GIB]))
def test_huge_pages_are_enough_and_not_one_page_too_many(need: int, page: int) -> None:
    pages = sizing.hugepages(need, page)
    assert pages * page * 100 >= need * 105
    assert (pages - 1) * page * 100 < need * 105 or pages == 0


@quick
@given(st.integers(1, 10**5), st.integers(1, 64))
def test_the_neighbour_table_is_a_power_of_two_with_room_for_every_rail(hosts: int, rails: int) -> None:
    size = sizing.neighbour_gc_thresh3(hosts, rails)
    assert 4 * hosts * rails <= size < 8 * hosts * rails
    assert size & (size - 1) == 0
