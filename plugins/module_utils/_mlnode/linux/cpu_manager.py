# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs of kubelet's CPU manager: reserved for daemons, shared by pods, and given to one container.

Sources: pkg/kubelet/cm/cpumanager/state/checkpoint.go; Kubernetes, Control CPU Management Policies.
"""

from __future__ import annotations

import re
from typing import Iterator

from ..host.host import Host
from ..model import cpulist, strict_json
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import drop_ins, kubelets

#: --root-dir of kubelet, k3s and rke2; of k0s; of MicroK8s
_STATES = (
    "/var/lib/kubelet/cpu_manager_state",
    "/var/lib/k0s/kubelet/cpu_manager_state",
    "/var/snap/microk8s/common/var/lib/kubelet/cpu_manager_state",
)
_CONFIGS = (
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet/kubelet-config.json",
    "/var/lib/k0s/kubelet-config.yaml",
)
_OPTION = regex(r"(?:^\s*|[{,]\s*)\"?reservedSystemCPUs\"?\s*:\s*[\"']?([0-9][0-9,-]*)", re.ASCII)
_FLAG = regex(r"reserved-cpus[= ]\"?([0-9][0-9,-]*)", re.ASCII)
_UNITS = ("kubelet.service", "k3s.service", "k3s-agent.service", "rke2-agent.service", "rke2-server.service")


class Pool(NamedTuple):
    """CPUs that kubelet uses for one purpose. where: file, with its line if it has lines."""

    purpose: str
    where: str
    cpus: tuple[int, ...]


SHARED, RESERVED, OWN = "pods without own CPUs", "reserved for daemons", "exclusive CPUs of a container"


def pools(host: Host) -> list[Pool]:
    """Raises HostError."""
    return [*_reserved(host), *(pool for path in _STATES for pool in _state(host, path))]


def _state(host: Host, path: str) -> Iterator[Pool]:
    text = host.text(path)
    if not text.strip():
        return
    try:
        state = strict_json.loads(text, path)
        if state.get("policyName") != "static":
            return
        yield Pool(SHARED, path, cpulist.parse(str(state.get("defaultCpuSet") or "")))
        for containers in (state.get("entries") or {}).values():
            for name, cpus in containers.items():
                yield Pool(f"{OWN} ({name})", path, cpulist.parse(str(cpus)))
    except (ValueError, AttributeError) as error:
        raise HostError("understand", path, None, f"it is not a state of the CPU manager: {error}") from error


def _reserved(host: Host) -> Iterator[Pool]:
    for path in _CONFIGS:
        for number, line in enumerate(drop_ins.text(host, path).split("\n"), start=1):
            match = _OPTION.search(line)
            if match:
                yield _pool(f"{path}:{number}", match[1])
    for unit in _UNITS:
        _command, lines = kubelets.arguments(host, unit)
        for given in lines:
            match = _FLAG.search(given.value or "")
            if match:
                yield _pool(f"{given.file}:{given.number}", match[1])


def _pool(where: str, cpus: str) -> Pool:
    try:
        return Pool(RESERVED, where, cpulist.parse(cpus))
    except ValueError as error:
        raise HostError("understand", where, None, str(error)) from error
