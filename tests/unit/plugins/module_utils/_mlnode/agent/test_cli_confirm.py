# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode confirm` and `mlnode undo`, and what `status` and `check` tell of changes that wait."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
from typing import Callable, Iterator, Sequence, Tuple

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Live, Machine
from mlnode.agent import cli
from mlnode.agent import install as agent
from mlnode.engine import confirm, confirm_store, transaction
from mlnode.engine.engine import Request
from mlnode.engine.lock import locked
from mlnode.engine.origin import Entry, Origin
from mlnode.engine.steps import KernelWrite
from mlnode.host import detached
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import KnobFile, Write

MAPS = "/proc/sys/vm/max_map_count"

Run = Callable[..., Tuple[int, str, str]]


@pytest.fixture
def live(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What main() finds below /, as it is declared to be. A restore is started in words only."""
    here = Live.debian(str(tmp_path / "live"))
    monkeypatch.setattr(cli, "Host", lambda root, _mounts: {"/": here}[root])
    monkeypatch.setattr(detached, "start", lambda work: None)
    door.apply(here, Request("one", sysctl, {"settings": {"vm.swappiness": 1}}))
    return here


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield call
    for number, handler in before.items():
        signal.signal(number, handler)


def change(machine: Machine) -> str:
    """A change that waits; its id."""
    armed: list[confirm_store.Pending] = []

    def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
        armed.append(confirm.arm(machine, "one", 60, entries, fresh, "it interrupts eth0"))

    step = KernelWrite("vm.max_map_count", KnobFile(0, MAPS, "65530", "1", (Write(MAPS, "65530"),)))
    with locked(machine):
        transaction.run(machine, Origin.load(machine), [step], arm=arm)
    return armed[0].id


def test_a_change_is_kept_by_its_id(live: Machine, run: Run) -> None:
    known = change(live)

    assert run("confirm", known) == (cli.OK, f"{known} is confirmed\n", "")
    assert run("confirm", known) == (cli.OK, f"{known} had been confirmed before\n", "")
    assert live.now(MAPS) == "1"
    assert run("status")[2] == ""


def test_a_change_is_undone_by_its_id_and_told_until_somebody_has_heard_of_it(
    live: Machine, run: Run
) -> None:
    known = change(live)

    status, out, err = run("undo", known)

    assert (status, err) == (cli.OK, "")
    assert out.startswith("the change of one (it interrupts eth0) was undone at ")
    assert live.now(MAPS) == "65530"
    assert run("undo", known) == (cli.OK, out, "")
    for command in ("status", "check"):
        assert run(command)[2] == f"mlnode: {out}"
    assert run("confirm", known) == (cli.ERROR, "", f"mlnode: {out}")


def test_a_timer_that_finds_nothing_due_says_nothing_and_is_no_error(
    live: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = change(live)
    monkeypatch.setattr(confirm.time, "sleep", lambda _seconds: confirm.confirm(live, known))

    assert run("undo", "--when-due", known) == (cli.OK, "", "")
    assert live.now(MAPS) == "1"
    assert run("undo", "--when-due", known) == (cli.OK, "", "")


def test_a_timer_undoes_what_is_due(live: Machine, run: Run) -> None:
    known = change(live)
    document = json.loads(live.read(confirm_store.PENDING))
    live.put(confirm_store.PENDING, json.dumps({**document, "due": document["due"] - 60}), 0o600)

    status, out, err = run("undo", "--when-due", known)

    assert (status, err) == (cli.OK, "")
    assert "as it was not confirmed over a new connection within 60 s: the old values are back" in out
    assert live.now(MAPS) == "65530"


def test_an_undo_that_is_not_complete_is_an_error(
    live: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "STUBBORN", 0.0)
    known = change(live)
    live.fails[MAPS] = 5

    status, out, err = run("undo", known)

    assert (status, out) == (cli.ERROR, "")
    assert "COULD NOT be put back: vm.max_map_count (cannot write '65530'" in err


@pytest.mark.parametrize("command", ["confirm", "undo"])
def test_an_id_under_which_nothing_waits_is_an_error(live: Machine, run: Run, command: str) -> None:
    before = live.tree()

    assert run(command, "abcdef01") == (
        cli.ERROR, "", "mlnode: no change waits to be confirmed as 'abcdef01'\n",
    )  # fmt: skip
    assert live.tree() == before


@pytest.mark.parametrize("command", ["status", "check"])
def test_what_waits_is_told_beside_the_table(live: Machine, run: Run, command: str) -> None:
    known = change(live)

    status, out, err = run(command)

    assert status == cli.OK
    assert out.endswith("1 setting: 1 ok\n")
    assert err.startswith("mlnode: a change of one (it interrupts eth0) waits to be confirmed until ")
    assert f"`mlnode confirm {known}`" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["status", "check"])
def test_json_stays_json(live: Machine, run: Run, command: str) -> None:
    change(live)

    status, out, err = run(command, "--json")

    assert (status, json.loads(out)["compliant"]) == (cli.OK, True)
    assert "waits to be confirmed" in err


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_damaged_record_is_told_and_the_table_is_still_shown(live: Machine, run: Run, command: str) -> None:
    live.put(confirm_store.PENDING, "{")
    live.put(confirm_store.UNDONE, "{")

    status, out, err = run(command)

    assert status == cli.OK
    assert out.endswith("1 setting: 1 ok\n")
    assert [confirm_store.PENDING in line or confirm_store.UNDONE in line for line in err.splitlines()] == [
        True,
        True,
    ]


def test_the_installed_agent_can_be_asked_whether_it_knows_how_to_undo(tmp_path: pathlib.Path) -> None:
    """As confirm.arm() asks it. Its zip has to hold all that an undo needs."""
    path = tmp_path / "mlnode"
    path.write_bytes(agent.build(sys.executable))
    path.chmod(0o755)

    done = subprocess.run(
        [path, "undo", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"COLUMNS": "20"},
    )

    assert done.returncode == 0
    assert confirm._WHEN_DUE in done.stdout
