# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind modules: kernel modules to load now and at every boot (modules-load.d(5)), and their parameters
(modprobe.d(5)).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...engine import boot_service
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...host.host import Host
from ...linux import modules_load, systemd_show
from ...linux.modules_load import Bar, Config
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.schema import Checked, Option
from ...model.setting import Boot, BootFile, Reading, Setting, Severity, Value
from ...topology import machine
from ...topology.sysfs import Reader
from .. import own_file
from . import needed, options
from . import schema as own

#: Never the file of the kind sysctl, as no declaration's name has a dot
DROP_IN = "/etc/modules-load.d/mlnode-modules."

#: The two words of a module's state
LOADED, NOT_LOADED = "loaded", "not loaded"
_BUILT_IN = "built into the kernel"

_CONTAINER = "kernel modules belong to the container's host: declare them there"
_NO_MORE = "/proc/sys/kernel/modules_disabled"


class _Node(NamedTuple):
    """Data shared by one run's settings.

    container: its host decides. words: module → wanted parameters, as their file may not be written yet.
    """

    context: Context
    config: Config
    release: str
    container: bool
    disabled: bool
    words: Mapping[str, Sequence[str]]

    @property
    def host(self) -> Host:
        return self.context.host


def _runtime(name: str, node: _Node) -> tuple[Value, bool]:
    """Its state, or why it is absent, and whether it is built into the kernel. Raises HostError."""
    host, release, path = node.host, node.release, f"{modules_load.LOADED}/{name}"
    if modules_load.is_built_in(host, release, name):
        return Value(text=LOADED), True
    if host.exists(path):
        # A module that is being loaded or unloaded reports this; a built-in one has no such file.
        state = host.value(f"{path}/initstate")
        if state.text is not None or state.unreadable is not None:
            return Value(text=LOADED) if state.text == "live" else state, False
        return Value(text=LOADED), not modules_load.is_loadable(host, release, name)
    if modules_load.is_loadable(host, release, name):
        return Value(text=NOT_LOADED), False
    if node.container:
        return Value(absent=f"{path} does not exist, and {_CONTAINER}"), False
    folder = f"/lib/modules/{release}"
    lacking = f"{folder} has no module {name}, and it is not built into this kernel"
    if not host.exists(f"{folder}/modules.dep"):
        lacking = f"{folder}/modules.dep does not exist: this kernel's modules are not installed"
    return Value(absent=lacking), False


def _host_boot(runtime: Value) -> Boot:
    if runtime.text == LOADED:
        return Boot(runtime, "the container's host")
    return Boot(Value(absent=_CONTAINER))


def _boot(setting: Setting, built_in: bool, barred: Bar | None, node: _Node, listed: bool = False) -> Boot:
    """Result of systemd-modules-load at the next boot."""
    name = options.split(setting.key)[0]
    if built_in:
        return Boot(Value(text=LOADED), _BUILT_IN)
    if node.config.unreadable:
        return Boot(Value(unreadable="; ".join(node.config.unreadable)))
    if barred is not None:
        why = Value(absent=barred.words) if barred.sure else Value(unreadable=barred.words)
        return Boot(why, barred.where, foreign=True)
    off = boot_service.loader_off(node.host, systemd_show.MODULES_UNIT, node.context.runtime)
    if off:  # No list is read; the agent runs modprobe
        return node.context.boot_by_agent(setting, LOADED, instead_of=off)
    line = node.config.listing(name)
    if line is not None:
        return Boot(Value(text=LOADED), line.where)
    if listed:
        return Boot(Value(text=LOADED), "kernel command line")
    return Boot(Value(absent="no file in modules-load.d lists it"))


_BBR = "tcp(7), tcp_congestion_control"

#: Module → severity, reason, source
_REASONS: dict[str, tuple[Severity, str, str]] = {
    "ib_uverbs": (Severity.HIGH, "without it no program can use RDMA", "user_verbs.rst"),
    "rdma_ucm": (Severity.MEDIUM, "without it no program can connect by RDMA-CM", "rdma_cm(7)"),
    "ib_umad": (Severity.LOW, "the tools of InfiniBand fabrics need it", "user_mad.rst"),
    **{
        name: (Severity.HIGH, "without it or DMA-BUF each message of a GPU goes through host memory", source)
        for name, source in needed.SOURCES.items()
    },
    "tcp_bbr": (Severity.LOW, "the congestion control for long paths with loss", _BBR),
    "sch_fq": (Severity.LOW, "the queueing that paces what bbr sends", "tc-fq(8)"),
}  # fmt: skip


