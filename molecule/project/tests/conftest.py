# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A project with the files that the README names, and the commands of a page: those after `$ ` run on the
controller, those after `gpu002# ` on that node."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
EPHEMERAL = pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
#: A file that the text names right before its content
FILE = re.compile(r"`([\w/]+\.(?:yml|cfg))`(?:, [^`\n]+)?:\n\n```\w+\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"^```console\n(.*?)```", re.DOTALL | re.MULTILINE)
#: A line with a command, and the lines that it prints
QUOTED = re.compile(r"^(\$|[a-z0-9]+#) (.*)\n((?:(?!\$ |[a-z0-9]+# ).*\n)*)", re.MULTILINE)
#: These set kernel values that all nodes share, so they take one node after the other.
TUNES = re.compile(r"mlnode\.tuning\.(site|revert)|start mlnode-pull")


@dataclass(frozen=True)
class Done:
    command: str
    status: int
    output: str
    #: The output in the text; "" if it shows none
    quoted: str
    #: The page of the fleet report as it was then; each run writes it again
    page: str

    def recap(self) -> dict[str, dict[str, int]]:
        """Results of each host, from the end of a play."""
        rows = re.findall(r"^(\S+\.example) +: (.*)$", self.output, re.MULTILINE)
        return {node: {k: int(v) for k, v in (pair.split("=") for pair in row.split())} for node, row in rows}


class Walk:
    """Commands of a text, each run once. patience: seconds during which a failing command is repeated."""

    def __init__(self, folder: pathlib.Path, text: str, patience: float = 0) -> None:
        self.folder = folder
        # Neither molecule's settings nor the checkout
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment = {**kept, "HOME": str(folder), "ANSIBLE_NOCOLOR": "1"}
        quoted = [match for block in COMMANDS.findall(text) for match in QUOTED.findall(block)]
        self.done = [self.tried(command, patience, prompt, output) for prompt, command, output in quoted]

    def tried(self, command: str, patience: float, prompt: str = "$", quoted: str = "") -> Done:
        end = time.monotonic() + patience
        while (done := self.run(command, prompt, quoted)).status and time.monotonic() < end:
            time.sleep(2)
        return done

    def run(self, command: str, prompt: str = "$", quoted: str = "") -> Done:
        """prompt: `$` on the controller, `NODE#` on a node."""
        there = [] if prompt == "$" else ["podman", "exec", f"{prompt[:-1]}.example"]
        done = subprocess.run(
            [*there, "bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, "ANSIBLE_FORKS": "1" if TUNES.search(command) else "4"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        page = self.folder / "reports/fleet.html"
        shown = page.read_text("utf-8") if page.exists() else ""
        return Done(command, done.returncode, done.stdout, quoted, shown)

    def of(self, part: str) -> Done:
        (found,) = (one for one in self.done if part in one.command)
        return found


@pytest.fixture(scope="session")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def project(readme: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Folder of the project, with the archive, and nothing installed."""
    folder = tmp_path_factory.mktemp("project")
    build = ["ansible-galaxy", "collection", "build", "--output-path", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    files = dict(FILE.findall(readme))
    assert {*files} == {"hosts.yml", "ansible.cfg", "group_vars/training.yml"}
    # Stands in for a reader's configuration of SSH
    files["group_vars/all.yml"] = f"ansible_ssh_common_args: -F {EPHEMERAL}/ssh_config\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def walked(project: pathlib.Path) -> Callable[..., Walk]:
    return functools.partial(Walk, project)


@pytest.fixture(scope="session")
def installed(walked: Callable[..., Walk], readme: str) -> Walk:
    """The project with the installed collection."""
    return walked(readme.partition("## First run\n")[0])


@pytest.fixture(scope="session")
def addresses() -> dict[str, str]:
    """Name of a container → its address."""
    config = (EPHEMERAL / "ssh_config").read_text(encoding="utf-8")
    return dict(re.findall(r"^Host (\S+\.example)\n +HostName (\S+)$", config, re.MULTILINE))


@pytest.fixture(scope="session")
def named(addresses: dict[str, str]) -> Callable[[str], None]:
    """Has a container find the others by their names, as with a name server."""
    lines = "".join(f"{address} {name}\n" for name, address in addresses.items())

    def add(host: str) -> None:
        command = ["podman", "exec", "--interactive", host, "sh", "-c", "cat >> /etc/hosts"]
        subprocess.run(command, input=lines, text=True, check=True)

    return add
