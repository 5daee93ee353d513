# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of devices to refused values: with an error, no effect, or a different value.

Only a write reveals an answer, and each try may reset the device. Therefore the answer is noted, in one file
for each kernel file. It is valid for this boot, driver and wanted value, as long as the device shows the same
value. A refused value is `unsupported` if a profile asked for it, as a profile is for all nodes. It is a
failure if the operator asked for it, on this node.
"""

from __future__ import annotations

import errno
import json
from typing import Collection, Iterable

from ..host import places, trust
from ..host.host import Host
from ..model import values
from ..model.errors import HostError, StoreError, UnansweredError, listed
from ..model.record import NamedTuple
from ..model.setting import KnobFile, Reading, Value, Write

FOLDER = places.ANSWERS

#: Errors that concern this process and its sandbox, not device and value
_OURS = (errno.EACCES, errno.EROFS, errno.EINTR, errno.EMFILE, errno.ENFILE)

#: Conditions for another try of a value
_UNTIL = "not tried again until the next boot, a reload of its driver or another value"

#: Most devices that a message lists
_NAMED = 4

#: An empty value, visible to people
_EMPTY = '""'


class Answer(NamedTuple):
    """want: the requested value. got: the value that the device shows since. made: the device turned want
    into got. third: a temporary other value, which was put back. errno, kernel: the error of the write; 0 and
    empty if it was accepted. owner: the device. identity: of the loaded driver; a reload changes it."""

    want: str
    got: str
    made: bool
    third: str
    errno: int
    kernel: str
    owner: str
    identity: str

    def text(self, file: KnobFile) -> str:
        """The result of the write, for people."""
        what = f"{file.label} {self.want}"
        if self.kernel:
            return f"{what}: {self.kernel}"
        if self.third:
            return f"{what}: the device made it {self.third}, and has {self.got or _EMPTY} again"
        return f"{what}: the write was accepted, and it stays {self.got or _EMPTY}"


# -- writing notes -------------------------------------------------------------------------


def is_answer(file: KnobFile, error: HostError) -> bool:
    """True if the error of a write is the device's answer to the value; False for an error of this process,
    and for a program without an answer. A device that still shows the file has answered, even with ENODEV."""
    return bool(file.taker) and error.errno not in _OURS and not isinstance(error, UnansweredError)


def keep(host: Host, file: KnobFile, runtime: str, error: HostError | None) -> None:
    """Note the answer of a device that shows this text. If the device took a third value, put back the old
    value first. Raises HostError."""
    got = values.chosen(runtime)
    moved = not _shows(got, file.runtime, file)
    made = moved and file.rounds and _is_nearer(got, file)
    third = got if moved and not made else ""
    if third:
        got = _put_back(host, file)
    number, kernel = (error.errno or 0, error.kernel) if error else (0, "")
    noted = Answer(file.want, got, made, third, number, kernel, file.taker, host.identity(file.taker))
    host.write_file(_note_of(file.path), json.dumps(noted._asdict()).encode("ascii"))


def _shows(runtime: str, value: str, file: KnobFile) -> bool:
    """True if a file's text means this value, perhaps spelled differently."""
    return values.same(runtime, value) or values.fits(runtime, value, file.among)


def _is_nearer(got: str, file: KnobFile) -> bool:
    """True for a number nearer to the wanted one than before: rounded, and not lost."""
    made, before, want = (values.number(text) for text in (got, file.runtime, file.want))
    if made is None or before is None or want is None:
        return False
    return abs(want - made) < abs(want - before)


def _put_back(host: Host, file: KnobFile) -> str:
    """Put back the old value, and return the present one. Raises HostError."""
    before = next((write for write in file.undo if write.path == file.path), Write(file.path, file.runtime))
    host.write_kernel(before.path, before.value)
    runtime = host.value(file.path)
    if runtime.text is None or not values.fits(runtime.text, before.value, file.among):
        raise HostError("put back", file.path, None, f"wrote {before.value!r}, the kernel shows {runtime!s}")
    return values.chosen(runtime.text)


def forget(host: Host, paths: Iterable[str]) -> None:
    """Remove the notes about these kernel files. Raises HostError."""
    known = {*_noted(host)}
    for name in [name for name in map(_name_of, paths) if name in known]:
        host.remove_file(f"{FOLDER}/{name}")
    if known:
        for folder in (FOLDER, FOLDER.rpartition("/")[0]):
            host.remove_folder_if_empty(folder, may_stay=True)


def _noted(host: Host) -> list[str]:
    try:
        return host.names(FOLDER)
    except HostError:
        return []  # then each value is tried, which costs a reset but stays true


def _name_of(path: str) -> str:
    return path.strip("/").replace("/", "!")


def _note_of(path: str) -> str:
    return f"{FOLDER}/{_name_of(path)}"


# -- reading -------------------------------------------------------------------------------


