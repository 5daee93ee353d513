# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What anybody on the machine may have put into a name, a value or a line of a file moves no cursor."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli, drift
from mlnode.engine import confirm_store, declared
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp

from .test_cli import Live

#: A new title, a cleared screen, C1, DEL, an override of the direction, a line of its own
HOSTILE = "\x1b]0;x\x07\x1b[2J\x9b31m\x7f\u202e\u2066\rmlnode: all is well"
SPELLED = r"\x1b]0;x\x07\x1b[2J\x9b31m\x7f\u202e\u2066\rmlnode: all is well"

SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def hostile(machine: Machine) -> Machine:
    """Tuned, with a value, file names, lines and an interface that anybody may have chosen."""
    machine.enable_agent()
    door.apply(machine, Request("default", thp, {"enabled": "madvise"}))
    settings = {"vm.swappiness": 10, "vm.max_map_count": 262144, "kernel.modprobe": "/sbin/modprobe"}
    machine.put("/proc/sys/kernel/modprobe", "/sbin/modprobe\n")
    door.apply(machine, Request("default", sysctl, {"settings": settings}))
    machine.put("/proc/sys/kernel/modprobe", f"/bin/{HOSTILE}\n".replace("\r", ""))
    machine.put(f"/etc/sysctl.d/zzz{HOSTILE}.conf", "vm.swappiness = 7\n")
    machine.put("/etc/sysctl.d/zzz.conf", f"vm.max_map_count = 9 {HOSTILE}\n")
    machine.put(f"/sys/class/net/x{HOSTILE}/operstate", f"{HOSTILE}\n")
    machine.put(f"/sys/class/net/x{HOSTILE}/device/vendor", f"0x{HOSTILE}\n")
    machine.put("/proc/sys/kernel/core_pattern", f"|/bin/{HOSTILE}\n")
    machine.put(f"{declared.FOLDER}/x{HOSTILE}.json", "{")
    machine.put(
        f"{declared.FOLDER}/y.json", json.dumps({"format": 1, "name": "y", "kinds": {HOSTILE: {"a": 1}}})
    )
    return machine


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert [sign for sign in text if not sign.isprintable() and sign != "\n"] == []
    assert not [line for line in text.split("\n") if line.startswith("mlnode: all is well")]
    return text


@cases.table
def test_no_command_prints_what_a_terminal_would_obey(
    hostile: Machine, capsys: pytest.CaptureFixture[str], command: list[str], times: int
) -> None:
    cli.main([*command, "--root", hostile.root])
    assert shown(capsys).count(SPELLED.partition(r"\r")[0]) >= times
    if HOSTILE not in command:
        cli.main([*command, "--root", hostile.root, "--json"])
        captured = capsys.readouterr()
        assert captured.out.isascii()
        assert [sign for sign in captured.out if not sign.isprintable() and sign != "\n"] == []
        assert json.loads(captured.out)


@pytest.fixture
def live(hostile: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What main() finds below /."""
    here = Live(hostile.root)
    monkeypatch.setattr(cli, "Host", lambda root, _mounts: {"/": here}[root])
    return here


def test_nor_do_those_that_change_something(
    live: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm_store, "report", lambda _host: f"undone: {HOSTILE}")
    monkeypatch.setattr(confirm_store, "acknowledge", lambda _host: None)
    live.put(SWAPPINESS, "60\n")
    cli.main(["apply"])
    assert SPELLED in shown(capsys)
    assert live.now(SWAPPINESS) == "10"
    live.put("/proc/sys/kernel/modprobe", "/sbin/modprobe\n")
    assert cli.main(["revert"]) == cli.OK
    assert SPELLED in shown(capsys)


def test_nor_does_the_answer_to_a_controller(hostile: Machine) -> None:
    options = {"fail_at": "low", "ignore": [], "declarations": {}}
    message = drift.answer(hostile, options)["msg"]
    assert SPELLED.partition(r"\r")[0] in message
    assert [sign for sign in message if not sign.isprintable() and sign != "\n"] == []
