# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of knob: what each area of knobs/ offers to the engine."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Mapping, Sequence

from ..host import places
from ..host.host import Host, Mounts
from ..model import schema, values
from ..model.cause import Cause, sentence
from ..model.errors import HostError
from ..model.record import NamedTuple
from ..model.schema import Checked, Option, Table
from ..model.setting import BOTH_LAYERS, Boot, BootFile, Layer, Reading, Setting, Severity, Status, Value

#: The link is what `systemctl enable` makes; read as a file, so that a captured tree shows it, too.
AGENT_UNIT = places.AGENT_UNITS[0]
AGENT_FILE = f"/etc/systemd/system/{AGENT_UNIT}"
AGENT_LINK = f"/etc/systemd/system/multi-user.target.wants/{AGENT_UNIT}"

#: Its answers, as files: why the next boot does not run it, empty if it does, and the same of an image, whose
#: files are for other machines; the change that waits to be confirmed, and the one that was undone
AGENT_FAULT = f"{places.AGENT}/fault"
AGENT_IMAGE_FAULT = f"{places.AGENT}/image-fault"
AGENT_PENDING = f"{places.AGENT}/pending"
AGENT_UNDONE = f"{places.AGENT}/undone"
#: The first of them where nothing of the agent is there
NO_AGENT = f"{AGENT_UNIT} is not enabled (install the agent)"

#: Kind of the rows about the agent, and the one that says whether the next boot runs it
AGENT_KIND = "agent"
AGENT_ROW = f"{AGENT_KIND}.boot"

Spec = Mapping[str, Any]


class Facts:
    """The hardware as far as a formula asks for it; each fact is read once, and only when asked."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory: dict[str, int] | None = None
        self._rate: int | None = None
        self._command_line: str | None = None

    def memory_kbytes(self, name: str = "MemTotal") -> int:
        """A row of /proc/meminfo in KiB. Raises HostError where it is not there."""
        if self._memory is None:
            text = self._host.read("/proc/meminfo")
            rows = re.findall(r"^(\w+):\s+([0-9]{1,20}) kB$", text, re.MULTILINE | re.ASCII)
            self._memory = {key: int(number) for key, number in rows}
        if name not in self._memory:
            raise HostError("find", f"{name} in /proc/meminfo", None, "no such row")
        return self._memory[name]

    def memory_bytes(self) -> int:
        return self.memory_kbytes() * 1024

    def hugepage_kbytes(self) -> int:
        """The default huge page size in KiB; 0 for a kernel without huge pages."""
        try:
            return self.memory_kbytes("Hugepagesize")
        except HostError as error:
            if error.errno is None:
                return 0
            raise

    def fastest_link_bit_per_s(self) -> int:
        """Rate of the fastest physical interface that is up; 0 where none reports it (virtio, WiFi)."""
        if self._rate is None:
            names = self._host.names("/sys/class/net")
            self._rate = max((self._link_rate(name) for name in names), default=0)
        return self._rate

    def _link_rate(self, name: str) -> int:
        base = f"/sys/class/net/{name}"
        if not self._host.exists(f"{base}/device"):
            return 0
        if self._host.value(f"{base}/operstate").text != "up":
            return 0
        # Unreadable (EINVAL) and -1 both mean that the driver knows no speed: sysfs-class-net.
        return (values.number(self._host.value(f"{base}/speed").text) or 0) * 1_000_000

    def kernel_release(self) -> str:
        """As `uname -r`; empty where it cannot be read."""
        return self._host.value("/proc/sys/kernel/osrelease").text or ""

    def command_line(self, name: str) -> list[str]:
        """The values of a parameter on the running kernel's command line, in their order."""
        if self._command_line is None:
            self._command_line = self._host.read("/proc/cmdline")
        given = []
        for word in self._command_line.split():
            key, equals, value = word.partition("=")
            if key == "--":  # what follows is for init, not for the kernel
                break
            if key == name and equals:
                given.append(value)
        return given


class Info(NamedTuple):
    """Grounds for a knob: what a deviation costs, the reason, and where that is written."""

    severity: Severity
    reason: str
    source: str


class Row(NamedTuple):
    """One setting with what was read and the one status it ends in."""

    setting: Setting
    reading: Reading
    status: Status
    causes: tuple[Cause, ...]
    info: Info
    origin: str | None = None

    @property
    def reason(self) -> str:
        """The causes for people."""
        return sentence(self.causes)

    def document(self) -> dict[str, Any]:
        """Plain data for module results, `mlnode --json` and every report. A null value is explained by its
        reason."""
        reading = self.reading
        return {
            "kind": self.setting.kind,
            "key": self.setting.key,
            "path": reading.path,
            "declared": self.setting.claim,
            "want": reading.want if reading.want is not None else self.setting.want,
            "runtime": reading.runtime.text,
            "boot": reading.boot.value.text,
            "boot_source": reading.boot.source or None,
            "origin": self.origin,
            "status": str(self.status),
            "severity": str(self.info.severity),
            "reason": self.reason,
            "causes": [cause.document() for cause in self.causes],
        }


