# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a folder that several processes may have, and that may be killed at any time."""

from __future__ import annotations

import os
import pathlib
import shutil

from ansible_collections.mlnode.tuning.tests.unit.nodes import Node


class Atomic(Node):
    """Its kernel takes a value at once, as a real one does, although it dies with the process."""

    def _store(self, path: str, text: str) -> None:
        beside = f"{self.root}.value"
        with open(beside, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text + "\n")
        os.rename(beside, self.real(path))


def plain(folder: pathlib.Path) -> Node:
    machine = Atomic.debian(str(folder))
    assert isinstance(machine, Atomic)
    machine.put("/etc/nccl.conf", "NCCL_DEBUG=VERSION\n")
    return machine


def copied(machine: Node, name: str) -> Node:
    target = pathlib.Path(machine.root).parent / name
    shutil.copytree(machine.root, target, symlinks=True)
    return type(machine)(str(target))
