# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode completion bash`, in the bash of this machine."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.agent import arguments, cli, completion

#: Completes the last of the words that it is given
ASK = """
source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mlnode
printf '%s\\n' "${COMPREPLY[@]}"
"""


def ask(*words: str, path: str = "") -> list[str]:
    environment = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "--norc", "-euo", "pipefail", "-c", ASK, "bash", "mlnode", *words],
        env={**environment, "SCRIPT": completion.bash()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_every_command_is_offered() -> None:
    assert {*cli._COMMANDS, *cli._ABOUT} <= {*ask("")}


@cases.table
def test_what_a_command_takes_is_offered(words: list[str], offered: list[str]) -> None:
    assert ask(*words) == offered


@pytest.mark.parametrize("name", [*cli._COMMANDS, *cli._ABOUT])
def test_every_option_of_every_command_is_offered(name: str) -> None:
    one = arguments.commands(arguments.parser())[name][0]
    options = {word for option in arguments.options(one) for word in option.option_strings}

    assert options <= {*ask(name, "--")}


def test_a_folder_is_offered_for_a_root(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "text").write_text("")

    assert ask("status", "--root", f"{tmp_path}/t") == [f"{tmp_path}/tree"]


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    """A folder with a command that prints this table."""
    rows = ["PARAMETER  DECLARED", "vm.swappiness  1  1  1  ok", "vm.max_map_count  1", "thp.$(touch x)  1"]
    table = "\n".join([*rows, "", "4 settings"])
    command = tmp_path / "mlnode"
    command.write_text(f"#!/bin/sh\n[ \"$1\" = status ] || exit 9\ncat <<'END'\n{table}\nEND\n")
    command.chmod(0o755)
    return str(tmp_path)


def test_settings_of_the_node_are_offered_for_an_explanation(path: str) -> None:
    assert ask("explain", "vm.", path=path) == ["vm.swappiness", "vm.max_map_count"]
    assert ask("explain", "--", path=path) == ["--json", "--root", "--help"]


def test_a_name_is_never_run(path: str, tmp_path: pathlib.Path) -> None:
    assert ask("explain", "thp", path=path) == ["thp.$(touch"]
    assert not (tmp_path / "x").exists()


def test_a_node_without_the_command_offers_options_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mlnode").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "mlnode").chmod(0o755)

    assert ask("explain", "", path=str(tmp_path)) == ["--json", "--root", "--help"]
