# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of one declaration, or none: write, read back, and roll back on a failure."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, Callable, Protocol, Sequence

from ..host import places
from ..host.host import Host
from ..model.errors import GoneError, HostError, MlnodeError, TransactionError, UnansweredError
from . import answers, lock
from .origin import Entry, Origin
from .restore import restore
from .steps import FileWrite, LinkWrite, Notify, Step, UnitWrite, refuse_read_only

#: The agent's command, as its origin names it, and the units that start it
_PROGRAM, _UNITS = f"file:{places.AGENT_COMMAND}", places.READERS[0]


def _unarmed(_entries: Sequence[Entry], _fresh: Sequence[Entry]) -> None:
    """Do nothing: there is nothing to prepare."""


def _unchecked() -> None:
    """Do nothing: each step reads back its own write."""


#: Steps that change files of the system, or a service's view of them
_OF_FILES = (FileWrite, LinkWrite, Notify)

#: Called with the origins of all steps so far, and the new ones among them
Arm = Callable[[Sequence[Entry], Sequence[Entry]], Any]


class Waiting(Protocol):
    """A change that is undone unless it is confirmed. left: time to confirm, in seconds. text: the whole
    message."""

    @property
    def id(self) -> str: ...

    @property
    def left(self) -> int: ...

    @property
    def text(self) -> str: ...


