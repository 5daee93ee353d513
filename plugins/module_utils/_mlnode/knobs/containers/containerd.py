# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd, which has no defaults that suit all pods.

Its base_runtime_spec is for containers and for the sandbox of each pod. runc refuses sysctls of net for a pod
with the network of the node, so with such a spec no such pod would start, and these run the cluster's own
network. The ulimits of a spec replace those that containers inherit from containerd.service.
"""

from __future__ import annotations

from typing import Mapping

from ...host.host import Host
from ...linux import kubelets, systemd_conf
from ...model.setting import BootFile
from .parse import SHM_SIZE, SYSCTLS, ULIMITS, Values
from .runtime import Given, Runtime


class Containerd(Runtime):
    name = program = "containerd"
    unit = "containerd.service"
    path = "/etc/containerd/config.toml"
    lacks: Mapping[str, str] = {
        SYSCTLS: "with them in its base_runtime_spec, no pod with hostNetwork would start: use the kubelet's "
        "defaultPodSysctls, or securityContext.sysctls of the pod; see mlnode render pod",
        ULIMITS: "containers inherit the limits of containerd.service: declare them in limits, for services",
        SHM_SIZE: "its CRI gives 64 MiB: set an emptyDir with medium: Memory at /dev/shm in the pod; see "
        "mlnode render pod",
    }

    bundles: Mapping[str, str] = {
        unit: "its containers have the limits of the unit; for the rest, see mlnode render pod"
        for unit in kubelets.UNITS
        if unit != "kubelet.service"
    }

    def look_for(self, host: Host) -> bool:
        if not super().look_for(host):
            return False
        # Without a kubelet, it serves Docker alone, whose containers have Docker's defaults.
        docker = bool(systemd_conf.fragment(host, "docker.service"))
        return not docker or bool(systemd_conf.fragment(host, "kubelet.service"))

    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        return Given({}, {})

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        return []
