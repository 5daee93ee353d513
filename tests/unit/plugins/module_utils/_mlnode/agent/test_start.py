# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of the agent: a command imports what it needs and no more, as that takes longer than its work."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.tests.unit import questions
from ansible_collections.mlnode.tuning.tests.unit.machine import THP as THP_FILES
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import archive as agent_archive
from mlnode.agent import install as agent
from mlnode.agent import node
from mlnode.engine import declared, origin, units
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


def declare(machine: Machine, areas: dict[str, Any]) -> None:
    kept = Declaration("a", areas)
    machine.put(kept.path, declared.render(kept).decode("utf-8"))


def test_the_version_is_told_without_looking_at_anything(archive: str) -> None:
    found = imported(archive, "--version")

    assert "agent.cli" in ours(found)
    assert not ours(found) & {"agent.install", "agent.call", "agent.node", "topology.hardware"}
    assert not ours(found, "mlnode.engine") & {"confirm", "engine", "origin"}
    assert not ours(found, "mlnode.knobs")
    assert found & HEAVY <= {"textwrap"}  # with which argparse prints it


@pytest.mark.parametrize("command", ["check", "status"])
def test_a_look_imports_the_areas_that_are_declared(archive: str, machine: Machine, command: str) -> None:
    declare(machine, {"thp": THP})

    found = imported(archive, command, "--root", machine.root)

    assert ours(found, "mlnode.knobs") == {"thp", "thp.kind", "thp.schema"}
    assert "agent.node" in ours(found)
    parts = {"install", "archive", "call", "declare", "explain", "without_origin"}
    assert not ours(found, "mlnode.agent") & parts
    assert not ours(found, "mlnode.engine") & {"boot_run", "confirm", "engine", "transaction"}
    assert "report.topology_table" not in ours(found)
    assert found & HEAVY == set()


def test_a_look_at_jobs_loads_no_large_library(archive: str) -> None:
    """Of this very machine, which it only reads. OpenSSL alone takes 4 MiB."""
    modules = imported(archive, "job")

    assert "checks.jobs.run" in ours(modules)
    assert modules & {*HEAVY, "_hashlib", "xml.etree.ElementTree"} == set()


def test_a_check_for_a_controller_imports_the_areas_that_it_names(archive: str) -> None:
    """Of this very machine, which it only reads."""
    sources = agent_archive.uncompiled(agent._files())[1]
    options = questions.declare(
        {"thp": THP},
        **dict.fromkeys(("diff", "install", "risky"), False),
        check=True,
        name="start",
        layers=["runtime"],
        on_unsupported="ignore",
        fail_at="never",
    )
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


# -- as the boot service starts it ----------------------------------------------------------

#: Runs an archive as Python does, but its command on a tree; reports what that has compiled, opened, written
#: and started on the last line. The events: docs.python.org, Audit events table
AUDITED = """
import json, os, sys, types, zipimport
from collections import Counter
archive, root, *words = sys.argv[1:]
compiled, opened, written, started = [], Counter(), set(), []
def hook(event, given):
    if event == "compile" and "mlnode/" in str(given[1]):
        compiled.append(given[1])
    elif event == "open" and isinstance(given[0], str):
        path = given[0][len(root):] if given[0].startswith(root) else given[0]
        opened[path] += 1
        if isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.add(path)
    elif event == "subprocess.Popen":
        started.append(given[1])
main = types.ModuleType("__main__")
main.__loader__ = zipimport.zipimporter(archive)
sys.path.insert(0, archive)
sys.modules["__main__"] = main
text, end, _rest = main.__loader__.get_data("__main__.py").decode().partition("from mlnode.agent.cli")
code = compile(text, "main", "exec")
sys.addaudithook(hook)
exec(code, main.__dict__)
from mlnode.agent import arguments, cli, mounts
from mlnode.host.host import Host
options = arguments.parser().parse_args(words)
status = cli._COMMANDS[options.command](Host(root, mounts.ALL), options)
names = [name for name in sys.modules if name.startswith("mlnode.")]
print(json.dumps([status, compiled, opened, sorted(written), started, names]))
"""

#: What systemd gives to a service (systemd.exec(5), Environment variables in spawned processes), and a word
#: that would keep Python from the compiled code of others
SERVICE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}

#: Areas of which each has something to read that is not of the kernel
AREAS = {
    "thp": THP,
    "sysctl": {"settings": {"vm.swappiness": 10}},
    "limits": {"memlock": "unlimited", "nofile": 1048576, "domains": [], "defaults": True},
    "services": {"services": {"tuned": "stop", "power-profiles-daemon": "stop"}},
}

#: The run finishes what a killed one was writing, looks whether the origin is lost, reads it for all areas,
#: keeps it for what it writes itself, and shows a note of it at its end: each once for a node.
READS_OF_THE_ORIGIN = 5


class Start(NamedTuple):
    status: int
    compiled: list[str]
    opened: dict[str, int]
    written: list[str]
    started: list[list[str]]
    names: list[str]


def settled(folder: pathlib.Path, areas: Sequence[str]) -> Machine:
    """A node on which nothing is left to do."""
    machine = Machine.debian(str(folder))
    agent.install(machine)
    declare(machine, {area: AREAS[area] for area in areas})
    assert node.apply_all(machine).errors == ()
    assert not node.apply_all(machine).changed
    return machine


