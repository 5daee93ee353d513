# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default sysctls that the installed runtimes give to new containers, from all of their files."""

from __future__ import annotations

from typing import Collection, Mapping, Sequence

from ...host.host import Host
from .kind import RUNTIMES
from .kubelet import ALLOWED
from .parse import SYSCTLS
from .runtime import Runtime

#: These start a pod together, and a default of one of them suffices
_PODS = ("kubelet", "crio", "containerd")


def sysctls(host: Host, keys: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Name of a runtime → the keys that it sets, with any value. The runtimes of pods are one entry. Raises
    HostError."""
    given = {
        name: _given(host, runtime, keys) for name, runtime in RUNTIMES.items() if runtime.installed(host)
    }
    pods = [name for name in _PODS if name in given]
    together = [key for key in keys if any(key in given[name] for name in pods)]
    alone = {name: keys_set for name, keys_set in given.items() if name not in pods}
    return {**alone, **({" with ".join(pods): together} if pods else {})}


def _given(host: Host, runtime: Runtime, keys: Collection[str]) -> Sequence[str]:
    """A key that the kubelet allows is not set, because each pod has to ask for it."""
    if SYSCTLS in runtime.lacks:
        return ()
    now = runtime.given(host, SYSCTLS, "", dict.fromkeys(keys, "")).now
    return [key for key in keys if now.get(key, ALLOWED) != ALLOWED]
