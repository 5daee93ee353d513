# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file as NCCL reads it, and our blocks in what others have written."""

from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.nccl import file as nccl_file

from .node import block


def as_nccl(text: str) -> dict[str, str]:
    """What setEnvFile() puts into an empty environment, written down from NCCL's source by hand: another
    reading of the same rules, so that a mistake would have to be made twice."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.startswith("#") and "=" in line:
            name, value = line.split("=", 1)
            found.setdefault(name, value)
    return found


#: Pieces of a file that may mean something to somebody
PIECES = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        "NCCL_DEBUG=INFO\n",
        "NCCL_DEBUG = INFO\n",
        " NCCL_DEBUG=INFO\n",
        "NCCL_IB_HCA==mlx5_0:1\r\n",
        "NCCL_IB_HCA=\n",
        "no assignment\n",
        "#NCCL_DEBUG=TRACE\n",
        "\x0cNCCL_DEBUG=VERSION\n",
        "\udcff=\udcfe\n",
        "# END mlnode.tuning jobs\n",
        "# BEGIN mlnode.tuning\n",
        "# BEGIN mlnode.tuning jobs\n",
        "# BEGIN mlnode.tuning Jobs\n",
        block("NCCL_DEBUG=WARN"),
        block("NCCL_DEBUG=WARN", name="other"),
        block(),
    ]
)
FILES = st.tuples(
    st.lists(PIECES, max_size=8).map("".join), st.sampled_from(["", "NCCL_ALGO=Ring", "#"])
).map("".join)


@quick
@given(FILES)
def test_the_first_line_counts_as_it_does_to_nccl(text: str) -> None:
    conf = nccl_file.parse(text)
    read = as_nccl(text)

    assert {line.name for line in conf.lines} == {*read}
    for name, value in read.items():
        line = conf.effective(name)
        assert line is not None
        assert line.value == value
        assert text.split("\n")[line.number - 1] == f"{name}={value}"


def test_lost_lines_around_a_block_do_not_make_ours_what_is_between_them() -> None:
    theirs = "NCCL_ALGO=Ring\n"
    lost, ours, end = "# BEGIN mlnode.tuning jobs\n", block("NCCL_DEBUG=WARN"), "# END mlnode.tuning jobs\n"
    conf = nccl_file.parse(f"{lost}{lost}{theirs}{ours}{end}{end}")

    assert conf.others == theirs
    assert conf.blocks == {"jobs": ("NCCL_DEBUG=WARN\n",)}
    assert nccl_file.parse(conf.having("jobs", {})).others == theirs


@quick
@given(FILES)
def test_what_is_written_counts_and_the_rest_stays_byte_for_byte(text: str) -> None:
    before = nccl_file.parse(text)
    wanted = {"NCCL_DEBUG": "ATTN", "NCCL_IB_HCA": "=mlx5_0:1"}

    new = before.having("aa", wanted)

    after = nccl_file.parse(new)
    assert new.endswith(before.others)
    assert after.others == before.others
    assert {name: as_nccl(new)[name] for name in wanted} == wanted
    assert after.having("aa", wanted) == new
    # Without us it is as before, but for where the blocks of others stand.
    rest = after.having("aa", {})
    assert nccl_file.parse(rest).others == before.others
    assert {name: rows for name, rows in nccl_file.parse(rest).blocks.items() if rows} == {
        name: rows for name, rows in before.blocks.items() if name != "aa" and rows
    }


@quick
@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    conf = nccl_file.parse(text)
    assert conf.having("jobs", {}) == conf.others == text


def test_a_file_without_blocks_is_returned_as_it_is() -> None:
    text = "# site\nNCCL_DEBUG=INFO\n\nNCCL_IB_HCA==mlx5_0"
    assert nccl_file.parse(text).having("jobs", {}) == text


def test_the_blocks_are_in_the_order_of_their_names() -> None:
    one = nccl_file.parse("NCCL_NET=IB\n").having("b", {"NCCL_ALGO": "Ring"})
    both = nccl_file.parse(one).having("a", {"NCCL_DEBUG": "WARN"})

    assert both == block("NCCL_DEBUG=WARN", name="a") + block("NCCL_ALGO=Ring", name="b") + "NCCL_NET=IB\n"
    assert nccl_file.parse(both).having("b", {"NCCL_ALGO": "Ring"}) == both


def test_who_has_written_a_line() -> None:
    conf = nccl_file.parse(block("NCCL_DEBUG=WARN") + "NCCL_DEBUG=INFO\nNCCL_NET=IB\n")

    assert [(line.name, line.value, line.number, line.owner) for line in conf.lines] == [
        ("NCCL_DEBUG", "WARN", 2, "jobs"),
        ("NCCL_DEBUG", "INFO", 4, ""),
        ("NCCL_NET", "IB", 5, ""),
    ]
    foreign = conf.foreign("NCCL_DEBUG")
    assert foreign is not None
    assert foreign.number == 4
    assert conf.own("NCCL_NET", "jobs") is None
    assert conf.own("NCCL_DEBUG", "other") is None


@cases.table
def test_half_a_block_is_nobodys(text: str) -> None:
    conf = nccl_file.parse(text)
    assert conf.blocks == {}
    assert conf.others == text


def test_half_a_block_does_not_swallow_the_next_one() -> None:
    text = "# BEGIN mlnode.tuning jobs\nNCCL_NET=IB\n" + block("NCCL_DEBUG=WARN")
    conf = nccl_file.parse(text)

    assert conf.others == "# BEGIN mlnode.tuning jobs\nNCCL_NET=IB\n"
    assert conf.blocks == {"jobs": ("NCCL_DEBUG=WARN\n",)}
