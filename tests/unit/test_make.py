# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test` and .ci/run, with programs that only say that they were called, and fail where they should."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load

#: Says what it was called with, and fails where one of the words of FAILING is in it. What keeps others from
#: the machine is the real one, and finds no container.
PROGRAM = f"""#!/bin/bash
if [ "$1" = tools/one_run.py ]; then exec {sys.executable} "$@"; fi
if [ "$1" = podman ]; then exit 0; fi
"""
PROGRAM += """
said="$(basename "$0") $*"
echo "called: $said"
if [ "${0##*/}" = pytest ]; then echo "==== 7 passed in 1.23s ===="; fi
if [ "${0##*/}" = container-lab.sh ]; then
    echo "played by: $(readlink -f "$(command -v ansible-playbook)")"
    echo "noted in: $MOLECULE_EPHEMERAL_DIRECTORY"
fi
for word in $FAILING; do
    if [[ "$said" == *"$word"* ]]; then exit 1; fi
done
"""
PROGRAMS = (
    *(".venv-test/bin/" + name for name in ("ruff", "mypy", "vermin", "yamllint", "ansible-lint", "reuse")),
    *(".venv-test/bin/" + name for name in ("antsibull-changelog", "biome", "codespell", "pytest", "python")),
    ".venv-test/bin/rumdl",
    ".venv-test/bin/ansible-playbook",
    *(".venv-docs/bin/" + name for name in ("antsibull-docs", "python", "sphinx-build")),
    *(f".venv-{age}/bin/{name}" for age in ("newest", "oldest") for name in ("pytest", "ansible-playbook")),
    *("tools/" + name for name in ("venv.sh", "ansible-test.sh", "container-lab.sh", "ee-lint.sh")),
)
#: The end of what `pytest --durations=10` prints, with a test that fails where FAILING says so
SLOW = """#!/bin/bash
echo "called: pytest $*"
echo "==== slowest 10 durations ===="
for at in {1..10}; do echo "$((11 - at)).00s call     $2.py::test_$at[a = b]"; done
echo
echo "(2 durations < 0.005s hidden.  Use -vv to show these durations.)"
if [ -n "$FAILING" ] && [[ "$*" == *"$FAILING"* ]]; then
    echo "==== short test summary info ===="
    echo "FAILED $2.py::test_1"
    echo "==== 1 failed, 6 passed in 1.23s ===="
    exit 1
fi
echo "==== 7 passed in 1.23s ===="
"""
LAB = "test-lab:\n\t$(call step,the lab)\n\t@.venv-test/bin/pytest tests/lab\n"

