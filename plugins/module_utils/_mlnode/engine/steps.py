# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a run: each knows how to perform it, and its entries in the origin."""

from __future__ import annotations

import errno
from typing import Collection, Iterator, Sequence, Union

from ..host import mountinfo
from ..host.host import Host
from ..model.errors import GoneError, HostError
from ..model.record import NamedTuple
from ..model.setting import KnobFile, Unit
from ..model.values import by_key, chosen, fits
from . import answers, origin
from .origin import Entry, file_entry, kernel_entry, module_entry
from .restore import restore


def _error_of(host: Host, path: str, value: str) -> HostError | None:
    """The error of a write; None if it was accepted."""
    try:
        host.write_kernel(path, value)
    except HostError as error:
        return error
    return None


def _gone(refused: HostError | None, path: str) -> GoneError:
    if refused is None:
        return GoneError("read back", path, errno.ENODEV)
    return GoneError(refused.action, refused.path, refused.errno or errno.ENODEV)


class KernelWrite(NamedTuple):
    """The value that a setting wants in one of its files."""

    key: str
    file: KnobFile

    def entries(self, host: Host) -> list[Entry]:
        unit = self.file.unit
        return [kernel_entry(host, f"{self.key} of {unit.name}" if unit else self.key, self.file)]

    def perform(self, host: Host) -> None:
        self.read_back(host, _error_of(host, self.file.path, self.file.want))

    def has_it(self, host: Host) -> bool:
        """True if the kernel shows the value."""
        text = host.value(self.file.path).text
        return text is not None and fits(text, self.file.want, self.file.among)

    def read_back(self, host: Host, refused: HostError | None = None) -> None:
        """Check the state, which decides instead of the write's error: a device without the value has
        answered. Otherwise raises HostError."""
        file = self.file
        runtime = host.value(file.path)
        if runtime.absent is not None and file.taker and not host.exists(file.taker):
            raise _gone(refused, file.path) from refused
        if runtime.text is None:
            raise refused or HostError("read back", file.path, None, runtime.problem)
        if fits(runtime.text, file.want, file.among) or (file.partial and refused is None):
            return
        if refused is not None and not answers.is_answer(file, refused):
            raise refused
        if file.taker:
            answers.keep(host, file, runtime.text, refused)
            return
        raise HostError(
            f"set {self.key} to {file.want!r} in",
            file.path,
            None,
            f"the write was accepted, but the kernel now shows {chosen(runtime.text)!r}",
        )


class JoinedWrite(NamedTuple):
    """Files of one folder set by one write: two rings cost one reset of the NIC instead of two."""

    writes: tuple[KernelWrite, ...]

    @property
    def key(self) -> str:
        return ", ".join(dict.fromkeys(write.key for write in self.writes))

    @property
    def path(self) -> str:
        names = [write.file.path.rpartition("/")[2] for write in self.writes]
        return f"{self.writes[0].file.joined}/{','.join(names)}"

    @property
    def value(self) -> str:
        return " ".join(write.file.want for write in self.writes)

    def entries(self, host: Host) -> list[Entry]:
        return [entry for write in self.writes for entry in write.entries(host)]

    def perform(self, host: Host) -> None:
        refused = _error_of(host, self.path, self.value)
        if refused is None:
            for write in self.writes:
                write.read_back(host)
            return
        # A driver may make the change and report an error: do not repeat successful writes, as each one may
        # reset the device (amzn-drivers issue 356).
        left = tuple(write for write in self.writes if not write.has_it(host))
        if not all(answers.is_answer(write.file, refused) for write in left):
            raise refused
        for step in JoinedWrite(left)._apart():
            step.perform(host)

    def _apart(self) -> Sequence[KernelWrite | JoinedWrite]:
        """Separate writes after a refusal: files that are only means apart from the rest, else each file
        alone to find the refused one."""
        means = [write for write in self.writes if write.file.means]
        needed = tuple(write for write in self.writes if not write.file.means)
        return [JoinedWrite(needed), *means] if means and len(needed) > 1 else [*needed, *means]


class UnitWrite(NamedTuple):
    """All changes of one device, and a look at it before the next device is changed."""

    unit: Unit
    steps: tuple[KernelWrite | JoinedWrite, ...]

    @property
    def key(self) -> str:
        keys = dict.fromkeys(step.key for step in self.steps)
        return f"{self.unit.name}: {', '.join(keys)}"

    @property
    def risky(self) -> bool:
        return any(write.file.risk for write in kernel_writes(self.steps))

    def entries(self, host: Host) -> list[Entry]:
        return [entry for step in self.steps for entry in step.entries(host)]

    def perform(self, host: Host) -> None:
        is_well = self.unit.look(host)
        for step in self.steps:
            step.perform(host)
        is_well()


class FileWrite(NamedTuple):
    """An own file; content None removes it, mode None keeps the present one. first: as in BootFile."""

    key: str
    path: str
    content: bytes | None
    before: bytes | None = None
    mode: int | None = None
    notify: str = ""
    first: bool = False

    def entries(self, host: Host) -> list[Entry]:
        return [file_entry(host, self.path, self.notify)]

    def perform(self, host: Host) -> None:
        if self.content is None:
            host.remove_file(self.path)
        else:
            host.write_file(self.path, self.content, self.mode)


