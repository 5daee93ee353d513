# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast
import bz2
import hashlib
import importlib.util
import io
import marshal
import os
import pathlib
import select
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from types import CodeType

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_source
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import archive as agent_zip
from mlnode.agent import install as agent
from mlnode.agent import source_code
from mlnode.engine import engine, kind, lock, revert
from mlnode.engine import units as agent_files
from mlnode.host.system import Finished
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import HostError, LockTimeoutError, MlnodeError, TransactionError
from mlnode.model.version import VERSION

LIBRARY = pathlib.Path(agent.__file__).parents[1]
PACKAGE = "ansible_collections/mlnode/tuning/plugins/module_utils/_mlnode"
OWN = [agent.COMMAND, *agent_files.TEXTS, *agent_files.LINKS]

#: Prints the sum of the sources in the zip that a process builds which has imported nothing else before
BUILD = f"""
import hashlib, importlib, sys
importlib.import_module({(PACKAGE + "/agent/agent_modules").replace("/", ".")!r})
agent = importlib.import_module({(PACKAGE + "/agent/install").replace("/", ".")!r})
size = int(sys.argv[1])
print(hashlib.sha256(agent.build().partition(b"\\n")[2][:size]).hexdigest(), agent.__file__)
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


def module_of(path: str) -> str:
    """Name of a module from that of its file in the archive."""
    return path[: -len(".py")].replace("/", ".").replace(".__init__", "")


def test_it_holds_the_whole_library_and_nothing_else(built: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        found = {info.filename: archive.read(info) for info in archive.infolist()}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    sources = {
        f"mlnode/{path.relative_to(LIBRARY).as_posix()}": path.read_bytes()
        for path in LIBRARY.rglob("*.py")
        if not agent_zip.is_elsewhere(module_name(path))
    }
    main = found.pop("__main__.py")
    assert b"from mlnode.agent.cli import main" in main
    for name in ("compiled", "places"):
        del found[f"{name}-{importlib.util.MAGIC_NUMBER.hex()}"]
    modules = modules_of(built)
    assert {*found} == {*sources}
    for path, content in found.items():
        assert meaning(content) == meaning(sources[path]), path
        assert content.count(b"\n") == sources[path].count(b"\n"), "the lines of a traceback"
    packages = {module_of(path): path.endswith("/__init__.py") for path in sources}
    assert {name: is_package for name, (is_package, _code) in modules.items()} == packages
    assert {type(marshal.loads(code)) for _is_package, code in modules.values()} == {CodeType}


def _untyped(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return ast.Assign([statement.target], statement.value, type_comment=None)
    return statement


def meaning(source: bytes) -> str:
    """All of it but docstrings, and the types of functions and constants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module):
            node.body = [_untyped(statement) for statement in node.body]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def test_packed_as_it_is_sent_it_is_small() -> None:
    # What a controller sends to each node that lacks it (docs/guide/benchmarks.md)
    assert len(bz2.compress(agent_source.unzipped(), 9)) <= 450 * 1024


@pytest.mark.parametrize(
    ("source", "short"),
    [
        ('# of the file\n"""Words."""\n\nA = 1  # why\n', '\n""\n\nA = 1\n'),
        ('def f() -> None:  # noqa: X\n    """Words\n    of two lines."""\n', 'def f():\n    ""\n\n'),
        (
            "def f(a: int = 1, *, b: X[str, int] | None,\n    c: str\n) -> Y[X]:\n",
            "def f(a = 1, *, b,\n    c\n):\n",
        ),
        (
            "def f(a: Z = lambda b: {1: b}, *c: int, d=(1, [2])):\n",
            "def f(a = lambda b: {1: b}, *c, d=(1, [2])):\n",
        ),
        ("def f(a: X[\n    int,\n] = 1) -> int: ...\n", "def f(a\n\n = 1) -> int: ...\n"),
        (
            'class A:\n    a: int = 1\n    def f(self, b: str = "):,") -> str:\n',
            'class A:\n    a: int = 1\n    def f(self, b = "):,"):\n',
        ),
        (
            'A = """# none\n# of these"""\nB = "# nor \\" this"\n',
            'A = """# none\n# of these"""\nB = "# nor \\" this"\n',
        ),
        ("C = '\"\"\" # one \\' text'  # not this\n", "C = '\"\"\" # one \\' text'\n"),
    ],
)
def test_comments_and_docstrings_are_left_out_and_lines_stay(source: str, short: str) -> None:
    for given in (source, short):
        assert source_code.shortened(given.encode()).decode() == short


