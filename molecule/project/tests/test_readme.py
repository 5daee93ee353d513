# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README as its reader takes it: its files, its commands in their order, in a project of its own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: A file that the text names right before its content
FILE = re.compile(r"`([\w/]+\.(?:yml|cfg))`(?:, [^`\n]+)?:\n\n```\w+\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"^```console\n(.*?)```", re.DOTALL | re.MULTILINE)
NODES = ("gpu001.example", "gpu002.example", "gpu003.example")
KEY = "net.core.somaxconn"


@dataclass(frozen=True)
class Done:
    command: str
    status: int
    output: str


def commands() -> list[str]:
    return [line[2:] for block in COMMANDS.findall(README) for line in block.splitlines() if line[:2] == "$ "]


class Walk:
    """All commands of the README, run once. before: a value of each node, in its own network namespace."""

    def __init__(self, folder: pathlib.Path, before: dict[str, str]) -> None:
        self.folder = folder
        self.before = before
        # Neither molecule's settings nor the checkout. One node after the other: they share a kernel.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment = {**kept, "HOME": str(folder), "ANSIBLE_FORKS": "1", "ANSIBLE_NOCOLOR": "1"}
        self.done = [self.run(command) for command in commands()]

    def run(self, command: str) -> Done:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Done(command, done.returncode, done.stdout)

    def of(self, part: str) -> Done:
        (found,) = (one for one in self.done if part in one.command)
        return found


def value_of(node: str) -> str:
    command = ["podman", "exec", node, "sysctl", "-n", KEY]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    folder = tmp_path_factory.mktemp("project")
    build = ["ansible-galaxy", "collection", "build", "--output-path", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    files = dict(FILE.findall(README))
    assert {*files} == {"hosts.yml", "ansible.cfg", "group_vars/training.yml"}
    # What a reader has in the configuration of SSH
    config = pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "ssh_config"
    files["group_vars/all.yml"] = f"ansible_ssh_common_args: -F {config}\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Walk(folder, {node: value_of(node) for node in NODES})


def recap(done: Done) -> dict[str, dict[str, int]]:
    rows = re.findall(r"^(\S+\.example) +: (.*)$", done.output, re.MULTILINE)
    return {node: {k: int(v) for k, v in (pair.split("=") for pair in row.split())} for node, row in rows}


def test_every_command_ends_as_it_says(walk: Walk) -> None:
    for done in walk.done:
        expected = 2 if "tuning.drift" in done.command else 0
        assert done.status == expected, f"{done.command}\n{done.output[-3000:]}"


def test_the_first_shows_what_the_second_changes(walk: Walk) -> None:
    preview, site = walk.of("site --check"), walk.of("tuning.site  ")

    assert f"+{KEY} = 65535" in preview.output
    assert "site.yml (check mode): 3 hosts: 3 differ" in preview.output
    for node in NODES:
        assert recap(preview)[node]["changed"] == recap(site)[node]["changed"] == 1


def test_drift_names_the_one_value_on_the_one_node(walk: Walk) -> None:
    drift = walk.of("tuning.drift")

    assert {node: row["failed"] for node, row in recap(drift).items()} == {
        "gpu001.example": 0,
        "gpu002.example": 1,
        "gpu003.example": 0,
    }
    assert f"{KEY} (medium, drifted): gpu002.example" in drift.output


def test_the_report_is_a_page(walk: Walk) -> None:
    page = (walk.folder / "reports/fleet.html").read_text(encoding="utf-8")

    assert all(node in page for node in NODES)


def test_everything_is_as_before(walk: Walk) -> None:
    assert {node: value_of(node) for node in NODES} == walk.before


def test_nothing_is_left_on_a_node(walk: Walk, host) -> None:
    left = (
        "find / -xdev \\( -path '*/mlnode*' -o -name '*mlnode*' \\) -not -path '/proc/*' -not -path '/tmp/*'"
    )
    assert host.run(left).stdout == ""
