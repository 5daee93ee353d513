# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of one declaration, or none: write, read back, and put everything back on a failure."""

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
from .steps import FileWrite, LinkWrite, Notify, Step, UnitWrite

#: The agent, as its origin names it, and those who start it
_PROGRAM, _UNITS = f"file:{places.AGENT_COMMAND}", places.READERS[0]


def _unarmed(_entries: Sequence[Entry], _fresh: Sequence[Entry]) -> None:
    """Nothing has to be prepared."""


def _unchecked() -> None:
    """Each step has read back what it wrote."""


#: Steps that change files of the system, or what a service has read of them
_OF_FILES = (FileWrite, LinkWrite, Notify)

#: Called with how all steps so far are put back, and what of it is new in the origin
Arm = Callable[[Sequence[Entry], Sequence[Entry]], Any]


class Waiting(Protocol):
    """A change that is undone unless it is confirmed. left: in so many seconds. text: the whole message."""

    @property
    def id(self) -> str: ...

    @property
    def left(self) -> int: ...

    @property
    def text(self) -> str: ...


class Transaction:
    """Steps in stages, where what one stage does is read before the next is planned. All of them, or none.

    A context manager: an error inside it puts back everything that was performed, and becomes a
    TransactionError that names what was rolled back.
    """

    def __init__(
        self, host: Host, origin: Origin, arm: Arm = _unarmed, notify: bool = True, gone_ends: bool = True
    ) -> None:
        """arm: called in each stage before the first step with a risk, else before the first; once it has
        answered True, before each further stage. notify: False in an image build, as the daemons that run
        there are the build host's. gone_ends: False where a device that is taken away meanwhile costs no
        other one its value, as its rows are read again."""
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

        known: things that are right already and whose origin is to be kept all the same. check: called once
        all steps are done, before any daemon is notified of them; what it raises undoes them. settled: an
        armed undo leaves these steps as they are, such as the program that it is made by. notify: False where
        a later stage notifies their daemons.
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
            # The failed step itself may have taken half an effect, so it is put back too.
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
        """Notify those who read the files of these steps. Raises MlnodeError."""
        for name in _readers(steps) if self._notify else []:
            self._notified.append(name)
            _notify(self._host, name)

    def _at_stake(self, begun: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Entries that an undo puts back, and those that are new in the origin."""
        entries = [entry for entry in (*begun, *new) if str(entry["id"]) not in self._settled]
        return entries, [entry for entry in self._fresh if str(entry["id"]) not in self._settled]

    def foresee(self, steps: Sequence[Step], known: Sequence[Entry] = ()) -> None:
        """Keep the origin of all that the stages will probably write, before the first of them. Raises
        MlnodeError; nothing is done then."""
        self._remember([entry for step in steps for entry in step.entries(self._host)], steps, known)

    def _remember(self, entries: Sequence[Entry], steps: Sequence[Step], known: Sequence[Entry]) -> None:
        # Modules first, so that going backwards a value is back before its module is unloaded.
        wanted = sorted([*known, *entries], key=lambda entry: "module" not in entry)
        writes = {step.path: step.content for step in steps if isinstance(step, FileWrite)}
        self._fresh += self._origin.remember(wanted, writes)

    def _stop_agent(self) -> None:
        """Nothing starts a program any more that is about to be removed: a NIC whose queues go back would,
        and so would a timer."""
        is_new = any(entry["id"] == _PROGRAM and entry["saved"] is None for entry in self._begun)
        if is_new and _UNITS in self._notified:
            with suppress(HostError):  # notify_again() tries the same, and its error is reported
                import_module(f"{__package__}.handlers").stop_agent(self._host)

    def _undo(self, error: BaseException) -> None:
        first = [entry for entry in self._begun if str(entry["id"]) not in self._settled]
        self._stop_agent()
        undone, stuck = roll_back(self._host, first)
        # What is armed tries once more, with the program that this run has put there.
        if not (stuck and self._armed):
            last = [entry for entry in self._begun if str(entry["id"]) in self._settled]
            more, failed = roll_back(self._host, last)
            undone, stuck = [*undone, *more], [*stuck, *failed]
        stuck += notify_again(self._host, self._notified)
        self._host.forget()
        stuck += self._unnoted()
        if not stuck:
            # Nothing of this run is left, so a later first change must find a later origin.
            stuck = _forget(self._origin, self._fresh)
        if isinstance(error, MlnodeError) or stuck:
            cause = str(error) or type(error).__name__
            where = f"{self._key}: " if self._key else ""
            raise TransactionError(f"{where}{cause}", undone, stuck) from error

    def _unnoted(self) -> list[str]:
        """Forget what devices have answered meanwhile: the next run asks them in its own state."""
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
    """A transaction of one stage. Raises TransactionError with what was rolled back."""
    with Transaction(host, origin, arm, notify) as work:
        work.perform(steps, known, check)


def roll_back(host: Host, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Newest first. Returns what is back, and what could not be put back, with the reasons."""
    undone: list[str] = []
    stuck: list[str] = []
    todo = [*reversed(entries)]
    # Twice, as one may be refused until another one is back: the MTU of a VLAN before that of its NIC.
    for _turn in range(2):
        again: list[Entry] = []
        stuck = []
        for entry in todo:
            try:
                restored = f"{entry['key']} = {entry['value']}"
                if restore(host, entry) and restored not in undone:
                    undone.append(restored)
            except BaseException as error:  # noqa: BLE001  # interrupted once more, say: the others still go back
                again.append(entry)
                stuck.append(f"{entry['key']} ({str(error) or type(error).__name__})")
        todo = again
    return undone, stuck


def notify_again(host: Host, names: Sequence[str]) -> list[str]:
    """Notify those who were notified of the new files that the old ones are back."""
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
        return [f"the record of what was before ({error})"]
    return []


def _readers(steps: Sequence[Step]) -> list[str]:
    """Services to be notified of their files, each once, in their order."""
    names = (getattr(step, "notify", "") for step in steps)
    return list(dict.fromkeys(name for name in names if name))


def _notify(host: Host, name: str) -> None:
    """An unknown end undoes nothing: the run reports it. Raises HostError."""
    try:
        # By its name: who writes such a file brings it along.
        import_module(f"{__package__}.handlers").run(host, name)
    except UnansweredError as error:
        lock.add_note(host, lock.Note.of(name, lock.UNKNOWN, str(error)))