def test_its_sources_are_those_that_the_controller_knows(built: bytes) -> None:
    said = agent_source.said()
    sources = built.partition(b"\n")[2][: said["size"]]
    assert hashlib.sha256(sources).hexdigest() == said["sha256"]
    assert agent_source.archive() == agent_zip.build(agent._files(), compiled=False)


def test_nothing_in_it_imports_what_is_not_in_it(command: str) -> None:
    with zipfile.ZipFile(command) as archive:
        files = [name[: -len(".py")] for name in archive.namelist() if name.endswith(".py")]
    names = [name.replace("/__init__", "").replace("/", ".") for name in files if name != "__main__"]
    code = f"import importlib, sys; sys.path.insert(0, {command!r}); [*map(importlib.import_module, {names})]"
    assert len(names) > 100
    done = run([sys.executable, "-I", "-c", code])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_that_a_function_imports_is_in_it(command: str) -> None:
    with zipfile.ZipFile(command) as archive:
        sources = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
    missing = []
    for file, source in sources.items():
        folder = pathlib.PurePosixPath(file).parent
        for part in ast.walk(ast.parse(source)):
            if isinstance(part, ast.ImportFrom) and part.level:
                above = [folder, *folder.parents][part.level - 1]
                package = above.joinpath(*(part.module or "").split("."))
                modules = [f"{package / name.name}.py".partition("/")[2] for name in part.names]
                wanted = [
                    name
                    for name in modules
                    if (LIBRARY / name).exists() and name[:-3].replace("/", ".") not in agent_zip.ELSEWHERE
                ]
                missing += [f"{file}: {name}" for name in wanted if f"mlnode/{name}" not in sources]
    assert missing == []


def test_it_is_small_and_begins_with_its_interpreter(built: bytes) -> None:
    assert built.startswith(f"#!/usr/bin/env -S {agent_zip._PATH} python3 -IS\n".encode())
    # It is written to the disk of each node, and read at each start: 7.4 MB, of which 2.4 are sources. The
    # rest is compiled, and takes 0.5 MB more with Python 3.11 than with 3.13.
    assert len(built) < (6_850_000 if sys.version_info >= (3, 12) else 7_400_000)


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


@pytest.mark.parametrize(("place", "seed"), [(collections, "1"), (zipped, "2")])
def test_every_process_packs_the_same_sources(
    tmp_path: pathlib.Path, place: Callable[[pathlib.Path], str], seed: str
) -> None:
    path = place(tmp_path)
    said = agent_source.said()
    done = run([sys.executable, "-c", BUILD, str(said["size"])], path, seed)
    assert done.returncode == 0, done.stderr
    digest, file = done.stdout.split()
    assert file.startswith(path)
    assert digest == said["sha256"]


def test_a_library_without_sources_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    package = agent.__name__.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, f"{package}.bare", type(sys)(f"{package}.bare"))
    with pytest.raises(MlnodeError, match=rf"the source of {package}\.bare cannot be read"):
        agent.build()


def test_a_neighbour_of_the_package_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch, built: bytes) -> None:
    package = agent.__name__.rpartition(".agent.")[0]
    monkeypatch.setitem(sys.modules, f"{package}_other", type(sys)(f"{package}_other"))
    assert agent.build() == built


def test_it_runs_by_its_interpreter_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build(sys.executable))
    path.chmod(0o755)
    assert run([str(path), "--version"]).stdout == f"mlnode {VERSION}\n"


