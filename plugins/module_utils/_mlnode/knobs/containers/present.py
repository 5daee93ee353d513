# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default sysctls that the installed runtimes give to new containers, from all of their files."""

from __future__ import annotations

from typing import Collection, Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from .kind import RUNTIMES
from .kubelet import ALLOWED
from .parse import SYSCTLS
from .runtime import Runtime

#: These start a pod together. The value of the first one counts: a pod's values replace CRI-O's
_PODS = ("kubelet", "crio", "containerd")


def sysctls(host: Host, keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Name of a runtime → the keys that it sets, with their values. The runtimes of pods are one entry.
    Raises HostError."""
    given = {
        name: _given(host, runtime, keys) for name, runtime in RUNTIMES.items() if runtime.installed(host)
    }
    pods = [name for name in _PODS if name in given]
    together = {key: value for name in reversed(pods) for key, value in given[name].items()}
    alone = {name: values for name, values in given.items() if name not in pods}
    return {**alone, **({" with ".join(pods): together} if pods else {})}


def elsewhere(host: Host) -> Sequence[str]:
    """Units with a runtime whose files are not read. Raises HostError."""
    places = [runtime.elsewhere(host) for runtime in RUNTIMES.values() if not runtime.installed(host)]
    return sorted({place.partition(" ")[0] for place in places if place})


def _given(host: Host, runtime: Runtime, keys: Collection[str]) -> Mapping[str, str]:
    """A key that the kubelet allows is not set, because each pod has to ask for it."""
    if SYSCTLS in runtime.lacks:
        return {}
    place = runtime.flag(host, SYSCTLS)
    if place:
        raise HostError("understand", place, None, "it overrides the files of the runtime")
    unread = runtime.unread(host, SYSCTLS) if runtime is RUNTIMES["crio"] else ""
    if unread:
        raise HostError("read the configuration of", runtime.name, None, unread)
    now = runtime.given(host, SYSCTLS, "", dict.fromkeys(keys, "")).now
    return {key: now[key] for key in keys if now.get(key, ALLOWED) != ALLOWED}