SCENARIOS = sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    for path in ("Makefile", ".ci/run", "tools/steps.sh", "tools/slowest.sh", "tools/one_run.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        if (ROOT / path).exists():
            shutil.copy(ROOT / path, tmp_path / path)
    for path in PROGRAMS:
        put(tmp_path / path, PROGRAM)
    put(tmp_path / "tools/python.sh", "#!/bin/sh\n")  # no Python 3.8 here
    for name in ("run", "var/lib"):
        (tmp_path / "machine" / name).mkdir(parents=True)
    (tmp_path / "tests/lab").mkdir(parents=True)
    (tmp_path / "tests/lab/lab.mk").write_text(LAB)
    return tmp_path


@pytest.fixture
def shorter(checkout: pathlib.Path) -> pathlib.Path:
    """With a few steps of each kind, for what is about the end of a run: each step is a start of make."""
    path = checkout / "Makefile"
    text = path.read_text(encoding="utf-8")
    lists = {"LINT :=": "vermin yamllint", "SCENARIOS ?=": "drift"}
    for name, steps in lists.items():
        text, count = re.subn(rf"^{re.escape(name)} .*", f"{name} {steps}", text, flags=re.MULTILINE)
        assert count == 1, name
    path.write_text(text, encoding="utf-8")
    return checkout


def put(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(checkout: pathlib.Path, *command: str, failing: str = "", **more: str) -> tuple[int, list[str]]:
    # This may be a step of `make test` itself, which hands its flags on.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "MLNODE_"))
    }
    done = subprocess.run(
        command,
        cwd=checkout,
        env={**environment, "FAILING": failing, "ONE_RUN_ROOT": str(checkout / "machine"), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def calls(lines: list[str]) -> list[str]:
    return [line.removeprefix("called: ") for line in lines if line.startswith("called: ")]


def last(lines: list[str], number: int) -> list[str]:
    """Without the time of day."""
    return [re.sub(r"\[[0-9:]+\] ", "", line) for line in lines[-number:]]


def gates(lines: list[str]) -> list[str]:
    """The programs without those that make an environment."""
    return [call for call in calls(lines) if not call.startswith("venv.sh")]


def test_every_step_is_made_whatever_fails(checkout: pathlib.Path) -> None:
    code, lines = run(checkout, "make", "test")
    assert code == 0, lines
    assert lines[-11] == "--- seconds of the longest steps:"
    assert all(re.match(r" +\d+ s  [a-z-]+$", line) for line in lines[-10:])
    every = gates(lines)
    for scenario in SCENARIOS:
        assert any(f"molecule test -s {scenario}" in call for call in every), scenario
    scripts = ("ansible-test.sh", "ee-lint.sh")
    for begin in ("ruff", "mypy", "reuse", "python tools/english.py", "sphinx-build", *scripts, "pytest -q"):
        assert any(call.startswith(begin) for call in every), begin
    for part in ("--cov", "tests/system"):
        assert any(part in call for call in every), part

    code, lines = run(checkout, "make", "test", failing="vermin default ansible-test.sh --cov")

    assert code == 2
    # Some are made beside others.
    assert sorted(gates(lines)) == sorted(every)
    named = "==> failed: vermin images sanity pytest molecule-default"
    assert [line for line in last(lines, 2) if line.startswith("==>")] == [named]


@cases.table
def test_a_part_of_it_does_the_same(checkout: pathlib.Path, target: str, failing: str, named: str) -> None:
    _code, whole = run(checkout, "make", *target.split())
    code, lines = run(checkout, "make", *target.split(), failing=failing)
    assert (code, gates(lines)) == (2 if named else 0, gates(whole))
    found = [line for line in last(lines, 2) if "failed: " in line]
    assert found == ([f"==> failed: {named}"] if named else [])


@cases.table
def test_a_scenario_is_played_with_one_of_the_supported_versions(
    checkout: pathlib.Path, command: str, played: str
) -> None:
    code, lines = run(checkout, "make", *command.split())

    assert code == 0, lines
    assert f"played by: {checkout}/.venv-{played}/bin/ansible-playbook" in lines
    assert any(call.startswith(f"venv.sh .venv-{played} ") for call in calls(lines))
    # A run that was killed left no notes for the next one.
    [notes] = [line.removeprefix("noted in: ") for line in lines if line.startswith("noted in: ")]
    assert notes.startswith(tempfile.gettempdir())
    assert not pathlib.Path(notes).parent.exists()


@pytest.mark.parametrize("target", ["pytest", "system", "test-lab"])
def test_only_long_adds_the_tests_that_take_minutes(checkout: pathlib.Path, target: str) -> None:
    shutil.copy(ROOT / "tests/lab/lab.mk", checkout / "tests/lab")
    for given, left_out in (("", True), ("1", False)):
        code, lines = run(checkout, "make", target, LONG=given)
        assert code == 0, lines
        [call] = [call for call in calls(lines) if call.startswith("pytest ")]
        assert ("-m not long" in call) is left_out


def test_without_python_3_8_the_library_is_not_run_on_it(checkout: pathlib.Path) -> None:
    code, lines = run(checkout, "make", "unit-node")

    assert code == 0, lines
    assert len([line for line in lines if line.startswith("skipped: ")]) == 1
    assert not any(call.startswith("pytest") for call in calls(lines))


@pytest.mark.parametrize(("machine", "called"), [("x86_64", True), ("aarch64", False)])
def test_biome_is_run_where_there_is_a_wheel_of_it(
    checkout: pathlib.Path, machine: str, called: bool
) -> None:
    put(checkout / ".venv-test/bin/uname", f"#!/bin/sh\necho Linux {machine}\n")
    code, lines = run(checkout, "make", "biome")

    assert code == 0, lines
    assert ("biome lint --error-on-warnings" in calls(lines)) == called
    assert any(line.startswith("skipped: ") for line in lines) != called


def test_what_pre_commit_runs_is_a_part_of_lint() -> None:
    [hooks] = [one["hooks"] for one in load(".pre-commit-config.yaml")["repos"]]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lint = next(line for line in makefile.splitlines() if line.startswith("LINT := ")).split()

    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= {*lint}


@pytest.mark.parametrize(
    ("target", "goes_alone"),
    [
        *(
            (target, True)
            for target in ("test", "machine", "system", "molecule", "molecule-default", "images")
        ),
        *((target, True) for target in ("bench", "site", "drift", "revert")),
        *((target, False) for target in ("lint", "unit", "pytest", "unit-oldest", "docs")),
        # Not this machine
        ("site INVENTORY=hosts.yml", False),
    ],
)
def test_what_may_change_the_machine_goes_alone(
    checkout: pathlib.Path, target: str, goes_alone: bool
) -> None:
    for name in (".venv/bin/python", ".venv/bin/ansible-playbook", ".venv-bench/bin/python"):
        put(checkout / name, PROGRAM)
    other = [sys.executable, "tools/one_run.py", "--name", "make elsewhere", "sleep", "60"]
    environment = {**os.environ, "ONE_RUN_ROOT": str(checkout / "machine")}
    environment.pop("MLNODE_RUN", None)
    with subprocess.Popen(other, cwd=checkout, env=environment) as process:
        try:
            while not (checkout / "machine/var/lib/mlnode-tests/run.json").exists():
                time.sleep(0.02)
            code, lines = run(checkout, "make", *target.split(), MLNODE_WAIT="0")
        finally:
            process.terminate()
    assert (code == 0) is not goes_alone, lines
    assert any("under way on this machine: make elsewhere (PID" in line for line in lines) is goes_alone
    if goes_alone:
        assert gates(lines) == []


def test_without_an_environment_nothing_is_tried(checkout: pathlib.Path) -> None:
    code, lines = run(checkout, "make", "test", failing="venv.sh")
    assert code == 2
    assert gates(lines) == []


def test_ci_ends_with_the_steps_that_failed_and_the_summary(shorter: pathlib.Path) -> None:
    code, lines = run(shorter, ".ci/run", failing="vermin yamllint")
    assert code == 2
    assert last(lines, 2) == ["==> make test: failed: vermin yamllint", "==== 7 passed in 1.23s ===="]
    assert "pytest tests/lab" not in calls(lines)


def test_ci_goes_on_to_the_lab_where_all_is_well(shorter: pathlib.Path) -> None:
    code, lines = run(shorter, ".ci/run")
    assert (code, calls(lines)[-1]) == (0, "pytest tests/lab")


def test_the_slowest_tests_are_the_last_that_make_prints(shorter: pathlib.Path) -> None:
    for environment in ("test", "newest"):
        put(shorter / f".venv-{environment}/bin/pytest", SLOW)
    code, lines = run(shorter, "make", "test")
    assert code == 0, lines
    assert {"--- the slowest tests of pytest:", "--- the slowest tests of machine:"} <= {*lines}
    listed = [f"    {11 - at}.00s call     2.py::test_{at}[a = b]" for at in range(1, 11)]
    assert lines[-11:] == ["    ==== slowest 10 durations ====", *listed]


def test_ci_ends_with_the_slowest_tests_of_both_parts(shorter: pathlib.Path) -> None:
    for environment in ("test", "newest"):
        put(shorter / f".venv-{environment}/bin/pytest", SLOW)
    parts = ["1.py", "2.py", "tests/lab.py"]
    blocks = [
        [
            "==== slowest 10 durations ====",
            *(f"{11 - at}.00s call     {part}::test_{at}[a = b]" for at in range(1, 11)),
        ]
        for part in parts
    ]
    (shorter / "tests/lab/lab.mk").write_text(LAB.replace("pytest tests/lab", "pytest -v tests/lab"))

    code, lines = run(shorter, ".ci/run")
    assert (code, lines[-44:]) == (0, [*blocks[0], *blocks[1], *blocks[1], *blocks[2]])

    code, lines = run(shorter, ".ci/run", failing="tests/lab")
    assert code == 2
    assert lines[-47:-3] == [*blocks[0], *blocks[1], *blocks[1], *blocks[2]]
    summary = "==== 1 failed, 6 passed in 1.23s ===="
    assert last(lines, 3) == ["==> make test-lab: the lab", "FAILED tests/lab.py::test_1", summary]

    for failing, step in (("--cov", "pytest"), ("--ignore", "system")):
        code, lines = run(shorter, ".ci/run", failing=failing)
        assert code == 2
        assert lines[-36:-3] == [*blocks[0], *blocks[1], *blocks[1]]
        assert last(lines, 3) == [f"==> make test: failed: {step}", "FAILED 2.py::test_1", summary]


def test_the_first_commands_of_the_readme_are_those_of_make() -> None:
    """In their order: a reader sees what would change before anything is changed."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pattern = r"^\$ ansible-playbook mlnode\.tuning\.(\w+)(.*?) +# make ([a-z]+)"
    commands = re.findall(pattern, readme, re.MULTILINE)

    assert [target for _name, _options, target in commands] == ["preview", "site", "drift", "revert"]
    for name, options, target in commands:
        recipe = f"\t@$(play) playbooks/{name}.yml{options} $(ARGS)\n"
        assert re.search(rf"^{target}: env ## [^\n]+\n{re.escape(recipe)}", makefile, re.MULTILINE), target
    # And in the text
    named = {*re.findall(r"(?:`|# )make ([a-z-]+)", readme)}
    assert named - {*re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)} == set()
