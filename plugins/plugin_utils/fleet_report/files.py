# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a report, which may be open in a browser while they are written, and results read back."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import tempfile
from collections.abc import Iterable


def write(path: pathlib.Path, pieces: Iterable[str]) -> None:
    """Whole or not at all, with the folder where there is none. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="backslashreplace", dir=path.parent, delete=False
    ) as file:
        try:
            file.writelines(pieces)
            file.close()
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read(path: pathlib.Path, most: int, follow: bool) -> bytes:
    """Content of a regular file of up to `most` bytes; follow: also through a link. Never waits for another
    kind of file, or reads one without end. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        # It may grow while it is read.
        content = file.read(most + 1) if about.st_size <= most else b""
    if max(len(content), about.st_size) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