def start(archive: str, machine: Machine, *given: str) -> Start:
    """given: a command and its arguments, if not those of the boot service."""
    command = next(line for line in units.UNIT.splitlines() if line.startswith("ExecStart="))
    program, *words = command.partition("=")[2].split()
    assert program == places.AGENT_COMMAND
    words = [*given] or words
    done = subprocess.run(
        [sys.executable, "-IS", "-c", AUDITED, archive, machine.root, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=SERVICE,
        stdin=subprocess.DEVNULL,
    )
    return Start(*json.loads(done.stdout.splitlines()[-1]))


def test_the_boot_service_compiles_and_writes_nothing_where_all_is_right(
    archive: str, tmp_path: pathlib.Path
) -> None:
    found = start(archive, settled(tmp_path / "node", [*AREAS]))

    assert found.status == 0
    assert found.compiled == []
    # Opened in its folder
    assert found.written == ["mlnode.lock"]
    assert found.started == []
    assert ours({*found.names}, "mlnode.knobs") & {"irq.kind", "nic.kind", "boot.kind", "pull.kind"} == set()


def test_an_agent_of_another_python_compiles_what_it_needs(tmp_path: pathlib.Path) -> None:
    """That the count above can be another than 0."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent_archive.build(agent._files(), compiled=False))

    found = start(str(path), settled(tmp_path / "node", [*AREAS]))

    assert found.status == 0
    assert len(found.compiled) > 100
    # What it imports late would be that of another agent by then.
    assert "irq.kind" in ours({*found.names}, "mlnode.knobs")


def test_more_areas_read_the_origin_no_more_often(archive: str, tmp_path: pathlib.Path) -> None:
    one = start(archive, settled(tmp_path / "one", ["thp"]))
    all_of_them = start(archive, settled(tmp_path / "all", [*AREAS]))

    for found in (one, all_of_them):
        assert found.opened[origin.PATH] <= READS_OF_THE_ORIGIN
        assert found.opened.get(origin.COPY, 0) == 0


def test_a_check_reads_files_of_systemd_once_and_little_of_its_own(
    archive: str, tmp_path: pathlib.Path
) -> None:
    machine = settled(tmp_path / "node", [*AREAS])
    read = {
        "/etc/systemd/system.conf": "[Manager]\n",
        "/usr/lib/systemd/system/multi-user.target": "[Unit]\nRequires=basic.target\n",
        "/usr/lib/systemd/system/basic.target": "[Unit]\nRequires=sysinit.target\n",
        "/usr/lib/systemd/system/sysinit.target": "[Unit]\nBefore=mlnode-apply.service\n",
        "/usr/lib/systemd/system/tuned.service": "[Service]\nExecStart=/usr/sbin/tuned\n",
    }
    for path, text in read.items():
        machine.put(path, text)

    found = start(archive, machine, "check")

    assert {path: found.opened.get(path) for path in read} == dict.fromkeys(read, 1)
    # By the settings, and by a guard
    assert found.opened["/proc/sys/kernel/osrelease"] <= 2


class Counting(Machine):
    """Systemd runs, and counts how often it is asked."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: list[Sequence[str]] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "systemctl":
            self.asked.append(command)
        return super().run(command, seconds)


@pytest.fixture
def counting(tmp_path: pathlib.Path) -> Counting:
    machine = Counting.debian(str(tmp_path / "node"))
    assert isinstance(machine, Counting)
    machine.put("/run/systemd/system/.keep", "")
    return machine


def test_a_look_asks_systemd_once_for_all_units(counting: Counting) -> None:
    for unit in ("tuned", "power-profiles-daemon", "slurmd", "containerd"):
        counting.put(f"/usr/lib/systemd/system/{unit}.service", "[Service]\nExecStart=/usr/bin/true\n")
    declare(counting, {area: AREAS[area] for area in ("thp", "services", "limits")})
    agent.install(counting)
    node.apply_all(counting)
    counting.asked.clear()
    counting.forget()

    node.survey(counting)

    [asked] = counting.asked
    assert {"mlnode-apply.service", "slurmd.service", "tuned.service", "-.mount"} <= {*asked}
    assert not {*places.TIMED_UNITS} & {*asked}


def test_a_boot_asks_systemd_once_whatever_it_changes(counting: Counting) -> None:
    declare(counting, {"thp": THP, "sysctl": {"settings": {"vm.swappiness": 10}}})
    agent.install(counting)
    node.apply_all(counting)
    # As the kernel begins: all files are right, and each area has a value to set.
    for path, value in (
        (f"{THP_FILES}/enabled", "[always] madvise never"),
        ("/proc/sys/vm/swappiness", "60"),
    ):
        counting.put(path, f"{value}\n")
    counting.asked.clear()

    assert node.apply_all(counting).changed

    assert len(counting.asked) == 1


def test_what_a_run_changes_of_units_is_asked_again(counting: Counting) -> None:
    declare(counting, {"limits": AREAS["limits"]})
    counting.put("/usr/lib/systemd/system/slurmd.service", "[Service]\nExecStart=/usr/bin/true\n")
    agent.install(counting)
    counting.asked.clear()

    assert node.apply_all(counting).changed

    shown = [command for command in counting.asked if command[1] == "show"]
    assert "slurmd.service" not in shown[0]
    assert "slurmd.service" in shown[-1]


def test_timers_are_asked_about_where_a_declaration_starts_them(counting: Counting) -> None:
    counting.put(places.CHECK_DROP_IN.replace("NAME", "node"), "")

    systemd_show.units(counting)

    [asked] = counting.asked
    assert {*places.TIMED_UNITS} & {*asked} == {*places.TIMED[places.CHECK_DROP_IN]}