class ModulesKind(Kind):
    KIND = "modules"
    OPTIONS = own.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        """One setting for each module, and then for each parameter."""
        names = [modules_load.underscored(name) for name in given.get("modules", ())]
        claims = {
            **dict.fromkeys(given.get("where_needed", ()), needed.CLAIM),
            **dict.fromkeys(names, LOADED),
        }
        loaded = [
            Setting(self.KIND, f"module.{name}", f"{modules_load.LOADED}/{name}", LOADED, claim)
            for name, claim in claims.items()
        ]
        return [*loaded, *options.parse(self.KIND, given.get("options", {}))]

    def look(self, settings: Sequence[Setting], context: Context) -> _Node:
        """The files, and the parts of this kernel that are asked for."""
        host = context.host
        return _Node(
            context,
            modules_load.load(host),
            context.facts.kernel_release() if context.runtime else "",
            # A build host is not evidence for the machines that boot its image.
            context.runtime and machine.read(Reader(host)).kind == "container",
            context.runtime and host.value(_NO_MORE).text == "1",
            options.words_of(settings),
        )

    def read_one(self, setting: Setting, node: _Node) -> Reading:
        name, parameter = options.split(setting.key)
        if setting.claim == needed.CLAIM and not node.context.runtime:
            return Reading(setting.path, Value(), node.context.boot_by_agent(setting, None))
        sure = not node.container and setting.claim != needed.CLAIM
        try:
            return self._read(setting, name, parameter, node)
        except HostError as error:
            # Its file stays as it is.
            problem = Value(unreadable=str(error))
            return Reading(setting.path, problem, Boot(problem), setting.want, native=sure)

    def _read(self, setting: Setting, name: str, parameter: str, node: _Node) -> Reading:
        """Raises HostError."""
        if not node.context.runtime:
            boot = (
                options.boot_of(node.config.given(name, parameter), node.config, setting.claim)
                if parameter
                else _boot(setting, False, node.config.barred(name), node)
            )
            return Reading(setting.path, Value(), boot, setting.want, native=True)
        if parameter:
            blocked = _CONTAINER if node.container else ""
            return options.read(setting, node.config, node.host, node.release, blocked)
        if setting.claim == needed.CLAIM:
            obstacle = needed.obstacle(node.host, node.release, name)
            if obstacle.words:
                absent = Value(absent=obstacle.words)
                return Reading(setting.path, absent, Boot(absent), elsewhere=obstacle.needless)
        runtime, built_in = _runtime(name, node)
        listed, barred = modules_load.on_command_line(node.host, name)
        barred = None if built_in else barred or node.config.barred(name)
        arguments = node.words.get(name, ())
        # modprobe would have no effect either: only another boot can load it.
        waits = node.disabled or (barred is not None and barred.for_all)
        return Reading(
            path=setting.path,
            runtime=runtime,
            boot=_host_boot(runtime) if node.container else _boot(setting, built_in, barred, node, listed),
            want=LOADED,
            blocked=_CONTAINER if node.container else "",
            native=not node.container,
            load=(" ".join([name, *arguments]),) if runtime.text == NOT_LOADED and not waits else (),
            note=_BUILT_IN if built_in else "",
            at_boot=waits,
        )

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The list of one declaration, without modules that this kernel lacks: systemd would report a failure
        at every boot. Empty if the content is unknown, which leaves the files as they are.
        """
        if any(row.reading.runtime.unreadable is not None and not row.reading.native for row in rows):
            return []
        native = [row for row in rows if row.reading.native]
        pairs = [(options.split(row.setting.key), row) for row in native]
        names = [
            module
            for (module, parameter), row in pairs
            if not parameter and row.reading.runtime.absent is None
        ]
        # A parameter that a module does not show may still be one.
        given = options.file(name, [row.setting for (_module, parameter), row in pairs if parameter])
        content = own_file.content(name, names, explains="module.NAME")
        return [BootFile(f"{DROP_IN}{name}.conf", content), BootFile(*given)]

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every line of modules-load.d, modprobe.d and the kernel command line that mentions the module."""
        name, parameter = options.split(key)
        if parameter:
            lines = options.given(modules_load.load(host), host, name, parameter)
            return [f"{line.where} gives {line.value}" for line in lines]
        _listed, barred = modules_load.on_command_line(host, name)
        sources = [barred.words] if barred else []
        return sources + [f"{line.where}: {line.text}" for line in modules_load.load(host).boot_sources(name)]

    def option(self, key: str) -> Option:
        return self.OPTIONS["options" if options.split(key)[1] else "modules"]

    def info(self, key: str, runtime: Value) -> Info:
        name, parameter = options.split(key)
        known = None if parameter else _REASONS.get(name)
        info = Info(*known) if known else super().info(key, runtime)
        if not parameter:
            return info
        return info._replace(reason=f"how {name} was declared to work", source=f"{info.source} {name}")


kind = ModulesKind()
