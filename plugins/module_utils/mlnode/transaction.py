# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of one declaration, or none: write, read back, and put everything back on a failure."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Sequence, Union

from . import refresh
from .errors import HostError, MlnodeError, TransactionError
from .host import Host
from .origin import Entry, Origin, device_entry, file_entry, kernel_entry, module_entry, restore
from .setting import Part, Write
from .values import chosen, same


@dataclass(frozen=True)
class KernelWrite:
    """A value for a kernel file. partial: the kernel may give less than asked (huge pages).

    number, device, marker: as in Part; number is None where the setting has one file only.
    """

    key: str
    path: str
    value: str
    before: str
    undo: tuple[Write, ...]
    partial: bool = False
    number: int | None = None
    device: str = ""
    marker: str = ""

    @classmethod
    def of(cls, key: str, part: Part) -> KernelWrite:
        return cls(
            key, part.path, part.want, part.now, part.undo,
            number=part.number, device=part.device, marker=part.marker,
        )  # fmt: skip

    def entry(self, host: Host) -> Entry:
        if self.device:
            return device_entry(host, self.key, self.path, self.before, self.undo, self.device)
        return kernel_entry(self.key, self.path, self.before, self.undo)

    def perform(self, host: Host) -> None:
        try:
            host.write_kernel(self.path, self.value)
        except HostError as error:
            if not self.marker or error.errno not in _KERNEL_OWNS:
                raise
            host.write_file(self.marker, b"")
            return
        now = host.value(self.path)
        if now.text is None:
            raise HostError("read back", self.path, None, now.problem)
        if not self.partial and not same(chosen(now.text), self.value):
            raise HostError(
                f"set {self.key} to {self.value!r} in",
                self.path,
                None,
                f"the write was accepted, but the kernel now shows {chosen(now.text)!r}",
            )


@dataclass(frozen=True)
class FileWrite:
    """A file of ours; content None removes it, mode None keeps the present one."""

    key: str
    path: str
    content: bytes | None
    before: bytes | None = None
    mode: int | None = None
    refresh: str = ""

    def entry(self, host: Host) -> Entry:
        return file_entry(host, self.path, self.refresh)

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

    def entry(self, host: Host) -> Entry:
        return file_entry(host, self.path, self.refresh)

    def perform(self, host: Host) -> None:
        host.write_link(self.path, self.target)


@dataclass(frozen=True)
class LoadModule:
    """A kernel module that a value needs."""

    key: str
    name: str

    def entry(self, _host: Host) -> Entry:
        return module_entry(self.name)

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

    def entry(self, _host: Host) -> None:
        return None

    def perform(self, host: Host) -> None:
        """Told with all others, once all files are written."""


Step = Union[KernelWrite, FileWrite, LinkWrite, LoadModule, Refresh]

#: What a write to smp_affinity_list ends with for a managed IRQ: EIO, since Linux 6.12 EPERM
#: (kernel/irq/proc.c: write_irq_affinity)
_KERNEL_OWNS = (errno.EIO, errno.EPERM)


def run(host: Host, origin: Origin, steps: Sequence[Step], known: Sequence[Entry] = ()) -> None:
    """Perform all steps in order. Raises TransactionError with what was rolled back.

    known: things that are right already and whose origin is to be kept all the same.
    """
    entries = [step.entry(host) for step in steps]
    wanted = [*known, *(entry for entry in entries if entry is not None)]
    # Modules first, so that going backwards a value is back before its module is unloaded.
    fresh = origin.remember(sorted(wanted, key=lambda entry: "module" not in entry))
    begun = 0
    told: list[str] = []
    try:
        for step in steps:
            begun += 1
            step.perform(host)
        for name in refresh.of(steps):
            told.append(name)
            refresh.run(host, name)
        if steps:
            host.forget()
    except BaseException as error:
        # The failed step itself may have taken half an effect, so it is put back too.
        undone, stuck = _roll_back(host, [entry for entry in entries[:begun] if entry is not None])
        stuck += _tell_again(host, told)
        if not stuck:
            # Nothing of this run is left, so a later first change must find a later origin.
            stuck = _forget(origin, fresh)
        if isinstance(error, MlnodeError) or stuck:
            words = str(error) or type(error).__name__
            raise TransactionError(f"{steps[max(begun - 1, 0)].key}: {words}", undone, stuck) from error
        raise


def _roll_back(host: Host, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    undone: list[str] = []
    stuck: list[str] = []
    for entry in reversed(entries):
        try:
            words = f"{entry['key']} = {entry['value']}"
            if restore(host, entry) and words not in undone:
                undone.append(words)
        except BaseException as error:  # noqa: BLE001  # interrupted once more, say: the others still go back
            stuck.append(f"{entry['key']} ({str(error) or type(error).__name__})")
    return undone, stuck


def _tell_again(host: Host, names: Sequence[str]) -> list[str]:
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
        origin.forget(entries)
    except HostError as error:
        return [f"the record of what was before ({error})"]
    return []
