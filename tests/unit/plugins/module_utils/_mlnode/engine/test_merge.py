# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was written goes, what others wrote later stays; with the kinds' own functions as writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import assume, given
from hypothesis import strategies as st
from mlnode.engine import merge
from mlnode.knobs.nccl import file as nccl_file
from mlnode.loader import bls as boot_bls
from mlnode.loader import cmdline
from mlnode.loader import grub as boot_grub

GRUB = """\
# If you change this file, run 'update-grub' afterwards.
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"
GRUB_CMDLINE_LINUX="net.ifnames=0"

# GRUB_TERMINAL=console
"""
CHANGES = {"mitigations": ("mitigations=auto",), "quiet": (), "iommu": ("iommu=pt",)}
WROTE = boot_grub.edited(GRUB, CHANGES)


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_writer_does_what_the_tests_below_rely_on() -> None:
    assert 'GRUB_CMDLINE_LINUX="mitigations=auto iommu=pt net.ifnames=0"\n' in WROTE
    assert 'GRUB_CMDLINE_LINUX_DEFAULT="splash"\n' in WROTE


EDITS = {
    "another line": (("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"),),
    "a new line at the end": (("# GRUB_TERMINAL=console\n", "# GRUB_TERMINAL=console\nGRUB_X=1\n"),),
    "a new line beside": (("GRUB_CMDLINE_LINUX=", "GRUB_GFXMODE=640x480\nGRUB_CMDLINE_LINUX="),),
    "a word behind": (("net.ifnames=0", "net.ifnames=0 crashkernel=512M"),),
    "a word before": (('LINUX="mitigations', 'LINUX="crashkernel=512M mitigations'),),
    "a word between": (("=auto iommu", "=auto crashkernel=512M iommu"),),
    "a word between ours and theirs": (("iommu=pt net", "iommu=pt crashkernel=512M net"),),
    "a word less": ((" net.ifnames=0", ""),),
    "ours taken out": (("mitigations=auto ", ""),),
    "a word where one was taken away": (('"splash"', '"nosplash splash"'),),
    "blanks at the end": (('net.ifnames=0"', 'net.ifnames=0  "'),),
    "the other quotes": (('"splash"', "'splash'"),),
    "a line less": (("GRUB_TIMEOUT=5\n", ""),),
    "no line end": (("# GRUB_TERMINAL=console\n", "# GRUB_TERMINAL=console"),),
    "two": (("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"), ("net.ifnames=0", "net.ifnames=0 crashkernel=512M")),
}


@pytest.mark.parametrize("pairs", EDITS.values(), ids=EDITS)
def test_grub_keeps_what_was_edited_since(pairs: tuple[tuple[str, str], ...]) -> None:
    """The same words as if the edit had been made in a file that nobody else had written."""
    now = edited(WROTE, *pairs)
    found = merge.undone(GRUB, WROTE, now)
    own = {"mitigations=auto", "iommu=pt"}
    assert found.left == ()
    assert sorted(words_of(found.text)) == sorted([*(set(words_of(now)) - own), "quiet"])
    assert found.text.count("\n") == now.count("\n")
    assert merge.undone(GRUB, WROTE, found.text).text == found.text, "a revert that was cut short"


def words_of(text: str) -> set[str]:
    return {*text.replace('"', " ").replace("'", " ").split()}


def test_each_byte_of_a_merge() -> None:
    now = edited(
        WROTE, ("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"), ("net.ifnames=0", "net.ifnames=0 crashkernel=1G")
    )
    want = edited(
        GRUB, ("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"), ("net.ifnames=0", "net.ifnames=0 crashkernel=1G")
    )
    assert merge.undone(GRUB, WROTE, now) == merge.Merged(want, ())


def test_a_new_version_of_the_package_stays_as_it_is() -> None:
    new = GRUB.replace("Debian`", "Debian 13`").replace("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=1\nGRUB_STYLE=menu")
    found = merge.undone(GRUB, WROTE, new)
    assert found == merge.Merged(new, ())


