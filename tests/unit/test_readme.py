# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first steps of the README in its order; the scenario project plays all of them on nodes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = pathlib.Path(sys.executable).parent

#: A file, as the scenario project finds it, or the first command of a block
_STEP = re.compile(
    r"`([\w/]+\.(?:yml|cfg))`(?:, [^`\n]+)?:\n\n```\w+\n(.*?)```|^```console\n\$ (.*?)$",
    re.DOTALL | re.MULTILINE,
)

#: As preflight.yml shows its own
_SHOW = {"ansible.builtin.debug": {"msg": "VERDICT  CHECK\nfail     clock\n"}}
_PLAY = [{"hosts": "localhost", "gather_facts": False, "tasks": [_SHOW]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What a reader has before the first run, with an archive of few files."""
    path = tmp_path_factory.mktemp("project")
    small = path / "small"
    small.mkdir()
    for name in ("galaxy.yml", "README.md", "COPYING", "meta/runtime.yml"):
        (small / name).parent.mkdir(exist_ok=True)
        (small / name).write_bytes((ROOT / name).read_bytes())
    build = [BIN / "ansible-galaxy", "collection", "build", "--output-path", path, small]
    subprocess.run(build, check=True, capture_output=True)
    return path


def _run(folder: pathlib.Path, command: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_steps_up_to_the_installation_give_no_warning(folder: pathlib.Path) -> None:
    for name, text, command in _STEP.findall(README.partition("## First run\n")[0]):
        if name:
            (folder / name).write_text(text, encoding="utf-8")
        elif "install mlnode-tuning" in command:
            assert "WARNING" not in _run(folder, f"{command} --offline")
    assert (folder / "collections/ansible_collections/mlnode/tuning/MANIFEST.json").is_file()


def test_its_configuration_shows_a_table_line_by_line(folder: pathlib.Path) -> None:
    [text] = [text for name, text, _command in _STEP.findall(README) if name == "ansible.cfg"]
    (folder / "ansible.cfg").write_text(text, encoding="utf-8")
    (folder / "play.yml").write_text(json.dumps(_PLAY), encoding="utf-8")

    said = _run(folder, "ansible-playbook -i localhost, play.yml -c local")

    assert "\\n" not in said
    assert re.search(r"^ +VERDICT  CHECK$", said, re.MULTILINE), said