@pytest.mark.parametrize(
    ("interpreter", "line"),
    [
        ("/usr/bin/python3.11", "/usr/bin/python3.11 -IS"),
        ("/usr/bin/python3.11 -I", "/usr/bin/python3.11 -I"),
        ("/usr/bin/python3.11 -O", "/usr/bin/python3.11 -OIS"),
        ("/usr/bin/python3.11 -X dev", "/usr/bin/python3.11 -X dev"),
        ("/usr/bin/env python3", f"/usr/bin/env -S {agent_zip._PATH} python3 -IS"),
        ("/usr/bin/env -S python3 -O", f"/usr/bin/env -S {agent_zip._PATH} python3 -O -IS"),
        ("/usr/bin/env -Spython3 -I", f"/usr/bin/env -S {agent_zip._PATH} python3 -I"),
        ("/usr/bin/env -S PATH=/opt python3", "/usr/bin/env -S PATH=/opt python3 -IS"),
    ],
)
def test_each_interpreter_is_made_an_isolated_one(interpreter: str, line: str) -> None:
    assert agent_zip.isolated(interpreter) == line


@pytest.mark.parametrize("interpreter", [agent.INTERPRETER, sys.executable], ids=["env", "path"])
def test_nothing_of_the_caller_is_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    """Root may call it from any folder, and sudo may keep any variable."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build(interpreter))
    path.chmod(0o755)
    evil = tmp_path / "evil"
    site = pathlib.Path(subprocess.run(
        [sys.executable, "-c", "import site; print(site.getusersitepackages())"],
        env={"PYTHONUSERBASE": str(evil)}, capture_output=True, text=True, check=True,
    ).stdout.strip())  # fmt: skip
    site.mkdir(parents=True)
    for folder in (evil, site):
        for name in ("json", "argparse", "mlnode", "sitecustomize", "usercustomize"):
            (folder / f"{name}.py").write_text("print('evil')\n")
    (evil / "python3").write_text("#!/bin/sh\necho evil\n")
    (evil / "python3").chmod(0o755)
    done = subprocess.run(
        [str(path), "--version"],
        cwd=evil,
        env={
            "PATH": f"{evil}:{os.environ['PATH']}",
            "PYTHONPATH": str(evil),
            "PYTHONSTARTUP": str(evil / "json.py"),
            "PYTHONUSERBASE": str(evil),
            "PYTHONINSPECT": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mlnode {VERSION}\n", "")


def test_a_command_that_does_not_start_is_not_left_behind(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def starts_not(words: Sequence[str], seconds: float = 60) -> Finished:
        if list(words) == [agent.COMMAND, "--version"]:
            held.append(machine.exists(lock.LOCK_PATH))
            return Finished(127, "", "/usr/bin/env: 'python3': No such file or directory\n")
        return Finished(0, "", "")

    before = machine.tree()
    monkeypatch.setattr(type(machine), "live", True)
    monkeypatch.setattr(machine, "real", lambda path, follow=True: machine.root + path)
    monkeypatch.setattr(machine, "run", starts_not)
    with pytest.raises(TransactionError, match="does not start: /usr/bin/env: 'python3'") as caught:
        agent.install(machine)
    monkeypatch.undo()
    assert held == [True], "tried under the lock"
    assert f"{agent.COMMAND} = absent" in caught.value.rolled_back
    assert machine.tree() == before


def test_what_another_python_has_compiled_is_passed_over(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mlnode"
    files = {**agent._files(), "mlnode/model/version.py": b'VERSION = "of the source"\n'}
    whole = agent_zip.build(files)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        of_older = {
            name.replace(importlib.util.MAGIC_NUMBER.hex(), "00000d0a"): archive.read(name)
            for name in archive.namelist()
        }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in of_older.items():
            archive.writestr(name, content)
    assert run([sys.executable, str(path), "--version"]).stdout == "mlnode of the source\n"


def test_what_this_python_has_compiled_is_run(tmp_path: pathlib.Path) -> None:
    """So that a test would notice if each start compiled all of it again."""
    path = tmp_path / "mlnode"
    code = compile('VERSION = "of the code"', "version.py", "exec")
    path.write_bytes(agent_zip.build(agent._files(), modules={"mlnode.model.version": (False, code)}))
    assert run([sys.executable, str(path), "--version"]).stdout == "mlnode of the code\n"


#: Runs a sent agent, which has no compiled code, and builds what it would install
INSTALL = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
sys.modules["__main__"].modules = sys.meta_path[0].find_spec.__globals__["modules"]
from mlnode.agent import archive, install, own_archive
kept = dict(own_archive.compiled())
archive._compiled = lambda file, source: (False, b"compiled once more")
print(*kept)
sys.stdout.flush()
built = archive.build(install._files(), modules=kept)
sys.stdout.buffer.write(built)
"""


