# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a deployment of ostree that becomes an entry of the loader when the system is shut down, a
dictionary of GVariant (ostree-sysroot-deploy.c)."""

from __future__ import annotations

from ..host.host import Host
from ..host.image_mode import OSTREE_STAGED
from ..model.errors import HostError
from ..model.record import regex
from .grub import Entry

#: Marker of kernel arguments, an array of strings
_WORDS = b"kargs\0"
#: Markers of a deployment that was only downloaded: the next boot does not start it. ostree knows both.
_LOCKED, _LOCK = b"locked\0\0\1\0b", f"{OSTREE_STAGED}-locked"
#: Lines of bootc's sources (bootconfig-extra, a{ss})
_SOURCE = regex(r"x-options-source-([A-Za-z0-9_-]+)\0([^\0]+)")
#: The kernel reads 2047 characters, which have at most so many words
_MOST_WORDS = 1024


def is_locked(host: Host) -> bool:
    """True if the deployment waits to be unlocked. Raises HostError."""
    return _LOCKED in (host.content(OSTREE_STAGED) or b"") or host.exists(_LOCK)


def entry(host: Host, quotes: str) -> Entry | None:
    """The staged deployment, if the next boot starts it and its record has words. Raises HostError."""
    record = host.content(OSTREE_STAGED) or b""
    if _WORDS not in record or is_locked(host):
        return None
    try:
        return Entry(OSTREE_STAGED, " ".join(_words(record)), quotes=quotes)
    except ValueError as error:
        detail = "it has words for the kernel that were not understood; look at them, and reboot"
        raise HostError("read", OSTREE_STAGED, None, detail) from error


def sources(host: Host) -> list[tuple[str, str]]:
    """Names and words of bootc's sources. Raises HostError."""
    return _SOURCE.findall((host.content(OSTREE_STAGED) or b"").decode("utf-8", "surrogateescape"))


def _words(record: bytes) -> tuple[str, ...]:
    """Kernel arguments: behind the strings stand their ends, in numbers of one size, and the type (GVariant
    specification). Raises ValueError."""
    strings = record.partition(_WORDS)[2].lstrip(b"\0")  # padding
    ends: list[int] = []
    while len(ends) < _MOST_WORDS:
        ends.append(strings.index(b"\0", ends[-1] if ends else 0) + 1)
        for size in (1, 2, 4):
            if ends[-1] < 1 << 8 * size:
                table = b"".join(end.to_bytes(size, "little") for end in ends) + b"\0as"
                if strings.startswith(table, ends[-1]):
                    return tuple(strings[: ends[-1] - 1].decode("utf-8").split("\0"))
    raise ValueError
