# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st
from mlnode.report.metrics import COUNTER, GAUGE, Family, Sample, render

#: The text format, version 0.0.4, without what this library never writes
LINE = re.compile(
    r"# HELP [a-z_]+ (?:[^\\\n]|\\[\\n])*\Z"
    r"|# TYPE [a-z_]+ (?:gauge|counter)\Z"
    r'|(?P<name>[a-z_]+)(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)+\})? (?P<value>[0-9.e+-]+)\Z'
)


def lines(text: str) -> list[str]:
    """Lines as a parser splits them: at the line feed only."""
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


def test_the_form() -> None:
    family = Family("mlnode_x_total", COUNTER, "Of all.", (Sample(3, {"a": "b"}), Sample(0.25)))
    assert render([family]) == (
        '# HELP mlnode_x_total Of all.\n# TYPE mlnode_x_total counter\nmlnode_x_total{a="b"} 3\n'
        "mlnode_x_total 0.25\n"
    )


def test_a_family_without_samples_is_left_out() -> None:
    assert render([Family("mlnode_x", GAUGE, "None.", ())]) == ""


def test_values_of_labels_are_escaped() -> None:
    value = 'a "quote", a \\ and\na line\x00\r\x85\u2028'
    text = render([Family("mlnode_x", GAUGE, "Of all.", (Sample(1, {"a": value}),))])
    assert lines(text)[2] == (
        r'mlnode_x{a="a \"quote\", a \\ and\na line\\x00\\r\\x85\\u2028"} 1'
    )  # fmt: skip


def test_bytes_of_the_kernel_that_are_no_text_stay_text() -> None:
    value = b"\xff\xfe".decode("utf-8", "surrogateescape")
    text = render([Family("mlnode_x", GAUGE, "Of all.", (Sample(1, {"a": value}),))])
    assert text.encode("utf-8").decode("utf-8") == text
    assert r"\\udcff\\udcfe" in text


def test_a_long_label_is_cut() -> None:
    text = render([Family("mlnode_x", GAUGE, "Of all.", (Sample(1, {"a": "x" * 5000}),))])
    assert len(lines(text)[2]) < 250
    assert "xxx..." in text


@given(
    st.text(st.characters(), max_size=300),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(st.characters(), max_size=300)),
    st.floats(0, 1e15, allow_nan=False, allow_infinity=False),
)
def test_any_text_is_one_line_of_the_format(text: str, labels: dict[str, str], value: float) -> None:
    written = render([Family("mlnode_x", GAUGE, "Of all.", (Sample(value, {**labels, "d": text}),))])
    written.encode("utf-8")
    found = [LINE.match(line) for line in lines(written)]
    assert all(found)
    assert len(found) == 3
    last = found[2]
    assert last is not None
    assert math.isclose(float(last["value"]), value)
