# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import pathlib
import shutil
import subprocess
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DEFAULTS, DROP_INS, MENU, menu, sourced
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.loader import cmdline
from mlnode.loader import grub as boot_grub
from mlnode.loader.grub import Entry, edited, entries

#: Every shell there is: Debian's and Ubuntu's /bin/sh is dash, others' is bash
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


# -- grub.cfg ------------------------------------------------------------------------------


def test_the_entries_are_the_installed_kernels_without_recovery_and_what_else_a_menu_holds() -> None:
    found = entries(menu("iommu=pt", "quiet"), MENU)
    assert [entry.where for entry in found] == [f"{MENU}:16", f"{MENU}:22"]
    assert {entry.line for entry in found} == {"root=UUID=1111 ro iommu=pt quiet"}


def test_without_installed_kernels_every_entry_counts() -> None:
    text = 'set timeout=0\nmenuentry "lab" {\n    linux /boot/vmlinuz-6 root=/dev/vda1 ro console=ttyS0\n}\n'
    assert entries(text, MENU) == [Entry(f"{MENU}:3", "root=/dev/vda1 ro console=ttyS0")]


@cases.table
def test_what_starts_a_kernel(line: str, words: str | None) -> None:
    found = entries(f"menuentry 'x' {{\n\t{line}\n}}\n", MENU)
    assert [entry.line for entry in found] == ([] if words is None else [words])


@cases.table
def test_recovery_and_other_systems_are_left_out(title: str) -> None:
    assert entries(f"menuentry {title}\n\tlinux /boot/vmlinuz a\n}}\n", MENU) == []


def test_a_variable_with_a_plain_text_brings_its_words_and_names_its_line() -> None:
    """tuned keeps its parameters in one, in every entry."""
    text = (
        'set tuned_params="isolcpus=1-3 quiet"\nset vt_handoff=vt.handoff=7\nset computed="$other"\n'
        "menuentry 'x' {\n\tlinux /vmlinuz ro $tuned_params ${vt_handoff} $computed isolcpus=2\n}\n"
    )
    (found,) = entries(text, MENU)
    assert found.parameter("isolcpus") == (("isolcpus=2", "isolcpus=1-3"), f"{MENU}:1", True)
    assert found.parameter("quiet") == (("quiet",), f"{MENU}:1", True)
    assert found.parameter("ro") == (("ro",), f"{MENU}:5", False)
    assert found.parameter("iommu") == ((), f"{MENU}:5", False)


def test_a_variable_counts_only_where_it_is_used() -> None:
    (found,) = entries("set a=\"quiet\"\nmenuentry 'x' {\n linux /vmlinuz ro\n}\n", MENU)
    assert found.parameter("quiet") == ((), f"{MENU}:3", False)


# -- the drop-in, read by real shells --------------------------------------------------------


def put(root: pathlib.Path, name: str, content: bytes | str) -> None:
    path = root / DROP_INS[1:] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def assigned(everywhere: str, normal: str) -> str:
    """A file that gives the variables these very texts."""
    quote = {ord("'"): "'\\''"}
    return (
        f"GRUB_CMDLINE_LINUX='{everywhere.translate(quote)}'\n"
        f"GRUB_CMDLINE_LINUX_DEFAULT='{normal.translate(quote)}'\n"
    )


@pytest.mark.parametrize("shell", SHELLS)
@cases.table
def test_the_drop_in_takes_out_the_named_parameters_and_sets_them_anew(
    tmp_path: pathlib.Path,
    shell: str,
    before: tuple[str, str],
    changes: dict[str, list[str]],
    after: tuple[str, str],
) -> None:
    put(tmp_path, "50-cloud.cfg", assigned(*before))
    put(tmp_path, "zz-mlnode-x.cfg", boot_grub.drop_in("x", changes))
    everywhere, normal = sourced(str(tmp_path), shell)
    assert (everywhere.rstrip(" "), normal) == after


