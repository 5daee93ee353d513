# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a file last? The product's verdict on stacks of storage, and the kernel's: each stack is built
twice, as by two boots, and the second one has the file or not."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any

from . import namespaces, storage_stacks
from .namespaces import ENVIRONMENT, needs_root, on_disk

pytestmark = [needs_root]
tmp_path = on_disk

BASES = ("disk", "tmpfs", "ramfs")
LAYERS = ("bind", "overlay", "loop", "tmpfs")
#: On the bases alone
ALONE = ("link", "part", "deleted", "hidden", "covered")
#: Not to be known: only the initramfs has seen the folder with the changes
HIDDEN = {"hidden", "covered"}


def boot(top: pathlib.Path, stacks: list[str]) -> dict[str, Any]:
    """A process with its own mounts, as process 1 of its own: all it mounts goes with it."""
    words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable]
    done = subprocess.run(
        [*words, storage_stacks.__file__, str(top), *stacks],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_kernel_loses_what_is_said_to_be_lost(tmp_path: pathlib.Path) -> None:
    namespaces.need("mkfs.ext4", "e2fsprogs")
    namespaces.need("sfdisk", "fdisk")
    above = [(), *((layer,) for layer in (*LAYERS, *ALONE)), *itertools.product(LAYERS, repeat=2)]
    stacks = [".".join([base, *layers]) for base in BASES for layers in above]
    first, second = boot(tmp_path, stacks), boot(tmp_path, stacks)
    built = [stack for stack in stacks if "error" not in second[stack]]
    # An overlay keeps its changes neither in another one nor in a ramfs, which has no attributes.
    assert len(built) > len(stacks) // 2, second
    assert not any(first[stack]["there"] for stack in built)
    # A container has its files on an overlay, whose storage is not seen.
    unseen = HIDDEN | ({"disk"} if second["disk"]["said"].startswith("unknown") else set())
    for stack in built:
        said, there = second[stack]["said"], second[stack]["there"]
        assert said == first[stack]["said"], stack
        if said.startswith("unknown"):
            assert unseen & {*stack.split(".")}, (stack, said)
        else:
            assert said == ("lasts" if there else "lost"), (stack, second[stack])
