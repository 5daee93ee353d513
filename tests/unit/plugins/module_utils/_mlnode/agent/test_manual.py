# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode man`: every command, option and exit status, in the macros of man(7)."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from mlnode.agent import arguments, cli, manual
from mlnode.host import places
from mlnode.model.version import VERSION

_MACROS = {".TH", ".SH", ".SS", ".TP", ".B", ".I"}


def plain(line: str) -> str:
    """A line as a reader sees it."""
    return re.sub(r"\\f[BRI]", "", line).replace(r"\-", "-").replace(r"\ ", " ").replace(r"\e", "\\")


def test_only_macros_of_man_are_used() -> None:
    lines = manual.page().splitlines()

    assert lines[0].startswith(r".\" ")
    assert {line.split()[0] for line in lines[1:] if line.startswith((".", "'"))} <= _MACROS
    assert lines[1] == f'.TH MLNODE 8 "" "mlnode {VERSION}" "System Administration"'


def test_it_has_every_command_with_its_options() -> None:
    parts = re.split(r"^\.S[SH] ", plain(manual.page()), flags=re.MULTILINE)
    of_command = {part.split()[1]: part for part in parts if part.startswith("mlnode ")}

    assert {*of_command} == {*cli._COMMANDS, *cli._ABOUT}
    for name, (one, text) in arguments.commands(arguments.parser()).items():
        assert text in of_command[name]
        for action in (*arguments.options(one), *arguments.positionals(one)):
            for word in action.option_strings or [str(action.metavar)]:
                assert word in of_command[name]
            assert str(action.help) in of_command[name]


def test_it_has_every_exit_status_and_the_files_of_the_node() -> None:
    page = plain(manual.page())

    for status in (cli.OK, cli.ERROR, cli.USAGE, cli.DRIFT):
        assert f"\n.B {status}\n" in page
    for path in (places.AGENT_COMMAND, "/etc/mlnode/declared.d/*.json", "/var/lib/mlnode/origin.json"):
        assert f"\n.B {path}\n" in page
    assert "\n.B NO_COLOR\n" in page


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_has_no_complaint() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"],
        input=manual.page() + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stderr == ""
    text = re.sub(".\x08", "", done.stdout)  # bold, as of a printer that strikes twice
    assert "mlnode apply" in text
    assert re.search(r"^ +--dry-run$", text, re.MULTILINE)