def test_what_a_sent_agent_has_compiled_is_installed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mlnode"
    path.write_bytes(agent_source.archive())
    done = subprocess.run(
        [sys.executable, "-I", "-c", INSTALL, str(path), "--version"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    _version, names, built = done.stdout.split(b"\n", 2)
    kept = names.decode().split()
    assert {"mlnode", "mlnode.agent", "mlnode.agent.cli"} <= {*kept}
    code = modules_of(built)
    whole = modules_of(agent.build())
    assert code.keys() == whole.keys()
    for name in kept:
        is_package, compiled = code[name]
        assert is_package is whole[name][0], name
        assert marshal.loads(compiled) == marshal.loads(whole[name][1]), name
    others = {compiled for name, (_package, compiled) in code.items() if name not in kept}
    assert others == {b"compiled once more"}


def modules_of(content: bytes) -> dict[str, tuple[bool, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        places = marshal.loads(archive.read(f"places-{importlib.util.MAGIC_NUMBER.hex()}"))
    return {
        name: (is_package, content[start : start + size])
        for name, (is_package, start, size) in places.items()
    }


def test_it_reads_a_node(command: str, machine: Machine) -> None:
    door.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}}))
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


def test_a_preview_without_a_difference_compiles_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = agent.plan(machine)
    monkeypatch.setattr(agent_zip, "_compiled", lambda *_given: pytest.fail("compiled"))
    monkeypatch.setattr(machine, "run", lambda *_given: pytest.fail("asked a Python what it compiles"))
    assert [step.key for step in agent.plan(machine, used=False)] == [step.key for step in whole]


def at(whole: bytes, place: int, other: bytes) -> bytes:
    return whole[:place] + other + whole[place + len(other) :]


