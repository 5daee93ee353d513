# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node without a disk: the root is the image and stays read-only, and /etc and /var are in memory, which
each boot fills from the image. It forgets its tuning, but not with the recipe of docs/guide/image.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

pytestmark = [pytest.mark.long]

WORD = "lab.stateless"
#: As the overlays of Warewulf and the statelite of xCAT: before systemd, with this word for the kernel
INIT = f"""\
#!/bin/sh
mount -t proc proc /proc
if grep -qw {WORD} /proc/cmdline; then
    for top in etc var; do
        mount -t tmpfs -o mode=755 "$top" /mnt
        cp -a /$top/. /mnt/
        mount --move /mnt /$top
    done
    echo '/dev/vda1 / ext4 ro 0 1' >/etc/fstab
fi
umount /proc
exec /lib/systemd/systemd "$@"
"""

AREAS = ("--tags", "sysctl,thp")
ORIGIN = "/var/lib/mlnode/origin.json"


@pytest.fixture(scope="module")
def node(cloud: Machine) -> Iterator[Machine]:
    cloud.run("rm /sbin/init && cat >/sbin/init && chmod 755 /sbin/init", stdin=INIT)
    yield cloud
    cloud.extra_command_line = ""


def booted(node: Machine, word: str) -> Machine:
    node.extra_command_line = word
    node.reboot()
    return node


def origins(node: Machine) -> dict[str, Any]:
    entries = json.loads(node.read(ORIGIN))["entries"]
    return {entry["key"]: entry["value"] for entry in entries if "writes" in entry}


def test_it_forgets_what_it_was_told_as_it_ran(node: Machine, collection: Collection) -> None:
    booted(node, WORD)
    done = collection.task("sysctl_ml", node, name="lab", settings={"vm.swappiness": 7})
    assert done.status == 0
    (row,) = done.result["settings"]
    assert (row["status"], row["runtime"], row["boot"]) == ("drifted", "7", None)
    assert "is lost at the next boot, as /etc is in memory" in row["reason"]
    refused = collection.task("agent", node)
    assert refused.status != 0
    assert "cannot write /usr/local/bin/mlnode: EROFS" in refused.output
    booted(node, WORD)
    assert facts.sysctl(node, "vm.swappiness") == "60"
    assert node.run("test -e /etc/mlnode", check=False).returncode == 1


def test_with_the_declaration_in_its_image_each_boot_is_right(node: Machine, collection: Collection) -> None:
    booted(node, "")
    assert collection.play("bake", node, *AREAS).status == 0
    node.run("sha256sum /etc/mlnode/declared.d/*.json >/etc/mlnode/image.sha256 && sync")
    seen = []
    for _boot in range(2):
        booted(node, WORD)
        assert facts.wrong(node) == {}
        assert facts.sysctl(node, "vm.swappiness") == "1"
        seen.append(origins(node))
    # The image's file had set it before the agent looked: it is not the owner's.
    assert "vm.swappiness" not in seen[0]
    assert seen[0] == seen[1]
    assert "thp.enabled" in seen[0]
