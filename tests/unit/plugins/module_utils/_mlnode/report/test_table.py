# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlnode.report.table import render

REASON = "runtime is 60; boot: /etc/sysctl.d/zzz.conf:1 sets 60"


def setting(key: str = "vm.swappiness", reason: str = REASON, **other: Any) -> dict[str, Any]:
    return {
        "key": key,
        "declared": "1",
        "runtime": "60",
        "boot": "60",
        "status": "overridden",
        "reason": reason,
        **other,
    }


RIGHT = setting("vm.max_map_count", "", declared=">= 1048576", runtime="1048576", boot="1048576", status="ok")


def test_without_a_terminal_each_setting_is_one_line() -> None:
    assert render([setting(), RIGHT], None) == (
        "PARAMETER         DECLARED    RUNTIME  BOOT     STATUS      WHY\n"
        "vm.swappiness     1           60       60       overridden  " + REASON + "\n"
        "vm.max_map_count  >= 1048576  1048576  1048576  ok"
    )


def test_a_wide_terminal_wraps_the_reason_in_its_own_column() -> None:
    assert render([setting(), RIGHT], 90) == (
        "PARAMETER         DECLARED    RUNTIME  BOOT     STATUS      WHY\n"
        "vm.swappiness     1           60       60       overridden  runtime is 60; boot:\n"
        "                                                            /etc/sysctl.d/zzz.conf:1 sets\n"
        "                                                            60\n"
        "vm.max_map_count  >= 1048576  1048576  1048576  ok"
    )


def test_a_narrow_terminal_has_the_reason_under_its_row() -> None:
    assert render([setting(), RIGHT], 60) == (
        "PARAMETER         DECLARED    RUNTIME  BOOT     STATUS\n"
        "vm.swappiness     1           60       60       overridden\n"
        "    runtime is 60; boot: /etc/sysctl.d/zzz.conf:1 sets 60\n"
        "vm.max_map_count  >= 1048576  1048576  1048576  ok"
    )


@pytest.mark.parametrize("width, beside", [(84, True), (83, False)])
def test_the_reason_goes_under_its_row_when_less_than_24_columns_are_left(width: int, beside: bool) -> None:
    # The five columns of this table and their gaps take 60.
    head = render([setting(), RIGHT], width).splitlines()[0]

    assert head.endswith("WHY") is beside


def test_nothing_to_show_is_the_head_alone() -> None:
    assert render([], None) == "PARAMETER  DECLARED  RUNTIME  BOOT  STATUS  WHY"


def test_empty_and_missing_values_are_told_apart() -> None:
    row = render([setting(declared="", runtime="", boot=None)], None).splitlines()[1]

    assert row.split()[:4] == ["vm.swappiness", '""', '""', "-"]


TEXT = st.text("abc./-12 ", min_size=1, max_size=40).map(lambda text: f"x{text.strip()}")


@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT, st.one_of(st.none(), TEXT), st.one_of(st.just(""), TEXT))),
    width=st.one_of(st.none(), st.integers(1, 300)),
)
def test_no_text_is_lost_at_any_width(rows: list[tuple[Any, ...]], width: int | None) -> None:
    settings = [
        setting(key, reason, runtime=runtime, boot=boot, declared=declared)
        for key, declared, runtime, boot, reason in rows
    ]

    table = render(settings, width)

    squeezed = "".join(table.split())
    for item in settings:
        assert "".join(item["key"].split()) in squeezed
        assert "".join(item["reason"].split()) in squeezed
    assert all(line == line.rstrip() for line in table.splitlines())
    if width is None:
        assert len(table.splitlines()) == len(settings) + 1


@given(reason=st.text("abcdefgh ", min_size=1, max_size=300), width=st.integers(20, 300))
def test_a_reason_never_makes_a_line_longer_than_the_terminal(reason: str, width: int) -> None:
    plain = render([setting(reason="")], width).splitlines()
    lines = render([setting(reason=f"x{reason}")], width).splitlines()

    # The five columns may be wider than a small terminal; what the reason adds never is.
    assert max(map(len, lines)) <= max(width, *map(len, plain))


def test_one_long_value_is_cut_so_that_every_row_fits_the_terminal() -> None:
    rows = [setting(reason=""), setting("net.ipv4.ip_local_reserved_ports", "", runtime="1," * 500)]
    lines = render(rows, 100).splitlines()
    assert max(map(len, lines)) <= 100
    assert "1,1,1" in lines[2]
    assert "..." in lines[2]
    assert "1," * 500 in render(rows, None), "nothing is cut where there is no terminal"


LONG = "net.ipv4.conf.enp154s0f0np0/100.rp_filter"


def test_a_long_name_has_a_line_of_its_own_where_the_terminal_is_narrow() -> None:
    assert render([setting(LONG, ""), RIGHT], 60) == (
        "PARAMETER           DECLARED    RUNTIME  BOOT     STATUS\n"
        f"{LONG}\n"
        "                    1           60       60       overridden\n"
        "vm.max_map_count    >= 1048576  1048576  1048576  ok"
    )


@given(
    keys=st.lists(st.text("abcdefgh.", min_size=1, max_size=70), min_size=1, max_size=5),
    value=st.text("0123456789", max_size=90),
    status=st.sampled_from(["ok", "drifted", "overridden", "unsupported", "pending_reboot"]),
    width=st.integers(80, 200),
)
def test_from_80_columns_on_only_a_name_can_be_longer_than_the_terminal(
    keys: list[str], value: str, status: str, width: int
) -> None:
    rows = [setting(key, declared=value, runtime=value, boot=value, status=status) for key in keys]

    assert all(len(line) <= width for line in render(rows, width).splitlines())


def test_a_colour_moves_no_column() -> None:
    rows = [setting(), RIGHT, setting("a", status="unsupported")]

    for width in (None, 60, 90):
        coloured = render(rows, width, colour=True)
        assert "\x1b[31moverridden\x1b[0m" in coloured
        assert "\x1b[32mok\x1b[0m" in coloured
        assert re.sub("\x1b\\[[0-9]+m", "", coloured) == render(rows, width)
