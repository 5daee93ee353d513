# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What processes see, in a folder; tests/system/test_jobs.py has real namespaces."""

from __future__ import annotations

import errno
import json
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.linux import inside, job_processes
from mlnode.linux.inside import Environment
from mlnode.linux.job_processes import Choice, JobProcess
from mlnode.model import strict_json
from mlnode.model.setting import Value


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return job_machine.node(str(tmp_path / "node"))


def read(node: Machine) -> JobProcess:
    return job_processes.chosen(node, Choice((20,))).processes[0]


def known(name: str) -> bool | None:
    return {"A": True, "RANK": True, "HIDDEN": False}.get(name)


def environment(node: Machine, content: bytes) -> Environment:
    process(node, 20, "python", environment=content)
    (answer,) = inside.ask(node, inside.environments(node, [read(node)], known))
    return inside.environment_of(answer)


# -- environment ---------------------------------------------------------------------------


def test_only_known_names_are_taken_and_the_first_counts(node: Machine) -> None:
    content = (
        b"RANK=3\0AWS_SECRET=x\0A=\x1b[2J\n\xff\0RANK=4\0HIDDEN=password\0A\0=x\0NO\0" + b"A" * 100 + b"=1"
    )
    assert environment(node, content) == ({"RANK": "3", "A": "\x1b[2J\n\udcff", "HIDDEN": None}, "")


@pytest.mark.parametrize("content", [b"\0" * 123, b"RANK=7\0\0\0\0", b"ker_TP0\0\0\0RANK=3"])
def test_a_title_over_the_environment_is_not_taken_for_it(node: Machine, content: bytes) -> None:
    variables, unknown = environment(node, content)
    assert not variables
    assert unknown.startswith("the program has written its title over it")


def test_a_value_is_cut(node: Machine) -> None:
    assert len(environment(node, b"A=" + b"x" * 5000).variables["A"] or "") == 1025


def test_an_environment_of_2_mib_is_read(node: Machine) -> None:
    assert environment(node, b"B=" + b"x" * (2 << 20) + b"\0RANK=3").variables == {"RANK": "3"}


def test_an_environment_that_no_program_can_have_is_read_in_part(node: Machine) -> None:
    found = environment(node, b"RANK=3\0B=" + b"x" * (6 << 20) + b"\0A=1")
    assert found == ({"RANK": "3"}, "only 6291456 bytes were read")


def test_a_known_name_at_the_end_of_a_part_is_not_taken(node: Machine) -> None:
    found = environment(node, b"RANK=3\0B=" + b"x" * ((6 << 20) - 12) + b"\0A=1234")
    assert found.variables == {"RANK": "3"}


def test_too_many_variables_are_cut(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_MOST_VARIABLES", 20 * 64)
    words = "its known variables have more than 20 characters"
    assert environment(node, b"RANK=3\0A=1") == ({"RANK": "3"}, words)


def test_all_variables_of_all_processes_fit_into_an_answer(node: Machine) -> None:
    """Characters that JSON writes as six, in the environments of one user's 300 processes"""
    content = b"\0".join(b"UCX_%d=" % number + b"\xff" * 2000 for number in range(30))
    for pid in range(20, 320):
        process(node, pid, "python", environment=content)
    processes = job_processes.chosen(node, Choice(tuple(range(20, 320)))).processes
    answers = inside.ask(node, inside.environments(node, processes, lambda _name: True))
    found = [inside.environment_of(answer) for answer in answers]
    assert len(found) == 300
    assert all(one.variables and one.unknown for one in found)
    assert len(json.dumps([one.variables for one in found])) < 4 * strict_json.MOST / 3


def test_a_process_that_ended_is_gone(node: Machine) -> None:
    process(node, 20, "python")
    old = read(node)
    process(node, 20, "other", started=9000)
    (answer,) = inside.ask(node, inside.environments(node, [old], known))
    assert inside.is_gone(answer)
    node.unreadable = {"/proc/20/environ": errno.EACCES}
    (answer,) = inside.ask(node, inside.environments(node, [read(node)], known))
    assert not inside.is_gone(answer)
    assert inside.environment_of(answer).unknown.startswith("cannot read /proc/20/environ: EACCES")


@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.EACCES, errno.ENOENT])
@pytest.mark.parametrize("memory", ["4096", "0"])
def test_errors_of_a_process_count_only_while_it_runs(node: Machine, number: int, memory: str) -> None:
    """An ending process has an empty environment, no mounts (EINVAL) and refuses its links (EACCES)."""
    process(node, 20, "python", "/dev/nvidia0", environment=["RANK=3"])
    running = read(node)
    process(node, 20, "python", "/dev/nvidia0", memory=memory)
    paths = ("environ", "mountinfo")
    node.unreadable = {f"/proc/20/{name}": number for name in paths} if number else {}
    works = (
        *inside.environments(node, [running], known),
        inside.files(node, running, ["/etc/nccl.conf"]),
        inside.storage(node, running, "/dev/shm"),
        inside.devices(node, running),
    )
    answers = inside.ask(node, works)
    assert [inside.is_gone(answer) for answer in answers] == [memory == "0"] * len(works)
    assert all(bool(answer.unknown) == bool(number or memory == "0") for answer in answers)


# -- files ---------------------------------------------------------------------------------


