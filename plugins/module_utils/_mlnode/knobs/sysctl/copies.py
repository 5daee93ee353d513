# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that left a drop-in while an initramfs may have a copy of it.

The node keeps a list of them until the initramfs is regenerated, as no declared setting covers them any more.
"""

from __future__ import annotations

from typing import Collection

from ...engine.kind import Context
from ...host import places
from ...linux import initramfs, sysctl_d
from ...model.setting import BootFile


def boot_files(
    name: str, drop_in: str, declared: Collection[str], present: sysctl_d.BootConfig, context: Context
) -> list[BootFile]:
    """The list of one declaration. declared: its keys. present: the files as they are. Raises HostError."""
    host, path = context.host, places.LEFT_SYSCTLS.replace("NAME", name)
    lines = [line for line in present.lines if line.file == drop_in]
    made = host.changed(path)
    if made is not None and initramfs.images(host, made):
        lines = [*sysctl_d.parse(host.text(path), path), *lines]
    keys = {sysctl_d.dotted(line.key): line.value for line in lines if line.value is not None}
    left = [f"{key} = {value}" for key, value in keys.items() if key not in declared]
    if made is None and not left:
        return []
    content = "\n".join([_HEAD, *left, ""]).encode() if left and initramfs.images(host) else None
    return [BootFile(path, content)]


_HEAD = (
    "# Written by mlnode.tuning: what left /etc/sysctl.d and may be in an initramfs; edits are overwritten."
)
