# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of one declaration, or none: write, read back, and put everything back on a failure."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union

from . import refresh
from .errors import HostError, MlnodeError, TransactionError
from .host import Host
from .origin import Entry, Origin, device_entry, file_entry, kernel_entry, module_entry, restore
from .setting import Marker, Part, Unit, Write
from .values import chosen, fits, same


class KernelWrite(NamedTuple):
    """A value for a kernel file. partial: the kernel may give less than asked (huge pages).

    number, device, marker, unit, joined, risk, cpus: as in Part; number is None where there is one file only.
    """

    key: str
    path: str
    value: str
    before: str
    undo: tuple[Write, ...]
    partial: bool = False
    number: int | None = None
    device: str = ""
    marker: Marker | None = None
    unit: Unit | None = None
    joined: str = ""
    risk: str = ""
    made: str = ""
    cpus: tuple[int, ...] = ()

    @classmethod
    def of(cls, key: str, part: Part) -> KernelWrite:
        return cls(
            key, part.path, part.want, part.now, part.undo,
            number=part.number, device=part.device, marker=part.marker,
            unit=part.unit, joined=part.joined, risk=part.risk, made=part.made, cpus=part.cpus,
        )  # fmt: skip

    def entries(self, host: Host) -> list[Entry]:
        if self.device:
            key = f"{self.key} of {self.unit.name}" if self.unit else self.key
            return [device_entry(host, key, self.path, self.before, self.undo, self.device)]
        return [kernel_entry(self.key, self.path, self.before, self.undo)]

    def perform(self, host: Host) -> None:
        try:
            host.write_kernel(self.path, self.value)
        except HostError as error:
            if self.marker is None or error.errno not in self.marker.errnos:
                raise
            host.write_file(self.marker.path, error.kernel.encode("utf-8", "backslashreplace"))
            return
        self.read_back(host)

    def read_back(self, host: Host) -> None:
        """Raises HostError where the kernel took the value and yet shows another one."""
        now = host.value(self.path)
        if now.text is None:
            raise HostError("read back", self.path, None, now.problem)
        if self.made and _another_number(self.before, self.value, now.text):
            host.write_file(self.made, f"{self.value} {now.text.strip()}".encode("ascii"))
            return
        if not self.partial and not fits(self.path, now.text, self.value):
            raise HostError(
                f"set {self.key} to {self.value!r} in",
                self.path,
                None,
                f"the write was accepted, but the kernel now shows {chosen(now.text)!r}",
            )


def _another_number(before: str, asked: str, now: str) -> bool:
    """A device that rounds what it takes; one that does not move at all has ignored it."""
    return now.strip().isdigit() and not same(now, asked) and not same(now, before)


class JoinedWrite(NamedTuple):
    """Files of one folder that one write sets together: two rings are one reset of the NIC, and not two."""

    writes: tuple[KernelWrite, ...]

    @property
    def key(self) -> str:
        return ", ".join(dict.fromkeys(write.key for write in self.writes))

    @property
    def path(self) -> str:
        names = [write.path.rpartition("/")[2] for write in self.writes]
        return f"{self.writes[0].joined}/{','.join(names)}"

    @property
    def value(self) -> str:
        return " ".join(write.value for write in self.writes)

    def entries(self, host: Host) -> list[Entry]:
        return [entry for write in self.writes for entry in write.entries(host)]

    def perform(self, host: Host) -> None:
        try:
            host.write_kernel(self.path, self.value)
        except HostError as error:
            if not any(write.marker and error.errno in write.marker.errnos for write in self.writes):
                raise
            # One of them can never be: each by itself tells which.
            for write in self.writes:
                write.perform(host)
            return
        for write in self.writes:
            write.read_back(host)


class UnitWrite(NamedTuple):
    """All changes of one device, and a look at it before anything else is changed."""

    unit: Unit
    steps: tuple[KernelWrite | JoinedWrite, ...]

    @property
    def key(self) -> str:
        keys = dict.fromkeys(step.key for step in self.steps)
        return f"{self.unit.name}: {', '.join(keys)}"

    @property
    def risky(self) -> bool:
        return any(write.risk for write in kernel_writes(self.steps))

    def entries(self, host: Host) -> list[Entry]:
        return [entry for step in self.steps for entry in step.entries(host)]

    def perform(self, host: Host) -> None:
        is_well = self.unit.look(host)
        for step in self.steps:
            step.perform(host)
        is_well()


