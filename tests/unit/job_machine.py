# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs on a node in a folder: processes with their namespaces, control groups, limits and root folders."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import control_groups
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

#: The node's own namespaces
HERE = {"net": 4026531840, "mnt": 4026531841, "pid": 4026531836, "ipc": 4026531839, "uts": 4026531838}
CONTAINER = "3f2c" * 16
UID = "5f0e1d2c-0001-4a4b-8c8d-0123456789ab"

_LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     
Max stack size            8388608              unlimited            bytes     
Max core file size        0                    unlimited            bytes     
Max processes             127000               127000               processes 
Max open files            {nofile} files     
Max locked memory         {memlock} bytes     
"""  # noqa: W291  # as the kernel prints it

_MOUNTS = """\
30 1 0:30 / / rw,relatime - overlay overlay rw,lowerdir=/l
31 30 0:31 / /proc rw - proc proc rw
32 30 0:32 / /dev/shm rw - tmpfs shm rw,size=65536k
"""


def node(root: str) -> Machine:
    """A node without jobs."""
    machine = Machine.debian(root)
    furnish(machine)
    return machine


def furnish(machine: Machine) -> None:
    """Add what is read of the node itself."""
    control_groups.mount(machine)
    process(machine, 1, "systemd", cgroup="/init.scope")
    for kind, number in HERE.items():
        machine.link(f"/proc/self/ns/{kind}", f"{kind}:[{number}]")
    machine.put("/proc/self/net/dev", "Inter-|\n face |\n  eth0: 0 0\n    lo: 0 0\n")
    shutil.rmtree(f"{machine.root}/sys/class/net", ignore_errors=True)  # folders, which the kernel's are not
    machine.put("/sys/devices/virtual/net/eth0/operstate", "up\n")
    machine.link("/sys/class/net/eth0", "../../devices/virtual/net/eth0")


def process(
    machine: Machine,
    pid: int,
    comm: str,
    *devices: str,
    cgroup: str = "/user.slice/user-0.slice/session-3.scope",
    namespaces: Mapping[str, int] | None = None,
    user: int = 0,
    environment: Sequence[str] | bytes = (),
    nofile: str = "1024                 1048576             ",
    memlock: str = "8388608              8388608             ",
    mounts: str = _MOUNTS,
    root: int | None = None,
    files: Mapping[str, str] | None = None,
    parent: int = 1,
    started: int = 4242,
    cmdline: str = "",
    cpus: str = "0-7",
    nodes: str = "0",
    thp: str = "1",
    memory: str = "4096",
) -> None:
    """A process, in the place of an earlier one. namespaces: those that are not the node's. files: in its
    root folder. root: the process whose root folder it has. memory: in bytes, 0 for one
    that is ending."""
    folder = f"/proc/{pid}"
    for old in (folder, f"/roots/{pid}"):
        shutil.rmtree(machine.root + old, ignore_errors=True)
    machine.put(f"{folder}/comm", f"{comm[:15]}\n")
    machine.put(f"{folder}/cmdline", cmdline)
    machine.put(f"{folder}/cgroup", f"0::{cgroup}\n")
    fields = ["S", str(parent), *["0"] * 17, str(started), memory, *["0"] * 29]
    machine.put(f"{folder}/stat", f"{pid} ({comm}) {' '.join(fields)}\n")
    ids = "\t".join([str(user)] * 4)
    own = f"Name:\t{comm}\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t{user} \nTHP_enabled:\t{thp}\n"
    machine.put(f"{folder}/status", f"{own}Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}\n")
    control_groups.group(machine, cgroup)
    machine.put(f"{folder}/limits", _LIMITS.format(nofile=nofile, memlock=memlock))
    machine.put(f"{folder}/mountinfo", mounts)
    machine.put(f"{folder}/uid_map", "         0          0 4294967295\n")
    content = environment if isinstance(environment, bytes) else b"\0".join(map(str.encode, environment))
    machine.put(f"{folder}/environ", content + b"\0" if content else b"")
    os.makedirs(f"{machine.root}{folder}/fd", exist_ok=True)
    for number, target in enumerate(devices, 3):
        machine.link(f"{folder}/fd/{number}", target)
    for kind, number in {**HERE, **(namespaces or {})}.items():
        machine.link(f"{folder}/ns/{kind}", f"{kind}:[{number}]")
    os.makedirs(f"{machine.root}/roots/{pid}/dev/shm", exist_ok=True)
    machine.link(f"{folder}/root", f"/roots/{root or pid}")
    for path, text in {"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", **(files or {})}.items():
        machine.put(f"/roots/{pid}{path}", text)


def declare(machine: Machine, **kinds: Any) -> None:
    document = {"format": 1, "name": "node", "kinds": kinds}
    machine.put("/etc/mlnode/declared.d/node.json", json.dumps(document))
