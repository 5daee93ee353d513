# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts for Kubernetes: configuration of the kubelet, patch of a pod, and CNI's plugin `tuning`.

Sources: Kubernetes, "Using sysctls in a Kubernetes Cluster", "Set Kubelet Parameters Via A Configuration
File", "Volumes" (emptyDir, hostPath), "Pod Security Standards"; containernetworking/plugins, plugins/meta/
tuning/tuning.go.
"""

from __future__ import annotations

import json

from ....model.record import regex
from ..runtime import in_units
from .needs import Needs
from .text import SHM, file_needed, hashed, head, limits, of_ipc, of_network, of_unit, scalar

#: Sysctls that every kubelet admits → the version of Kubernetes that began with it; empty for all supported
#: ones. "Using sysctls in a Kubernetes Cluster" of Kubernetes 1.37, Safe and Unsafe Sysctls.
SAFE = {
    "kernel.shm_rmid_forced": "",
    "net.ipv4.ip_local_port_range": "",
    "net.ipv4.tcp_syncookies": "",
    "net.ipv4.ping_group_range": "",
    "net.ipv4.ip_unprivileged_port_start": "1.22",
    "net.ipv4.ip_local_reserved_ports": "1.27",
    "net.ipv4.tcp_keepalive_time": "1.29",
    "net.ipv4.tcp_fin_timeout": "1.29",
    "net.ipv4.tcp_keepalive_intvl": "1.29",
    "net.ipv4.tcp_keepalive_probes": "1.29",
    "net.ipv4.tcp_rmem": "1.32",
    "net.ipv4.tcp_wmem": "1.32",
    "net.ipv4.tcp_slow_start_after_idle": "1.37",
    "net.ipv4.tcp_notsent_lowat": "1.37",
}

#: pkg/apis/core/validation: SysctlContainSlashFmt, SysctlMaxLength
_PART = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_NAME = regex(rf"(?=.{{1,253}}\Z){_PART}(?:[./]{_PART})*\Z")

_SHM, _NCCL = "dev-shm", "nccl-conf"
_NOT_PLAIN = "the plugin sets net.* alone, and takes each dot for a slash"
_NO_NAME = "Kubernetes takes names of a-z, 0-9, - and _ alone"


def kubelet(needs: Needs) -> list[str]:
    """A drop-in of the kubelet's configuration."""
    sysctls, unsaid = _named(needs)
    unsaid += _no_limits(needs)
    if needs.shm_size:
        unsaid.append(f"{SHM} of {_quantity(needs.shm_size)}: {_IN_POD}")
    if needs.nccl:
        unsaid.append(f"{needs.nccl}: {_IN_POD}")
    unsafe = [key for key in sysctls if SAFE.get(key) != ""]
    body = ["apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration"]
    notes = ["a file NN-NAME.conf in the folder of --config-dir (Kubernetes 1.30 and later)"]
    if unsafe:
        notes += [
            "the list replaces the list of earlier files: add their entries",
            "a pod gets only the values that it asks for: see mlnode render pod",
        ]
        body += ["allowedUnsafeSysctls:", *map(_allowed, unsafe)]
    if sysctls:
        defaults = [f"  {scalar(key)}: {scalar(value)}" for key, value in sysctls.items()]
        body += hashed(
            [
                "Kubernetes 1.37 and later can give all pods the values instead. A kubelet without this",
                "feature gate does not start with them.",
                *("featureGates:", "  DefaultPodSysctls: true", "defaultPodSysctls:", *defaults),
            ]
        )
    return [*hashed(head(needs, "the kubelet", unsaid, notes if sysctls else ())), *body]


_IN_POD = "the kubelet has no default for pods; see mlnode render pod"


