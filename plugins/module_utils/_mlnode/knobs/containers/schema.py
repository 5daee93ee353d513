# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area containers."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table, guards
from ...model.setting import Severity

AUTO = "auto"
RUNTIMES = ("podman", "docker", "crio", "containerd", "kubelet")

#: Name for `allow` → changes that it permits
GUARDS = {
    "unknown": "sysctls that may have one value for the whole machine",
    "user_namespaces": "sysctls that a container with its own user namespace does not have on this kernel",
}

_SIZE = regex(r"([1-9][0-9]{0,18})[ ]?([KMGT]i?B?|B)?\Z", re.ASCII | re.IGNORECASE)


def _bytes(text: str) -> str:
    """A size as all runtimes read it: with factors of 1024, also for MB (go-units, RAMInBytes)."""
    match = _SIZE.match(text)
    if match is None:
        raise ValueError
    number, unit = match.groups()
    total = int(number) << 10 * " KMGT".index((unit or " ")[0].upper().replace("B", " "))
    if total >= 1 << 63:
        raise ValueError(f"{text} is more than the kernel can address")
    return str(total)


OPTIONS: Table = {
    "sysctls": Option(
        "raw",
        """
        Values for the sysctls of new containers: V(auto), or a dictionary of names and values.

        A new network namespace begins with the kernel's own defaults for most keys, whatever the node has.
        V(auto) is every declared sysctl of this node with such a key. For V(at_least), it is the node's value
        if that is higher.

        A key that a container does not have for itself is refused, as no container would start with it.

        A runtime leaves them out for a container with the network of the node, which has the node's values.
        """,
        severity=Severity.MEDIUM,
        reason="a container does not have the sysctls of its node",
        source="ip-sysctl.rst; network_namespaces(7)",
    ),
    "ulimits": Option(
        "raw",
        """
        Resource limits of new containers: V(auto), or a dictionary of C(nofile), C(memlock), C(stack),
        C(core) and C(nproc) with a number, V(unlimited) or V(SOFT:HARD), as for M(mlnode.tuning.limits).

        V(auto) is the limits that are declared for services on this node. Higher limits that containers have
        anyway are kept, except with C(exactly). A dictionary is exact.
        """,
        severity=Severity.HIGH,
        reason="RDMA locks the memory it registers, and fails with the usual 8 MiB",
        source="user_verbs.rst; containers.conf(5)",
    ),
    "shm_size": Option(
        "str",
        """
        Size of C(/dev/shm) of new containers, in bytes or with a unit, such as V(16GiB). All units have
        factors of 1024.
        """,
        form=Form(regex(""), "a size such as 16GiB, or a number of bytes", _bytes),
        severity=Severity.HIGH,
        reason="NCCL and data loaders of several ranks need more than the usual 64 MiB",
        source="NCCL user guide, Troubleshooting, Shared memory; podman-run(1), --shm-size",
    ),
    "runtimes": Option(
        "list",
        "Runtimes that get these defaults. Those that are not installed are left out.",
        elements="str",
        choices=RUNTIMES,
        default=[*RUNTIMES],
        declares=False,
    ),
    "allow": guards(
        GUARDS,
        """
        Guards to switch off.

        V(unknown) takes sysctls of network and IPC namespaces that are not known. With a key that a container
        does not have, no container starts.

        V(user_namespaces) takes sysctls such as C(net.core.somaxconn) on older kernels. A container with its
        own user namespace does not have them there, and rootless containers of Podman do not start.
        """,
    ),
}
