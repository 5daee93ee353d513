# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One boot of a machine with many kinds of storage, in namespaces that end with it.

`python FILE FOLDER STACK...` builds each stack below the folder, as its initramfs would. It prints for each
stack if the file of an earlier boot exists, and the product's verdict. The file is written for the next boot.
A stack has its layers from the bottom: `tmpfs.loop.overlay`.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.host.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux import volatile
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import HostError

Folder = pathlib.Path

#: KiB of a file system in a file: the least that mkfs.ext4 makes with a journal is more
SIZE = 1024


def sh(*words: str | Folder) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout.strip()


def made(folder: Folder, name: str) -> Folder:
    (folder / name).mkdir(exist_ok=True)
    return folder / name


def disk(below: Folder) -> Folder:
    return below


def tmpfs(below: Folder) -> Folder:
    sh("mount", "-t", "tmpfs", "mem", below)
    return below


def ramfs(below: Folder) -> Folder:
    sh("mount", "-t", "ramfs", "mem", below)
    return below


def bind(below: Folder) -> Folder:
    source, point = made(below, "source"), made(below, "point")
    sh("mount", "--bind", source, point)
    return point


def link(below: Folder) -> Folder:
    target, path = made(below, "target"), below / "link"
    if not path.is_symlink():
        path.symlink_to(target)
    return path


def overlay(below: Folder) -> Folder:
    lower, upper, work, point = (made(below, name) for name in ("lower", "upper", "work", "point"))
    sh("mount", "-t", "overlay", "all", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", point)
    return point


def hidden(below: Folder) -> Folder:
    """An overlay whose changes are in a tmpfs that the initramfs has detached."""
    memory, lower, point = (made(below, name) for name in ("memory", "lower", "point"))
    sh("mount", "-t", "tmpfs", "mem", memory)
    upper, work = made(memory, "upper"), made(memory, "work")
    sh("mount", "-t", "overlay", "all", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", point)
    sh("umount", "--lazy", memory)
    return point


def covered(below: Folder) -> Folder:
    """The same, where another folder now has the name of the one with the changes."""
    memory = made(below, "memory")
    made(memory, "upper")
    return hidden(below)


def loop(below: Folder, image: str = "image") -> Folder:
    file, point = below / image, made(below, "point")
    if not file.exists():
        sh("truncate", "-s", f"{SIZE}K", file)
        sh("mkfs.ext4", "-q", "-O", "^has_journal", file)
    sh("mount", "-o", "loop", file, point)
    return point


def deleted(below: Folder) -> Folder:
    point = loop(below, "deleted")
    (below / "deleted").unlink()
    return point


def part(below: Folder) -> Folder:
    """A partition of a disk that is a file."""
    file, point = below / "whole", made(below, "point")
    new = not file.exists()
    if new:
        sh("truncate", "-s", f"{SIZE * 3}K", file)
        subprocess.run(["sfdisk", "-q", file], input="2048,2048\n", text=True, check=True)
    device = sh("losetup", "--find", "--show", "--partscan", file)
    if new:
        sh("mkfs.ext4", "-q", "-O", "^has_journal", f"{device}p1")
    sh("mount", f"{device}p1", point)
    sh("losetup", "--detach", device)  # once it is no longer mounted
    return point


LAYERS: dict[str, Callable[[Folder], Folder]] = {
    layer.__name__: layer
    for layer in (disk, tmpfs, ramfs, bind, link, overlay, hidden, covered, loop, deleted, part)
}


def built(top: Folder, stack: str) -> Folder:
    place = made(top, stack)
    for layer in stack.split("."):
        place = LAYERS[layer](place)
    return place


def said(path: Folder) -> str:
    """lasts, lost or unknown."""
    host = Host("/")
    host.once("container", lambda: "")  # whose files are judged like others here
    try:
        return "lost" if volatile.in_memory(host, str(path)) else "lasts"
    except HostError as error:
        return f"unknown: {error}"


def main(top: Folder, stacks: list[str]) -> None:
    report = {}
    for stack in stacks:
        try:
            file = built(top, stack) / "file"
        except subprocess.CalledProcessError as error:
            report[stack] = {"error": error.stderr}
            continue
        there = file.exists()
        file.write_text("x")
        report[stack] = {"there": there, "said": said(file)}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Folder(sys.argv[1]), sys.argv[2:])