def pod(needs: Needs) -> list[str]:
    """A strategic merge patch for a pod."""
    sysctls, unsaid = _named(needs)
    unsaid += _no_limits(needs)
    notes = _pod_notes(needs, sysctls)
    if needs.huge_pages:
        unsaid.append("huge pages: a pod has as many as resources.limits says, such as hugepages-2Mi")
    body = ["apiVersion: v1", "kind: Pod", "spec:"]
    if sysctls:
        body += ["  securityContext:", "    sysctls:"]
        for key, value in sysctls.items():
            body += [f"    - name: {scalar(key)}", f"      value: {scalar(value)}"]
    mounts, volumes = [], []
    if needs.shm_size:
        mounts += [f"    - name: {_SHM}", f"      mountPath: {SHM}"]
        volumes += [f"  - name: {_SHM}", "    emptyDir:", "      medium: Memory"]
        volumes.append(f"      sizeLimit: {scalar(_quantity(needs.shm_size))}")
    if needs.nccl:
        mounts += [f"    - name: {_NCCL}", f"      mountPath: {needs.nccl}", "      readOnly: true"]
        volumes += [f"  - name: {_NCCL}", "    hostPath:", f"      path: {needs.nccl}", "      type: File"]
    if mounts:
        body += ["  containers:", "  - name: job", "    volumeMounts:", *mounts, "  volumes:", *volumes]
    if body[-1] == "spec:":
        body[-1] = "spec: {}"
    return [*hashed(head(needs, "a pod", unsaid, notes)), *body]


def _pod_notes(needs: Needs, sysctls: dict[str, str]) -> list[str]:
    if needs.none:
        return []
    notes = ["kubectl patch --local -f POD.yaml --type strategic --patch-file THIS.yaml -o yaml"]
    if needs.shm_size or needs.nccl:
        notes.append("replace `job` by the name of your container")
    notes += file_needed(needs)
    unsafe = [key for key in sysctls if SAFE.get(key) != ""]
    if unsafe:
        notes.append("the kubelet must allow the unsafe sysctls: see mlnode render kubelet")
    if unsafe or needs.nccl:
        refused = [*(["unsafe sysctls"] if unsafe else []), *(["hostPath volumes"] if needs.nccl else [])]
        notes.append(f"the Pod Security Standards Baseline and Restricted refuse {' and '.join(refused)}")
    if of_network(sysctls):
        notes.append("with hostNetwork: true, remove net.*: it is refused, and the node's values count")
    if of_ipc(sysctls):
        notes.append("with hostIPC: true, remove kernel.* and fs.mqueue.*, for the same reason")
    if needs.shm_size:
        notes.append(
            f"{SHM} counts as memory of its containers: add {_quantity(needs.shm_size)} to "
            "resources.limits.memory"
        )
    return notes


def cni_tuning(needs: Needs) -> list[str]:
    """An object for `plugins` of a network's configuration list. JSON has no comments: they are its member
    `comment`, which plugins ignore (CNI specification, Section 1: additional fields)."""
    # The kernel shows lists with tabs, and CHECK compares the texts.
    sysctls = {key: value.replace(" ", "\t") for key, value in needs.sysctls.items() if _is_plain(key)}
    unsaid = [f"{key}: {_NOT_PLAIN}" for key in needs.sysctls if key not in sysctls]
    if needs.ulimits:
        unsaid.append(f"{limits(needs)}: a network has no limits; see mlnode render pod")
    if needs.shm_size:
        unsaid.append(f"{SHM}: a network mounts nothing; see mlnode render pod")
    if needs.nccl:
        unsaid.append(f"{needs.nccl}: a network mounts nothing; see mlnode render pod")
    notes = [
        "add this object to `plugins` in the .conflist of the network, after the plugin of its interface",
        "if /etc/cni/tuning/allowlist.conf exists, each key must match one of its lines",
        "a pod with hostNetwork: true has the node's values",
    ]
    comment = head(needs, "CNI's plugin tuning", unsaid, notes if sysctls else ())
    return json.dumps({"comment": comment, "type": "tuning", "sysctl": sysctls}, indent=2).split("\n")


def _is_plain(key: str) -> bool:
    return key.startswith("net.") and "/" not in key


def _named(needs: Needs) -> tuple[dict[str, str], list[str]]:
    sysctls = {key: value for key, value in needs.sysctls.items() if _NAME.match(key)}
    return sysctls, [f"{key}: {_NO_NAME}" for key in needs.sysctls if key not in sysctls]


def _no_limits(needs: Needs) -> list[str]:
    if not needs.ulimits:
        return []
    where = "in a drop-in of containerd.service, or default_ulimits of CRI-O"
    return [f"{limits(needs)}: Kubernetes has no field for limits; set {of_unit(needs)} {where}"]


def _quantity(number: int) -> str:
    return in_units(number, ("Gi", "Mi", "Ki"))


def _allowed(key: str) -> str:
    since = SAFE.get(key)
    return f"- {scalar(key)}" + (f"  # not needed from Kubernetes {since}" if since else "")