class FileWrite(NamedTuple):
    """A file of ours; content None removes it, mode None keeps the present one."""

    key: str
    path: str
    content: bytes | None
    before: bytes | None = None
    mode: int | None = None
    refresh: str = ""

    def entries(self, host: Host) -> list[Entry]:
        return [file_entry(host, self.path, self.refresh)]

    def perform(self, host: Host) -> None:
        if self.content is None:
            host.remove_file(self.path)
        else:
            host.write_file(self.path, self.content, self.mode)


class LinkWrite(NamedTuple):
    """A symbolic link of ours."""

    key: str
    path: str
    target: str
    before: str = ""
    refresh: str = ""

    def entries(self, host: Host) -> list[Entry]:
        return [file_entry(host, self.path, self.refresh)]

    def perform(self, host: Host) -> None:
        host.write_link(self.path, self.target)


class LoadModule(NamedTuple):
    """A kernel module that a value needs. stays: it is wanted for itself. Whoever uses it by the time of a
    revert would lose their interfaces with it, so that it is left to the next boot."""

    key: str
    name: str
    stays: bool = False

    def entries(self, _host: Host) -> list[Entry]:
        return [module_entry(self.name, self.stays)]

    def perform(self, host: Host) -> None:
        done = host.run(["modprobe", "--", self.name])
        if done.rc != 0:
            detail = done.err.strip() or f"modprobe ended with {done.rc}"
            raise HostError(f"load the module {self.name} for {self.key}:", "modprobe", None, detail)


class Refresh(NamedTuple):
    """Nothing but to tell somebody, who made something else of a file than what it says."""

    key: str
    refresh: str

    def entries(self, _host: Host) -> list[Entry]:
        return []

    def perform(self, host: Host) -> None:
        """Told with all others, once all files are written."""


class PutBack(NamedTuple):
    """The origin of a kernel file whose setting is not declared any more. now: as it is read at present."""

    entry: Entry
    now: KernelWrite

    @property
    def key(self) -> str:
        return str(self.entry["key"])

    @property
    def path(self) -> str:
        return str(self.entry["id"]).partition(":")[2]

    @property
    def before(self) -> str:
        return self.now.before

    @property
    def value(self) -> str:
        return str(self.entry["value"])

    def entries(self, host: Host) -> list[Entry]:
        return self.now.entries(host)

    def perform(self, host: Host) -> None:
        restore(host, self.entry)


Step = Union[KernelWrite, JoinedWrite, UnitWrite, FileWrite, LinkWrite, LoadModule, Refresh, PutBack]


def kernel_writes(steps: Sequence[Step]) -> Iterator[KernelWrite]:
    """Every single one of them, in order."""
    for step in steps:
        if isinstance(step, KernelWrite):
            yield step
        elif isinstance(step, JoinedWrite):
            yield from step.writes
        elif isinstance(step, UnitWrite):
            yield from kernel_writes(step.steps)


def single(steps: Sequence[Step]) -> Iterator[Step]:
    """The same steps, each change of a device by itself."""
    for step in steps:
        if isinstance(step, UnitWrite):
            for change in step.steps:
                yield UnitWrite(_unit([*kernel_writes([change])], step.unit), (change,))
        else:
            yield step


def by_unit(writes: Sequence[KernelWrite]) -> list[Step]:
    """Writes that belong to no device in their order, and then those of each device together: what others
    stand on before them, and what may cut off who asked for it at the end, so that nothing takes its time."""
    units: dict[str, list[KernelWrite]] = {}
    for write in writes:
        if write.unit is not None:
            units.setdefault(write.unit.name, []).append(write)
    found: list[Step] = [write for write in writes if write.unit is None]
    devices = [
        UnitWrite(_unit(mine, mine[0].unit), tuple(_joined(mine)))
        for mine in units.values()
        if mine[0].unit is not None
    ]
    return [*found, *sorted(devices, key=lambda device: (device.risky, device.unit.depth))]


def _unit(writes: Sequence[KernelWrite], usual: Unit) -> Unit:
    """The one that watches for longer, where one of the writes interrupts the device."""
    return next((write.unit for write in writes if write.unit and write.unit.resets), writes[0].unit or usual)


