# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of GPUs from nvidia-smi alone, and the persistence mode as a virtual file:

    /gpu/0000:1b:00.0/persistence    `on` or `off`

/proc/driver/nvidia shows models, addresses and power states, but no persistence mode (nv-procfs.c of the
driver). A captured tree holds the output of QUERY as /gpu/persistence.csv.
"""

from __future__ import annotations

import errno
import re
from typing import Sequence, TypeVar

from ...host.host import Host
from ...host.system import USUAL_SECONDS
from ...model.errors import HostError, MissingError
from ...model.record import regex
from .nvidia_module import DRIVER

T = TypeVar("T")

TOP = "/gpu"
CAPTURED = f"{TOP}/persistence.csv"

TOOL = "nvidia-smi"
QUERY = (TOOL, "--query-gpu=index,pci.bus_id,persistence_mode", "--format=csv,noheader")

ON, OFF = "on", "off"
#: Words of nvidia-smi(1)
_WORDS = {"Enabled": ON, "Disabled": OFF}
#: Words for a GPU without this feature
NOT_THERE = ("[N/A]", "N/A", "[Not Supported]", "Not Supported")

_FILE = "persistence"
_FOLDER = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)
#: sysfs writes a domain with four digits, the tool with eight
_BUS_ID = regex(r"0{0,4}([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\Z", re.ASCII)


def file_of(address: str) -> str:
    return f"{TOP}/{address}/{_FILE}"


def address(bus_id: str) -> str | None:
    """A bus id of the tool as sysfs writes it; None for any other text."""
    match = _BUS_ID.match(bus_id.lower())
    return match.group(1) if match else None


def rows(text: str, columns: int) -> dict[str, list[str]]:
    """Address → the other columns, from a table that begins with index and pci.bus_id.

    Raises HostError for any other text.
    """
    columns_of: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        fields = [word.strip() for word in line.split(",")]
        known = address(fields[1]) if len(fields) > 1 else None
        if known is None or len(fields) != columns + 2 or not fields[0].isdigit():
            raise HostError("understand", TOOL, None, f"it says {line.strip()[:80]!r}")
        columns_of[known] = fields[2:]
    return columns_of


def persistence(host: Host) -> dict[str, str]:
    """Address → on, off, or another word of the tool. Raises HostError."""
    return host.once("nvidia persistence", lambda: _persistence(host))


def _persistence(host: Host) -> dict[str, str]:
    return {
        address: _WORDS.get(columns[0], columns[0]) for address, columns in rows(_answer(host), 1).items()
    }


def strange(mode: str) -> HostError:
    return HostError("understand", TOOL, None, f"it says that persistence mode is {mode[:40]!r}")


def _answer(host: Host) -> str:
    if not host.live:
        try:
            return host.stored(CAPTURED).decode("utf-8", "replace")
        except HostError as error:
            if not error.absent:  # without a capture, the error of ask() explains more
                raise
    return ask(host, QUERY)


def ask(host: Host, command: Sequence[str], seconds: float = USUAL_SECONDS) -> str:
    """Output of the tool. Raises HostError with its error message, from standard output or standard error."""
    done = host.run(command, seconds)
    if done.rc != 0:
        lines = [line for line in (done.err + "\n" + done.out).splitlines() if line.strip()]
        raise HostError("run", TOOL, None, lines[0].strip() if lines else f"exit status {done.rc}")
    return done.out


# -- the files -----------------------------------------------------------------------------


def read(host: Host, path: str) -> bytes:
    return f"{_mode(host, 'read', path)}\n".encode("ascii")


def write(host: Host, path: str, value: str) -> None:
    """Set the mode, through nvidia-persistenced if it runs, else the driver (nvidia-persistenced(1))."""
    action = f"write {value!r} to"
    _mode(host, action, path)
    if value not in (ON, OFF):
        raise HostError(action, path, errno.EINVAL)
    address = path.split("/")[2]
    number = "1" if value == ON else "0"
    host.must_run([TOOL, "-i", address, "-pm", number], f"set the persistence mode of {address} with")
    host.forget()


def names(host: Host, path: str) -> list[str]:
    parts = path.strip("/").split("/")
    if len(parts) == 1:
        return sorted(persistence(host))
    return [_FILE] if len(parts) == 2 and parts[1] in persistence(host) else []


def exists(host: Host, path: str) -> bool:
    parts = path.strip("/").split("/")
    if len(parts) == 1:
        return True
    known = len(parts) == 2 or (len(parts) == 3 and parts[2] == _FILE)
    return known and bool(_FOLDER.match(parts[1])) and parts[1] in persistence(host)


def blocked(host: Host, path: str) -> str:
    """Never blocked: the driver decides who may set it."""
    del host, path
    return ""


def _mode(host: Host, action: str, path: str) -> str:
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[2] != _FILE or not _FOLDER.match(parts[1]):
        raise MissingError(action, path, f"{path} does not exist")
    if host.value(DRIVER).absent is not None:
        raise MissingError(action, path, f"{DRIVER} does not exist: NVIDIA's driver is not loaded")
    mode = persistence(host).get(parts[1])
    if mode is None:
        raise MissingError(action, path, f"{TOOL} shows no GPU {parts[1]}")
    if mode in NOT_THERE:
        raise MissingError(action, path, f"GPU {parts[1]} has no persistence mode")
    if mode not in (ON, OFF):
        raise strange(mode)
    return mode