def file(node: Machine, mounts: str, path: str = "/etc/nccl.conf") -> Value:
    process(node, 20, "python", mounts=mounts, files={"/etc/nccl.conf": "NCCL_DEBUG=WARN\n"})
    (answer,) = inside.ask(node, [inside.files(node, read(node), [path])])
    (value,) = inside.files_of(answer, [path])
    return value


ROOT = "30 1 0:30 / / rw,relatime - {} none rw\n"


def test_a_file_of_a_local_file_system_is_read(node: Machine) -> None:
    assert file(node, ROOT.format("overlay")) == Value(text="NCCL_DEBUG=WARN\n")
    absent = file(node, ROOT.format("xfs"), "/etc/other.conf")
    assert absent == Value(absent="/etc/other.conf does not exist there")


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        (ROOT.format("fuse.sshfs"), "fuse.sshfs"),
        (ROOT.format("overlay") + "31 30 0:9 / /etc rw - fuse none rw\n", "fuse"),
        (ROOT.format("overlay") + "31 30 0:9 / /etc/nccl.conf rw - fuse.x\\040y none rw\n", "fuse.x\\040y"),
        (ROOT.format("overlay") + "31 30 0:9 / /etc rw - autofs none rw\n", "autofs"),
        # A good one below a bad one
        (
            ROOT.format("overlay") + "31 30 0:9 / /etc rw - fuse none rw\n"
            "32 31 0:9 / /etc/nccl.conf rw - tmpfs none rw\n",
            "fuse",
        ),
        # A later one over an earlier one
        (ROOT.format("overlay") + "31 30 0:9 / / rw - fuse none rw\n", "fuse"),
        # An escape, as the owner may name a file system type's part
        (ROOT.format("fuse.\x1b[2J"), "fuse.\\x1b[2J"),
    ],
)  # fmt: skip
def test_fuse_and_unknown_file_systems_are_not_touched(
    node: Machine, monkeypatch: pytest.MonkeyPatch, mounts: str, kind: str
) -> None:
    monkeypatch.setattr(inside.namespaces, "read", lambda *_given: pytest.fail("it is read"))
    value = file(node, mounts)
    assert value.unreadable == f"cannot read /etc/nccl.conf: its file system is {kind}, which is not touched"


def test_a_root_inside_of_a_file_system_is_unknown(node: Machine) -> None:
    value = file(node, "31 30 0:9 / /proc rw - proc proc rw\n")
    assert str(value.unreadable).endswith("its mounts are not known")


def test_a_long_table_of_mounts_is_unknown(node: Machine) -> None:
    value = file(node, ROOT.format("overlay") * 40000)
    assert value.unreadable == "cannot read /proc/20/mountinfo: expected at most 1048576 bytes, got more"


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("31 30 0:5 / /dev rw - devtmpfs udev rw\n32 31 0:6 / /dev/shm rw - tmpfs none rw\n", "tmpfs"),
        (
            "31 30 0:5 / /dev rw - tmpfs tmpfs rw\n32 31 0:6 / /dev/shm rw - tmpfs shm rw,size=65536k\n",
            "tmpfs",
        ),
        ("31 30 0:5 / /dev rw - devtmpfs udev rw\n", "devtmpfs"),
        ("", "overlay"),
    ],
)
def test_the_space_of_shared_memory(node: Machine, mounts: str, kind: str) -> None:
    """Of a node, of a container, of a small machine, and of a container that has none."""
    process(node, 20, "python", mounts=ROOT.format("overlay") + mounts)
    (answer,) = inside.ask(node, [inside.storage(node, read(node), "/dev/shm")])
    known = os.statvfs(node.root)
    assert answer.value[:2] == [kind, known.f_blocks * known.f_frsize]


# -- namespaces, users ---------------------------------------------------------------------


def test_a_captured_tree_has_no_other_namespaces(node: Machine) -> None:
    process(node, 20, "python")
    (answer,) = inside.ask(node, [inside.network(node, read(node), ["/proc/sys/x"])])
    assert "is a captured tree" in answer.unknown
    assert inside.network_of(answer, ["/proc/sys/x"]).values["/proc/sys/x"].unreadable == answer.unknown


def test_values_of_the_own_namespaces(node: Machine) -> None:
    own = inside.network_here(node, ["/proc/sys/vm/swappiness", "/proc/sys/net/none"])
    assert own.nics == ("eth0", "lo")
    assert own.values["/proc/sys/vm/swappiness"].text == "60"
    assert own.values["/proc/sys/net/none"].absent


@pytest.mark.parametrize(
    ("mapping", "inner"),
    [
        ("0 0 4294967295", 1000),
        ("0 1000 1\n1 100000 65536", 0),
        ("5 990 20", 15),
        ("0 100000 65536", None),
        ("", None),
        ("x y z\n0 0 -1", None),
    ],
)
def test_the_user_inside_of_a_user_namespace(node: Machine, mapping: str, inner: int | None) -> None:
    process(node, 20, "python", user=1000)
    node.put("/proc/20/uid_map", f"{mapping}\n")
    assert inside.inner_user(node, read(node)) == inner


def test_the_home_folder_of_a_user() -> None:
    text = "root:x:0:0::/root:/bin/sh\nbroken\na:x:7:7::relative:/bin/sh\nb:x:8:8::/home/b:/bin/sh\n"
    assert [inside.home(text, user) for user in (0, 7, 8, 9)] == ["/root", None, "/home/b", None]