class LinkWrite(NamedTuple):
    """An own symbolic link."""

    key: str
    path: str
    target: str
    before: str = ""
    notify: str = ""

    def entries(self, host: Host) -> list[Entry]:
        return [file_entry(host, self.path, self.notify)]

    def perform(self, host: Host) -> None:
        host.write_link(self.path, self.target)


class LoadModule(NamedTuple):
    """A kernel module that a value needs: the third object of changes, after values and files, shared by
    several kinds. stays: it was declared itself, and a revert leaves it to the next boot, as its users would
    lose their interfaces. parameters: in addition to the ones in files."""

    key: str
    name: str
    stays: bool = False
    parameters: tuple[str, ...] = ()

    def entries(self, _host: Host) -> list[Entry]:
        return [module_entry(self.name, self.stays)]

    def perform(self, host: Host) -> None:
        done = host.run(["modprobe", "--", self.name, *self.parameters])
        # The state decides: a command of a configuration file may fail after the module was loaded.
        if done.rc != 0 and not host.exists(f"/sys/module/{self.name.replace('-', '_')}"):
            detail = done.err.strip() or f"modprobe ended with {done.rc}"
            raise HostError(f"load the module {self.name} for {self.key}:", "modprobe", None, detail)


class Notify(NamedTuple):
    """A notification of a service that has not read the present content of a file. first: as in BootFile."""

    key: str
    notify: str
    first: bool = False

    def entries(self, _host: Host) -> list[Entry]:
        return []

    def perform(self, host: Host) -> None:
        """Do nothing: it is notified with all others, once all files are written."""


class PutBack(NamedTuple):
    """The origin of a kernel file that is no longer declared. write: from the present reading."""

    entry: Entry
    write: KernelWrite

    @property
    def key(self) -> str:
        return str(self.entry["key"])

    @property
    def path(self) -> str:
        return str(self.entry["id"]).partition(":")[2]

    @property
    def runtime(self) -> str:
        return self.write.file.runtime

    @property
    def origin(self) -> str:
        return str(self.entry["value"])

    def entries(self, host: Host) -> list[Entry]:
        return self.write.entries(host)

    def perform(self, host: Host) -> None:
        restore(host, self.entry)


Step = Union[KernelWrite, JoinedWrite, UnitWrite, FileWrite, LinkWrite, LoadModule, Notify, PutBack]


def kernel_writes(steps: Sequence[Step]) -> Iterator[KernelWrite]:
    """All kernel writes, one by one, in order."""
    for step in steps:
        if isinstance(step, KernelWrite):
            yield step
        elif isinstance(step, JoinedWrite):
            yield from step.writes
        elif isinstance(step, UnitWrite):
            yield from kernel_writes(step.steps)


def single(steps: Sequence[Step]) -> Iterator[Step]:
    """The same steps, with single changes of each device."""
    for step in steps:
        if isinstance(step, UnitWrite):
            for change in step.steps:
                yield UnitWrite(_unit([*kernel_writes([change])]), (change,))
        else:
            yield step


def by_unit(writes: Sequence[KernelWrite]) -> list[Step]:
    """Writes without a device in their order, then the writes of each device together: lower devices before
    the ones that depend on them, and devices that may cut off the user last, as later steps would use up the
    time to confirm."""
    units = by_key((write.file.unit.name, write) for write in writes if write.file.unit is not None)
    steps: list[Step] = [write for write in writes if write.file.unit is None]
    devices = [UnitWrite(_unit(of_unit), tuple(_joined(of_unit))) for of_unit in units.values()]
    return [*steps, *sorted(devices, key=lambda device: (device.risky, device.unit.depth))]


def _unit(writes: Sequence[KernelWrite]) -> Unit:
    """The device of the writes. A write that resets it takes precedence, as it needs a longer watch."""
    units = [write.file.unit for write in writes if write.file.unit]
    return next((unit for unit in units if unit.resets), units[0])


def _joined(writes: Sequence[KernelWrite]) -> list[KernelWrite | JoinedWrite]:
    """Each folder's files in one write, at the place of its first."""
    folders = by_key((write.file.joined or write.file.path, write) for write in writes)
    return [alike[0] if len(alike) == 1 else JoinedWrite(tuple(alike)) for alike in folders.values()]


def refuse_read_only(host: Host, steps: Sequence[Step], store: bool = False) -> None:
    """Raises HostError for a file that cannot be written, before the first write. store: check that of the
    origin, too, which every change needs."""
    files = [step.path for step in steps if isinstance(step, (FileWrite, LinkWrite))]
    for path in dict.fromkeys([*([origin.PATH] if store and steps else []), *files]):
        if origin.is_read_only(host, path):
            cause = f"{mountinfo.read_only(host, path)}; nothing was changed"
            raise HostError("write", path, errno.EROFS, cause=cause.lstrip("; "))


def without(steps: Sequence[Step], paths: Collection[str]) -> list[Step]:
    """The steps without the writes of these kernel files."""
    left: list[Step] = []
    for step in steps:
        if isinstance(step, UnitWrite):
            inner = tuple(write for change in step.steps for write in _rest(change, paths))
            left += [step._replace(steps=inner)] if inner else []
        elif isinstance(step, (KernelWrite, JoinedWrite)):
            left += _rest(step, paths)
        else:
            left.append(step)
    return left


def _rest(change: KernelWrite | JoinedWrite, paths: Collection[str]) -> Sequence[KernelWrite | JoinedWrite]:
    writes = tuple(write for write in kernel_writes([change]) if write.file.path not in paths)
    return [JoinedWrite(writes)] if len(writes) > 1 else writes
