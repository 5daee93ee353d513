# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of RDMA devices in configfs.

A device has files there only while a folder for it exists, and a driver cannot be unloaded meanwhile. Each
access creates the folder and removes it afterwards; the values stay with the device.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Mapping

from ...host.host import Host
from ...model.errors import HostError, MissingError

DEVICES = "/sys/class/infiniband"


def must_exist(host: Host, action: str, path: str, device: str) -> None:
    """Raises MissingError if the device does not exist."""
    if device not in host.names(DEVICES):
        raise MissingError(action, path, f"there is no RDMA device {device}")


@contextmanager
def folder(host: Host, action: str, path: str, top: str, device: str, lack: str) -> Iterator[str]:
    """The device's folder below top, created for the duration of the block. lack: why top may be missing."""
    must_exist(host, action, path, device)
    if not host.exists(top):
        raise MissingError(action, path, lack)
    own = f"{top}/{device}"
    if host.exists(own):
        yield own
        return
    if not host.is_superuser():
        raise HostError(action, path, None, "root is needed: configfs wants a folder to be made for a look")
    host.make_folder(own)
    try:
        yield own
    finally:
        host.remove_folder_if_empty(own)


def command(own: str, values: Mapping[str, str]) -> str:
    """Equivalent line for a shell: values of files in a device's folder, in their order."""
    each = (f"echo {value} > {own}/{name}" for name, value in values.items())
    return " && ".join([f"mkdir -p {own}", *each, f"rmdir {own}"])
