# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of a process in a folder: pid 20 in /a.slice/b.scope."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, control_groups
from ansible_collections.mlnode.tuning.tests.unit.control_groups import OLD, folder
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.host import Host
from mlnode.linux import cgroup_files, jobs
from mlnode.linux.cgroup_files import Devices
from mlnode.model.errors import HostError

GROUP = "/a.slice/b.scope"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    machine = Machine(str(tmp_path / "node"))
    control_groups.mount(machine)
    control_groups.group(machine, GROUP)
    machine.put("/proc/20/cgroup", f"0::{GROUP}\n")
    return machine


def old(machine: Machine, controllers: str, text: str = "") -> None:
    control_groups.mount(machine, *OLD)
    control_groups.old_group(machine, controllers, GROUP)
    machine.put("/proc/20/cgroup", text or f"4:{controllers}:{GROUP}\n0::/other\n")


def paths(machine: Host, controller: str) -> list[str]:
    machine.forget()
    return [group.path for group in cgroup_files.line(machine, 20, controller).groups]


# -- the groups ----------------------------------------------------------------------------


def test_all_groups_up_to_the_root(node: Machine) -> None:
    known = cgroup_files.line(node, 20, "cpu")
    assert [tuple(group) for group in known.groups] == [
        ("/a.slice/b.scope", "/sys/fs/cgroup/a.slice/b.scope"),
        ("/a.slice", "/sys/fs/cgroup/a.slice"),
    ]
    assert (known.version, known.hidden) == (2, "")


def test_the_root_has_no_limits(node: Machine) -> None:
    node.put("/proc/20/cgroup", "0::/\n")
    assert paths(node, "cpu") == []


def test_each_controller_has_its_own_version(node: Machine) -> None:
    old(node, "cpu,cpuacct", f"4:cpu,cpuacct:{GROUP}\n1:name=systemd:/x\n0::/other\n")
    known = cgroup_files.line(node, 20, "cpu")
    assert (known.version, known.groups[0].folder) == (1, f"/sys/fs/cgroup/cpu,cpuacct{GROUP}")
    node.forget()
    assert (cgroup_files.line(node, 20, "io").version, paths(node, "io")) == (2, ["/other"])


@pytest.mark.parametrize("of_old", [True, False])
def test_groups_above_a_container_are_hidden(node: Machine, of_old: bool) -> None:
    """As in a container with its own namespace of control groups."""
    if of_old:
        old(node, "memory")
        os.remove(f"{node.root}/sys/fs/cgroup/memory/release_agent")
    else:
        node.put("/sys/fs/cgroup/cgroup.type", "domain\n")
    known = cgroup_files.line(node, 20, "memory")
    assert known.hidden
    assert [group.path for group in known.groups] == [GROUP, "/a.slice", "/"]


def test_a_mount_may_show_a_part_of_the_tree(node: Machine) -> None:
    control_groups.mount(node, top="/a.slice")
    node.put("/sys/fs/cgroup/cgroup.type", "domain\n")
    known = cgroup_files.line(node, 20, "cpu")
    assert [tuple(group) for group in known.groups] == [
        ("/a.slice/b.scope", "/sys/fs/cgroup/b.scope"),
        ("/a.slice", "/sys/fs/cgroup"),
    ]


@cases.table
def test_groups_that_are_not_known(node: Machine, rows: str, mounts: list[str], words: str) -> None:
    control_groups.mount(node, *mounts)
    node.put("/proc/20/cgroup", rows)
    with pytest.raises(HostError, match=words):
        cgroup_files.line(node, 20, "cpu")


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [("0::/a.slice/b.scope\n", "- cgroup2"), ("1:name=systemd:/x\n4:memory:/x\n", "- cgroup ")],
)
def test_a_controller_that_the_kernel_does_not_offer_has_no_group(
    node: Machine, rows: str, kinds: str
) -> None:
    table = "/proc/self/mountinfo"
    lines = node.text(table).splitlines(keepends=True)
    node.put(table, "".join(line for line in lines if "cgroup" not in line or kinds in line))
    node.put("/proc/20/cgroup", rows)
    assert paths(node, "misc") == []


def test_an_unreadable_list_of_controllers_is_unknown(node: Machine) -> None:
    node.unreadable["/sys/fs/cgroup/cgroup.controllers"] = errno.EACCES
    with pytest.raises(HostError, match="EACCES"):
        cgroup_files.line(node, 20, "memory")


def test_a_removed_group_is_of_an_ended_process(node: Machine) -> None:
    node.put("/proc/20/cgroup", "0::/gone (deleted)\n")
    with pytest.raises(HostError) as raised:
        cgroup_files.line(node, 20, "cpu")
    assert jobs.is_gone(raised.value)
    control_groups.group(node, "/gone (deleted)")
    assert paths(node, "cpu") == ["/gone (deleted)"], "a name like any other"


def test_no_mount_of_control_groups(node: Machine) -> None:
    node.put("/proc/self/mountinfo", "22 1 0:22 / / rw - ext4 /dev/vda1 rw\n")
    with pytest.raises(HostError, match="no control groups of version 2"):
        cgroup_files.line(node, 20, "cpu")


# -- limits --------------------------------------------------------------------------------


