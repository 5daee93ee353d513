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
from . import kubelets

#: --root-dir of kubelet, k3s and rke2; of k0s; of MicroK8s
_STATES = (
    "/var/lib/kubelet/cpu_manager_state",
    "/var/lib/k0s/kubelet/cpu_manager_state",
    "/var/snap/microk8s/common/var/lib/kubelet/cpu_manager_state",
)
_OPTION = regex(r"(?:^\s*|[{,]\s*)\"?reservedSystemCPUs\"?\s*:\s*[\"']?([0-9][0-9,-]*)", re.ASCII)
_FLAG = regex(r"reserved-cpus[= ]\"?([0-9][0-9,-]*)", re.ASCII)


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
    """The last one of each kubelet: its drop-ins come after its file, and flags override both."""
    for unit in kubelets.UNITS:
        lines = kubelets.lines(host, unit)
        matches = [(line, pattern.search(line.value or "")) for pattern in (_OPTION, _FLAG) for line in lines]
        for line, match in [(line, match) for line, match in matches if match][-1:]:
            yield _pool(f"{line.file}:{line.number}", match[1])


def _pool(where: str, cpus: str) -> Pool:
    try:
        return Pool(RESERVED, where, cpulist.parse(cpus))
    except ValueError as error:
        raise HostError("understand", where, None, str(error)) from error