@pytest.mark.parametrize("shell", SHELLS)
def test_several_declarations_can_follow_in_any_order(tmp_path: pathlib.Path, shell: str) -> None:
    files = {
        "a": {"iommu": ["iommu=pt"], "quiet": []},
        "b": {"nosmt": ["nosmt"], "quiet": []},
        "c": {"iommu": ["iommu=pt"]},
    }
    seen = set()
    for number, order in enumerate(itertools.permutations(files)):
        root = tmp_path / str(number)
        put(root, "50-cloud.cfg", assigned("iommu=off x", "quiet y"))
        for place, name in enumerate(order):
            put(root, f"zz-mlnode-{place}.cfg", boot_grub.drop_in(name, files[name]))
        everywhere, normal = sourced(str(root), shell)
        seen.add((*sorted(everywhere.split()), "|", *normal.split()))
    assert seen == {("iommu=pt", "nosmt", "x", "|", "y")}


def test_the_drop_in_leaves_the_shell_as_it_was(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "x.cfg", boot_grub.drop_in("x", {"quiet": []}))
    path = f"{tmp_path}{DROP_INS}/x.cfg"
    script = f"set -eu; GRUB_CMDLINE_LINUX= GRUB_CMDLINE_LINUX_DEFAULT=; . {path}; set; echo flags=$-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert not [
        line for line in done.stdout.splitlines() if line.startswith(("kept", "word", "sign", "_mlnode"))
    ]
    assert "f" not in done.stdout.rpartition("flags=")[2]  # names of files are expanded as before
    assert done.stderr == ""


_piece = st.sampled_from(
    [
        "quiet",
        "quiet=1",
        "nohz-full=2",
        "nohz_full=3",
        '"',
        "'",
        'x="',
        "b",
        "--",
        "*",
        "$x",
        "\\",
        "=",
        "a=1",
    ]
)
_line = st.lists(_piece, max_size=7).map(" ".join)


@quick
@given(_line, _line)
def test_the_shell_and_the_library_agree_about_words(
    tmp_path_factory: Any, everywhere: str, normal: str
) -> None:
    """Both take the same words out of any line, open quotes included."""
    root = tmp_path_factory.mktemp("grub")
    changes: dict[str, list[str]] = {"quiet": [], "nohz_full": []}
    put(root, "50.cfg", assigned(everywhere, normal))
    put(root, "zz.cfg", boot_grub.drop_in("x", changes))
    expected = [
        cmdline.merged([line], changes, cmdline.LOADER_QUOTES)[0].split() for line in (everywhere, normal)
    ]
    assert [line.split() for line in sourced(str(root))] == expected


@cases.table
def test_lines_that_name_a_parameter(text: str, numbers: list[int]) -> None:
    assert [number for number, _line in boot_grub.naming(text, "iommu")] == numbers


# -- /etc/default/grub -----------------------------------------------------------------------

PT = {"iommu": ["iommu=pt"]}


@cases.table
def test_the_defaults_keep_every_byte_that_is_not_named(before: str, changes: Any, after: str) -> None:
    assert edited(before, changes) == after
    assert edited(after, changes) == after


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_what_was_written(tmp_path: pathlib.Path, shell: str) -> None:
    """Dollars, backquotes, backslashes and quotes are the same texts to it before and after."""
    strange = "x='a b' y=\"c d\" $HOME `id` back\\slash"
    path = tmp_path / DEFAULTS[1:]
    path.parent.mkdir(parents=True)
    path.write_text(edited(assigned_in_double_quotes(strange), PT))
    assert sourced(str(tmp_path), shell) == (f"iommu=pt {strange}", "")


def assigned_in_double_quotes(text: str) -> str:
    for sign in '\\"$`':
        text = text.replace(sign, "\\" + sign)
    return f'GRUB_CMDLINE_LINUX="{text}"\n'


@cases.table
def test_what_only_a_shell_could_tell_is_left_to_people(line: str) -> None:
    with pytest.raises(
        ValueError, match=r"/etc/default/grub:2 is not a plain GRUB_CMDLINE_LINUX(_DEFAULT)?=\"...\""
    ):
        edited(f"A=1\n{line}\nB=2\n", {})


def test_a_kernel_gets_nothing_behind_a_semicolon_outside_quotes() -> None:
    variables = {"tuned_params": ("iommu=pt", "/boot/grub/grub.cfg:1")}
    found = boot_grub.entry("menu:1", 'ro a="1;2" b=1;2 c $tuned_params', variables)
    assert [found.parameter(name)[0] for name in ("a", "b", "c", "iommu")] == [("a=1;2",), ("b=1",), (), ()]
