# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel has no files for, and Host shows as if it had: below /ethtool, /dcb, /roce, /rail,
/service and /gpu."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from . import nvidia, service_files
from .dcb import files as dcb
from .dcb import roce, tools
from .dcb.device import Device as Bridging
from .errors import HostError
from .ethtool import files as ethtool
from .ethtool.device import Device
from .policy_routes import files as routing

if TYPE_CHECKING:
    from .host import Host


class Files(Protocol):
    """The files below one folder; as the functions of Host, and all of it raises HostError."""

    def owns(self, path: str) -> bool: ...
    def read(self, machine: Host, path: str) -> bytes: ...
    def write(self, machine: Host, path: str, value: str) -> None: ...
    def names(self, machine: Host, path: str) -> list[str]: ...
    def exists(self, machine: Host, path: str) -> bool: ...
    def blocked(self, machine: Host, path: str) -> str: ...


_ALL: tuple[Files, ...] = (ethtool, dcb, roce, routing, service_files, nvidia)


def at(path: str) -> Files | None:
    """Whose a path is; None for a file of the machine itself."""
    return next((files for files in _ALL if files.owns(path)), None)


def nic(host: Host, name: str) -> Device:
    """What answers for a NIC below /ethtool. Raises HostError."""
    return ethtool.kernel(name) if host.live else ethtool.captured(host, name)


def bridging(host: Host, name: str) -> Bridging:
    """What answers for a NIC below /dcb. Raises HostError."""
    return tools.of(host, name) if host.live else dcb.captured(host, name)


def make_folder(host: Host, path: str) -> None:
    """See Host. Never in a captured tree, where it would make no files. Raises HostError."""
    if not host.live:
        raise HostError("look into", path, None, f"it was not captured in {host.root}")
    try:
        os.mkdir(path)
    except OSError as error:
        raise HostError("make", path, error.errno) from error
