# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind containers: sysctls, ulimits and /dev/shm of new containers, as defaults of installed runtimes.

Runtime is the value for a container that is started now, boot the value after the next start of its runtime.
Both are corrected in files, which belong to the layer boot. No runtime is restarted, as containers may die.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...engine import declared
from ...engine.kind import Context, Facts, Kind, Row
from ...host.host import Host
from ...model.errors import HostError
from ...model.record import replace
from ...model.schema import Checked, Option
from ...model.setting import Boot, BootFile, Reading, Setting, Value
from . import docker, node, runtime, schema
from . import parse as own
from .containerd import Containerd
from .crio import Crio
from .docker import Docker
from .kubelet import Kubelet
from .parse import KIND, UNSET, Values, compared, shown, taken_apart
from .podman import Podman
from .runtime import Given, Runtime

#: Modules that are loaded by name to write a shared file; this area adds them to the agent
BRINGS = docker.BRINGS

RUNTIMES: Mapping[str, Runtime] = {
    engine.name: engine for engine in (Podman(), Docker(), Crio(), Containerd(), Kubelet())
}

NOT_INSTALLED = "not installed"
_ONLY_BOOT = "defaults of runtimes are kept in files of the layer boot: declare that, too"
_NOTHING = "no declared value has to be set in containers"


class ContainersKind(Kind):
    KIND = KIND
    OPTIONS = schema.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        settings = own.parse(given)
        return [replace(setting, path=RUNTIMES[taken_apart(setting.key)[0]].path) for setting in settings]

    def read_one(self, setting: Setting, context: Context) -> Reading:
        name, topic = taken_apart(setting.key)
        engine = RUNTIMES[name]
        path = engine.file(context.name)
        installed = engine.installed(context.host)
        lacks = engine.lacks.get(topic, "") if installed else engine.elsewhere(context.host)
        if lacks:
            absent = Value(absent=lacks)
            return Reading(path, absent, Boot(absent), setting.want)
        if not installed:
            left = Value(text=NOT_INSTALLED)
            return Reading(path, left, Boot(left), NOT_INSTALLED)
        want, given, resolved = self._state(setting, context, context.spec)
        if not want:
            left = Value(text=UNSET)
            return Reading(path, left, Boot(left), UNSET, note="; ".join([_NOTHING, *resolved.notes]))
        return self._reading(engine, topic, want, given, resolved, context)._replace(path=path)

    def _reading(
        self,
        engine: Runtime,
        topic: str,
        want: Values,
        given: Given,
        resolved: node.Resolved,
        context: Context,
    ) -> Reading:
        host, text = context.host, shown(want)
        now = compared(given.now, want)
        boot = Boot(Value(text=now), given.where)
        if now == UNSET:
            boot = Boot(Value(absent="no file sets it"))
        flag = engine.flag(host, topic)
        if given.beaten:
            boot = Boot(
                Value(absent=f"{given.beaten} sets it after mlnode's file"), given.beaten, foreign=True
            )
        if flag:
            boot = Boot(Value(absent=f"{flag} overrides the file"), flag, foreign=True)
        runs, newer = runtime.waits(host, engine) if context.runtime else (False, "")
        if engine.unread(host, topic):
            now, boot = UNSET, Boot(Value(absent="no file that is read sets it"))
        elif newer and now == text:
            now = f"not read yet by {engine.process} ({engine.restart})"
        obstacle = engine.obstacle(host, topic)
        refusal = resolved.refusal or node.refusal(topic, want, context)
        return Reading(
            path="",
            runtime=Value(text=now) if context.runtime else Value(),
            boot=boot,
            want=text,
            blocked=(obstacle or ("" if context.boot else _ONLY_BOOT)) if context.runtime else "",
            refusal=refusal or ("" if context.runtime else obstacle),
            invalid=resolved.invalid,
            origin=compared(given.others, want),
            note="; ".join(filter(None, [*resolved.notes, given.note])),
            clamped=engine.limit(want),
            at_boot=runs or boot.foreign,
        )

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The files of one declaration. If a runtime cannot be read, its files stay."""
        wants: dict[str, dict[str, Values]] = {engine: {} for engine in RUNTIMES}
        closed = set()
        for row in rows:
            engine, topic = taken_apart(row.setting.key)
            if row.reading.runtime.unreadable is not None or row.reading.boot.value.unreadable is not None:
                closed.add(engine)
            elif _is_carried(row):
                wants[engine][topic] = self._state(row.setting, context, context.spec)[0]
        files: list[BootFile] = []
        for engine, topics in wants.items():
            if engine in closed:
                continue
            try:
                if engine == "docker":
                    topics = {**self._of_others(context), **topics}
                files += RUNTIMES[engine].files(context.host, name, topics)
            except HostError:
                if not rows:
                    raise
        return files

    def _state(
        self, setting: Setting, context: Context, spec: Checked
    ) -> tuple[Values, Given, node.Resolved]:
        """Values of a setting for its file, the state of that, and notes. spec: the area of the setting's
        declaration. Raises HostError."""
        name, topic = taken_apart(setting.key)
        engine, host = RUNTIMES[name], context.host
        resolved = node.resolved(setting, context, spec, name)
        given = engine.given(host, topic, context.name, resolved.values)
        if topic == own.ULIMITS:
            resolved = node.raised(resolved, given.others, engine.without(host, context.runtime))
        want = engine.wanted(host, resolved.values)
        # As found by an earlier run: a driver may be late, and jobs keep the limit if a device fails.
        want = {**want, **{limit: given.own[limit] for limit in resolved.late if limit in given.own}}
        return want, engine.given(host, topic, context.name, want), resolved

    def _of_others(self, context: Context) -> dict[str, Values]:
        """Values of other declarations for the one file of Docker. Raises HostError."""
        engine, host = RUNTIMES["docker"], context.host
        if not engine.installed(host):
            return {}
        values = {}
        for declaration, setting in declared.settings(host, KIND, schema.OPTIONS, own.parse, context.name):
            name, topic = taken_apart(setting.key)
            if name == engine.name and topic not in engine.lacks and not engine.obstacle(host, topic):
                spec = declaration.checked_spec(KIND, schema.OPTIONS)
                values[topic] = self._state(setting, context, spec)[0]
        return values

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every line that sets the topic of a runtime."""
        name, topic = taken_apart(key)
        return RUNTIMES[name].sources(host, topic) if topic not in RUNTIMES[name].lacks else []

    def option(self, key: str) -> Option:
        return self.OPTIONS[taken_apart(key)[1]]


def _is_carried(row: Row) -> bool:
    reading = row.reading
    left = reading.want in (None, UNSET, NOT_INSTALLED) or reading.runtime.absent is not None
    return not (reading.refusal or reading.blocked or reading.invalid or left)


kind = ContainersKind()
