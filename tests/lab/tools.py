# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the Debian 13 root file system that `make lab` builds, run on any host without a chroot.

So every host runs the same QEMU (Debian 12 has 7.2, which knows no igb), and tests need no root.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from dataclasses import dataclass

#: Debian's folder of 64-bit PC libraries
_LIBRARIES = "usr/lib/x86_64-linux-gnu"

_BIN = ("usr/bin", "usr/sbin")


@dataclass(frozen=True)
class Tools:
    """Commands below a root file system, called through its own dynamic linker and libraries."""

    root: pathlib.Path

    def command(self, name: str) -> list[str]:
        """The words that start a program; its arguments follow."""
        program = next(path for folder in _BIN if (path := self.root / folder / name).exists())
        linker = self.root / "usr/lib64/ld-linux-x86-64.so.2"
        return [str(linker), "--library-path", str(self.root / _LIBRARIES), str(program)]

    def qemu(self) -> list[str]:
        """The emulator; MLNODE_QEMU names another one, of version 8 or newer."""
        other = os.environ.get("MLNODE_QEMU")
        if other:
            return [shutil.which(other) or other]
        firmware = [
            word for name in ("qemu", "seabios") for word in ("-L", str(self.root / "usr/share" / name))
        ]
        return [*self.command("qemu-system-x86_64"), *firmware]
