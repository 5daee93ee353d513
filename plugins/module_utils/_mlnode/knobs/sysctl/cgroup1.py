# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vm.swappiness with cgroup v1, in which each memory cgroup copies the value of its parent when it is
created.

The root's value is vm.swappiness. systemd creates its slices before it reads sysctl.d, so services keep the
kernel's default (mm/memcontrol-v1.c, mm/memcontrol.c: mem_cgroup_css_alloc).
"""

from __future__ import annotations

from typing import Iterator

from ...engine.kind import Context
from ...host.host import Host
from ...model.errors import several
from ...model.setting import Boot, KnobFile, Setting, Value, Write
from ...model.values import by_key

KEY = "vm.swappiness"

_MEMORY = "/sys/fs/cgroup/memory"
_FILE = "memory.swappiness"
#: With 1, kernels of the Red Hat family apply vm.swappiness to all cgroups, as with cgroup v2
_FORCED = "/proc/sys/vm/force_cgroup_v2_swappiness"

#: The most cgroups in a message
_NAMED = 4

_WHY = "with cgroup v1 services keep what their slices began with, before systemd reads sysctl.d"


def files(host: Host) -> list[str]:
    """The file of each slice and service; none with cgroup v2. Raises HostError.

    Scopes are left out, as a container's value is set by its runtime.
    """
    if not host.exists(f"{_MEMORY}/{_FILE}") or host.value(_FORCED).text == "1":
        return []
    return [path for path in _below(host, _MEMORY) if host.exists(path)]


def _below(host: Host, folder: str) -> Iterator[str]:
    for name in host.names(folder):
        if name.endswith((".slice", ".service")):
            yield f"{folder}/{name}/{_FILE}"
        if name.endswith(".slice"):
            yield from _below(host, f"{folder}/{name}")


def parts(setting: Setting, want: str | None, host: Host) -> tuple[KnobFile, ...]:
    """The values of the cgroups, which are set with the node's own. Raises HostError."""
    if setting.key != KEY or want is None:
        return ()
    knob_files = []
    for path in files(host):
        value = host.value(path)
        if value.absent is None:  # Otherwise the service has just ended
            text = value.text if value.text is not None else host.read(path)
            folder = path.rpartition("/")[0]
            knob_files.append(KnobFile(0, path, text, want, (Write(path, text),), device=folder))
    return tuple(knob_files)


def summary(now: str, of_cgroups: tuple[KnobFile, ...]) -> str:
    """The node's value, and differing values of cgroups."""
    return others(now, {part.path: part.runtime for part in of_cgroups})


def others(now: str, values: dict[str, str]) -> str:
    """Cgroups with another value. values: file → value."""
    unlike = by_key(
        (text, path[len(_MEMORY) + 1 : -len(_FILE) - 1]) for path, text in values.items() if text != now
    )
    texts = [f"{text} in {several(names, _NAMED)}" for text, names in unlike.items()]
    return "; ".join([now, *texts])


def boot(native: Boot, setting: Setting, want: str | None, context: Context) -> Boot:
    """The boot layer with such cgroups: the agent sets them, after the line of sysctl.d."""
    agent = context.boot_by_agent(setting, want)
    if native.value.text is None or agent.value.text is not None:
        return native
    problem = f"{_WHY}: {agent.value.problem}"
    if agent.value.unreadable is not None:
        return agent._replace(value=Value(unreadable=problem))
    return agent._replace(value=Value(absent=problem))
