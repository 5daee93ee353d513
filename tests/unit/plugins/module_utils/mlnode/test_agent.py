# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import zipfile
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import (
    agent,
    agent_files,
    engine,
    kind,
    lock,
    revert,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import (
    HostError,
    LockTimeoutError,
    MlnodeError,
    TransactionError,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import sysctl
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.version import VERSION
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

LIBRARY = pathlib.Path(agent.__file__).parent
PACKAGE = "ansible_collections/mlnode/tuning/plugins/module_utils/mlnode"
OWN = [agent.COMMAND, *agent_files.TEXTS, *agent_files.LINKS]

#: Prints the sum of the zip that a process builds which has imported nothing else before
BUILD = f"""
import hashlib, importlib, sys
agent = importlib.import_module({(PACKAGE + "/agent").replace("/", ".")!r})
print(hashlib.sha256(agent.build()).hexdigest(), agent.__file__)
"""


def run(command: list[str], path: str = "", seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONHASHSEED": seed}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.fixture(scope="module")
def built() -> bytes:
    return agent.build()


@pytest.fixture
def command(tmp_path: pathlib.Path, built: bytes) -> str:
    path = tmp_path / "mlnode"
    path.write_bytes(built)
    path.chmod(0o755)
    return str(path)


# -- the zip -------------------------------------------------------------------------------


def test_it_is_the_same_whenever_it_is_built(built: bytes) -> None:
    assert agent.build() == built
    assert agent.build("/opt/python") != built


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(LIBRARY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_it_holds_the_whole_library_and_nothing_else(built: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        found = {info.filename: archive.read(info).decode() for info in archive.infolist()}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    sources = {
        f"mlnode/{path.relative_to(LIBRARY).as_posix()}": path.read_text(encoding="utf-8")
        for path in LIBRARY.rglob("*.py")
        if not agent.is_elsewhere(module_name(path))
    }
    main = found.pop("__main__.py")
    assert found == sources
    assert "from mlnode.cli import main" in main


def test_it_is_small_and_begins_with_its_interpreter(built: bytes) -> None:
    assert built.startswith(b"#!/usr/bin/env python3\n")
    # Python compiles all of it at each start.
    assert len(built) < 1_200_000


def collections(tmp_path: pathlib.Path) -> str:
    """A folder in which Python finds the collection by its name."""
    home = tmp_path / "collections"
    (home / "ansible_collections/mlnode").mkdir(parents=True)
    (home / "ansible_collections/mlnode/tuning").symlink_to(LIBRARY.parents[2].resolve())
    return str(home)


def zipped(tmp_path: pathlib.Path) -> str:
    """The library in a zip, packages above it without content: as Ansible sends it to a node."""
    path = tmp_path / "payload.zip"
    with zipfile.ZipFile(path, "w") as archive:
        folder = ""
        for part in PACKAGE.split("/")[:-1]:
            folder += f"{part}/"
            archive.writestr(f"{folder}__init__.py", "")
        for source in LIBRARY.rglob("*.py"):
            archive.write(source, f"{PACKAGE}/{source.relative_to(LIBRARY).as_posix()}")
    return str(path)


@pytest.mark.parametrize("place", [collections, zipped])
@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_process_builds_the_same_bytes(
    tmp_path: pathlib.Path, built: bytes, place: Callable[[pathlib.Path], str], seed: str
) -> None:
    path = place(tmp_path)
    done = run([sys.executable, "-c", BUILD], path, seed)
    assert done.returncode == 0, done.stderr
    digest, file = done.stdout.split()
    assert file.startswith(path)
    assert digest == hashlib.sha256(built).hexdigest()


def test_a_library_without_sources_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    package = agent.__name__.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, f"{package}.bare", type(sys)(f"{package}.bare"))
    with pytest.raises(MlnodeError, match=rf"the source of {package}\.bare cannot be read"):
        agent.build()


def test_a_neighbour_of_the_package_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch, built: bytes) -> None:
    package = agent.__name__.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, f"{package}_other", type(sys)(f"{package}_other"))
    assert agent.build() == built


def test_it_runs(command: str) -> None:
    done = run([sys.executable, command, "--version"])
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mlnode {VERSION}\n", "")


def test_it_runs_by_its_interpreter_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build(sys.executable))
    path.chmod(0o755)
    assert run([str(path), "--version"]).stdout == f"mlnode {VERSION}\n"


def test_it_reads_a_node(command: str, machine: Machine) -> None:
    engine.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}}))
    before = machine.tree()
    done = run([sys.executable, "-I", command, "status", "--root", machine.root])
    assert done.returncode == 0, done.stderr
    assert "vm.swappiness" in done.stdout
    machine.put("/proc/sys/vm/swappiness", "60\n")
    assert run([sys.executable, "-I", command, "status", "--root", machine.root]).returncode == 3
    machine.put("/proc/sys/vm/swappiness", "10\n")
    assert machine.tree() == before


