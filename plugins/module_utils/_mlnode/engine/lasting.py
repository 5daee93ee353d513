# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot files in memory, which are gone before the next boot.

They last if an image contains them. A file last changed before this boot is the image's own. For a folder
that the initramfs fills at each boot, the image lists its declarations in IMAGE.
"""

from __future__ import annotations

from typing import Sequence

from ..host import places
from ..host.host import Host
from ..linux import last_boot, volatile
from ..model.errors import HostError
from ..model.record import regex
from ..model.setting import Boot, Value
from . import declared
from .judge import differs, judge
from .kind import AGENT_FILE, AGENT_UNIT, Context, Row

#: Made in the image, with `sha256sum /etc/mlnode/declared.d/*.json`: the next boot does not bring a
#: declaration that has changed since
IMAGE = "/etc/mlnode/image.sha256"

_LISTED = regex(r"^([0-9a-f]{64}) [ *](\S+)$")
_FILE = regex(r"/[^\s:,]+")
#: Folders with files of the node. All others come with packages, and so with the image.
_FOLDERS = ("/etc/", "/boot/", "/efi/", "/usr/local/", "/var/")
#: The agent of an image restores all files but these: the loader has read its menu before the agent runs
_OF_LOADER = ("/boot/", "/efi/")

_ADVICE = (
    "build it into the image or overlay that the node boots (docs/guide/image.md), with the output of "
    f"sha256sum {declared.FOLDER}/*.json as {IMAGE}, or move the folder to a disk"
)
_LOADER_ADVICE = "set the parameter where the node boots from, such as in the network boot's kernel arguments"


def of_rows(rows: Sequence[Row], context: Context) -> list[Row]:
    """The rows, each with its boot layer after the next boot."""
    if not (context.runtime and context.boot):  # an image, or a node whose boot layer is not asked for
        return list(rows)
    return [_of_row(row, context) for row in rows]


def _of_row(row: Row, context: Context) -> Row:
    boot = row.reading.boot
    if boot.value.text is None or boot.foreign or boot.row:
        return row
    for path in _carriers(boot.source, context.name):
        value = lost(context.host, path, context.name)
        if value is not None:
            reading = row.reading._replace(boot=Boot(value, boot.source))
            status, causes = judge(row.setting, reading, context)
            return row._replace(reading=reading, status=status, causes=causes)
    return row


def _carriers(source: str, name: str) -> Sequence[str]:
    """The files that bring a value at boot."""
    if source == AGENT_UNIT:
        return (declared.path_of(name), *agent())
    match = _FILE.match(source)
    return (match.group(0),) if match and match.group(0).startswith(_FOLDERS) else ()


def is_brought(row: Row) -> bool:
    """True for a right value without a known origin that an own file sets at boot, such as an image's: the
    value found is mlnode's own, and not the one before."""
    match = _FILE.match(row.reading.boot.source)
    return row.origin is None and not differs(row.reading) and bool(match and places.is_own(match.group(0)))


def agent() -> Sequence[str]:
    """The files without which the next boot does not run the agent."""
    return (places.AGENT_COMMAND, AGENT_FILE)


def lost(host: Host, path: str, name: str = "") -> Value | None:
    """Why the next boot does not find the present file; None if it does. name: its declaration; empty for the
    agent, which an image has with any declaration."""
    try:
        value = host.once(f"lasting {path}", lambda: _place(host, path), of_files=True)
        if value == Value() or _from_image(host, path, name, value):
            return None
    except HostError as error:
        return Value(unreadable=str(error))
    if value.text is None:
        return value
    advice = _LOADER_ADVICE if path.startswith(_OF_LOADER) else _ADVICE
    return Value(absent=f"{path} is lost at the next boot, as {value.text}: {advice}")


def _place(host: Host, path: str) -> Value:
    """The storage in memory of a file, or why that is unknown; empty if it is on a disk."""
    try:
        return Value(text=volatile.in_memory(host, path) or None)
    except HostError as error:
        return Value(unreadable=str(error))


def _from_image(host: Host, path: str, name: str, place: Value) -> bool:
    """True if the image brings the file. place: as in _place(). Raises HostError."""
    if volatile.is_overlay(host, path) and last_boot.is_older(host, [path]):
        return True
    if place.text is not None and path.startswith(_OF_LOADER):
        return False
    listed = [match.groups() for match in map(_LISTED.match, host.text(IMAGE).split("\n")) if match]
    wanted = declared.path_of(name) if name else ""
    return any(digest == _digest(host, file) for digest, file in listed if file == wanted or not wanted)


def _digest(host: Host, path: str) -> str:
    import hashlib  # loads OpenSSL, and few nodes have the list

    return hashlib.sha256(host.content(path) or b"").hexdigest()
