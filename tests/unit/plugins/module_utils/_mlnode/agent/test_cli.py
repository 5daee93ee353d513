# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Iterator, Tuple

import ansible_collections
import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Live, Machine
from mlnode.agent import cli
from mlnode.agent import install as agent
from mlnode.engine import origin_paths
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.version import VERSION

ROOT = pathlib.Path(__file__).parents[6]
SCHEMAS = ROOT / "docs" / "schema"
SWAPPINESS = "/proc/sys/vm/swappiness"
DECLARED = "/etc/mlnode/declared.d"

#: One setting of each sort: exact, floor, formula, empty, freed, without a kernel file
SETTINGS: dict[str, Any] = {
    "vm.swappiness": 1,
    "vm.max_map_count": {"at_least": 1048576},
    "net.core.rmem_max": "auto",
    "net.ipv4.ip_local_reserved_ports": "",
    "net.ipv4.conf.eth0/100.rp_filter": 2,
    "vm.dirty_ratio": None,
    "kernel.no_such_knob": 1,
}

Run = Callable[..., Tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """main() takes over SIGTERM; the test run gets its own handler back."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def tuned(machine: Machine) -> Machine:
    """A node that is what it is declared to be, agent included."""
    machine.enable_agent()
    door.apply(machine, Request("training", thp, {"enabled": "madvise"}))
    door.apply(machine, door.request("training", "sysctl", {"settings": SETTINGS}))
    return machine


@pytest.fixture
def live(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What main() finds below /."""
    here = Live.debian(str(tmp_path / "live"))
    monkeypatch.setattr(cli, "Host", lambda root, _mounts: {"/": here}[root])
    return here


def declare(machine: Machine, name: str, **kinds: Any) -> None:
    document = {"format": 1, "name": name, "kinds": kinds}
    machine.put(f"{DECLARED}/{name}.json", json.dumps(document))


def schema(name: str) -> jsonschema.Draft202012Validator:
    content = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def zipped(tmp_path: pathlib.Path, interpreter: str = sys.executable) -> str:
    """The agent as a node has it: one executable file."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build(interpreter))
    path.chmod(0o755)
    return str(path)


# -- exit status ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_node_as_declared_ends_with_0(tuned: Machine, run: Run, command: str) -> None:
    status, out, err = run(command, "--root", tuned.root)

    assert (status, err) == (cli.OK, "")
    assert out.endswith("8 settings: 7 ok, 1 unsupported\n")


@pytest.mark.parametrize("command", ["status", "check"])
def test_drift_ends_with_3(tuned: Machine, run: Run, command: str) -> None:
    tuned.put(SWAPPINESS, "60\n")

    status, out, err = run(command, "--root", tuned.root)

    assert (status, err) == (cli.DRIFT, "")
    assert re.search(r"^vm\.swappiness +1 +60 +1 +drifted +runtime is 60$", out, re.MULTILINE)


def test_status_lists_everything_and_check_only_what_is_not_as_declared(tuned: Machine, run: Run) -> None:
    tuned.put(SWAPPINESS, "60\n")

    listed = [line.split()[0] for line in run("status", "--root", tuned.root)[1].splitlines() if line]
    checked = [line.split()[0] for line in run("check", "--root", tuned.root)[1].splitlines() if line]
    everything = [
        line.split()[0] for line in run("check", "--all", "--root", tuned.root)[1].splitlines() if line
    ]

    # vm.dirty_ratio is left untouched, so it is no setting of this node.
    declared = ["thp.enabled", *(key for key, value in SETTINGS.items() if value is not None)]
    assert listed == ["PARAMETER", "agent.boot", *declared, "8"]
    assert checked == ["PARAMETER", "vm.swappiness", "8"]
    assert everything == ["PARAMETER", "vm.swappiness", "kernel.no_such_knob", "8"]


def test_check_of_a_node_without_any_deviation_prints_no_table(machine: Machine, run: Run) -> None:
    door.apply(machine, Request("one", sysctl, {"settings": {"vm.swappiness": 1}}))

    assert run("check", "--root", machine.root) == (cli.OK, "1 setting: 1 ok\n", "")


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_node_that_declares_nothing_is_an_error_in_clear_words(
    machine: Machine, run: Run, command: str
) -> None:
    status, out, err = run(command, "--root", machine.root)

    assert (status, out) == (cli.ERROR, "")
    assert err == f"mlnode: nothing is declared on this node: {DECLARED} holds no declaration\n"


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', "\udcff"])
def test_a_damaged_declaration_is_named_and_the_others_are_still_shown(
    tuned: Machine, run: Run, content: str
) -> None:
    path = f"{DECLARED}/broken.json"
    tuned.put(path, "")
    pathlib.Path(tuned.root + path).write_bytes(content.encode("utf-8", "surrogateescape"))

    status, out, err = run("status", "--root", tuned.root)

    assert status == cli.ERROR
    assert err.startswith(f"mlnode: {path}")
    assert len(err.splitlines()) == 1
    assert "8 settings: 7 ok, 1 unsupported" in out
    assert run("explain", "vm.swappiness", "--root", tuned.root)[0] == cli.OK


@cases.table
def test_wrong_usage_ends_with_2_and_shows_how(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (cli.USAGE, "")
    assert err.startswith("usage: mlnode")


@pytest.mark.parametrize("command", ["apply", "revert"])
def test_what_changes_a_machine_is_refused_on_a_captured_tree(tuned: Machine, run: Run, command: str) -> None:
    tuned.put(SWAPPINESS, "60\n")
    before = tuned.tree()

    status, out, err = run(command, "--root", tuned.root)

    assert (status, out) == (cli.USAGE, "")
    assert err == f"mlnode: {command} changes the machine it runs on: --root is for reading only\n"
    assert tuned.tree() == before


@pytest.mark.parametrize("command", [["status"], ["check"], ["topology"], ["explain", "vm.swappiness"]])
def test_a_root_that_is_not_there_is_wrong_usage(
    tmp_path: pathlib.Path, run: Run, command: list[str]
) -> None:
    missing = str(tmp_path / "missing")

    status, out, err = run(*command, "--root", missing)

    assert (status, out) == (cli.USAGE, "")
    assert err == f"mlnode: --root {missing}: no such folder\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in (*cli._COMMANDS, *cli._ABOUT))]
)
def test_help_names_the_exit_statuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    assert ended.value.code == 0
    assert "0 as declared, 1 error, 2 wrong usage, 3 drift" in " ".join(capsys.readouterr().out.split())


# -- JSON ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "check"])
@pytest.mark.parametrize("state", ["right", "drifted", "empty", "damaged"])
def test_the_json_of_a_node_is_what_its_schema_says(
    tuned: Machine, run: Run, command: str, state: str
) -> None:
    if state == "drifted":
        tuned.put(SWAPPINESS, "60\n")
        tuned.put("/etc/sysctl.d/zzz.conf", "vm.max_map_count = 65530\n")
    elif state == "empty":
        tuned.remove(f"{DECLARED}/training.json")
    elif state == "damaged":
        tuned.put(f"{DECLARED}/broken.json", "{")

    status, out, err = run(command, "--json", "--root", tuned.root)
    document = json.loads(out)

    schema("node").validate(document)
    assert err == ""
    assert document["mlnode"] == VERSION
    assert document["changed"] is False
    # The exit status and the document never disagree.
    assert status == {"right": 0, "drifted": 3, "empty": 1, "damaged": 1}[state]
    assert document["compliant"] is (status == 0)
    assert bool(document["errors"]) is (status == 1)
    assert sum(document["summary"].values()) == len(document["settings"])


def test_json_of_check_holds_the_settings_that_are_right_too(tuned: Machine, run: Run) -> None:
    status = json.loads(run("status", "--json", "--root", tuned.root)[1])

    assert json.loads(run("check", "--json", "--root", tuned.root)[1]) == status


@pytest.mark.parametrize(
    "key", ["thp.enabled", *(key for key, value in SETTINGS.items() if value is not None)]
)
def test_the_json_of_an_explanation_is_what_its_schema_says(tuned: Machine, run: Run, key: str) -> None:
    status, out, err = run("explain", key, "--json", "--root", tuned.root)
    document = json.loads(out)

    schema("explain").validate(document)
    assert (status, err) == (cli.OK, "")
    assert document["key"] == key


@pytest.mark.parametrize("name", ["node", "explain", "revert", "audit", "topology"])
def test_every_field_of_a_schema_is_described_and_no_other_is_allowed(name: str) -> None:
    def walk(part: Any, where: str) -> None:
        if not isinstance(part, dict):
            return
        if part.get("type") == "object":
            assert "additionalProperties" in part, where
            if "properties" in part:
                assert part["additionalProperties"] is False, where
                assert sorted(part["required"]) == sorted(part["properties"]), where
        for field, inner in part.get("properties", {}).items():
            assert "$ref" in inner or inner.get("description"), f"{where}.{field}"
            walk(inner, f"{where}.{field}")
        walk(part.get("items"), f"{where}[]")
        for title, inner in part.get("$defs", {}).items():
            walk(inner, f"{where}#{title}")

    walk(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")), name)


# -- apply and revert ----------------------------------------------------------------------


def test_apply_makes_the_node_what_is_declared_and_revert_undoes_it(live: Machine, run: Run) -> None:
    declare(live, "training", sysctl={"settings": {"vm.swappiness": 1}}, thp={"enabled": "madvise"})
    live.enable_agent()
    before = live.tree()

    status, out, err = run("apply")

    assert (status, err) == (cli.OK, "")
    assert re.search(
        r"^thp\.enabled +madvise +madvise +madvise +changed +runtime is always$", out, re.MULTILINE
    )
    assert re.search(r"^vm\.swappiness +1 +1 +1 +changed +runtime is 60; boot: no file", out, re.MULTILINE)
    assert out.endswith("3 settings: 2 changed, 1 ok\n")
    assert live.now(SWAPPINESS) == "1"
    assert run("apply") == (cli.OK, "3 settings: 3 ok\n", "")

    status, out, err = run("revert")

    assert (status, err) == (cli.OK, "")
    undone = ["vm.swappiness: 60", "thp.enabled: always", "3 put back"]
    assert [line for line in out.splitlines() if not line.startswith("/")] == undone
    assert live.tree() == {path: before[path] for path in before if "/var/lib/mlnode" not in path}
    for path in origin_paths.present(live):  # what was put there for this test, and no run
        live.remove(path)
    assert run("revert") == (cli.OK, "nothing to put back\n", "")


def test_json_of_apply_says_that_it_changed_something(live: Machine, run: Run) -> None:
    declare(live, "training", sysctl={"settings": {"vm.swappiness": 1}})

    first = json.loads(run("apply", "--json")[1])
    second = json.loads(run("apply", "--json")[1])

    for document in (first, second):
        schema("node").validate(document)
    assert (first["changed"], first["summary"]) == (True, {"changed": 1})
    assert (second["changed"], second["summary"]) == (False, {"ok": 1})


def test_json_of_revert_is_what_its_schema_says(live: Machine, run: Run) -> None:
    door.apply(live, Request("training", sysctl, {"settings": {"vm.swappiness": 1}}))

    full = json.loads(run("revert", "--json")[1])
    empty = json.loads(run("revert", "--json")[1])

    for document in (full, empty):
        schema("revert").validate(document)
    assert {"key": "vm.swappiness", "value": "60"} in full["reverted"]
    assert {"key": f"{DECLARED}/training.json", "value": "removed"} in full["reverted"]
    assert empty["reverted"] == []
    assert not schema("revert").is_valid({**full, "extra": 1})
    assert not schema("revert").is_valid({**full, "reverted": [{"key": "vm.swappiness"}]})
    assert not schema("revert").is_valid({**full, "reverted": [{"key": "vm.swappiness", "value": 60}]})


def test_apply_tunes_what_it_can_and_ends_with_1(live: Machine, run: Run) -> None:
    declare(live, "bad", thp={"enabled": True})
    declare(live, "good", sysctl={"settings": {"vm.swappiness": 1}})

    status, out, err = run("apply")

    assert status == cli.ERROR
    words = "must be a text, got True, which is a YAML boolean: put the word in quotes"
    assert err == f"mlnode: bad, thp: thp.enabled: {words}\n"
    assert "1 setting: 1 changed" in out
    assert live.now(SWAPPINESS) == "1"


def test_a_revert_that_is_not_complete_ends_with_1_and_keeps_the_rest_for_the_next_try(
    live: Machine, run: Run
) -> None:
    door.apply(live, Request("one", sysctl, {"settings": {"vm.swappiness": 1}}))
    live.fails[SWAPPINESS] = 5

    status, out, err = run("revert")

    assert (status, out) == (cli.ERROR, "")
    assert "not everything could be put back" in err
    assert "COULD NOT be put back: vm.swappiness" in err
    live.fails.clear()
    assert run("revert")[:2] == (cli.OK, "vm.swappiness: 60\n1 put back\n")


def test_an_interrupt_is_told_in_one_line(tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        return 0

    monkeypatch.setitem(cli._COMMANDS, "status", interrupted)

    assert run("status", "--root", tuned.root) == (cli.ERROR, "", "mlnode: interrupted\n")


def test_a_lost_terminal_is_ignored_where_the_caller_asked_for_it(tuned: Machine, run: Run) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run("status", "--root", tuned.root)[0] == cli.OK
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


_SLOW = """\
import signal, sys, time
# A shell's background job ignores the one, nohup the other, and so would every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.path[:0] = {paths!r}
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import cli
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.tests.unit.machine import Live, Machine

class Slow(Machine):
    live = True

    def real(self, path, follow=True):
        return Host(self.root).real(path, follow)

    def write_kernel(self, path, value):
        super().write_kernel(path, value)
        if (path, value) == ("/proc/sys/vm/max_map_count", "1048576"):
            print("half way", flush=True)
            # In short steps: a signal just before a sleep begins would be noticed at its end.
            for step in range(1200):
                time.sleep(0.05)

cli.Host = lambda root, _mounts: Slow({root!r})
sys.exit(cli.main(["apply"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_terminated_apply_puts_back_the_setting_in_work(machine: Machine, number: signal.Signals) -> None:
    declare(machine, "one", sysctl={"settings": {"vm.swappiness": 1, "vm.max_map_count": 1048576}})
    code = _SLOW.format(
        paths=[str(pathlib.Path(path).parent) for path in ansible_collections.__path__], root=machine.root
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "half way\n"
    assert machine.now(SWAPPINESS) == "1"

    child.send_signal(number)
    out, err = child.communicate(timeout=60)

    assert (child.returncode, out) == (cli.ERROR, "")
    assert err == "mlnode: interrupted; the setting in work was put back, run it again for the rest\n"
    assert machine.now("/proc/sys/vm/max_map_count") == "65530"
    assert "zz-mlnode-one.conf" not in str(machine.names("/etc/sysctl.d"))


# -- output --------------------------------------------------------------------------------


def wide_node(machine: Machine) -> None:
    """A node whose reasons are longer than any terminal."""
    machine.put("/etc/sysctl.d/zzz-the-vendor-of-this-machine-knows-better.conf", "vm.swappiness = 60\n")
    door.apply(machine, Request("one", sysctl, {"settings": {"vm.swappiness": 1, "kernel.no_such_knob": 1}}))


def test_without_a_terminal_no_line_is_ever_wrapped(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_node(machine)
    monkeypatch.setenv("COLUMNS", "40")

    lines = run("status", "--root", machine.root)[1].splitlines()

    assert len(lines) == 5
    assert lines[1].endswith("zzz-the-vendor-of-this-machine-knows-better.conf:1 sets 60")
    assert lines[2].endswith("does not exist: this kernel has no such setting")


def test_a_real_terminal_is_asked_for_its_width(tuned: Machine, tmp_path: pathlib.Path) -> None:
    import fcntl
    import struct
    import termios

    command = zipped(tmp_path)
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(
        [command, "check", "--all", "--root", tuned.root],
        stdout=theirs,
        env=environment,
        timeout=60,
        check=False,
    )
    os.close(theirs)
    text = os.read(mine, 65536).decode()
    os.close(mine)

    assert done.returncode == cli.OK
    assert "\r\n    /proc/sys/kernel/no_such_knob does not exist" in text


def test_an_empty_value_and_a_missing_one_look_different(tuned: Machine, run: Run) -> None:
    out = run("status", "--root", tuned.root)[1]

    assert re.search(r'^net\.ipv4\.ip_local_reserved_ports +"" +"" +"" +ok$', out, re.MULTILINE)
    assert re.search(r"^kernel\.no_such_knob +1 +- +- +unsupported ", out, re.MULTILINE)


@cases.table
def test_a_value_of_any_bytes_can_be_shown_on_any_terminal(
    tuned: Machine, tmp_path: pathlib.Path, encoding: str, command: list[str]
) -> None:
    pathlib.Path(tuned.root + SWAPPINESS).write_bytes(b"6\xff\n")

    done = subprocess.run(
        [zipped(tmp_path), *command, "--root", tuned.root],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (cli.DRIFT, b"")
    assert b"6\\udcff" in done.stdout


@pytest.mark.parametrize("rows", [1, 400])
def test_a_closed_pipe_is_no_error(tuned: Machine, tmp_path: pathlib.Path, rows: int) -> None:
    # One row stays in the buffer until the end, 400 do not fit into it.
    names = {f"net.ipv4.conf.eth{number}.rp_filter": 2 for number in range(rows)}
    declare(tuned, "many", sysctl={"settings": names})
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [zipped(tmp_path), "status", "--root", tuned.root],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (cli.OK, b"")


def test_nothing_is_flushed_into_a_closed_pipe_later(tuned: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)

        assert cli.main(["status", "--root", tuned.root]) == cli.OK
        stream.flush()


# -- the agent on the oldest Python of a node -------------------------------------------------


def _oldest_python() -> str:
    """A Python 3.8 or 3.9 that runs: on PATH, or among pyenv's versions, whose shims may only say no."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv") / "versions"
    for minor in (8, 9):
        name = f"python3.{minor}"
        found = shutil.which(name)
        for candidate in [
            *([found] if found else []),
            *map(str, sorted(pyenv.glob(f"3.{minor}*/bin/{name}"))),
        ]:
            code = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
            try:
                done = subprocess.run([candidate, "-c", code], capture_output=True, timeout=60, check=False)
            except OSError:
                continue
            if done.returncode == 0:
                return candidate
    return ""


def test_the_agent_runs_on_the_oldest_python_of_a_node(tuned: Machine, tmp_path: pathlib.Path) -> None:
    python = _oldest_python()
    if not python:
        pytest.skip("there is no working Python 3.8 or 3.9 on this machine")
    tuned.put(SWAPPINESS, "60\n")
    command = zipped(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            # -I: nothing of this test run's own environment; -W error: nothing that goes with the next Python
            [python, "-I", "-W", "error", command, *arguments, "--root", tuned.root],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    status, out, err = call("status")
    assert (status, err) == (cli.DRIFT, "")
    assert "8 settings: 1 drifted, 6 ok, 1 unsupported" in out

    status, out, err = call("check", "--json")
    assert (status, err) == (cli.DRIFT, "")
    schema("node").validate(json.loads(out))

    status, out, err = call("explain", "vm.swappiness")
    assert (status, err) == (cli.DRIFT, "")
    assert out.startswith("key          vm.swappiness\nstatus       drifted\n")
