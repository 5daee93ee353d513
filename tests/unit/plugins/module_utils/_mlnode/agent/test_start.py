# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of the agent: a command imports what it needs and no more, as that takes longer than its work."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import archive as agent_archive
from mlnode.agent import install as agent
from mlnode.agent import node
from mlnode.engine import declared
from mlnode.engine.declared import Declaration
from mlnode.host import places
from mlnode.host.system import Finished
from mlnode.linux import systemd_show

#: Runs a command of the agent in an archive, and prints all that is imported then on the last line
IMPORTED = """
import sys
sys.path[0:1] = [sys.argv.pop(1)]
from mlnode.agent.cli import main
try:
    main()
except SystemExit:
    pass
print(*sorted(sys.modules))
"""

#: Of Python's own, what takes milliseconds and serves an apply, a merge or an installation only
HEAVY = {"difflib", "hashlib", "subprocess", "tempfile", "textwrap", "zipfile"}

THP = {"enabled": "madvise", "defrag": "madvise"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("agent") / "mlnode"
    path.write_bytes(agent.build())
    return str(path)


def imported(archive: str, *arguments: str, asked: str = "") -> set[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTED, archive, *arguments],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {*done.stdout.splitlines()[-1].split()}


def ours(modules: set[str], package: str = "mlnode") -> set[str]:
    return {name[len(package) + 1 :] for name in modules if name.startswith(f"{package}.")}


def declare(machine: Machine) -> None:
    kept = Declaration("a", {"thp": THP})
    machine.put(kept.path, declared.render(kept).decode("utf-8"))


def test_the_version_is_told_without_looking_at_anything(archive: str) -> None:
    found = imported(archive, "--version")

    assert "agent.cli" in ours(found)
    assert not ours(found) & {"agent.install", "agent.call", "agent.node", "topology.read"}
    assert not ours(found, "mlnode.engine") & {"confirm", "engine", "origin"}
    assert not ours(found, "mlnode.knobs")
    assert found & HEAVY <= {"textwrap"}  # with which argparse prints it


@pytest.mark.parametrize("command", ["check", "status"])
def test_a_look_imports_the_areas_that_are_declared(archive: str, machine: Machine, command: str) -> None:
    declare(machine)

    found = imported(archive, command, "--root", machine.root)

    assert ours(found, "mlnode.knobs") == {"thp", "thp.kind", "thp.schema"}
    assert "agent.node" in ours(found)
    parts = {"install", "archive", "call", "declare", "explain", "without_origin"}
    assert not ours(found, "mlnode.agent") & parts
    assert "report.topology_table" not in ours(found)
    assert found & HEAVY == set()


def test_a_check_for_a_controller_imports_the_areas_that_it_names(archive: str) -> None:
    """Of this very machine, which it only reads."""
    sources = agent_archive.sources(agent._files())
    options = {
        **dict.fromkeys(("leave", "diff", "install", "risky"), False), "check": True, "name": "start",
        "areas": {"thp": THP}, "profile": {}, "selected": ["thp"], "layers": ["runtime"],
        "on_unsupported": "ignore", "fabric_type": "", "fail_at": "never", "ignore": [],
        "interpreter": "/usr/bin/env python3",
        "confirm_seconds": 0,
    }  # fmt: skip
    question = {"size": sources.size, "sha256": sources.sha256, "call": "declare", "options": options}

    found = imported(archive, "call", asked=json.dumps(question))

    assert "agent.call" in ours(found)
    assert ours(found, "mlnode.knobs") == {"thp", "thp.kind", "thp.schema"}
    assert not ours(found, "mlnode.agent") & {"explain", "without_origin"}
    assert "report.topology_table" not in ours(found)


def test_a_python_that_is_too_old_is_refused_with_its_name(archive: str) -> None:
    older = "import runpy, sys; sys.version_info = (3, 6, 15, 'final', 0); runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-I", "-c", older, archive], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 1
    assert done.stderr == f"mlnode needs Python 3.8 or newer, and {sys.executable} is 3.6\n"


class Counting(Machine):
    """Systemd runs, and counts how often it is asked."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: list[Sequence[str]] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "systemctl":
            self.asked.append(command)
        return super().run(command, seconds)


def test_a_look_asks_systemd_once_for_all_units(tmp_path: pathlib.Path) -> None:
    machine = Counting.debian(str(tmp_path / "node"))
    machine.put("/run/systemd/system/.keep", "")
    kinds = {
        "thp": THP,
        "services": {"services": {"tuned": "stop", "power-profiles-daemon": "stop"}},
        "limits": {"memlock": "unlimited", "nofile": 1048576, "domains": [], "defaults": True},
    }
    for unit in ("tuned", "power-profiles-daemon", "slurmd", "containerd"):
        machine.put(f"/usr/lib/systemd/system/{unit}.service", "[Service]\nExecStart=/usr/bin/true\n")
    kept = Declaration("a", kinds)
    machine.put(kept.path, declared.render(kept).decode("utf-8"))
    agent.install(machine)
    node.apply_all(machine)
    machine.asked.clear()
    machine.forget()

    node.survey(machine)

    [asked] = machine.asked
    assert {"mlnode-apply.service", "slurmd.service", "tuned.service", "-.mount"} <= {*asked}
    assert not {*places.TIMED_UNITS} & {*asked}


def test_timers_are_asked_about_where_a_declaration_starts_them(tmp_path: pathlib.Path) -> None:
    machine = Counting.debian(str(tmp_path / "node"))
    machine.put("/run/systemd/system/.keep", "")
    machine.put(places.CHECK_DROP_IN.replace("NAME", "node"), "")

    systemd_show.units(machine)

    [asked] = machine.asked
    assert {*places.TIMED_UNITS} & {*asked} == {places.CHECK_TIMER, places.CHECK_SERVICE}
