# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default sysctls that the installed runtimes give to new containers, from all of their files."""

from __future__ import annotations

import json
from typing import Any, Collection, Iterator, Mapping, Sequence

from ...host.host import Host
from ...linux import drop_ins
from ...linux.sysctl_d import dotted, slashed
from ...model import values
from ...model.errors import HostError
from .kind import RUNTIMES
from .kubelet import ALLOWED
from .parse import SYSCTLS
from .runtime import Runtime

#: These start a pod together. The value of the first one counts: a pod's values replace CRI-O's
_PODS = ("kubelet", "crio", "containerd")

#: containerd and CRI-O take the first network by the name of its file (go-cni, opts.go: loadFromConfDir();
#: ocicni, pkg/ocicni/ocicni.go: loadNetworks())
_NETWORKS = "/etc/cni/net.d"
_SUFFIXES = (".conf", ".conflist", ".json")
#: Calls the plugins of the next file, which make the cluster's network
_MULTUS = "multus"


def sysctls(host: Host, keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Name of a runtime → the keys that it sets, with their values. The runtimes of pods are one entry.
    Raises HostError."""
    given = {
        name: _given(host, runtime, keys) for name, runtime in RUNTIMES.items() if runtime.installed(host)
    }
    pods = [name for name in _PODS if name in given]
    network = _of_network(host, keys) if pods else {}
    together = {**network, **{key: value for name in reversed(pods) for key, value in given[name].items()}}
    alone = {name: values for name, values in given.items() if name not in pods}
    words = [*pods, *(["CNI"] if network else [])]
    return {**alone, **({" with ".join(words): together} if pods else {})}


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


def _of_network(host: Host, keys: Collection[str]) -> Mapping[str, str]:
    """Keys that CNI's plugin `tuning` sets in each pod, before the runtime sets its own (containernetworking/
    plugins, plugins/meta/tuning/tuning.go). Raises HostError."""
    for path in drop_ins.paths(host, (_NETWORKS,), _SUFFIXES):
        try:
            plugins = [*_plugins(json.loads(drop_ins.text(host, path) or "{}"))]
        except (ValueError, RecursionError) as error:
            raise HostError("understand", path, None, f"not JSON: {error}") from error
        if any(plugin.get("type") == _MULTUS for plugin in plugins):
            continue
        given: dict[str, str] = {}
        for plugin in plugins:
            sysctls = plugin.get("sysctl") if plugin.get("type") == "tuning" else None
            for key, value in sysctls.items() if isinstance(sysctls, dict) else ():
                given[dotted(slashed(key))] = " ".join(values.tokens(str(value)))
        return {key: given[key] for key in keys if key in given}
    return {}


def _plugins(document: Any) -> Iterator[Mapping[str, Any]]:
    """The plugins of a network, or of a list of them."""
    plugins = document.get("plugins", [document]) if isinstance(document, dict) else ()
    yield from (plugin for plugin in plugins if isinstance(plugin, dict)) if isinstance(plugins, list) else ()
