# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of a node for its controller, in numbers that are the same on a busy machine: processes, looks at
variables, and memory. `make bench` measures seconds, over 2,000 nodes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.benchmarks import simulated
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

FEW, MANY = 10, 60

#: ansible-playbook, which writes what its first process did to a file
_COUNTED = """\
import json, os, sys
from ansible.cli.playbook import main
from ansible.vars.manager import VariableManager

seen = {"forks": 0, "looks": 0}
get_vars = VariableManager.get_vars


def forked(event, arguments):
    seen["forks"] += event == "os.fork"


def looked(self, *arguments, **named):
    seen["looks"] += 1
    return get_vars(self, *arguments, **named)


VariableManager.get_vars = looked
sys.addaudithook(forked)
own = os.getpid()
path = sys.argv.pop(1)
try:
    main()
finally:
    if os.getpid() == own:
        with open("/proc/self/status") as file:
            [kib] = [int(line.split()[1]) for line in file if line.startswith("VmHWM:")]
        with open(path, "w") as file:
            json.dump({**seen, "kib": kib}, file)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("simulated")
    simulated.record(path)
    return path


def cost(folder: pathlib.Path, play: str, count: int) -> dict[str, int]:
    nodes = simulated.inventory(folder, count)
    command = [
        sys.executable,
        "-c",
        _COUNTED,
        str(folder / "seen"),
        f"--inventory={nodes}",
        *simulated.PLAYS[play],
    ]
    environment = {**os.environ, **simulated.CONNECTION, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert f"{count} hosts" in done.stdout, done.stdout + done.stderr
    found: dict[str, int] = json.loads((folder / "seen").read_text())
    return found


@pytest.mark.long
def test_a_node_of_a_larger_fleet_costs_as_much(folder: pathlib.Path) -> None:
    few, many = (cost(folder, "drift", count) for count in (FEW, MANY))
    more = {name: many[name] - few[name] for name in few}

    # One for each node, and two for each that is not as declared, of which there is one more.
    assert more["forks"] == MANY - FEW + 2
    # One for its task, and three for what is said at the end.
    assert more["looks"] <= 5 * (MANY - FEW)
    # 100 were measured; 1.5 GiB for 2,000 nodes would be 786.
    assert more["kib"] <= 250 * (MANY - FEW)


def test_no_host_is_ended_by_itself() -> None:
    """Ansible keeps those in a list, in which it looks for each host, for each other one, at each task."""
    for path in (*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")):
        assert not re.search(r"meta: +end_host", path.read_text(encoding="utf-8")), path


def test_a_look_at_what_would_change_is_one_process_for_a_node(folder: pathlib.Path) -> None:
    assert cost(folder, "site --check", 20)["forks"] <= 20 + 1
