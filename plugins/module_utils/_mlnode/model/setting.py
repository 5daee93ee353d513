# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vocabulary: what is wanted, what was read, and the one status in which each setting ends. Frozen, so
that no layer edits another's words."""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable

from .cause import Cause
from .cause import Layer as Layer  # noqa: PLC0414 - it belongs to this vocabulary, and a cause has one
from .record import NamedTuple, dataclass
from .values import same

BOTH_LAYERS = (Layer.RUNTIME, Layer.BOOT)


#: Why a value that is higher is lowered
EXACTLY = "as it is declared exactly"


class Value(NamedTuple):
    """A text, or why there is none. Absent and unreadable are different answers."""

    text: str | None = None
    absent: str | None = None
    unreadable: str | None = None

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        return "absent" if self.absent is not None else "unreadable"

    @property
    def problem(self) -> str:
        return self.absent or self.unreadable or ""


class Boot(NamedTuple):
    """Value that the next boot brings, and its source.

    source: `path:line`, `kernel command line` or the agent's unit. foreign: not mlnode's, so that a
    value which differs from the declared one is an override and no mere omission. row: another row of the
    report that says why nothing brings the value, so that this one is not at fault.
    """

    value: Value
    source: str = ""
    foreign: bool = False
    row: str = ""


@dataclass(frozen=True)
class Setting:
    """One declared knob, parsed and resolved as far as the hardware was allowed to be read.

    want: the value for the kernel; None while `auto` is unresolved (image bake: boot layer only).
    claim: the declaration as text, for people and to compare two declarations of one key.
    raise_only: the present value wins where it is greater. floor: the least number, of a rule that has one.
    formula: how an automatic number came about. clamped: its need, where a cap of the formula is less.
    derived: its number is for one machine in one boot, so that no file of the system holds it: the agent sets
    it in the boot that it is for.
    """

    kind: str
    key: str
    path: str
    want: str | None
    claim: str
    raise_only: bool = False
    formula: str = ""
    clamped: str = ""
    floor: str = ""
    derived: bool = False


class Write(NamedTuple):
    """One value into one kernel file."""

    path: str
    value: str


class Unit(NamedTuple):
    """A device that is changed as a whole, and looked at, before the next one is.

    look: called before the first of its changes; returns what is called after the last one, and raises
    HostError if the device is not well then. resets: a change that interrupts it. depth: on how many others
    it stands, which come before it.
    """

    name: str
    look: Callable[[Any], Callable[[], None]]
    resets: bool = False
    depth: int = 0


class KnobFile(NamedTuple):
    """A kernel file of a setting, which may have many of them: a policy's, an IRQ's, a queue's.

    number: that of the policy, IRQ or queue, for people. runtime, want: in one spelling, to be compared.
    undo: the writes that bring the present value back, and whatever else a change of it moves.
    device: what the file belongs to; once that path is gone, or after a reboot, the number may be another's,
    so that its old value means nothing any more. Empty where it stays.
    owner: the path that goes and comes with the driver that takes the value; `device` where none is given.
    Empty where the kernel itself takes it: a value that it does not take fails the whole run.
    moved: what of this declaration will move the file before its turn, so that it has to be written even
    though it is right now; empty if nothing does. mover: the write that does, where one is known.
    unit: the device it is a part of, where that is changed as a whole. joined: the folder whose files one
    write sets together; empty if each is set by itself. risk: how a write may cut off who asked for it.
    refusal: as in Reading, of this part alone. answer: why the owner does not have the value although it was
    asked for, or cannot have it, as where it is not on offer; empty where that is not known. advice: what
    helps then.
    place: of what it is a part, for people; empty for the name of its unit, or its path.
    rounds: a number, of which the device may make another one. means: it only lets others of its folder take
    effect, so that a device which does not take it is right without it.
    cpus: those that the file rules; empty where it is not about some CPUs.
    partial: the kernel may take the value and give less. among: see values.fits(). late: it can be put back
    only once the files of its setting are. negotiated: the present value was agreed on with the other end of
    the link, so that it takes a moment to be back.
    """

    number: int
    path: str
    runtime: str
    want: str
    undo: tuple[Write, ...]
    device: str = ""
    owner: str = ""
    moved: str = ""
    mover: Write | None = None
    unit: Unit | None = None
    joined: str = ""
    risk: str = ""
    refusal: str = ""
    answer: str = ""
    advice: str = ""
    rounds: bool = False
    means: bool = False
    cpus: tuple[int, ...] = ()
    partial: bool = False
    among: bool = False
    late: bool = False
    negotiated: bool = False
    place: str = ""

    @property
    def taker(self) -> str:
        """The path with which a note of what it does with a value ends; empty for the kernel itself."""
        return self.owner or self.device

    @property
    def named(self) -> str:
        """The place, unit or path, for people."""
        return self.place or (self.unit.name if self.unit else self.path)

    @property
    def label(self) -> str:
        """Name of the file for people, within its device."""
        return self.path.rpartition("/")[2]

    @property
    def differs(self) -> bool:
        return bool(self.moved) or not same(self.runtime, self.want)


