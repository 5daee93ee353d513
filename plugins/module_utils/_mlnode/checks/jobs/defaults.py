# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared defaults for new containers (area containers) that the runtime of a job has."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

from ...engine.declared import Declaration
from ...host.host import Host
from ...knobs.containers import parse, schema
from ...knobs.containers.parse import SHM_SIZE, SYSCTLS, ULIMITS
from ...knobs.limits import parse as limits_parse
from ...knobs.limits.parse import LIMITS, Wanted
from ...knobs.sysctl import parse as sysctl_parse
from ...linux import cgroup_names, daemons
from ...linux.cgroup_names import Job
from ...linux.job_processes import JobProcess
from ...model.errors import HostError, MlnodeError
from ...model.record import NamedTuple
from ...model.schema import Checked
from ...model.setting import Setting

#: Runtime → the topics that it has defaults for, as in docs/knobs/containers.md. The defaults of the kubelet
#: depend on its version, and are not expected.
_TOPICS = {
    "podman": (SYSCTLS, ULIMITS, SHM_SIZE),
    "docker": (ULIMITS, SHM_SIZE),
    "crio": (SYSCTLS, ULIMITS),
}


class Defaults(NamedTuple):
    """topics: the declared ones. sysctls, ulimits: exact values of a dictionary; empty for `auto`, because
    the areas sysctl and limits have them. shm_size: in bytes; None if it is not declared."""

    topics: frozenset[str] = frozenset()
    sysctls: Mapping[str, Setting] = {}
    ulimits: Mapping[str, Wanted] = {}
    shm_size: int | None = None


#: Takes a declaration, its area and the reason why that cannot be used
Unclear = Callable[[Declaration, str, MlnodeError], None]


def declared(declarations: Sequence[Declaration], job: Job, unclear: Unclear) -> Defaults:
    """Defaults for a job."""
    known = _TOPICS.get(job.runtime, ()) if job.kind in (cgroup_names.CONTAINER, cgroup_names.POD) else ()
    defaults = Defaults()
    for declaration in declarations if known else ():
        spec = _spec(declaration, unclear)
        if job.runtime not in spec.get("runtimes", schema.RUNTIMES):
            continue
        for topic in known:
            if topic not in defaults.topics and spec.get(topic) is not None:
                defaults = _with(defaults._replace(topics=defaults.topics | {topic}), topic, spec)
    return defaults


def is_newer(host: Host, declarations: Sequence[Declaration], process: JobProcess) -> bool:
    """True if a file with these defaults has changed since the start of a process. Its container is as old,
    or older. False if that is not known."""
    # Only here: most jobs have no declared defaults.
    from ...knobs.containers.kind import RUNTIMES

    try:
        started = daemons.started(host, process.pid)
        paths = {RUNTIMES[process.job.runtime].file(declaration.name) for declaration in declarations}
        times = [host.changed(path) for path in sorted(paths)]
    except HostError:
        return False
    return started is not None and any(time is not None and time > started for time in times)


def _spec(declaration: Declaration, unclear: Unclear) -> Checked:
    try:
        spec = declaration.checked_spec(parse.KIND, schema.OPTIONS)
        parse.parse(spec)
    except MlnodeError as error:
        unclear(declaration, parse.KIND, error)
        return Checked()
    return spec


def _with(defaults: Defaults, topic: str, spec: Checked) -> Defaults:
    if topic == SHM_SIZE:
        return defaults._replace(shm_size=int(spec[SHM_SIZE]))
    if spec[topic] == schema.AUTO:
        return defaults
    if topic == ULIMITS:
        limits = parse.ulimits(spec).items()
        wants = {name: limits_parse.wanted(LIMITS[name], text)._replace(exact=True) for name, text in limits}
        return defaults._replace(ulimits=wants)
    settings = sysctl_parse.parse(Checked({"settings": parse.sysctls(spec)}), None)
    return defaults._replace(sysctls={setting.key: setting for setting in settings})
