# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of RDMA devices in configfs.

A device has files there only while a folder for it exists, and a driver cannot be unloaded meanwhile. Each
access creates the folder and removes it afterwards; the values stay with the device.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Iterator, Mapping

from ...host.host import Host
from ...model.errors import HostError, MissingError
from .model import RoceDriver

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


class ConfigfsDriver(RoceDriver, ABC):
    """A driver with settings in configfs. MOST: names below /roce/DEVICE/PORT, each with its greatest number.
    They stand for files of the folder CONFIG. LACK: why that may be missing."""

    MOST: Mapping[str, int]
    CONFIG: str
    LACK: str

    @abstractmethod
    def get(self, host: Host, own: str, port: str, file: str) -> str:
        """Text of a file, from the device's folder. Raises HostError."""

    @abstractmethod
    def values(self, port: str, file: str, text: str) -> dict[str, str]:
        """Files in the device's folder → what to write for a value, in their order."""

    def put(self, host: Host, own: str, port: str, file: str, text: str) -> None:
        """Raises HostError."""
        for name, value in self.values(port, file, text).items():
            host.write_kernel(f"{own}/{name}", value)

    def read(self, host: Host, device: str, port: str, file: str) -> str:
        """Text of one of the names in MOST. Raises HostError."""
        path = f"/roce/{device}/{port}/{file}"
        with folder(host, "read", path, self.CONFIG, device, self.LACK) as own:
            text = self.get(host, own, port, file)
        if not all(part.isdecimal() and part.isascii() for part in text.split("/")):
            raise HostError("read", path, None, f"expected a number, got {text[:40]!r}")
        return text

    def write(self, host: Host, device: str, port: str, file: str, text: str) -> None:
        """Raises HostError."""
        action, path = f"write {text!r} to", f"/roce/{device}/{port}/{file}"
        if not (text.isdecimal() and text.isascii() and int(text) <= self.MOST[file]):
            raise HostError(action, path, errno.EINVAL)
        with folder(host, action, path, self.CONFIG, device, self.LACK) as own:
            self.put(host, own, port, file, text)

    def command(self, device: str, port: str, file: str, text: str) -> str:
        """Equivalent line for a shell."""
        own = f"{self.CONFIG}/{device}"
        each = (f"echo {value} > {own}/{name}" for name, value in self.values(port, file, text).items())
        return " && ".join([f"mkdir -p {own}", *each, f"rmdir {own}"])
