# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a report, which may be open in a browser while they are written."""

from __future__ import annotations

import os
import pathlib
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


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
