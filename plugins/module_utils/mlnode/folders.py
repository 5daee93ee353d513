# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes folders that are the same whatever the umask of the run is."""

from __future__ import annotations

import os

#: All users may read, only root may write
MODE = 0o755


def make(real: str) -> None:
    """The folder and all that are missing above it, on disk before it returns. Raises OSError.

    Each by a mkdir of its own: makedirs() gives its mode to the last one only, and the others get what the
    umask leaves of 0777.
    """
    missing = []
    while not os.path.isdir(real):
        missing.append(real)
        real = os.path.dirname(real)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, MODE)
        except FileExistsError:
            if os.path.isdir(folder):  # another process was faster
                continue
            raise
        # A umask can only have taken bits away meanwhile: at no time may others write.
        os.chmod(folder, MODE)
        sync(os.path.dirname(folder))


def sync(real: str) -> None:
    """The names in a folder are on disk. Raises OSError."""
    handle = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