def test_a_word_of_ours_that_was_edited_is_theirs() -> None:
    found = merge.undone(GRUB, WROTE, edited(WROTE, ("mitigations=auto", "mitigations=off")))
    assert 'GRUB_CMDLINE_LINUX="mitigations=off net.ifnames=0"' in found.text
    assert found.left == ()


def test_a_line_of_ours_with_a_word_of_theirs_stays_and_is_named() -> None:
    saved = "GRUB_TIMEOUT=5\n"
    wrote = boot_grub.edited(saved, {"iommu": ("iommu=pt",)})
    assert wrote == 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="iommu=pt"\n'
    now = wrote.replace("=pt", "=pt crashkernel=1G")
    found = merge.undone(saved, wrote, now)
    assert found.text == now
    assert found.left == ("line 2 still has GRUB_CMDLINE_LINUX= iommu=pt",)


def test_a_word_that_cannot_come_back_is_named() -> None:
    saved, wrote = 'A="one two three"\n', 'A="one three"\n'
    found = merge.undone(saved, wrote, 'A="four"\n')
    assert found.text == 'A="four"\n'
    assert found.left == ("two did not come back",)


def test_the_block_in_nccl_conf_goes_whatever_is_around_it() -> None:
    saved = "NCCL_DEBUG=WARN\n"
    variables = {"NCCL_IB_TC": "106", "NCCL_IB_HCA": "mlx5_0", "NCCL_CROSS_NIC": "0"}
    wrote = nccl_file.parse(saved).having("default", variables)
    now = "# theirs\n" + edited(wrote, ("NCCL_IB_TC=106", "NCCL_IB_TC=42")) + "NCCL_SOCKET_IFNAME=eth0\n"
    found = merge.undone(saved, wrote, now)
    assert found.text == "# theirs\nNCCL_IB_TC=42\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth0\n"


def test_an_edit_that_the_next_write_undoes_is_none_to_keep() -> None:
    now = edited(WROTE, ("mitigations=auto", "mitigations=off"), ("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"))
    after = boot_grub.edited(now, CHANGES)
    found = merge.undone(GRUB, WROTE, now, after)
    assert found.text == edited(GRUB, ("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=30"))


def test_an_edit_that_the_next_write_keeps_is_kept() -> None:
    saved = "GRUB_TIMEOUT=5\n"
    wrote = boot_grub.edited(saved, {"iommu": ("iommu=on",)})
    now = wrote.replace("=on", "=on crashkernel=1G")
    after = boot_grub.edited(now, {"iommu": ("iommu=pt",)})
    assert "crashkernel=1G" in merge.undone(saved, wrote, now, after).text


def test_a_quote_that_would_stay_open_is_refused() -> None:
    saved, wrote = 'A= "one two" x\n', "A= one two x\n"
    with pytest.raises(merge.BrokenError, match="quote"):
        merge.undone(saved, wrote, "A= one y\n")


# -- for any text --------------------------------------------------------------------------

LINE = st.one_of(
    st.sampled_from(
        ["", "# a comment", "GRUB_TIMEOUT=5", "  indented = 1", "x='a b' # c", "[unit]", "\tq\t"]
    ),
    st.text(alphabet="ab=#'\" \t\r_$\udc80é", max_size=12),
)
TEXT = st.tuples(st.lists(LINE, max_size=12), st.sampled_from(["", "\n"])).map(
    lambda parts: "\n".join(parts[0]) + parts[1]
)


@quick
@given(TEXT, TEXT)
def test_without_an_edit_every_byte_comes_back(saved: str, wrote: str) -> None:
    assert merge.undone(saved, wrote, wrote) == merge.Merged(saved, ())


@quick
@given(TEXT, TEXT)
def test_where_nothing_was_written_every_byte_stays(wrote: str, now: str) -> None:
    assert merge.undone(wrote, wrote, now) == merge.Merged(now, ())