# -- on the node ---------------------------------------------------------------------------


def test_it_is_installed_once(machine: Machine, built: bytes) -> None:
    steps = agent.plan(machine)
    assert [step.key for step in steps] == OWN
    assert [step.key for step in agent.install(machine)] == OWN
    tree = machine.tree()
    assert tree[agent.COMMAND][1] == 0o755
    assert machine.content(agent.COMMAND) == built
    for path, text in agent_files.TEXTS.items():
        assert tree[path] == (text, 0o644)
    for link, target in agent_files.LINKS.items():
        assert tree[link] == (f"-> {target}", 0)
    assert agent.plan(machine) == []
    assert agent.install(machine) == []
    assert machine.tree() == tree


def test_a_plan_changes_nothing(machine: Machine) -> None:
    before = machine.tree()
    agent.plan(machine)
    assert machine.tree() == before


def damage_content(machine: Machine) -> str:
    machine.put(agent.COMMAND, "old", 0o755)
    return agent.COMMAND


def damage_mode(machine: Machine) -> str:
    os.chmod(machine.root + agent.COMMAND, 0o644)
    return agent.COMMAND


def damage_unit(machine: Machine) -> str:
    machine.remove(agent.UNIT_FILE)
    return agent.UNIT_FILE


def unit_as_link(machine: Machine) -> str:
    machine.remove(agent.UNIT_FILE)
    machine.put("/elsewhere", agent.UNIT)
    machine.link(agent.UNIT_FILE, "/elsewhere")
    return agent.UNIT_FILE


def remove_link(machine: Machine) -> str:
    machine.remove(kind.AGENT_LINK)
    return kind.AGENT_LINK


def change_link(machine: Machine) -> str:
    remove_link(machine)
    machine.link(kind.AGENT_LINK, "/dev/null")
    return kind.AGENT_LINK


def link_as_file(machine: Machine) -> str:
    remove_link(machine)
    machine.put(kind.AGENT_LINK, agent.UNIT)
    return kind.AGENT_LINK


@pytest.mark.parametrize(
    "damage",
    [damage_content, damage_mode, damage_unit, unit_as_link, remove_link, change_link, link_as_file],
)
def test_what_was_damaged_is_repaired_alone(machine: Machine, damage: Callable[[Machine], str]) -> None:
    agent.install(machine)
    whole = machine.tree()
    path = damage(machine)
    assert [step.key for step in agent.install(machine)] == [path]
    now = machine.tree()
    now.pop("/elsewhere", None)
    assert now == whole


def test_revert_removes_it(machine: Machine) -> None:
    before = machine.tree()
    agent.install(machine)
    revert.revert(machine)
    assert machine.tree() == before


def test_revert_brings_back_what_was_there(machine: Machine) -> None:
    machine.put(agent.COMMAND, "theirs", 0o700)
    machine.link(kind.AGENT_LINK, "/dev/null")
    before = machine.tree()
    agent.install(machine)
    agent.install(machine, "/opt/python")
    revert.revert(machine)
    assert machine.tree() == before


def test_only_root_installs(machine: Machine) -> None:
    machine.superuser = False
    before = machine.tree()
    with pytest.raises(HostError, match=f"cannot install {agent.COMMAND}: root is needed"):
        agent.install(machine)
    assert machine.tree() == before
    machine.superuser = True
    agent.install(machine)
    machine.superuser = False
    assert agent.install(machine) == [], "nothing to do needs no root"


def test_a_folder_in_its_way_is_an_error_and_all_is_put_back(machine: Machine) -> None:
    os.makedirs(machine.root + kind.AGENT_LINK)
    before = machine.tree()
    with pytest.raises((TransactionError, HostError), match=kind.AGENT_LINK):
        agent.install(machine)
    assert machine.tree() == before


def test_an_installation_waits_for_its_turn(machine: Machine) -> None:
    with lock.locked(machine), pytest.raises(LockTimeoutError):
        agent.install(machine, wait_seconds=0)
    assert machine.content(agent.COMMAND) is None
