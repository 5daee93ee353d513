# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of each device in a row of the report, and the row that all of them make."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, dataclass, field
from ..model.setting import Boot, KnobFile, Reading, Value
from ..model.values import by_key

#: Function that returns one value of a part, such as its present value
ValueOf = Callable[[KnobFile], str]


def plain(parts: Sequence[KnobFile], value: ValueOf) -> str:
    """The one value of a NIC's files, or each with its name."""
    texts = list(dict.fromkeys(value(part) for part in parts))
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{part.path.rpartition('/')[2]} {value(part)}" for part in parts)


def grouped(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Pairs of text and label as `eth0, eth1: 4096`. Devices with the same text share an entry, and a value
    of the whole machine has no label.
    """
    alike = by_key(pairs)
    return [text if labels == [""] else f"{', '.join(labels)}: {text}" for text, labels in alike.items()]


class Target(NamedTuple):
    """A device, such as an interface. node: its NUMA node. depth: number of devices below it in its stack."""

    name: str
    driver: str | None = None
    node: int | None = None
    depth: int = 0
    address: str = ""


#: Target of rules that treat all devices as one, such as the CPUs
MACHINE = Target("")


@dataclass
class Files:
    """One device's part of a row.

    lacking: why the device has no such knob. kept: its present value and a remark in brackets, if it is right
    as it is. problems: errors of unreadable files. clamped: the request exceeds the device's limit. invalid:
    the same, reported as an error. managed: number of files that the kernel reserves for itself. notes:
    remarks without a label, so that devices with the same remark can share a line. refusal, blocked, offered,
    path: as in Reading.
    """

    target: Target = MACHINE
    parts: list[KnobFile] = field(default_factory=list)
    lacking: str = ""
    kept: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    clamped: str = ""
    invalid: str = ""
    blocked: str = ""
    refusal: str = ""
    managed: int = 0
    offered: tuple[str, ...] = ()
    path: str = ""

    @property
    def label(self) -> str:
        return self.target.name

    def note(self, words: str) -> None:
        if words:
            self.notes.append(words)

    def read(self, host: Host, path: str) -> str | None:
        """The text of a file. Records the reason and returns None if it is absent or cannot be read."""
        return self.take(host.value(path))

    def take(self, value: Value) -> str | None:
        """As read(), for a value that was read elsewhere."""
        if value.unreadable is not None:
            self.problems.append(value.unreadable)
        elif value.absent is not None:
            self.lacking = self.lacking or value.absent
        return None if value.text is None else value.text.strip()


class Summary(NamedTuple):
    """All devices of one row. all_files: the part of each device. text: renders the files of one device."""

    all_files: Sequence[Files]
    text: Callable[[Sequence[KnobFile], ValueOf], str] = plain

    @property
    def want(self) -> str:
        return self._summary(lambda part: part.want)

    @property
    def runtime(self) -> Value:
        """State of the files, or why it is unknown."""
        problem = _first(problem for device in self.all_files for problem in device.problems)
        if problem:
            return Value(unreadable=problem)
        if any(device.parts or device.kept for device in self.all_files):
            return Value(text=self._summary(lambda part: part.runtime))
        return Value(absent="; ".join(self._lacking()))

    @property
    def notes(self) -> list[str]:
        """Values that some of the devices lack and others have."""
        return self._lacking() if any(device.parts or device.kept for device in self.all_files) else []

    def reading(
        self,
        path: str,
        boot: Boot,
        origins: Mapping[str, str],
        notes: Iterable[str],
        invalid: Iterable[str] = (),
    ) -> Reading:
        """The row of all devices. invalid: mistakes that concern them all."""
        return Reading(
            path=path,
            runtime=self.runtime,
            boot=boot,
            want=self.want or None,
            blocked=_first(device.blocked for device in self.all_files),
            invalid=_first([*(device.invalid for device in self.all_files), *invalid]),
            refusal=_first(
                [*(device.refusal for device in self.all_files), *(part.refusal for part in self._parts)]
            ),
            parts=self._parts,
            origin=self._origin(origins),
            note="; ".join(filter(None, notes)),
            clamped="; ".join(
                grouped((device.clamped, device.label) for device in self.all_files if device.clamped)
            ),
        )

    @property
    def _parts(self) -> tuple[KnobFile, ...]:
        return tuple(part for device in self.all_files for part in device.parts)

    def _lacking(self) -> list[str]:
        return grouped((device.lacking, device.label) for device in self.all_files if device.lacking)

    def _summary(self, value: ValueOf) -> str:
        """`eth0, eth1: 4096; eth2: on [fixed]`"""
        return "; ".join(
            grouped(
                (self.text(device.parts, value) if device.parts else device.kept, device.label)
                for device in self.all_files
                if device.parts or device.kept
            )
        )

    def _origin(self, origins: Mapping[str, str]) -> str | None:
        if not any(part.path in origins for part in self._parts):
            return None
        return self._summary(lambda part: origins.get(part.path, part.runtime))


def _first(texts: Iterable[str]) -> str:
    """The first text that is not empty."""
    return next((text for text in texts if text), "")
