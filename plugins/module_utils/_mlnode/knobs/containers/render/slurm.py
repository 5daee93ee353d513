# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts for jobs of Slurm: mounts of enroot, and a prolog.

Both share the node's namespaces of network and IPC, so all sysctls reach them. Sources: slurm.conf(5),
PropagateResourceLimits, and Prolog and Epilog Scripts; job_container.conf(5), Dirs; enroot, doc/
configuration.md, doc/image-format.md, conf/mounts/10-system.fstab, bin/enroot-nsenter.c: create_namespaces().
"""

from __future__ import annotations

from ..runtime import in_units
from .needs import Needs
from .text import SHM, hashed, head, limits, of_unit

_SHARES = "sysctls need no line: the network and IPC of the node are shared, and its values count"

#: The script of a prolog. slurmd passes no PATH on, and keeps no output.
_RAISE = """\
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
least=@BYTES@
size=$(df --block-size=1 --output=size /dev/shm | tail -n 1 | tr -dc 0-9)
if [ "${size:-0}" -lt "$least" ] && ! mount -o remount,size="$least" /dev/shm; then
  logger --tag mlnode-prolog --priority daemon.warning "/dev/shm is smaller than $least bytes" || :
fi
exit 0"""


def enroot(needs: Needs) -> list[str]:
    """A file of mounts.d."""
    unsaid = []
    if needs.ulimits:
        unsaid.append(
            f"{limits(needs)}: a container has the limits of the process that starts it, such as slurmd or a "
            "login: declare the area limits"
        )
    if needs.shm_size:
        unsaid.append(
            f"{SHM} of {in_units(needs.shm_size, ('GiB', 'MiB', 'KiB'))}: it is the node's own, which all "
            "ranks need; see mlnode render slurm-prolog"
        )
    notes = ["a file such as /etc/enroot/mounts.d/80-mlnode.fstab"] if needs.nccl else []
    lines = [*notes, *([_SHARES] if needs.sysctls else [])]
    body = []
    if needs.nccl:
        flags = "x-create=file,bind,ro,nosuid,nodev,noexec,nofail,silent"
        body.append(f"{needs.nccl} {needs.nccl} none {flags}")
    return [*hashed(head(needs, "mounts of enroot", unsaid, lines)), *body]


def prolog(needs: Needs) -> list[str]:
    """A script for Prolog of slurm.conf."""
    unsaid = []
    if needs.ulimits:
        names = ",".join(name.upper() for name in needs.ulimits)
        unsaid.append(
            f"{limits(needs)}: a prolog sets no limits of a job; set PropagateResourceLimitsExcept={names} "
            f"in slurm.conf, and {of_unit(needs)} for slurmd.service (area limits)"
        )
    if needs.shm_size:
        unsaid.append(f"{SHM} of job_container/tmpfs: it is mounted later, with half of the memory")
    notes = (
        ["a file of Prolog in slurm.conf, such as /etc/slurm/prolog.d/80-mlnode"] if needs.shm_size else []
    )
    notes += [_SHARES] if needs.sysctls else []
    notes += [f"{needs.nccl} needs no line: a job without a container finds it"] if needs.nccl else []
    body = _RAISE.replace("@BYTES@", str(needs.shm_size)) if needs.shm_size else "exit 0"
    return ["#!/bin/sh", *hashed(head(needs, "a prolog of Slurm", unsaid, notes)), *body.split("\n")]