@cases.table
def test_the_least_limit_counts(
    node: Machine, own: str, above: str, least: int | None, of: str | None
) -> None:
    control_groups.group(node, GROUP, {"memory.max": own})
    control_groups.group(node, "/a.slice", {"memory.max": above})
    limit = cgroup_files.limit(node, cgroup_files.line(node, 20, "memory"), "memory.max")
    assert (limit and limit.amount, limit and limit.group.path) == (least, of)


@pytest.mark.parametrize(
    ("text", "limited"), [("9223372036854771712", False), ("9223372036854710272", False), ("4096", True)]
)
def test_limits_of_version_1(node: Machine, text: str, limited: bool) -> None:
    """With pages of 4 and of 64 KiB."""
    old(node, "memory")
    control_groups.old_group(node, "memory", GROUP, {"memory.limit_in_bytes": text})
    known = cgroup_files.line(node, 20, "memory")
    assert bool(cgroup_files.limit(node, known, "memory.limit_in_bytes")) is limited


@cases.table
def test_quotas(node: Machine, own: str, above: str, cpus: list[float]) -> None:
    control_groups.group(node, GROUP, {"cpu.max": own})
    control_groups.group(node, "/a.slice", {"cpu.max": above})
    known = cgroup_files.line(node, 20, "cpu")
    assert [quota.cpus for quota in cgroup_files.quotas(node, known)] == cpus
    node.forget()
    old(node, "cpu,cpuacct")
    for path, text in ((GROUP, own), ("/a.slice", above)):
        quota, period = text.split()
        files = {"cpu.cfs_quota_us": "-1" if quota == "max" else quota, "cpu.cfs_period_us": period}
        control_groups.old_group(node, "cpu,cpuacct", path, files)
    known = cgroup_files.line(node, 20, "cpu")
    assert [quota.cpus for quota in cgroup_files.quotas(node, known)] == cpus


def test_a_group_without_the_controller_has_no_limit(node: Machine) -> None:
    """Its parent does not hand the controller down (cgroup.subtree_control)."""
    os.remove(f"{node.root}{folder(GROUP)}/memory.max")
    node.put(f"{folder(GROUP)}/cgroup.controllers", "cpu io\n")
    control_groups.group(node, "/a.slice", {"memory.max": "8192"})
    limit = cgroup_files.limit(node, cgroup_files.line(node, 20, "memory"), "memory.max")
    assert limit is not None
    assert limit.group.path == "/a.slice"


def test_a_missing_file_of_a_controller_is_not_unlimited(node: Machine) -> None:
    os.remove(f"{node.root}{folder(GROUP)}/memory.max")
    with pytest.raises(HostError, match="this kernel does not have the file"):
        cgroup_files.limit(node, cgroup_files.line(node, 20, "memory"), "memory.max")


def test_an_unreadable_limit_of_an_ancestor_is_unknown(node: Machine) -> None:
    node.unreadable[f"{folder('/a.slice')}/memory.max"] = errno.EACCES
    with pytest.raises(HostError, match="EACCES"):
        cgroup_files.limit(node, cgroup_files.line(node, 20, "memory"), "memory.max")


@pytest.mark.parametrize("text", ["", "-5", "many", "9 9"])
def test_an_unfit_limit_is_unknown(node: Machine, text: str) -> None:
    control_groups.group(node, GROUP, {"memory.max": text, "cpu.max": text})
    with pytest.raises(HostError, match="understand"):
        cgroup_files.limit(node, cgroup_files.line(node, 20, "memory"), "memory.max")
    if text != "9 9":
        with pytest.raises(HostError, match="understand"):
            cgroup_files.quotas(node, cgroup_files.line(node, 20, "cpu"))


def test_a_group_that_is_removed_meanwhile(node: Machine) -> None:
    known = cgroup_files.line(node, 20, "memory")
    os.rename(node.root + folder(GROUP), node.root + folder("/elsewhere"))
    with pytest.raises(HostError) as raised:
        cgroup_files.limit(node, known, "memory.max")
    assert jobs.is_gone(raised.value)


# -- devices -------------------------------------------------------------------------------


@cases.table
def test_devices(rows: str, number: str, allowed: bool) -> None:
    assert Devices(tuple(rows.split("\n"))).allows(number) is allowed


def test_devices_of_version_2_are_not_shown(node: Machine) -> None:
    assert cgroup_files.devices(node, 20) is None
    node.forget()
    old(node, "devices")
    known = cgroup_files.devices(node, 20)
    assert known is not None
    assert known.allows("231:192")


# -- words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("container", ["its own group", "its container's group", "/machine.slice"]),
        (
            "init/worker",
            ["its own group", "its container's group", "its container's group", "/machine.slice"],
        ),
        ("", ["its own group", "/machine.slice"]),
    ],
)
def test_groups_of_a_container_in_words(node: Machine, own: str, words: list[str]) -> None:
    path = f"/machine.slice/libpod-{'3f' * 32}.scope/{own}".rstrip("/")
    control_groups.group(node, path)
    node.put("/proc/20/cgroup", f"0::{path}\n")
    known = cgroup_files.line(node, 20, "cpu")
    assert [known.words(group) for group in known.groups] == words
