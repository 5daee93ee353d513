# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every error the library raises on purpose, and texts for people. Any other error that escapes is a bug.

Such texts contain values, file lines and names that any user of the machine may have chosen. A terminal obeys
control characters: they move its cursor, change its title and hide earlier output. Bidirectional overrides
(Unicode Standard Annex #9) reorder the displayed text.
"""

from __future__ import annotations

import errno as _errno
import os
from collections import Counter
from typing import Any, Iterable, Sequence


class MlnodeError(Exception):
    """Base of all errors: the message is complete and meant for an operator. area: the faulty area of a
    declaration, if there is one."""

    area = ""


class DeclarationError(MlnodeError):
    """A declaration is wrong; nothing was touched."""


class RiskError(MlnodeError):
    """A change may cut off the connection over which it is made, and was not to be made now; nothing was
    touched."""


class StoreError(MlnodeError):
    """A file with mlnode's own state is damaged or not mlnode's."""


class DamagedError(StoreError):
    """A file with mlnode's own state has content that mlnode never wrote."""


class UntrustedError(StoreError):
    """A user other than root owns or can change a file that root would act on. The message is complete."""


class LostOriginError(StoreError):
    """The origin of a node that was tuned is not known any more."""


class LockTimeoutError(MlnodeError):
    """Another run holds the lock for longer than the caller's limit."""


class RefusedError(MlnodeError):
    """A guard stopped the change before anything was written."""


class UnfitError(MlnodeError):
    """The output of a program is not the requested measurement. cause: a word from a list
    shared by all who raise and catch it; "" for any other cause."""

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause


class NotMountedError(Exception):
    """A path below the folder of a driver that its Host was not given. It is a mistake in the program, so no
    handler may take it for a missing file."""

    def __init__(self, folder: str, path: str) -> None:
        super().__init__(f"{path}: no driver is mounted at {folder}; add it to the MOUNTS of the caller")


class HostError(MlnodeError):
    """The machine refused. Carries path and errno so that callers can distinguish absent from unreadable."""

    #: errno values that mean "absent", as opposed to "it could not be read"
    ABSENT = (_errno.ENOENT, _errno.ENOTDIR, _errno.ENODEV, _errno.ENXIO)

    def __init__(self, action: str, path: str, number: int | None, detail: str = "", cause: str = "") -> None:
        self.action = action
        self.path = path
        self.errno = number
        self._detail = detail
        self._cause = cause
        super().__init__(action, path, number)

    # Built on access: most of the thousand errors of a check only report that a file is absent.
    @property
    def kernel(self) -> str:
        """The kernel's words, or another reason."""
        words = _kernel_words(self.errno, self.path) or self._detail
        return f"{words}: {self._cause}" if self._cause else words

    def __str__(self) -> str:
        return f"cannot {self.action} {self.path}: {self.kernel}"

    @property
    def absent(self) -> bool:
        return self.errno in self.ABSENT

    @property
    def missing(self) -> str:
        """Description of the missing path; valid if .absent is true."""
        return f"{self.path} does not exist"


class UnansweredError(HostError):
    """A program did not end in its time: what became of its work is not known."""


class GoneError(HostError):
    """The device of a kernel file was removed between read and write."""

    @property
    def absent(self) -> bool:
        return True


class MissingError(HostError):
    """Something is absent; the message says why."""

    def __init__(self, action: str, path: str, explanation: str) -> None:
        super().__init__(action, path, None, explanation)

    @property
    def absent(self) -> bool:
        return True

    @property
    def missing(self) -> str:
        return self.kernel


class TransactionError(MlnodeError):
    """A step failed or did not take effect. The message lists the restored settings and those that could not
    be."""

    def __init__(self, message: str, rolled_back: list[str], stuck: list[str]) -> None:
        self.rolled_back = rolled_back
        self.stuck = stuck
        parts = [message]
        if rolled_back:
            parts.append("put back: " + ", ".join(rolled_back))
        elif not stuck:
            parts.append("nothing else had been changed")
        if stuck:
            parts.append("COULD NOT be put back: " + "; ".join(stuck))
        super().__init__(". ".join(parts))


#: Usual reason for each errno of a rejected write to a kernel file (proc(5), sysctl sources), in addition to
#: strerror(3)
_MEANING = {
    _errno.EACCES: "root is needed; in a container, perhaps only its host may",
    _errno.EPERM: "root is needed, or lockdown or a container forbids it",
    _errno.EINVAL: "the kernel does not accept this value",
    _errno.EBUSY: "in use or not allowed in the present mode",
    _errno.EIO: "the kernel or the device failed",
    _errno.EFBIG: "longer than any file that belongs here",
    _errno.EOPNOTSUPP: "the kernel or the driver has no such thing, or cannot change it",
}

#: A path can narrow down the cause: each x86 CPU has some 200 vectors for all devices together
#: (arch/x86/kernel/apic/vector.c: assign_vector_locked)
_NO_VECTOR = "these CPUs have no interrupt vector left: name more CPUs, or give the NIC fewer queues"


def is_denial(text: str) -> bool:
    """True if a message means that this user lacks a permission."""
    return any(name in text for name in ("EACCES (", "EPERM (", "root is needed"))


def errno_name(number: int) -> str:
    """EINVAL for 22. Linux has one number for ENOTSUP and EOPNOTSUPP; the second is the kernel's word."""
    return "EOPNOTSUPP" if number == _errno.EOPNOTSUPP else _errno.errorcode.get(number, str(number))


def _kernel_words(number: int | None, path: str) -> str:
    if number is None:
        return ""
    name = errno_name(number)
    meaning = _MEANING.get(number)
    if number == _errno.ENOSPC and path.startswith("/proc/irq/"):
        meaning = _NO_VECTOR
    return f"{name} ({os.strerror(number)}{'; ' + meaning if meaning else ''})"


def printable(text: str) -> str:
    """One line in which each invisible character is spelled, such as \\x1b or \\u202e."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def listed(names: Sequence[str], most: int = 8) -> str:
    """As many names as a line bears, and the number of the others."""
    return ", ".join(shortened(names, most, "{} more"))


def several(names: Sequence[str], most: int) -> str:
    """As listed(), in the middle of a sentence."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(lines: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """As many lines as readers bear, and the number of the others."""
    rest = len(lines) - most
    return [*lines[:most], more.format(rest)] if rest > 0 else [*lines]


def paragraphs(text: str) -> str:
    """As printable(), for a text whose line ends and tabs are intended."""
    if text.isascii() and text.isprintable() and type(text) is str:
        return text
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(map(printable, parts)) for parts in lines)


def counted(lines: Iterable[str]) -> list[str]:
    """Each line once, in order, with the number of files for a setting that has many of them."""
    return [line if number == 1 else f"{line} ({number} files)" for line, number in Counter(lines).items()]


def shown(value: Any) -> str:
    """A value for people: an empty list and a missing one look different."""
    if value is None:
        return "-"
    return str(value).replace("\t", " ") or '""'