class Transaction:
    """Steps in stages: the effect of one stage is read before the next is planned. All steps, or none.

    A context manager: an error inside it rolls back all performed steps, and becomes a TransactionError that
    lists the rollback.
    """

    def __init__(
        self, host: Host, origin: Origin, arm: Arm = _unarmed, notify: bool = True, gone_ends: bool = True
    ) -> None:
        """arm: called in each stage before the first step with a risk, else before the first; once it has
        returned True, before each further stage. notify: False in an image build, whose running daemons are
        the build host's. gone_ends: False if the loss of a device must not stop the writes to others, as its
        rows are read again."""
        self._host = host
        self._origin = origin
        self._arm = arm
        self._notify = notify
        self._gone_ends = gone_ends
        self._armed = False
        self._settled: set[str] = set()
        self._begun: list[Entry] = []
        self._fresh: list[Entry] = []
        self._notified: list[str] = []
        self._key = ""

    def __enter__(self) -> Transaction:
        self._origin.begin()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if error is not None and (self._begun or self._fresh or self._notified):
            self._undo(error)

    def perform(
        self,
        steps: Sequence[Step],
        known: Sequence[Entry] = (),
        check: Callable[[], None] = _unchecked,
        settled: bool = False,
        notify: bool = True,
    ) -> bool:
        """Perform one stage in order; True if anything was written. Raises MlnodeError.

        known: right settings whose origin must be kept all the same. check: called after all steps, before
        any daemon is notified; an exception from it undoes them. settled: an armed undo keeps these steps, as
        it needs them, such as its own program. notify: False if a later stage notifies the daemons.
        """
        entries = [step.entries(self._host) for step in steps]
        stage = [entry for of_step in entries for entry in of_step]
        self._remember(stage, steps, known)
        if settled:
            self._settled |= {str(entry["id"]) for entry in stage}
        risks = (at for at, step in enumerate(steps) if isinstance(step, UnitWrite) and step.risky)
        first = 0 if self._armed else next(risks, 0)
        begun = [*self._begun]
        early = sum(getattr(step, "first", False) for step in steps)
        for number, (step, of_step) in enumerate(zip(steps, entries)):
            if number == early:
                self._tell(steps[:early])
            if number == first:
                self._armed = bool(self._arm(*self._at_stake(begun, stage))) or self._armed
            # The failed step itself may have had half an effect, so it is put back too.
            self._begun += of_step
            self._key = step.key
            try:
                step.perform(self._host)
            except GoneError:
                if self._gone_ends:
                    raise
        check()
        if notify:
            self._tell(steps[early:] if early < len(steps) else steps)
        if steps:
            self._host.forget(files=any(isinstance(step, _OF_FILES) for step in steps))
        return bool(steps)

    def _tell(self, steps: Sequence[Step]) -> None:
        """Notify the readers of the files of these steps. Raises MlnodeError."""
        for name in _readers(steps) if self._notify else []:
            self._notified.append(name)
            _notify(self._host, name)

    def _at_stake(self, begun: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Entries for an undo to put back, and the new entries among them."""
        entries = [entry for entry in (*begun, *new) if str(entry["id"]) not in self._settled]
        return entries, [entry for entry in self._fresh if str(entry["id"]) not in self._settled]

    def foresee(self, steps: Sequence[Step], known: Sequence[Entry] = ()) -> None:
        """Keep the origin of all probable writes of the stages, before the first stage. Raises MlnodeError;
        nothing is done then."""
        self._remember([entry for step in steps for entry in step.entries(self._host)], steps, known)

    def _remember(self, entries: Sequence[Entry], steps: Sequence[Step], known: Sequence[Entry]) -> None:
        refuse_read_only(self._host, steps)
        # Modules first: the rollback, in reverse, restores a value before it unloads the module.
        wanted = sorted([*known, *entries], key=lambda entry: "module" not in entry)
        writes = {step.path: step.content for step in steps if isinstance(step, FileWrite)}
        self._fresh += self._origin.remember(wanted, writes)

    def _stop_agent(self) -> None:
        """Stop all starters of a program that is about to be removed: NICs whose queues go back, and
        timers."""
        is_new = any(entry["id"] == _PROGRAM and entry["saved"] is None for entry in self._begun)
        if is_new and _UNITS in self._notified:
            with suppress(HostError):  # notify_again() tries the same, and its error is reported
                import_module(f"{__package__}.handlers").stop_agent(self._host)

    def _undo(self, error: BaseException) -> None:
        first = [entry for entry in self._begun if str(entry["id"]) not in self._settled]
        self._stop_agent()
        undone, stuck = roll_back(self._host, first)
        # An armed undo tries once more, with the program installed by this run.
        if not (stuck and self._armed):
            last = [entry for entry in self._begun if str(entry["id"]) in self._settled]
            more, failed = roll_back(self._host, last)
            undone, stuck = [*undone, *more], [*stuck, *failed]
        stuck += notify_again(self._host, self._notified)
        self._host.forget()
        stuck += self._unnoted()
        if not stuck:
            # Nothing of this run is left: a later first change must record a new origin.
            stuck = _forget(self._origin, self._fresh)
        if isinstance(error, MlnodeError) or stuck:
            cause = str(error) or type(error).__name__
            where = f"{self._key}: " if self._key else ""
            raise TransactionError(f"{where}{cause}", undone, stuck) from error

    def _unnoted(self) -> list[str]:
        """Forget the answers of devices from this run: the next run asks them in its own state."""
        ids = (str(entry["id"]).partition(":") for entry in self._begun)
        try:
            answers.forget(self._host, [path for sort, _colon, path in ids if sort == "kernel"])
        except HostError as error:
            return [f"the notes about devices ({error})"]
        return []


def run(
    host: Host,
    origin: Origin,
    steps: Sequence[Step],
    known: Sequence[Entry] = (),
    arm: Arm = _unarmed,
    notify: bool = True,
    check: Callable[[], None] = _unchecked,
) -> None:
    """Perform a transaction of one stage. Raises TransactionError with the rollback."""
    with Transaction(host, origin, arm, notify) as work:
        work.perform(steps, known, check)


def roll_back(host: Host, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Put back entries, newest first. Returns the restored ones, and the failures with their reasons."""
    undone: list[str] = []
    stuck: list[str] = []
    todo = [*reversed(entries)]
    # Two passes, as a device may refuse until another one is back: the MTU of a VLAN before its NIC's.
    for _turn in range(2):
        again: list[Entry] = []
        stuck = []
        for entry in todo:
            try:
                restored = f"{entry['key']} = {entry['value']}"
                if restore(host, entry) and restored not in undone:
                    undone.append(restored)
            except BaseException as error:  # noqa: BLE001  # a second interrupt: the others still go back
                again.append(entry)
                stuck.append(f"{entry['key']} ({str(error) or type(error).__name__})")
        todo = again
    return undone, stuck


def notify_again(host: Host, names: Sequence[str]) -> list[str]:
    """Notify the readers of new files that the old ones are back."""
    stuck: list[str] = []
    for name in names:
        try:
            _notify(host, name)
        except MlnodeError as error:
            stuck.append(str(error))
    return stuck


def _forget(origin: Origin, entries: list[Entry]) -> list[str]:
    try:
        origin.take_back(entries)
    except HostError as error:
        return [f"the record of the original state ({error})"]
    return []


def _readers(steps: Sequence[Step]) -> list[str]:
    """Services to be notified of their files, without duplicates, in their order."""
    names = (getattr(step, "notify", "") for step in steps)
    return list(dict.fromkeys(name for name in names if name))


def _notify(host: Host, name: str) -> None:
    """Notify a service. A failure to learn the result undoes nothing: the run reports it. Raises
    HostError."""
    try:
        # By its name: the writer of such a file packages it.
        import_module(f"{__package__}.handlers").run(host, name)
    except UnansweredError as error:
        lock.add_note(host, lock.Note.of_this_process(name, lock.UNKNOWN, str(error)))
