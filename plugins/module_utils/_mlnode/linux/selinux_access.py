# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether SELinux lets a service run a file: the kernel's own answer, by the files of selinuxfs
(security/selinux/selinuxfs.c)."""

from __future__ import annotations

from typing import Sequence

from ..host import selinux
from ..host.host import Host
from ..host.selinux import TOP
from ..model.errors import HostError

#: AVD_FLAGS_PERMISSIVE (security/selinux/include/security.h): a domain whose denials are only logged
_PERMISSIVE = 1


def refusal(host: Host, programs: Sequence[str], read: str = "") -> str:
    """Why a service of systemd cannot run the first program, which runs the next one, and so on; read: a file
    that the last one reads. Empty if all is allowed, or SELinux does not enforce. Raises HostError."""
    if not (host.live and selinux.is_on()) or host.text(f"{TOP}/enforce").strip() in ("", "0"):
        return ""
    domain = host.read("/proc/1/attr/current").rstrip("\n\0")
    for program in programs:
        label = selinux.label_of(program)
        following = _ask(host, "create", domain, label, "process")
        needed = [(domain, label, "file", "execute")]
        if following == domain:
            needed.append((domain, label, "file", "execute_no_trans"))
        else:
            needed += [(domain, following, "process", "transition"), (following, label, "file", "entrypoint")]
        if not all(_allows(host, *need) for need in needed):
            return f"SELinux does not let {_type(domain)} run {program}, a file of type {_type(label)}"
        domain = following
    label = selinux.label_of(read) if read else ""
    if label and not _allows(host, domain, label, "file", "read"):
        return f"SELinux does not let {_type(domain)} read {read}, a file of type {_type(label)}"
    return ""


def _type(label: str) -> str:
    return label.split(":")[2] if label.count(":") >= 2 else label


def _allows(host: Host, source: str, target: str, kind: str, permission: str) -> bool:
    answer = _ask(host, "access", source, target, kind).split()
    path = f"{TOP}/class/{kind}/perms/{permission}"
    try:
        allowed, flags, bit = int(answer[0], 16), int(answer[5], 16), int(host.read(path))
    except (IndexError, ValueError) as error:
        raise HostError("understand", f"{TOP}/access", None, " ".join(answer)) from error
    return bool(allowed >> (bit - 1) & 1 or flags & _PERMISSIVE)


def _ask(host: Host, file: str, source: str, target: str, kind: str) -> str:
    return selinux.ask(file, source, target, host.read(f"{TOP}/class/{kind}/index").strip())