def _joined(writes: Sequence[KernelWrite]) -> list[KernelWrite | JoinedWrite]:
    """Each folder's files in one write, at the place of its first."""
    folders: dict[str, list[KernelWrite]] = {}
    for write in writes:
        folders.setdefault(write.joined or write.path, []).append(write)
    return [mine[0] if len(mine) == 1 else JoinedWrite(tuple(mine)) for mine in folders.values()]


def _unarmed(_entries: Sequence[Entry], _fresh: Sequence[Entry]) -> None:
    """Nothing has to be prepared."""


def _unchecked() -> None:
    """Each step has read back what it wrote."""


#: Called with how all steps so far are put back, and what of it is new in the origin
Arm = Callable[[Sequence[Entry], Sequence[Entry]], Any]


class Transaction:
    """Steps in stages, where what one stage does is read before the next is planned. All of them, or none.

    A context manager: an error inside it puts back everything that was performed, and becomes a
    TransactionError that names what was rolled back.
    """

    def __init__(self, host: Host, origin: Origin, arm: Arm = _unarmed, notify: bool = True) -> None:
        """arm: called in each stage before the first step with a risk, else before the first; once it has
        answered True, before each further stage. notify: False in an image build, as the daemons that run
        there are the build host's."""
        self._host = host
        self._origin = origin
        self._arm = arm
        self._notify = notify
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
    ) -> None:
        """Perform one stage in order. Raises MlnodeError.

        known: things that are right already and whose origin is to be kept all the same. check: called once
        all steps are done, before any daemon is notified of them; what it raises undoes them. settled: an
        armed undo leaves these steps as they are, such as the program that it is made by.
        """
        entries = [step.entries(self._host) for step in steps]
        mine = [entry for of_step in entries for entry in of_step]
        self._remember(mine, steps, known)
        if settled:
            self._settled |= {str(entry["id"]) for entry in mine}
        risks = (at for at, step in enumerate(steps) if isinstance(step, UnitWrite) and step.risky)
        first = 0 if self._armed else next(risks, 0)
        begun = [*self._begun]
        for number, (step, of_step) in enumerate(zip(steps, entries)):
            if number == first:
                self._armed = bool(self._arm(*self._at_stake(begun, mine))) or self._armed
            # The failed step itself may have taken half an effect, so it is put back too.
            self._begun += of_step
            self._key = step.key
            step.perform(self._host)
        check()
        for name in refresh.of(steps) if self._notify else []:
            self._notified.append(name)
            refresh.run(self._host, name)
        if steps:
            self._host.forget()

    def _at_stake(self, begun: Sequence[Entry], now: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """What an undo puts back, and what of it is new in the origin."""
        entries = [entry for entry in (*begun, *now) if str(entry["id"]) not in self._settled]
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

    def _undo(self, error: BaseException) -> None:
        first = [entry for entry in self._begun if str(entry["id"]) not in self._settled]
        undone, stuck = roll_back(self._host, first)
        # What is armed tries once more, with the program that this run has put there.
        if not (stuck and self._armed):
            last = [entry for entry in self._begun if str(entry["id"]) in self._settled]
            more, failed = roll_back(self._host, last)
            undone, stuck = [*undone, *more], [*stuck, *failed]
        stuck += tell_again(self._host, self._notified)
        self._host.forget()
        if not stuck:
            # Nothing of this run is left, so a later first change must find a later origin.
            stuck = _forget(self._origin, self._fresh)
        if isinstance(error, MlnodeError) or stuck:
            words = str(error) or type(error).__name__
            where = f"{self._key}: " if self._key else ""
            raise TransactionError(f"{where}{words}", undone, stuck) from error


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
                words = f"{entry['key']} = {entry['value']}"
                if restore(host, entry) and words not in undone:
                    undone.append(words)
            except BaseException as error:  # noqa: BLE001  # interrupted once more, say: the others still go back
                again.append(entry)
                stuck.append(f"{entry['key']} ({str(error) or type(error).__name__})")
        todo = again
    return undone, stuck


def tell_again(host: Host, names: Sequence[str]) -> list[str]:
    """Who was told of the new files has to hear that the old ones are back."""
    stuck: list[str] = []
    for name in names:
        try:
            refresh.run(host, name)
        except MlnodeError as error:
            stuck.append(str(error))
    return stuck


def _forget(origin: Origin, entries: list[Entry]) -> list[str]:
    try:
        origin.take_back(entries)
    except HostError as error:
        return [f"the record of what was before ({error})"]
    return []
