# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel has no files for, and Host shows as if it had: below /ethtool, /dcb, /roce, /rail,
/service and /gpu. What shows them is imported by whoever looks there, as most do not."""

from __future__ import annotations

import importlib
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


#: Name of a folder → the module that shows what is below it
_FOLDERS = {
    "ethtool": "ethtool.files",
    "dcb": "dcb.files",
    "roce": "dcb.roce",
    "rail": "policy_routes.files",
    "service": "service_files",
    "gpu": "nvidia",
}


def imported() -> tuple[Files, ...]:
    """All of them, now. Ansible sends along what it finds in an import statement, and no other."""
    from . import nvidia, service_files
    from .dcb import files as dcb
    from .dcb import roce
    from .ethtool import files as ethtool
    from .policy_routes import files as rail

    return (ethtool, dcb, roce, rail, service_files, nvidia)


def at(path: str) -> Files | None:
    """Whose a path is; None for a file of the machine itself."""
    name = _FOLDERS.get(path[1:].partition("/")[0])
    if name is None:
        return None
    files: Files = importlib.import_module(f"{__name__.rpartition('.')[0]}.{name}")
    return files


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
