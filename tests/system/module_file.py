# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules of a kernel that is not there: files without code, which kmod finds and reads."""

from __future__ import annotations

import pathlib
import struct

from ansible_collections.mlnode.tuning.tests.system import namespaces


def module(name: str, release: str) -> bytes:
    """An object file with nothing but what modinfo(8) prints of it."""
    strings = b"\0.shstrtab\0.modinfo\0"
    info = f"license=GPL\0name={name}\0vermagic={release} \0".encode()
    body = info + strings
    padding = -len(body) % 8
    # elf(5): a relocatable of 64 bits with three sections, the first of which is empty
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body) + padding, 0, 64, 0, 0, 64, 3, 1)
    table = bytes(64)
    table += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64 + len(info), len(strings), 0, 0, 1, 0)
    table += struct.pack("<IIQQQQIIQQ", 11, 1, 2, 0, 64, len(info), 0, 0, 1, 0)
    return header + body + bytes(padding) + table


def install(root: pathlib.Path, release: str, *names: str) -> None:
    """Modules of a release below a root folder, with the index that depmod makes."""
    folder = root / "lib/modules" / release / "kernel"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.ko").write_bytes(module(name, release))
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (folder.parent / name).touch()
    namespaces.run("depmod", "-b", str(root), release)
    assert f"kernel/{names[0]}.ko:" in (folder.parent / "modules.dep").read_text()