class Answers:
    """All notes; each is read on the first look at its file."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._names = frozenset(_noted(host))

    def refused(self, path: str, owner: str, errnos: Collection[int]) -> bool:
        """True if a write to the file failed with one of these errors, for any value."""
        answer = self._read(path)
        return answer is not None and answer.owner == owner and answer.errno in errnos

    def stands(self, write: Write) -> bool:
        """True if a write would be skipped, as the device has answered it."""
        answer = self._read(write.path)
        runtime = self._host.value(write.path).text if answer else None
        return (
            answer is not None
            and runtime is not None
            and answer.want == write.value
            and values.same(values.chosen(runtime), answer.got)
        )

    def answer_to(self, part: KnobFile) -> Answer | None:
        """The answer to the wanted value; None if no valid one exists."""
        # A value that an earlier write moves will be requested in another state than the present one.
        if not part.differs or part.moved or not part.taker:
            return None
        answer = self._read(part.path)
        if (
            answer is None
            or answer.owner != part.taker
            or answer.want != part.want
            or not _shows(part.runtime, answer.got, part)
        ):
            return None
        return answer

    def _read(self, path: str) -> Answer | None:
        """The noted answer, if it is valid for the device in its present state."""
        if _name_of(path) not in self._names:
            return None
        try:
            fields = json.loads(trust.read(self._host, _note_of(path)))
            answer = Answer(**{name: fields[name] for name in Answer._fields})
            kinds = (str, str, bool, str, int, str, str, str)
            sound = all(isinstance(*pair) for pair in zip(answer, kinds))
            return answer if sound and answer.identity == self._host.identity(answer.owner) else None
        except (HostError, StoreError, ValueError, TypeError, KeyError, RecursionError):
            return None  # a damaged or foreign note prevents nothing


# -- judging -------------------------------------------------------------------------------


class _Judged(NamedTuple):
    """A part after its answer. lacks: why it does not have the value. clamped: both numbers."""

    part: KnobFile
    lacks: str = ""
    clamped: str = ""


def settled(reading: Reading, known: Answers, by_profile: bool) -> Reading:
    """The reading with the answers of its devices. by_profile: a profile wants the value, and a device
    without it is right; else the operator wants it, and the value is refused."""
    if reading.optional and by_profile:
        return reading._replace(elsewhere=True)
    if reading.invalid and by_profile:
        absent = Value(absent=reading.invalid)
        return reading._replace(invalid="", runtime=absent, native=False, missing=False, load=(), modules=())
    unmoved_parts = [_unmoved(part, known) for part in reading.parts]
    judged = [_judged(part, known.answer_to(part), by_profile) for part in unmoved_parts]
    parts = tuple(judgement.part for judgement in judged)
    if parts == reading.parts:
        return reading
    before = {part.refusal for part in reading.parts}
    refusals = [part.refusal for part in parts if part.refusal]
    refusal = reading.refusal if reading.refusal not in before else ""
    lacks = _grouped((judgement.part.named, judgement.lacks) for judgement in judged)
    reading = reading._replace(
        parts=parts,
        refusal=refusal or (lacks if lacks and not by_profile else next(iter(refusals), "")),
        clamped=_joined(
            reading.clamped, _grouped((judgement.part.named, judgement.clamped) for judgement in judged)
        ),
    )
    if not by_profile or not lacks:
        return reading
    if all(judgement.lacks or judgement.part.means for judgement in judged):
        return reading._replace(runtime=Value(absent=lacks))
    return reading._replace(note=_joined(reading.note, lacks))


def _unmoved(part: KnobFile, known: Answers) -> KnobFile:
    """The part, unmoved if the write that would move it is skipped."""
    stays = part.moved and part.mover is not None and known.stands(part.mover)
    return part._replace(moved="") if stays else part


def _judged(part: KnobFile, answer: Answer | None, by_profile: bool) -> _Judged:
    if answer is None and not (part.answer and part.differs):
        return _Judged(part)
    kept = part._replace(want=part.runtime, refusal="")
    if answer is not None and answer.made:
        return _Judged(kept, clamped=f"asked for {answer.want}, and the driver made it {answer.got}")
    if part.means:
        return _Judged(kept)
    words = _joined(f"{answer.text(part)}; {_UNTIL}" if answer else part.answer, part.advice)
    named = f"{part.named}: {words}"
    part = kept if by_profile else part._replace(refusal=named)
    return _Judged(part._replace(answer=named), lacks=words)


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _grouped(texts: Iterable[tuple[str, str]]) -> str:
    """Each text once, with its devices."""
    labels: dict[str, dict[str, None]] = {}
    for device, words in texts:
        if words:
            labels.setdefault(words, {})[device] = None
    return _joined(*(f"{listed([*alike], _NAMED)}: {words}" for words, alike in labels.items()))
