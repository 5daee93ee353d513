# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines in the journal of systemd, by its native protocol (systemd.journal-fields(7) and
https://systemd.io/JOURNAL_NATIVE_PROTOCOL/): fields that can be searched for, and a MESSAGE_ID for each kind
of event."""

from __future__ import annotations

import os
from typing import Mapping

from ..model.errors import printable
from .host import Host

_SOCKET = "/run/systemd/journal/socket"

#: syslog(3)
NOTICE, WARNING = 5, 4


def send(host: Host, message: str, message_id: str, priority: int, fields: Mapping[str, str]) -> None:
    """Send one line to the journal. A line that cannot be sent is lost, as without systemd: no run fails for
    it."""
    entry = {
        "MESSAGE": printable(message),
        "MESSAGE_ID": message_id,
        "PRIORITY": str(priority),
        "SYSLOG_IDENTIFIER": "mlnode",
        **{f"MLNODE_{name}": value for name, value in fields.items()},
    }
    # Imported here, because most checks send nothing.
    import socket

    data = b"".join(_field(name, value) for name, value in entry.items())
    try:
        # By its folder, as the path of a socket has room for 107 bytes only (unix(7)).
        folder = os.open(os.path.dirname(host.real(_SOCKET)), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as stream:
                stream.setblocking(False)  # a journal that hangs holds up no run
                stream.sendto(data, f"/proc/self/fd/{folder}/{os.path.basename(_SOCKET)}")
        finally:
            os.close(folder)
    except OSError:
        return


def _field(name: str, value: str) -> bytes:
    """With its length, as a value may have several lines."""
    content = value.encode("utf-8", "surrogateescape")
    return name.encode("ascii") + b"\n" + len(content).to_bytes(8, "little") + content + b"\n"
