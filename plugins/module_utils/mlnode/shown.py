# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel has no files for, and Host shows as if it had: below /ethtool, /dcb, /roce, /rail,
/service and /gpu. What shows them is imported by whoever looks there, as most do not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from .errors import HostError

if TYPE_CHECKING:
    from .dcb.device import Device as Bridging
    from .ethtool.device import Device
    from .host import Host


class Files(Protocol):
    """The files below one folder; as the functions of Host, and all of it raises HostError."""

    def read(self, machine: Host, path: str) -> bytes: ...
    def write(self, machine: Host, path: str, value: str) -> None: ...
    def names(self, machine: Host, path: str) -> list[str]: ...
    def exists(self, machine: Host, path: str) -> bool: ...
    def blocked(self, machine: Host, path: str) -> str: ...


def _ethtool() -> Files:
    from .ethtool import files

    return files


def _dcb() -> Files:
    from .dcb import files

    return files


def _roce() -> Files:
    from .dcb import roce

    return roce


def _rail() -> Files:
    from .policy_routes import files

    return files


def _service() -> Files:
    from . import service_files

    return service_files


def _gpu() -> Files:
    from . import nvidia

    return nvidia


#: Name of a folder → the files below it
_FOLDERS = {
    "ethtool": _ethtool,
    "dcb": _dcb,
    "roce": _roce,
    "rail": _rail,
    "service": _service,
    "gpu": _gpu,
}


def imported() -> tuple[Files, ...]:
    """All of them, now."""
    return tuple(folder() for folder in _FOLDERS.values())


def at(path: str) -> Files | None:
    """Whose a path is; None for a file of the machine itself."""
    folder = _FOLDERS.get(path[1:].partition("/")[0])
    return folder() if folder else None


def nic(host: Host, name: str) -> Device:
    """What answers for a NIC below /ethtool. Raises HostError."""
    from .ethtool import files

    return files.kernel(name) if host.live else files.captured(host, name)


def bridging(host: Host, name: str) -> Bridging:
    """What answers for a NIC below /dcb. Raises HostError."""
    from .dcb import files, tools

    return tools.of(host, name) if host.live else files.captured(host, name)


def make_folder(host: Host, path: str) -> None:
    """See Host. Never in a captured tree, where it would make no files. Raises HostError."""
    if not host.live:
        raise HostError("look into", path, None, f"it was not captured in {host.root}")
    try:
        os.mkdir(path)
    except OSError as error:
        raise HostError("make", path, error.errno) from error
