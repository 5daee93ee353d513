# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of knob: the interface between an area of knobs/ and the engine."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
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

#: `systemctl enable` makes the link; read as a file, which a captured tree shows too.
AGENT_UNIT = places.AGENT_UNITS[0]
AGENT_FILE = f"/etc/systemd/system/{AGENT_UNIT}"
AGENT_LINK = f"/etc/systemd/system/multi-user.target.wants/{AGENT_UNIT}"

#: Answers of the agent, as files: why the next boot does not run it, empty if it does; the same for an image,
#: whose files are for other machines; the change that waits to be confirmed; the undone change
AGENT_FAULT = f"{places.AGENT}/fault"
AGENT_IMAGE_FAULT = f"{places.AGENT}/image-fault"
AGENT_PENDING = f"{places.AGENT}/pending"
AGENT_UNDONE = f"{places.AGENT}/undone"
#: Text of AGENT_FAULT if no file of the agent exists
NO_AGENT = f"{AGENT_UNIT} is not enabled (install the agent)"

#: Kind of the rows about the agent, and its row about the next boot
AGENT_KIND = "agent"
AGENT_ROW = f"{AGENT_KIND}.boot"

Spec = Mapping[str, Any]


class Facts:
    """Hardware facts for formulas; each is read once, on the first request."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory: dict[str, int] | None = None
        self._rate: int | None = None
        self._command_line: str | None = None

    def memory_kbytes(self, name: str = "MemTotal") -> int:
        """A row of /proc/meminfo in KiB. Raises HostError if there is no such row."""
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
        """Rate of the fastest physical interface that is up; 0 if none reports a rate (virtio, WiFi)."""
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
        """As `uname -r`; empty if it cannot be read."""
        path = "/proc/sys/kernel/osrelease"
        return self._host.once(path, lambda: self._host.value(path).text or "")

    def command_line(self, name: str) -> list[str]:
        """The values of a parameter on the running kernel's command line, in their order."""
        if self._command_line is None:
            self._command_line = self._host.read("/proc/cmdline")
        given = []
        for word in self._command_line.split():
            key, equals, value = word.partition("=")
            if key == "--":  # the words after it are for init, not for the kernel
                break
            if key == name and equals:
                given.append(value)
        return given


class Info(NamedTuple):
    """Grounds for a knob: the severity of a deviation, the reason, and its source."""

    severity: Severity
    reason: str
    source: str


class Row(NamedTuple):
    """One setting with its reading and its one status. by_profile: a profile asks for it, not the operator's
    own declaration."""

    setting: Setting
    reading: Reading
    status: Status
    causes: tuple[Cause, ...]
    info: Info
    origin: str | None = None
    by_profile: bool = False

    @property
    def reason(self) -> str:
        """The causes as text for people."""
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
    """Facts for a kind apart from its own settings.

    name: the declaration under evaluation. allow: names of guards that the operator has switched off. agent:
    whether the next boot runs the agent. agent_fault: why it does not. agent_unread: why that cannot be read.
    agent_row: the report has a separate row for that. on_disk: keys (and claims) that the agent would apply.
    origins: kernel file → its original value, if known. spec: the declared specification of this kind,
    unparsed.
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
        """The boot layer of a setting that no drop-in carries. instead_of: why its drop-in is not read."""
        if self.agent_applies(setting):
            return Boot(Value(text=want or setting.claim), AGENT_UNIT)
        row = AGENT_ROW if self.agent_row else ""
        if self.agent_unread:
            return Boot(Value(unreadable=self.agent_unread), row=row)
        if not self.agent:
            why = f"{instead_of}, and {self.agent_fault}" if instead_of else self.agent_fault
            return Boot(Value(absent=f"nothing brings it back, as {why}"), row=row)
        return Boot(Value(absent="not yet declared on the node"))


class Kind(ABC):
    """A kind of knob: knobs/AREA/kind.py of each area has one instance.

    The defaults here are for settings with one file each that only the agent restores at boot.
    """

    KIND: str
    OPTIONS: Table
    #: The drivers of the files it reads and writes
    MOUNTS: Mounts = {}

    def checked(self, spec: Any) -> Checked:
        """The specification in checked form, as later stages expect it. Raises DeclarationError."""
        return schema.checked(self.KIND, spec, self.OPTIONS)

    @abstractmethod
    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        """Settings of a declaration, in the order of their application. facts None: leave `auto` unresolved.
        Raises DeclarationError."""

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        """One reading per setting, in the same order. An unreadable setting is unknown."""
        try:
            node = self.look(settings, context)
        except HostError as error:
            return [_unreadable(setting, error) for setting in settings]
        return [self._known(setting, node) for setting in settings]

    def look(self, settings: Sequence[Setting], context: Context) -> Any:
        """Data shared by all readings of one run. Raises HostError."""
        return context

    def _known(self, setting: Setting, node: Any) -> Reading:
        try:
            return self.read_one(setting, node)
        except HostError as error:
            return _unreadable(setting, error)

    @abstractmethod
    def read_one(self, setting: Any, node: Any) -> Reading:
        """setting: from parse(). node: from look(). Raises HostError if its files cannot be read."""

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The drop-ins that carry these rows at boot."""
        return []

    def conflicts(self, key: str, other: str) -> bool:
        """True if a write to one of two different keys would change the other: both cannot be declared
        together. Also False if read() compares their values."""
        return False

    def facts(self, host: Host, rows: Sequence[Row]) -> dict[str, Any]:
        """Facts of a result apart from its rows, such as equivalent commands."""
        return {}

    def keeps(self, key: str, path: str, origin: str, context: Context) -> str:
        """Reason why a kernel file of a setting that has left the declaration keeps its value: a declaration
        of the original value would be refused. Empty if the value goes back."""
        return ""

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every place that sets the key at boot, for an explanation."""
        return []

    def option(self, key: str) -> Option:
        """The option of a setting, or the enclosing option that has its reason."""
        return reasoned(self.OPTIONS, key.split(".")[1:])

    def info_of(self, setting: Setting, runtime: Value) -> Info:
        """As info(), for a declared setting."""
        return self.info(setting.key, runtime)

    def info(self, key: str, runtime: Value) -> Info:
        """Severity, reason and source of a key."""
        option = self.option(key)
        return Info(option.severity, option.reason, option.source)


def _unreadable(setting: Setting, error: HostError) -> Reading:
    problem = Value(unreadable=str(error))
    return Reading(setting.path, problem, Boot(problem), setting.want)


def reasoned(table: Table, words: Sequence[str]) -> Option:
    """The innermost option with a reason on the path of a key's words. Raises KeyError if there is none."""
    innermost_option: Option | None = None
    for word in words:
        named = {option.key or name: option for name, option in table.items()}
        if word not in named:
            break
        innermost_option = named[word] if innermost_option is None or named[word].reason else innermost_option
        table = named[word].names
    if innermost_option is None:
        raise KeyError(".".join(words))
    return innermost_option
