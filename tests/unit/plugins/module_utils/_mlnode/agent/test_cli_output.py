# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command prints and where: help, colours, a full device, a closed pipe, a user without rights."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from typing import Any, Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli
from mlnode.engine import origin
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.report import paint

from .test_cli import SWAPPINESS, Run, _signals, declare, live, run, tuned, zipped
from .test_cli_escapes import HOSTILE

__all__ = ["_signals", "live", "run", "tuned"]

Capture = pytest.CaptureFixture[str]

ENOSPC = "mlnode: cannot write the output: ENOSPC (No space left on device)\n"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> str:
    return zipped(tmp_path_factory.mktemp("agent"))


def terminal(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name, value in {"COLUMNS": "120", "TERM": "xterm-256color", "NO_COLOR": "", **environment}.items():
        monkeypatch.setenv(name, value)


# -- help ----------------------------------------------------------------------------------


def test_without_arguments_it_shows_its_help_and_is_no_success(run: Run) -> None:
    status, out, err = run()

    assert (status, out) == (cli.USAGE, "")
    assert err == run("help")[1]


def test_help_is_that_of_the_option(run: Run, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    by_option = capsys.readouterr().out

    assert ended.value.code == cli.OK
    assert run("help") == (cli.OK, by_option, "")
    for name in (*cli._COMMANDS, *cli._ABOUT):
        assert re.search(rf"^    {name}\b", by_option, re.MULTILINE)


@pytest.mark.parametrize("name", [*cli._COMMANDS, *cli._ABOUT])
def test_help_of_a_command_is_that_of_its_option_and_has_at_most_80_columns(
    name: str, run: Run, capsys: Capture
) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    by_option = capsys.readouterr().out

    assert run("help", name) == (cli.OK, by_option, "")
    assert max(map(len, by_option.splitlines())) <= 80


# -- a reader that is gone, and one that cannot take it --------------------------------------


@cases.table
def test_a_full_device_is_an_error_in_one_line(
    command: str, tuned: Machine, arguments: Sequence[str]
) -> None:
    about = arguments[0] in {*cli._ABOUT, "--version"}
    root = [] if about else ["--root", tuned.root]

    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [command, *arguments, *root],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (cli.ERROR, ENOSPC)


@pytest.mark.parametrize("arguments", [["status"], ["help"], ["--help"]], ids=" ".join)
def test_a_closed_output_is_an_error_in_one_line(
    command: str, tuned: Machine, arguments: Sequence[str]
) -> None:
    root = ["--root", tuned.root] if arguments == ["status"] else []
    done = subprocess.run(
        ["bash", "-c", '"$0" "$@" >&-', command, *arguments, *root],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == cli.ERROR
    assert done.stderr == "mlnode: cannot write the output: standard output is closed\n"


@pytest.mark.parametrize(
    "arguments", [["help"], ["--version"], ["man"], ["completion", "bash"]], ids=" ".join
)
def test_a_reader_that_is_gone_is_no_error(command: str, arguments: Sequence[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [command, *arguments], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (cli.OK, b"")


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_a_message_that_cannot_be_written_leaves_the_exit_status(
    command: str, machine: Machine, where: str
) -> None:
    script = f'"$0" "$@" 2>{where}'
    done = subprocess.run(
        ["bash", "-c", script, command, "status", "--root", machine.root],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (cli.ERROR, b"")


def test_a_run_after_one_that_could_not_write_is_a_new_one(
    tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, open("/dev/full", "w", encoding="utf-8") as full:
        patch.setattr(sys, "stdout", full)
        assert cli.main(["status", "--root", tuned.root]) == cli.ERROR

    assert run("status", "--root", tuned.root)[0] == cli.OK


# -- colours -------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["status"], ["check"], ["explain", "vm.swappiness"]], ids=" ".join)
def test_a_terminal_has_colours(
    tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    tuned.put(SWAPPINESS, "60\n")
    terminal(monkeypatch)

    out = run(*arguments, "--root", tuned.root)[1]

    assert paint.painted("drifted") in out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_a_terminal_without_colours_has_the_same_text(
    tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    terminal(monkeypatch)
    coloured = run("status", "--root", tuned.root)[1]
    terminal(monkeypatch, **environment)

    plain = run("status", "--root", tuned.root)[1]

    assert "\x1b" not in plain
    assert re.sub("\x1b\\[[0-9]+m", "", coloured) == plain


@pytest.mark.parametrize("arguments", [["status"], ["audit"], ["explain", "vm.swappiness"]], ids=" ".join)
def test_a_pipe_has_no_colours(
    tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "\x1b" not in run(*arguments, "--root", tuned.root)[1]


@pytest.mark.parametrize("arguments", [["status"], ["explain", "kernel.modprobe"], ["audit"]], ids=" ".join)
def test_colours_let_nothing_of_the_node_through(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    machine.put("/proc/sys/kernel/modprobe", "/sbin/modprobe\n")
    door.apply(machine, Request("one", sysctl, {"settings": {"kernel.modprobe": "/sbin/modprobe"}}))
    machine.put("/proc/sys/kernel/modprobe", f"/bin/\x1b[31mok{HOSTILE}\n".replace("\r", ""))
    machine.put(f"/etc/sysctl.d/zzz{HOSTILE}.conf", f"kernel.modprobe = \x1b[32m{HOSTILE}\n")
    terminal(monkeypatch)

    out = run(*arguments, "--root", machine.root)[1]

    for status in ("drifted", "overridden", "ok", "high", "HIGH", "MEDIUM"):
        out = out.replace(paint.painted(status), status)
    assert [sign for sign in out if not sign.isprintable() and sign != "\n"] == []


# -- width ---------------------------------------------------------------------------------


def test_an_error_on_a_terminal_keeps_to_its_width(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")

    err = run("status", "--root", machine.root)[2]

    assert max(map(len, err.splitlines())) <= 40
    assert " ".join(err.split()).startswith("mlnode: nothing is declared on this node: ")


@cases.table
def test_80_columns_are_enough(
    tuned: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    tuned.put(SWAPPINESS, "60\n")
    tuned.put("/etc/sysctl.d/zzz-the-vendor-of-this-machine-knows-better.conf", "vm.swappiness = 60\n")
    terminal(monkeypatch, COLUMNS="80", NO_COLOR="1")

    out = run(*arguments, "--root", tuned.root)[1]

    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [["audit"], ["topology"], ["nccl"]], ids=" ".join)
@pytest.mark.parametrize("name", ["hgx", "grace"])
def test_80_columns_are_enough_for_a_node_with_rails(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, arguments: Sequence[str]
) -> None:
    terminal(monkeypatch, COLUMNS="80", NO_COLOR="1")

    out = run(*arguments, "--root", build.tree(name))[1]

    assert 0 < max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(("name", "arguments"), [("revert", ()), ("apply", ()), ("undo", ("1",))])
def test_what_it_prints_with_is_imported_before_the_command_is_replaced_or_removed(
    live: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, arguments: Sequence[str]
) -> None:
    declare(live, "one", sysctl={"settings": {"vm.swappiness": 1}})
    seen = []
    monkeypatch.setattr(cli.output, "imported", lambda: seen.append(live.now(SWAPPINESS)))

    run(name, *arguments)

    assert seen == ["60"]


# -- without root --------------------------------------------------------------------------


@pytest.fixture
def user(live: Machine) -> Machine:
    """A tuned node that is looked at by another user: what root alone reads is closed to him."""
    live.enable_agent()
    settings: dict[str, Any] = {"vm.swappiness": 1, "vm.max_map_count": {"at_least": 1048576}}
    door.apply(live, Request("one", sysctl, {"settings": settings}))
    live.superuser = False
    for store in (origin.PATH, origin.COPY):
        live.unreadable[store] = errno.EACCES
    return live


@pytest.mark.parametrize("arguments", [["status"], ["check"], ["explain", "vm.swappiness"]], ids=" ".join)
def test_a_user_who_can_read_all_of_it_sees_what_root_sees(
    user: Machine, run: Run, arguments: Sequence[str]
) -> None:
    before = run(*arguments)

    assert before[0] == cli.OK
    if arguments[0] != "explain":  # which shows the origin
        user.superuser = True
        user.unreadable.clear()
        assert run(*arguments) == before


@pytest.mark.parametrize("path", [SWAPPINESS, "/etc/sysctl.d/zzz-site.conf"])
def test_what_a_user_may_not_read_is_unknown_and_not_drift(user: Machine, run: Run, path: str) -> None:
    if path != SWAPPINESS:
        user.put(path, "vm.swappiness = 10\n")
    user.unreadable[path] = errno.EACCES

    status, out, err = run("check")

    assert status == cli.ERROR
    assert re.search(
        rf"^vm\.swappiness .* unknown +(boot: )?cannot read {path}: EACCES .*root is needed",
        out,
        re.MULTILINE,
    )
    assert "drifted" not in out
    assert err.startswith("mlnode: root is needed to look at vm.swappiness")
    document = json.loads(run("check", "--json")[1])
    assert document["errors"] == [err[len("mlnode: ") : -1]]
    assert document["compliant"] is False
    status, out, err = run("explain", "vm.swappiness")
    assert (status, err) == (cli.ERROR, "mlnode: root is needed to look at vm.swappiness\n")
    assert "unknown" in out


def test_what_the_kernel_cannot_read_is_no_lack_of_rights(user: Machine, run: Run) -> None:
    user.unreadable[SWAPPINESS] = errno.EIO

    status, out, err = run("check")

    assert (status, err) == (cli.DRIFT, "")
    assert "unknown" in out


def test_root_that_is_denied_something_sees_no_advice_to_become_root(user: Machine, run: Run) -> None:
    user.superuser = True
    user.unreadable = {SWAPPINESS: errno.EACCES}

    status, _out, err = run("check")

    assert (status, err) == (cli.DRIFT, "")


def test_a_drift_that_a_user_sees_is_reported_beside_what_he_does_not(user: Machine, run: Run) -> None:
    user.unreadable["/proc/sys/vm/max_map_count"] = errno.EPERM
    user.put(SWAPPINESS, "60\n")

    status, out, err = run("check")

    assert status == cli.ERROR
    assert "2 settings" not in out
    assert re.search(r"^vm\.swappiness .* drifted ", out, re.MULTILINE)
    assert err == "mlnode: root is needed to look at vm.max_map_count\n"


def test_a_declaration_that_a_user_may_not_read_is_named(user: Machine, run: Run) -> None:
    user.unreadable["/etc/mlnode/declared.d/one.json"] = errno.EACCES

    status, out, err = run("check")

    assert (status, out) == (cli.ERROR, "")
    assert "cannot read /etc/mlnode/declared.d/one.json: EACCES (Permission denied; root is needed" in err


@cases.table
def test_what_only_root_can_do_says_so_first(user: Machine, run: Run, arguments: Sequence[str]) -> None:
    before = user.tree()

    status, out, err = run(*arguments)

    name = " ".join(word for word in arguments if word != "1")
    # Of metrics there is something that any user may see.
    other = {"metrics": "cannot write /var/lib/mlnode/check.json: root is needed; --print shows the metrics"}
    expected = other.get(name, f"root is needed for `mlnode {name}`")
    assert (status, out, err) == (cli.ERROR, "", f"mlnode: {expected}\n")
    assert user.tree() == before
