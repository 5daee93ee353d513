# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry that GRUB starts. What is expected is what grub-emu 2.06 of Debian 12 started with the same
files; the menu is one that grub-mkconfig of that version has made, with GRUB_DEFAULT=saved."""

from __future__ import annotations

import contextlib
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import given, strategies
from mlnode.linux import grub, grub_menu
from mlnode.model.errors import HostError

FOLDER = "/boot/grub"
MENU = f"{FOLDER}/grub.cfg"
MADE = (pathlib.Path(__file__).parents[5] / "fixtures/grub/grub.cfg").read_text(encoding="utf-8")
SUBMENU = "gnulinux-advanced-1111-2222"
OLD = "gnulinux-6.1.0-9-amd64-advanced-1111-2222"
NEW = "gnulinux-6.1.0-28-amd64-advanced-1111-2222"
TITLE = "Debian GNU/Linux, with Linux 6.1.0-9-amd64"
OWN = "menuentry 'Own' --id own {\n  linux /boot/vmlinuz-own quiet\n}\n"
TWO = "menuentry 'A' {\n  linux /boot/vmlinuz-a\n}\nmenuentry 'B' --id b {\n  linux /boot/vmlinuz-b\n}\n"
#: A submenu, and a title with the sign that divides names
NESTED = (
    f"{TWO}submenu 'S' --id s {{\nmenuentry 'C > D' {{\n linux /boot/vmlinuz-c\n}}\n"
    "menuentry 'E' --id=e {\n linux /boot/vmlinuz-e\n}\n}\n"
)
ONCE = (
    'if [ "${next_entry}" ] ; then\n   set default="${next_entry}"\n   set next_entry=\n'
    'else\n   set default="${saved_entry}"\nfi\n'
)
HEAD = "# GRUB Environment Block\n"
LOAD = "if [ -s $prefix/grubenv ]; then\n  set have_grubenv=true\n  load_env\nfi\n"

#: Files of the folder, and the kernel that is started
CASES: dict[str, tuple[dict[str, str], str]] = {
    # -- as grub-mkconfig makes it
    "nothing saved": ({"grub.cfg": MADE}, "6.1.0-28-amd64"),
    "saved id": ({"grub.cfg": MADE, "grubenv": f"saved_entry={SUBMENU}>{OLD}\n"}, "6.1.0-9-amd64"),
    "saved title": ({"grub.cfg": MADE, "grubenv": f"saved_entry=1>{TITLE}\n"}, "6.1.0-9-amd64"),
    "saved numbers": ({"grub.cfg": MADE, "grubenv": "saved_entry=1>2\n"}, "6.1.0-9-amd64"),
    "saved without its submenu": ({"grub.cfg": MADE, "grubenv": f"saved_entry={OLD}\n"}, "6.1.0-28-amd64"),
    "next": ({"grub.cfg": MADE, "grubenv": f"saved_entry=0\nnext_entry=1>{OLD}\n"}, "6.1.0-9-amd64"),
    "custom default": ({"grub.cfg": MADE, "custom.cfg": f'set default="1>{OLD}"\n'}, "6.1.0-9-amd64"),
    "custom beats saved": (
        {"grub.cfg": MADE, "grubenv": f"saved_entry=1>{OLD}\n", "custom.cfg": "default=0\n"},
        "6.1.0-28-amd64",
    ),
    "custom entry": ({"grub.cfg": MADE, "custom.cfg": f"{OWN}set default=own\n"}, "own"),
    "custom entry, not chosen": ({"grub.cfg": MADE, "custom.cfg": OWN}, "6.1.0-28-amd64"),
    "custom sources": (
        {"grub.cfg": MADE, "custom.cfg": "source $prefix/more.cfg\n", "more.cfg": f"{OWN}set default=Own\n"},
        "own",
    ),
    "custom sources nothing": (
        {"grub.cfg": MADE, "custom.cfg": f"source $prefix/more.cfg\n{OWN}default=own\n"},
        "own",
    ),
    # -- the language
    "number": ({"grub.cfg": f"set default=1\n{TWO}"}, "b"),
    "octal": ({"grub.cfg": f"set default=01\n{TWO}"}, "b"),
    "hexadecimal": ({"grub.cfg": f"set default=0x1\n{TWO}"}, "b"),
    "too great": ({"grub.cfg": f"set default=7\n{TWO}"}, "a"),
    "begins with a number": ({"grub.cfg": f"set default='1 B'\n{TWO}"}, "b"),
    "gone": ({"grub.cfg": f"set default=gone\n{TWO}"}, "a"),
    "the last counts": ({"grub.cfg": f"set default=0\n{TWO}set default=b\n"}, "b"),
    "unset": ({"grub.cfg": f"set default=b\n{TWO}unset default\n"}, "a"),
    "submenu": ({"grub.cfg": f"set default=s\n{NESTED}"}, "c"),
    "submenu and id": ({"grub.cfg": f"set default='s>e'\n{NESTED}"}, "e"),
    "doubled sign": ({"grub.cfg": f"set default='S>C >> D'\n{NESTED}"}, "c"),
    "single sign": ({"grub.cfg": f"set default='S>C > D'\n{NESTED}"}, "c"),
    "variable": ({"grub.cfg": f'x=b\nset default="${{x}}"\n{TWO}'}, "b"),
    "two words": ({"grub.cfg": f'x="b c"\nset default=$x\n{TWO}'}, "b"),
    "in a function": ({"grub.cfg": f"function pick {{\n  set default=b\n}}\n{TWO}pick\n"}, "b"),
    "not called": ({"grub.cfg": f"function pick {{\n  set default=b\n}}\n{TWO}"}, "a"),
    "escaped": ({"grub.cfg": "set default=\"\\$x\"\n" + TWO.replace("'B' --id b", "'$x'")}, "b"),
    "commented": ({"grub.cfg": f"#set default=b\n{TWO}set x=y # default=b\n"}, "a"),
    "continued": ({"grub.cfg": f"set \\\ndefault=b\n{TWO}"}, "b"),
    "one line": ({"grub.cfg": f"set default=0; set default=b; set x=y\n{TWO}"}, "b"),
    "once": ({"grub.cfg": f"{LOAD}{ONCE}{TWO}", "grubenv": "next_entry=b\n"}, "b"),
    "once, and gone": ({"grub.cfg": f"{LOAD}{ONCE}{TWO}", "grubenv": "next_entry=\n"}, "a"),
    "no environment": ({"grub.cfg": f"{LOAD}{ONCE}{TWO}"}, "a"),
    "one of its variables": (
        {"grub.cfg": f"load_env x\nset default=$default$x\n{TWO}", "grubenv": "default=0\nx=b\n"},
        "b",
    ),
    "another file": (
        {"grub.cfg": f"load_env --file $prefix/own\nset default=$x\n{TWO}", "own": "x=b\n"},
        "b",
    ),
    "elif": (
        {"grub.cfg": f'if [ "$x" = 1 ]; then default=0; elif [ -z "$x" ]; then default=b; fi\n{TWO}'},
        "b",
    ),
    "else": ({"grub.cfg": f"if [ -f $prefix/gone ]; then\ndefault=0\nelse\ndefault=b\nfi\n{TWO}"}, "b"),
    "and, or": (
        {"grub.cfg": f'if [ a = b -o c = c -a ! -n "$x" ]; then default=b; fi\n{TWO}'},
        "b",
    ),
    "nothing in brackets": ({"grub.cfg": f"if [ $x ]; then default=b; fi\n{TWO}"}, "b"),
    "an empty text in brackets": ({"grub.cfg": f'if [ "$x" ]; then default=b; fi\n{TWO}'}, "a"),
    "only in an entry": ({"grub.cfg": TWO.replace("'A' {\n", "'A' {\n  set default=b\n")}, "a"),
}  # fmt: skip


def started(machine: Machine, path: str = MENU) -> str | None:
    item = grub_menu.chosen(grub_menu.menu(machine, path))
    match = grub.KERNEL_LINE.search(item.text) if item else None
    return match.group(0).split()[1].rpartition("vmlinuz-")[2] if match else None


@pytest.mark.parametrize("name", CASES)
def test_the_entry_that_is_started(tmp_path: pathlib.Path, name: str) -> None:
    files, kernel = CASES[name]
    machine = Machine(str(tmp_path))
    for file, text in files.items():
        machine.put(f"{FOLDER}/{file}", text if file.endswith(".cfg") else f"{HEAD}{text}{'#' * 900}")
    assert started(machine) == kernel


@pytest.mark.parametrize(
    "text",
    [
        f"if keystatus --shift; then\nset default=b\nfi\n{TWO}",
        f"if search --file /x; then default=0; else default=b; fi\n{TWO}",
        f"if keystatus --shift; then\n{OWN}fi\nset default=1\n{TWO}",
        f"for x in a b; do set default=$x; done\n{TWO}",
        f"set default=$root\n{TWO}",
        f"source (hd0,1)/x.cfg\n{TWO}",
        f"source $cmdpath/x.cfg\n{TWO}",
        f"source $prefix/grub.cfg\n{TWO}",
        "set default=b\nblscfg\n",
        "",
    ],
)
def test_what_only_grub_knows(tmp_path: pathlib.Path, text: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put(MENU, text)
    assert started(machine) is None


def test_an_entry_that_may_be_there_moves_no_entry_before_it(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put(MENU, f'set default=1\n{TWO}if [ "$grub_platform" = efi ]; then\n{OWN}fi\n')
    assert started(machine) == "b"


@pytest.mark.parametrize("text", ["menuentry 'A {\n", "}\n", "if true; then\n", "fi\n", "menuentry 'A' {\n"])
def test_what_grub_cannot_read_either(tmp_path: pathlib.Path, text: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put(MENU, text)
    with pytest.raises(ValueError, match=r"quote|language"):
        started(machine)


@pytest.mark.parametrize(
    "text",
    [
        "menuentry x {\n" * 2000 + "}\n" * 2000,
        "if true; then\n" * 2000 + "fi\n" * 2000,
        f"if keystatus; then\ntrue\n{'elif keystatus; then true; ' * 2000}fi\n",
        f"if [ {'! ' * 2000}]; then\ndefault=b\nfi\n",
        f"if [ {'-a x ' * 2000}]; then\ndefault=b\nfi\n",
        "x=aaaaaaaa\n" + 'x="$x$x"\n' * 60,
        f"function f {{\n{'f;' * 20}\n}}\nf\n",
        f"set default={'9' * 5000}\n",
        f"set default=0x{'9' * 5000}\n",
    ],
)
def test_what_has_no_end_ends(tmp_path: pathlib.Path, text: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put(MENU, f"{text}{TWO}")
    with contextlib.suppress(ValueError):
        assert started(machine) in (None, "a", "b")


def test_a_file_on_a_boot_of_its_own(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put(MENU, f"source /grub/more.cfg\n{TWO}")
    machine.put("/boot/grub/more.cfg", "set default=b\n")
    found = grub_menu.menu(machine, MENU)
    assert (found.default, found.place) == ("b", "/boot/grub/more.cfg:1")
    assert started(machine) == "b"


_pieces = strategies.lists(
    strategies.sampled_from(
        ["menuentry", "submenu", "'A'", '"B"', " ", "{", "}", "\n", ";", "if", "[", "]", "then", "else", "fi",
         "set default=", "$x", "${", "\\", "#", "'", '"', "source", "$prefix/grub.cfg", "function", "f",
         "while", "do", "done", "configfile", "0", ">", "linux /vmlinuz-x", "load_env", "--id"]
    )
).map("".join)  # fmt: skip


@given(_pieces)
def test_no_text_breaks_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    machine = Machine(str(tmp_path_factory.mktemp("grub")))
    machine.put(MENU, text)
    with contextlib.suppress(ValueError, HostError):
        started(machine)