class Context(NamedTuple):
    """Facts for a kind besides its own settings.

    name: the declaration that is looked at. allow: guards the operator has switched off by name.
    agent: whether the next boot runs the agent. agent_fault: why it does not. agent_unread: why that cannot
    be read. agent_row: the report has a row of its own for that. on_disk: keys (and claims) the agent would
    apply.
    origins: kernel file → its value before mlnode dealt with it, as far as that is known. spec: what is
    declared of this kind, as it stands there.
    """

    host: Host
    facts: Facts
    name: str = "default"
    layers: tuple[Layer, ...] = BOTH_LAYERS
    allow: tuple[str, ...] = ()
    agent: bool = False
    agent_fault: str = NO_AGENT
    agent_unread: str = ""
    agent_row: bool = False
    on_disk: Mapping[str, str] = MappingProxyType({})
    origins: Mapping[str, str] = MappingProxyType({})
    spec: Checked = Checked()

    @property
    def runtime(self) -> bool:
        return Layer.RUNTIME in self.layers

    @property
    def boot(self) -> bool:
        return Layer.BOOT in self.layers

    def agent_applies(self, setting: Setting) -> bool:
        """True if the boot service will bring exactly this setting."""
        return self.agent and self.on_disk.get(setting.key) == setting.claim

    def boot_by_agent(self, setting: Setting, want: str | None, instead_of: str = "") -> Boot:
        """The boot layer of a setting that no drop-in carries. instead_of: why a drop-in that would is not
        read."""
        if self.agent_applies(setting):
            return Boot(Value(text=want or setting.claim), AGENT_UNIT)
        row = AGENT_ROW if self.agent_row else ""
        if self.agent_unread:
            return Boot(Value(unreadable=self.agent_unread), row=row)
        if not self.agent:
            why = f"{instead_of}, and {self.agent_fault}" if instead_of else self.agent_fault
            return Boot(Value(absent=f"nothing brings it back, as {why}"), row=row)
        return Boot(Value(absent="not yet declared on the node"))


class Kind:
    """A kind of knob: knobs/AREA/kind.py of each area has one object of its class.

    The defaults here are for settings that have a file each, and that the agent alone brings back at boot.
    """

    KIND: str
    OPTIONS: Table
    #: The drivers of the files that it reads and writes
    MOUNTS: Mounts = {}

    def checked(self, spec: Any) -> Checked:
        """The specification as all that is behind takes it. Raises DeclarationError."""
        return schema.checked(self.KIND, spec, self.OPTIONS)

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        """Settings of a declaration, in the order in which they are applied. facts None: leave `auto`
        unresolved. Raises DeclarationError."""
        raise NotImplementedError

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        """One reading per setting, in the same order. What cannot be read is unknown."""
        try:
            node = self.look(settings, context)
        except HostError as error:
            return [_unreadable(setting, error) for setting in settings]
        return [self._known(setting, node) for setting in settings]

    def look(self, settings: Sequence[Setting], context: Context) -> Any:
        """All that the readings of one run share. Raises HostError."""
        return context

    def _known(self, setting: Setting, node: Any) -> Reading:
        try:
            return self.read_one(setting, node)
        except HostError as error:
            return _unreadable(setting, error)

    def read_one(self, setting: Any, node: Any) -> Reading:
        """setting: as of parse(). node: as of look(). Raises HostError where its files cannot be read."""
        raise NotImplementedError

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The drop-ins that carry these rows at boot."""
        return []

    def conflicts(self, key: str, other: str) -> bool:
        """True if a write to one of two different keys would change the other, so that not both can be
        declared. False as well where read() compares what several want."""
        return False

    def facts(self, host: Host, rows: Sequence[Row]) -> dict[str, Any]:
        """Facts of a result besides its rows, such as the commands that would do the same."""
        return {}

    def keeps(self, key: str, path: str, origin: str, context: Context) -> str:
        """Reason why a kernel file of a setting that is not declared any more keeps its value, as the change
        back to its origin would be refused to a declaration; empty where it goes back."""
        return ""

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every place that says something about the key at boot, for an explanation."""
        return []

    def option(self, key: str) -> Option:
        """The option that a setting comes from, or the one around it that has its reason."""
        return reasoned(self.OPTIONS, key.split(".")[1:])

    def info_of(self, setting: Setting, runtime: Value) -> Info:
        """As info(), of a declared setting."""
        return self.info(setting.key, runtime)

    def info(self, key: str, runtime: Value) -> Info:
        """Severity, reason and source of a key."""
        option = self.option(key)
        return Info(option.severity, option.reason, option.source)


def _unreadable(setting: Setting, error: HostError) -> Reading:
    problem = Value(unreadable=str(error))
    return Reading(setting.path, problem, Boot(problem), setting.want)


def reasoned(table: Table, words: Sequence[str]) -> Option:
    """The innermost option with a reason on the way of a key's words. Raises KeyError if there is none."""
    found: Option | None = None
    for word in words:
        named = {option.key or name: option for name, option in table.items()}
        if word not in named:
            break
        found = named[word] if found is None or named[word].reason else found
        table = named[word].names
    if found is None:
        raise KeyError(".".join(words))
    return found