#: What the command has become instead of the whole
COMMANDS: dict[str, Callable[[bytes], bytes]] = {
    "another": lambda _whole: b"old",
    "half of it": lambda whole: whole[: len(whole) // 2],
    "a source": lambda whole: whole.replace(b"nothing to put back", b"nothing to put BACK", 1),
    "compiled code": lambda whole: at(whole, whole.rindex(b"nothing to put back"), b"N"),
    "compiled by another": lambda whole: at(whole, len(whole) - 8, b"00000000"),
    "its list": lambda whole: at(whole, whole.rindex(b"PK\x01\x02") + 8, b"\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("damage", COMMANDS)
def test_a_damaged_command_is_repaired_alone(machine: Machine, damage: str) -> None:
    agent.install(machine)
    before = machine.tree()
    whole = machine.content(agent.COMMAND)
    assert whole
    machine.put(agent.COMMAND, COMMANDS[damage](whole), 0o755)
    assert [step.key for step in agent.install(machine)] == [agent.COMMAND]
    assert machine.tree() == before


def _link(machine: Machine, path: str) -> None:
    machine.put("/elsewhere", agent.UNIT)
    machine.link(path, "/elsewhere")


@pytest.mark.parametrize(
    ("path", "put"),
    [
        (agent.UNIT_FILE, None),
        (agent.UNIT_FILE, _link),
        (kind.AGENT_LINK, None),
        (kind.AGENT_LINK, _link),
        (kind.AGENT_LINK, lambda machine, path: machine.put(path, agent.UNIT)),
    ],
)
def test_what_was_damaged_is_repaired_alone(
    machine: Machine, path: str, put: Callable[[Machine, str], None] | None
) -> None:
    agent.install(machine)
    whole = machine.tree()
    machine.remove(path)
    if put:
        put(machine, path)
    assert [step.key for step in agent.install(machine)] == [path]
    now = machine.tree()
    now.pop("/elsewhere", None)
    assert now == whole


def test_a_command_that_nobody_may_run_is_repaired(machine: Machine) -> None:
    agent.install(machine)
    os.chmod(machine.root + agent.COMMAND, 0o644)
    assert [step.key for step in agent.install(machine)] == [agent.COMMAND]
    assert machine.tree()[agent.COMMAND][1] == 0o755


@pytest.mark.parametrize("theirs", ["compiled 00000000", "", "nonsense"])
def test_for_another_python_nothing_is_compiled(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Which would run the sources all the same, and two controllers would take turns in compiling."""
    asked: list[list[str]] = []

    def answered(command: list[str], *_more: object) -> Finished:
        asked.append(command)
        return Finished(0, f"{theirs}\n", "")

    monkeypatch.setattr(type(machine), "live", True)
    monkeypatch.setattr(machine, "run", answered)

    assert agent._compiles(machine, "/usr/bin/env python3") is False
    assert asked == [["/usr/bin/env", agent_zip._PATH, "python3", "-I", "-c", agent_zip.WHICH]]
    files = agent._files()
    bare = agent_zip.build(files, compiled=False)
    assert agent_zip.is_right(bare, files, agent_zip.INTERPRETER, compiled=False)
    assert not agent_zip.is_right(bare, files, agent_zip.INTERPRETER)
    assert not agent_zip.is_right(agent_zip.build(files), files, agent_zip.INTERPRETER, compiled=False)


def test_this_python_runs_what_it_compiles() -> None:
    assert agent_zip.is_mine(run([sys.executable, "-c", agent_zip.WHICH]).stdout)


def test_revert_brings_back_what_was_there(machine: Machine) -> None:
    machine.put(agent.COMMAND, "theirs", 0o700)
    machine.link(kind.AGENT_LINK, "/dev/null")
    before = machine.tree()
    agent.install(machine)
    agent.install(machine, "/opt/python")
    revert.revert(machine)
    assert machine.tree() == {path: before[path] for path in before if "/var/lib/mlnode" not in path}


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


def test_an_installation_waits_for_its_turn(machine: Machine) -> None:
    with lock.locked(machine), pytest.raises(LockTimeoutError):
        agent.install(machine, wait_seconds=0)
    assert machine.content(agent.COMMAND) is None


#: Leaves a process behind, which imports more when another file is in the place of its own
DETACHED = b"""
import os
import sys
from mlnode.host import detached


def work():
    os.replace(sys.argv[1], __loader__.archive)
    try:
        from mlnode.late import WORD
    except BaseException as error:
        WORD = repr(error)
    with open(sys.argv[2], "w") as file:
        file.write(WORD)


def main():
    detached.start(work)
    return 0
"""


def test_a_detached_process_imports_late_from_its_own_file(tmp_path: pathlib.Path) -> None:
    files = {f"mlnode/{folder}__init__.py": b"" for folder in ("", "agent/", "host/")}
    files["mlnode/agent/cli.py"] = DETACHED
    files["mlnode/host/detached.py"] = (LIBRARY / "host/detached.py").read_bytes()
    own, other, said = tmp_path / "mlnode", tmp_path / "other", tmp_path / "said"
    own.write_bytes(agent_zip.build({**files, "mlnode/late.py": b'WORD = "its own"\n'}))
    other.write_bytes(agent_zip.build({**files, "mlnode/late.py": b'WORD = "of another"\n'}))
    os.mkfifo(said)
    with open(os.open(said, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
        done = run([sys.executable, "-IS", str(own), str(other), str(said)])
        assert (done.returncode, done.stderr) == (0, "")
        assert select.select([pipe], [], [], 60)[0]
        assert pipe.read() == b"its own"