@quick
@given(TEXT, TEXT, TEXT)
def test_any_three_texts_can_be_merged(saved: str, wrote: str, now: str) -> None:
    try:
        merge.undone(saved, wrote, now)
    except merge.BrokenError:
        pass


WORD = st.sampled_from(
    ["quiet", "splash", "ro", "net.ifnames=0", "console=ttyS0", "console=tty0", "iommu=on"]
)
OWN = st.dictionaries(
    st.sampled_from(["mitigations", "iommu", "isolcpus", "quiet", "nohz_full"]), st.integers(0, 3), min_size=1
)
ADDED = st.lists(
    st.sampled_from(["crashkernel=1G", "audit=0", "selinux=0", "nosmt"]), unique=True, max_size=3
)


def changes_of(drawn: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    return {name: (f"{name}=ours{number}",) if number else () for name, number in drawn.items()}


@st.composite
def _spread(draw: st.DrawFn, line: str, added: Sequence[str]) -> str:
    """Words at random places of a command line."""
    words = line.split()
    for word in added:
        words.insert(draw(st.integers(0, len(words))), word)
    return " ".join(words)


@quick
@given(
    st.data(),
    st.lists(WORD, max_size=5, unique=True),
    st.lists(WORD, max_size=3, unique=True),
    OWN,
    ADDED,
    ADDED,
)
def test_words_of_others_stay_in_grub_and_ours_go(
    data: st.DataObject,
    all_kernels: list[str],
    normal: list[str],
    own: dict[str, int],
    added: list[str],
    more: list[str],
) -> None:
    def grub(timeout: int, line: str, other: str) -> str:
        head = f"# how to boot\nGRUB_DEFAULT=0\nGRUB_TIMEOUT={timeout}\n"
        return f'{head}GRUB_CMDLINE_LINUX_DEFAULT="{other}"\nGRUB_CMDLINE_LINUX="{line}"\n# the end\n'

    saved = grub(5, " ".join(all_kernels), " ".join(normal))
    wrote = boot_grub.edited(saved, changes_of(own))
    lines = wrote.splitlines()
    line, other = lines[4].split('"')[1], lines[3].split('"')[1]
    now = grub(30, data.draw(_spread(line, added)), data.draw(_spread(other, more)))
    found = merge.undone(saved, wrote, now)
    result = found.text.splitlines()
    assert [result[at] for at in (0, 1, 2, 5)] == [
        "# how to boot",
        "GRUB_DEFAULT=0",
        "GRUB_TIMEOUT=30",
        "# the end",
    ]
    assert found.left == ()
    words = cmdline.split(result[4].split('"')[1])
    assert sorted(word.text for word in words) == sorted([*all_kernels, *added])
    words = cmdline.split(result[3].split('"')[1])
    assert sorted(word.text for word in words) == sorted([*normal, *more])
    assert merge.undone(saved, wrote, found.text).text == found.text


EDITORS: dict[str, tuple[Callable[[str, Mapping[str, Sequence[str]]], str], str]] = {
    "cmdline": (boot_bls.edited_line, "{}\n"),
    "entry": (boot_bls.edited, "title Linux\noptions {}\nlinux /vmlinuz\n"),
}


@pytest.mark.parametrize("kind", EDITORS)
@quick
@given(st.data(), st.lists(WORD, min_size=1, max_size=6, unique=True), OWN, ADDED)
def test_words_of_others_stay_in_command_lines_and_ours_go(
    kind: str, data: st.DataObject, words: list[str], own: dict[str, int], added: list[str]
) -> None:
    edit, form = EDITORS[kind]
    saved = form.format(" ".join(words))
    wrote = edit(saved, changes_of(own))
    line = wrote[form.index("{") :].partition("\n")[0]
    assume(line.strip())
    now = form.format(data.draw(_spread(line, added)))
    found = merge.undone(saved, wrote, now)
    head, _braces, tail = form.partition("{}")
    assert found.text.startswith(head)
    assert found.text.endswith(tail)
    assert found.left == ()
    assert sorted(found.text[len(head) : -len(tail)].split()) == sorted([*words, *added])
