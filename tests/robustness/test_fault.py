# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every change of every kind fails, for want of room, rights or a working disk: nothing is half done.

The same for sysctl and THP with the words of every message is in test_faults.py of the library.
"""

from __future__ import annotations

import errno
import os
import pathlib
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT, TRIED, half, some
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, failing
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Case, Node, install, made
from mlnode.agent import node as whole
from mlnode.engine import answers, engine, revert
from mlnode.engine.kind import Row
from mlnode.engine.lock import LOCK_PATH
from mlnode.host.system import Finished
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import Layer, Status

from .gates import changes, guarded, hit

pytestmark = pytest.mark.robustness

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)

#: Positions that each kind tries by itself in `make test`, and how full the disk is there
POSITIONS, LEVELS = 2, 1

#: Where files of ours are that the agent writes again
DROP_INS = (
    "/etc/sysctl.d/",
    "/etc/modules-load.d/",
    "/etc/security/",
    "/etc/systemd/",
    "/etc/default/grub.d/",
)

#: Units of the agent, which systemd may not be able to start
STARTS = "run systemctl start mlnode-"

#: Whose devices the agent leaves alone after a change that it had to put back, until a playbook comes
HELD = ("nic", "qos")


def positions(case: Case, probe: Node, work: Callable[[Node], object]) -> Iterator[tuple[int, int]]:
    """Number of a change, and how it fails; each errno in turn, or all with more effort."""
    found = changes(probe, work)
    assert len(found) > 5, "nothing would be tried"
    # EIO of an interrupt is no failure: the kernel says that it places that one itself.
    errnos = [number for number in ERRNOS if (case.kind, number) != ("irq", errno.EIO)]
    for place, position in enumerate(some(range(1, len(found) + 1), POSITIONS)):
        for number in errnos if EFFORT > 1 else [errnos[place % len(errnos)]]:
            yield position, number


def fails(
    machine: Node,
    position: int,
    number: int,
    work: Callable[[Node], object],
    is_done: Callable[[], bool] = lambda: False,
) -> tuple[str, str]:
    """Where the work failed, and what it said; empty where it said nothing. is_done: all is as wanted, as
    what a device refused was tried another way, and the state decides."""
    TRIED["failed calls"] += 1
    with guarded(machine, Gate(position, failing(number))) as gate:
        try:
            work(machine)
        except MlnodeError as error:
            said = str(error)
        else:
            said = ""
    where = hit(gate, machine)
    # To clear away a file that is not there, or an empty folder, is all that may fail unseen; the note of a
    # run in the file of the lock, without which no later run names this one; that systemd forgets a unit
    # whose file is gone; and that the first check does not wait for its timer, or ends at once.
    check = ("start --no-block mlnode-check.service", "stop mlnode-check.service")
    verbs = ("reset-failed ", "stop --job-mode=", *check, "stop mlnode-watch.service")
    forgets = [f"run systemctl {verb}" for verb in verbs]
    notes = [f"{call} {LOCK_PATH}" for call in ("open", "ftruncate", "pwrite")]
    unseen = ("unlink ", "rmdir ", *notes, *forgets)
    assert said or not where or where.startswith(unseen) or is_done(), f"{where}: {errno.errorcode[number]}"
    return f"{position}: {where}: {errno.errorcode[number]}: {said}", said


def forget_answers(machine: Node) -> bool:
    """True if a device has answered to a value, which costs that row alone and is remembered: a boot ends
    that."""
    found = machine.names(answers.FOLDER)
    for name in found:
        os.unlink(f"{machine.root}{answers.FOLDER}/{name}")
    machine.remove_empty(answers.FOLDER)
    machine.forget()
    return bool(found)


def refuse(rows: Sequence[Row]) -> None:
    """As a run of the agent ends. Raises MlnodeError where a row is not as wanted."""
    wrong = [row for row in rows if row.status.is_drift and row.status is not Status.PENDING_REBOOT]
    if wrong:
        raise MlnodeError("; ".join(row.setting.key for row in wrong))


def undo(machine: Node) -> None:
    revert.revert(machine)
    machine.unload()


@pytest.mark.parametrize("kind", half(CASES, 0))
def test_an_apply_that_fails_anywhere_leaves_all_as_it_was(kind: str, folder: pathlib.Path) -> None:
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")
    bare = machine.state()

    def tune(node: Node) -> None:
        refuse(door.apply(node, case.request).rows)

    install(probe)
    for position, number in positions(case, probe, tune):
        install(machine)
        before = machine.state()
        where, said = fails(
            machine, position, number, tune, lambda: not engine.evaluate(machine, case.request).steps
        )
        # A unit that cannot start costs its own row alone, as a value that a device does not take does.
        if not forget_answers(machine) and said and not where.split(": ")[1].startswith(STARTS):
            assert machine.state() == before, where
        tune(machine)
        assert not engine.evaluate(machine, case.request).steps, where
        undo(machine)
        assert machine.state() == bare, f"{where}: after a revert"


@pytest.mark.parametrize("kind", half(CASES, 1))
def test_a_revert_that_fails_anywhere_can_be_repeated(kind: str, folder: pathlib.Path) -> None:
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")
    before = machine.state()
    install(probe)
    door.apply(probe, case.request)
    for position, number in positions(case, probe, revert.revert):
        install(machine)
        door.apply(machine, case.request)
        where, _said = fails(machine, position, number, revert.revert)
        undo(machine)
        if "run modprobe -r" in where:
            # A module that is in use stays, and is not tried again.
            machine.run(["modprobe", "-r", where.split(":")[1].split()[-1]])
        if "rmdir" in where:
            # An empty folder that could not be removed is kept, and not remembered.
            machine.remove_empty("/etc/mlnode/declared.d", "/etc/mlnode", "/var/lib/mlnode")
        machine.forget()
        assert machine.state() == before, where


@pytest.mark.parametrize("kind", half(CASES, 0))
def test_what_fails_at_boot_is_named_and_mended_by_the_next_run(kind: str, folder: pathlib.Path) -> None:
    """The agent goes on with the rest instead of undoing all of it; it never ends without a word."""
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")

    def boot(node: Node) -> None:
        survey = whole.apply_all(node)
        if survey.errors:
            raise MlnodeError("; ".join(survey.errors))
        refuse([item.row for item in survey.rows])

    declare(probe, case)
    for position, number in positions(case, probe, boot):
        declare(machine, case)
        where, said = fails(
            machine, position, number, boot, lambda: not engine.evaluate(machine, case.request).steps
        )
        if not forget_answers(machine) and said and kind in HELD:
            door.apply(machine, case.request)
        else:
            boot(machine)
            assert machine.tuned() == probe.tuned(), where
        assert not engine.evaluate(machine, case.request).steps, where
        undo(machine)


def declare(machine: Node, case: Case) -> None:
    """As an image build does, and then its drop-ins are lost: what is left to the agent is all the rest."""
    install(machine)
    door.apply(machine, case.request._replace(layers=(Layer.BOOT,)))
    for path in sorted(machine.tree()):
        if path.startswith(DROP_INS) and "mlnode" in path and path.endswith((".conf", ".cfg")):
            os.unlink(machine.root + path)
    machine.forget()


# -- a disk that is really full ------------------------------------------------------------


class Filling(Node):
    """The fake kernel and its daemons have room, whatever the disk has."""

    def write_kernel(self, path: str, value: str) -> None:
        with room(resource.RLIM_INFINITY):
            super().write_kernel(path, value)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        with room(resource.RLIM_INFINITY):
            return super().run(command, seconds)


@contextmanager
def room(size: int) -> Iterator[None]:
    """Files of this process end at that size: what is beyond it is cut off in the middle of a write(2), as on
    a full disk, and the next byte fails (EFBIG, as Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", half(CASES, 1))
def test_a_full_disk_leaves_all_as_it_was(kind: str, folder: pathlib.Path) -> None:
    case = CASES[kind]
    machine, probe = made(case, folder / "node"), made(case, folder / "probe")
    machine.__class__ = type("Full", (Filling, type(machine)), {})
    bare = machine.state()
    door.apply(probe, case.request)
    written = [content for path, (content, _mode) in probe.tree().items() if "mlnode" in path]
    refused = 0
    for size in some(range(max(map(len, written))), LEVELS):
        said = ""
        install(machine)
        before = machine.state()
        try:
            TRIED["levels of a full disk"] += 1
            with room(size):
                door.apply(machine, case.request)
        except MlnodeError as error:
            said = str(error)
            refused += 1
        if said:
            assert machine.state() == before, f"files end at {size} bytes: {said}"
        machine.forget()
        door.apply(machine, case.request)
        assert not engine.evaluate(machine, case.request).steps
        undo(machine)
        assert machine.state() == bare
    assert refused
