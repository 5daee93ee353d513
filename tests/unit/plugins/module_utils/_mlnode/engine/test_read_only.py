# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read-only file systems: a run reports them before its first write, and check mode reports the same."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import install, whole_node
from mlnode.agent.archive import INTERPRETER
from mlnode.engine import engine
from mlnode.model.errors import HostError, MlnodeError

MOUNTS = (
    "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:30 / /etc ro - squashfs /dev/loop0 ro\n"
    "22 20 8:1 /usr /usr ro - ext4 /dev/sda1 rw\n23 20 8:2 / /var ro - ext4 /dev/sda2 ro\n"
)
SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path))
    machine.put("/usr/.keep", "")
    machine.put("/proc/self/mountinfo", MOUNTS)
    return machine


def freeze(machine: Machine, monkeypatch: pytest.MonkeyPatch, *tops: str) -> None:
    """What statvfs(2) says of a read-only mount."""
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        status = real(path)
        frozen = any(f"{path}/".startswith(f"{machine.root}{top}/") for top in tops)
        return os.statvfs_result((*status[:8], os.ST_RDONLY if frozen else 0, status[9]))

    monkeypatch.setattr(os, "statvfs", statvfs)


@pytest.mark.parametrize(
    ("top", "named", "advice"),
    [
        ("/etc", "/etc/mlnode/declared.d/site.json", "build the file into the image"),
        ("/var", "/var/lib/mlnode/origin.json", "mount -o remount,rw /var"),
    ],
)
def test_nothing_is_written(
    node: Machine, monkeypatch: pytest.MonkeyPatch, top: str, named: str, advice: str
) -> None:
    """With /var alone the first write is that of the origin, and it fails by itself."""
    freeze(node, monkeypatch, top)
    request = door.request("site", "sysctl", {"settings": {"vm.swappiness": 1}})
    before = node.tree()
    with pytest.raises(HostError) as previewed:
        engine.preview(node, [request])
    assert (previewed.value.path, str(previewed.value).count(advice)) == (named, 1)
    assert str(previewed.value).endswith("nothing was changed")
    if top == "/etc":
        with pytest.raises(MlnodeError) as applied:
            door.apply(node, request)
        assert str(applied.value) == str(previewed.value)
        assert (node.tree(), node.now(SWAPPINESS)) == (before, "60")


def test_an_agent_is_not_installed_below_a_read_only_usr(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(node, monkeypatch, "/usr")
    before = node.tree()
    texts = [
        whole_node.installed(node, INTERPRETER, reload=False, check=check, diff=False)["msg"]
        for check in (True, False)
    ]
    assert "cannot write /usr/local/bin/mlnode: EROFS" in texts[0]
    assert "nothing was changed" in texts[0]
    assert texts[0] == texts[1]
    assert node.tree() == before


def test_a_file_that_is_right_may_be_read_only(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image that has the agent."""
    install.install(node, INTERPRETER, notify=False)
    freeze(node, monkeypatch, "/usr", "/etc", "/var")
    assert not whole_node.installed(node, INTERPRETER, reload=False, check=False, diff=False)["changed"]
