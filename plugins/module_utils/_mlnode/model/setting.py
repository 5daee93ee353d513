# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vocabulary: declared settings, readings, and the one final status of each setting. All types are
frozen, so no layer changes the data of another."""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable

from .cause import Cause
from .cause import Layer as Layer  # noqa: PLC0414 - it belongs to this vocabulary, and a cause has one
from .record import NamedTuple, dataclass
from .values import same

BOTH_LAYERS = (Layer.RUNTIME, Layer.BOOT)


#: Why a higher value is lowered
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
    """Value of the next boot, and its source.

    source: `path:line`, `kernel command line` or the agent's unit. foreign: set by others, so a difference
    from the declaration is an override and no mere omission. row: another row of the report that explains why
    nothing sets the value; this row is not at fault then.
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
    raise_only: keep the present value if it is greater. floor: the least number, for rules that have one.
    formula: derivation of an automatic number. clamped: the number that it needs, if a cap reduced it.
    derived: the number is valid for one machine in one boot. No file of the system holds it; the agent
    sets it in that boot.
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
    """A device that is changed as a whole and verified before the next one.

    look: called before the first change; returns a function to call after the last one, which raises
    HostError if the device is not well then. resets: a change interrupts the device. depth: number of devices
    below it, which are changed first.
    """

    name: str
    look: Callable[[Any], Callable[[], None]]
    resets: bool = False
    depth: int = 0


class KnobFile(NamedTuple):
    """A kernel file of a setting. A setting may have many of them: one for each policy, IRQ or queue.

    number: of the policy, IRQ or queue, for people. runtime, want: in one spelling, for comparison.
    undo: the writes that restore the present value and everything else that a change of it moves.
    device: the path the file belongs to. Once that path is gone, or after a reboot, the number may belong to
    another device, and the old value is meaningless. Empty if the file is permanent.
    owner: the path that comes and goes with the driver that takes the value; `device` if not given.
    Empty for the kernel itself: a value that it rejects fails the whole run.
    moved: the part of this declaration that will move the file before its turn, so a write is needed even
    if the value is right now; empty if nothing moves it. mover: the write that moves it, if known.
    unit: the device it is a part of, if that is changed as a whole. joined: the folder whose files one write
    sets together; empty if the file is set alone. risk: how a write may cut off the caller's connection.
    refusal: as in Reading, for this part alone. answer: why the owner lacks the requested value or cannot
    have it, such as a value that it does not offer; empty if unknown. advice: a remedy for that.
    place: a name for people; empty for the name of its unit, or its path.
    rounds: the device may round the number. means: the file only makes others of its folder take effect, so
    a device that rejects it is right without it.
    cpus: the CPUs that the file controls; empty if it is not about CPUs.
    partial: the kernel may accept the value and give less. among: see values.fits(). late: it can be restored
    only after the files of its setting. negotiated: the present value was agreed on with the link partner, so
    restoring it takes a moment.
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
        """Path at the end of a note about the effect of a value; empty for the kernel itself."""
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
    want: the value to reach, with `auto` and raise-only resolved; None if they cannot be resolved yet.
    offered: the values that the kernel lists as possible; empty if it lists none.
    blocked: why this node cannot set it, as in a container; empty if it can.
    barred: why the file cannot be written although this node owns it; empty if it can.
    invalid: why the declaration itself is wrong for this node, on any device; empty if it is right. A value
    that a driver or kernel does not offer is KnobFile.answer instead, which affects that part alone.
    refusal: the guard that stops a change to the wanted value, and how to allow it.
    native: a drop-in of the system carries this setting, in a kind with drop-ins for some settings only.
    load, modules: kernel modules to load now, each followed by its parameters, and to load at every boot.
    parts: the kernel files to set; empty if none can be set, or if other files cover the setting.
    origin: summary of the original values of the parts, if it differs from the file at path.
    note: a remark on a setting that is right, such as CPUs that were left out.
    managed: why the kernel reserves the setting for itself; empty if it does not.
    at_boot: the kernel takes the value at boot only; a new value needs a reboot.
    clamped: the request exceeds the device's maximum, or the formula exceeds its cap: both numbers.
    want is the maximum or the cap.
    missing: its rule requires devices that this node lacks, so the node deviates from its declaration.
    elsewhere: meant for other nodes: its rule is for ports of a link layer that this node lacks, or it was
    declared for nodes that need it, and this node does not.
    optional: this node has no device of that kind. A value of a profile is then `elsewhere`; a value of an
    operator is meant for this node.
    refers: another setting of the rule, which explains why there is nothing to read.
    lowers: the higher value that would be lowered, and why, such as EXACTLY; empty if none is.
    setter: the line that set the runtime value, if that differs from the wanted one and the line is known.
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
    """A whole file that the system reads at boot; content None if it is not needed. mode: None keeps the mode
    of an existing file and gives 0644 to a new one.

    notify: the handler to notify of a change, a name in handlers.HANDLERS; empty for none. stale: notify even
    if the file is right, because its last result is outdated. first: notify before values are set, because
    the handler moves them.
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
        """True if the node differs from its declaration, or if that is unknown.

        unsupported is neither drift, because no run can repair it, nor success: it has its own word and its
        own count everywhere.
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
