# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of one declaration, or none: write, read back, and put everything back on a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, Sequence, Union

from . import refresh
from .errors import HostError, MlnodeError, TransactionError
from .host import Host
from .origin import Entry, Origin, device_entry, file_entry, kernel_entry, module_entry, restore
from .setting import Marker, Part, Unit, Write
from .values import chosen, fits, same


@dataclass(frozen=True)
class KernelWrite:
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


@dataclass(frozen=True)
class JoinedWrite:
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


@dataclass(frozen=True)
class UnitWrite:
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


@dataclass(frozen=True)
class FileWrite:
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


@dataclass(frozen=True)
class LinkWrite:
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


@dataclass(frozen=True)
class LoadModule:
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


@dataclass(frozen=True)
class Refresh:
    """Nothing but to tell somebody, who made something else of a file than what it says."""

    key: str
    refresh: str

    def entries(self, _host: Host) -> list[Entry]:
        return []

    def perform(self, host: Host) -> None:
        """Told with all others, once all files are written."""


Step = Union[KernelWrite, JoinedWrite, UnitWrite, FileWrite, LinkWrite, LoadModule, Refresh]


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


def run(
    host: Host,
    origin: Origin,
    steps: Sequence[Step],
    known: Sequence[Entry] = (),
    arm: Callable[[Sequence[Entry], Sequence[Entry]], None] = _unarmed,
    tell: bool = True,
    check: Callable[[], None] = _unchecked,
) -> None:
    """Perform all steps in order. Raises TransactionError with what was rolled back.

    known: things that are right already and whose origin is to be kept all the same. arm: called once, before
    the first step with a risk, else the first, with how all of it is put back, and what of it is new in the
    origin. tell: False in an image build, as those who run there are the build host's. check: called once all
    steps are done, before anything else learns of them; what it raises undoes them.
    """
    entries = [step.entries(host) for step in steps]
    wanted = [*known, *(entry for mine in entries for entry in mine)]
    # Modules first, so that going backwards a value is back before its module is unloaded.
    writes = {step.path: step.content for step in steps if isinstance(step, FileWrite)}
    fresh = origin.remember(sorted(wanted, key=lambda entry: "module" not in entry), writes)
    begun = 0
    risks = (at for at, step in enumerate(steps, 1) if isinstance(step, UnitWrite) and step.risky)
    risk = next(risks, 1)
    told: list[str] = []
    try:
        for number, step in enumerate(steps, 1):
            if number == risk:
                arm([entry for mine in entries for entry in mine], fresh)
            begun = number
            step.perform(host)
        check()
        for name in refresh.of(steps) if tell else []:
            told.append(name)
            refresh.run(host, name)
        if steps:
            host.forget()
    except BaseException as error:
        # The failed step itself may have taken half an effect, so it is put back too.
        undone, stuck = roll_back(host, [entry for mine in entries[:begun] for entry in mine])
        stuck += tell_again(host, told)
        host.forget()
        if not stuck:
            # Nothing of this run is left, so a later first change must find a later origin.
            stuck = _forget(origin, fresh)
        if isinstance(error, MlnodeError) or stuck:
            words = str(error) or type(error).__name__
            raise TransactionError(f"{steps[max(begun - 1, 0)].key}: {words}", undone, stuck) from error
        raise


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