class Reading(NamedTuple):
    """Reading of one setting on the node.

    path: the file that really carries it here (a fallback may differ from Setting.path).
    want: the value to reach, with `auto` and raise-only resolved; None where they cannot be yet.
    offered: what the kernel lists as possible; empty where it lists nothing.
    blocked: why it is not this node's to set, as in a container; empty if it is.
    barred: why the file cannot be written though it is, so that it stays as it is; empty if it can.
    invalid: why the declaration itself is wrong for this node, on any device; empty if it is not. A
    value that a driver or kernel does not offer is KnobFile.answer instead, which costs that part alone.
    refusal: the guard that stops a change to what is wanted, and how to allow it.
    native: of a kind that has drop-ins of the system for some of its settings: it is one of these.
    load, modules: kernel modules to load now, each with its parameters behind it, and to load at every boot.
    parts: the kernel files that are set; empty where none can be, or other files say it all.
    origin: the summary of theirs, where it is not that of the file at path.
    note: what is worth knowing though all is right, such as CPUs that were left out.
    managed: why the kernel keeps all of it to itself; empty if it does not.
    at_boot: the kernel takes the value at boot only, so that a new one waits for a reboot.
    clamped: more was asked for than the device has, or a formula would have more than its cap: both numbers.
    want is what it has, or the cap.
    missing: its rule asks for devices that have to be here and are not, so that the node is not as declared.
    elsewhere: it is for other nodes, as intended: its rule is for ports of a link layer which this node's do
    not have, or it was declared for nodes that need it, and this one does not.
    optional: no device here is of the kind that has it. A value of a profile is for nodes with such a device,
    and is elsewhere; an operator means this node.
    refers: the setting that says why there is nothing to read, where another one of the rule does.
    lowers: what is higher and would be taken down, and why, such as EXACTLY; empty if nothing is.
    setter: the line that has set what the kernel shows, where it is not the wanted value and one is known.
    """

    path: str
    runtime: Value
    boot: Boot
    want: str | None = None
    offered: tuple[str, ...] = ()
    blocked: str = ""
    barred: str = ""
    invalid: str = ""
    refusal: str = ""
    native: bool = False
    load: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    parts: tuple[KnobFile, ...] = ()
    origin: str | None = None
    note: str = ""
    managed: str = ""
    at_boot: bool = False
    clamped: str = ""
    missing: bool = False
    elsewhere: bool = False
    optional: bool = False
    refers: str = ""
    lowers: str = ""
    setter: Cause | None = None


class BootFile(NamedTuple):
    """A whole file that the system reads at boot; content None where none is needed. mode: None keeps that
    of an existing file, and makes a new one 0644.

    notify: who is notified that it changed, a name of handlers.HANDLERS; empty for none.
    stale: they are notified even if the file is right, as what they made of it is not. first: they move the
    values, so that they are notified before those are set.
    """

    path: str
    content: bytes | None
    notify: str = ""
    stale: bool = False
    mode: int | None = None
    first: bool = False


class Status(str, Enum):
    """Exactly one per setting, the same word in module results, tables and JSON."""

    OK = "ok"
    CHANGED = "changed"
    DRIFTED = "drifted"
    PENDING_REBOOT = "pending_reboot"
    OVERRIDDEN = "overridden"
    CLAMPED = "clamped"
    MANAGED = "managed"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def is_drift(self) -> bool:
        """True where the node is not what was declared, or that is unknown.

        unsupported is not drift, as no run can ever mend it, nor success: it keeps
        its own word and its own count everywhere.
        """
        return self in _DRIFT


_DRIFT = frozenset({Status.DRIFTED, Status.PENDING_REBOOT, Status.OVERRIDDEN, Status.REFUSED, Status.UNKNOWN})


class Severity(str, Enum):
    """Cost of a deviation: high = jobs run measurably slower or die; low = hygiene."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    def __str__(self) -> str:
        return self.value
