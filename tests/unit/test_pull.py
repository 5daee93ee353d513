# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-pull and ansible-runner find the collection as the guide to fleets has it, without `make`."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.repository import made
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, current, load

PROGRAMS = pathlib.Path(sys.executable).parent
GUIDE = (ROOT / "docs/guide/fleets.md").read_text(encoding="utf-8")


def test_the_readme_leads_to_both() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in readme.splitlines() if "ansible-runner" in line)
    assert "ansible-pull" in line
    assert "[fleets]" in line
    assert f"[fleets]: {load('galaxy.yml')['repository']}/blob/main/docs/guide/fleets.md\n" in readme


@pytest.fixture
def variables(tmp_path: pathlib.Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GIT_"))}
    return {**kept, "HOME": str(tmp_path), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> str:
    return made(tmp_path / "repository")


def inventory(path: pathlib.Path) -> pathlib.Path:
    """This machine, in no group: it is asked what it keeps, and nothing else."""
    here = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    path.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": here}}}), encoding="utf-8")
    return path


def run(folder: pathlib.Path, variables: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    # ansible-runner has it in colours.
    return re.sub(r"\x1b\[[0-9;]*m", "", current(done.stdout + done.stderr))


def test_a_node_pulls(tmp_path: pathlib.Path, variables: dict[str, str], repository: str) -> None:
    match = re.search(r"--checkout (\S+) \\\n +--directory (\S+) --inventory ", GUIDE)
    assert match
    tag, folder = match.groups()
    place = tmp_path / folder.lstrip("/")
    hosts = inventory(tmp_path / "hosts.yml")
    # Any Python can run the module git.
    own = {**variables, "ANSIBLE_PYTHON_INTERPRETER": sys.executable}

    said = run(
        tmp_path, own, "ansible-pull", "--url", repository, "--checkout", tag, "--directory", str(place),
        "--inventory", str(hosts), "playbooks/drift.yml",
    )  # fmt: skip

    assert re.search(r"^localhost +: ok=\d+ .* unreachable=0 ", said, re.MULTILINE), said
    assert "FLEET REPORT" in said, "the ansible.cfg of the checkout counts"


def test_a_project_of_ansible_runner_finds_what_it_has_installed(
    tmp_path: pathlib.Path, variables: dict[str, str], repository: str
) -> None:
    section = GUIDE.partition("$ mkdir -p tuning")[2].partition("```")[0]
    hosts = inventory(tmp_path / "hosts.yml")
    assert hosts.name in section
    lines = ("mkdir -p tuning" + section).splitlines()
    script = "\n".join(line.removeprefix("$ ") for line in lines)
    script = re.sub(r"git\+https:\S+", f"git+{repository}", script)

    said = run(tmp_path, variables, "bash", "-euc", script)

    assert re.search(r"localhost +: ok=\d+ .* unreachable=0 ", said), said
    assert "FLEET REPORT" in said
