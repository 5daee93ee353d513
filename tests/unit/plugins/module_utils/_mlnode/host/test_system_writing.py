# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that is not ours alone keeps its ACL, its attributes and its other names, killed or not."""

from __future__ import annotations

import errno
import os
import pathlib
import struct
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Gated, Os, failing, killed_at, no_disk
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host import folders, writing
from mlnode.host import host as host_module
from mlnode.host.host import Host
from mlnode.model.errors import HostError

FILE = "/etc/nccl.conf"
OLD, NEW = b"old " * 300, b"new " * 500

_ANYONE = 0xFFFFFFFF
#: user::rw-, user:1234:rw-, group::r--, mask::rw-, other::--- (include/uapi/linux/posix_acl_xattr.h)
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, number)
    for tag, rights, number in (
        (0x01, 6, _ANYONE), (0x02, 6, 1234), (0x04, 4, _ANYONE), (0x10, 6, _ANYONE), (0x20, 0, _ANYONE)
    )
)  # fmt: skip


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    yield from no_disk()


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Gated:
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "etc/nccl.conf").write_bytes(OLD)
    return Gated(str(tmp_path))


def real(host: Host, path: str = FILE) -> str:
    return host.root + path


def attributes(path: str) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


class Attributes(Os):
    """A file system that has extended attributes, whatever the tests' one has."""

    def __init__(self, known: dict[str, dict[str, bytes]], refused: dict[str, int] | None = None) -> None:
        super().__init__(Gate())
        self.known = known
        self.refused = refused or {}

    def listxattr(self, handle: int) -> list[str]:
        return [*self.known.get(_path(handle), {})]

    def getxattr(self, handle: int, name: str) -> bytes:
        return self.known[_path(handle)][name]

    def setxattr(self, handle: int, name: str, value: bytes) -> None:
        if name in self.refused:
            raise OSError(self.refused[name], "refused")
        self.known.setdefault(_path(handle), {})[name] = value


def _path(handle: int) -> str:
    return os.readlink(f"/proc/self/fd/{handle}")


def test_all_attributes_are_copied_but_those_of_the_content(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "user.note",
        "system.posix_acl_access",
        "security.selinux",
        "security.capability",
        "security.ima",
    )
    known = {real(host): {name: name.encode() for name in names}}
    monkeypatch.setattr(writing, "os", Attributes(known))
    host.write_file(FILE, NEW)
    copied = known[real(host, "/etc/.nccl.conf.mlnode-tmp")]
    assert copied == {name: name.encode() for name in names if name != "security.ima"}


@cases.table
def test_an_attribute_that_cannot_be_kept_stops_the_write(
    host: Host, monkeypatch: pytest.MonkeyPatch, name: str, number: int, stops: bool
) -> None:
    monkeypatch.setattr(writing, "os", Attributes({real(host): {name: b"x"}}, {name: number}))
    if not stops:
        host.write_file(FILE, NEW)
        return
    with pytest.raises(HostError, match=f"write {FILE}: {errno.errorcode[number]}"):
        host.write_file(FILE, NEW)
    assert host.read_bytes(FILE) == OLD
    assert host.names("/etc") == ["nccl.conf"]


def test_the_acl_and_the_mode_of_a_real_file_stay(host: Host) -> None:
    try:
        os.setxattr(real(host), "system.posix_acl_access", ACL)
    except OSError:  # a file system without ACLs still shows that nothing is lost
        os.chmod(real(host), 0o660)
    before, mode = attributes(real(host)), os.stat(real(host)).st_mode
    host.write_file(FILE, NEW)
    assert attributes(real(host)) == before
    assert os.stat(real(host)).st_mode == mode


def test_a_file_put_back_keeps_its_acl_too(host: Host) -> None:
    saved = host.snapshot(FILE)
    try:
        os.setxattr(real(host), "system.posix_acl_access", ACL)
    except OSError:
        os.chmod(real(host), 0o660)
    before = attributes(real(host))
    host.write_file(FILE, NEW)
    host.put_back(FILE, saved)
    assert host.read_bytes(FILE) == OLD
    assert attributes(real(host)).keys() == before.keys()


def test_all_names_of_a_file_show_the_new_content(host: Host) -> None:
    os.link(real(host), real(host, "/etc/other"))
    saved = host.snapshot(FILE)
    inode = os.stat(real(host)).st_ino
    host.write_file(FILE, NEW, 0o600)
    assert host.read_bytes("/etc/other") == NEW
    assert os.stat(real(host, "/etc/other")).st_mode & 0o7777 == 0o600
    host.put_back(FILE, saved)
    assert host.read_bytes("/etc/other") == OLD
    assert os.stat(real(host)).st_ino == inode
    assert host.names("/etc") == ["nccl.conf", "other"]


def test_a_write_in_place_that_fails_anywhere_leaves_the_old_content(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(real(host), real(host, "/etc/other"))
    gate = Gate()
    for module in (host_module, folders, writing):
        monkeypatch.setattr(module, "os", Os(gate))
    host.write_file(FILE, OLD)
    names = [what.split()[0] for what in gate.seen]
    # The last ones come when all is written: whether the journal is gone, and that being on disk.
    last = len(names) - 1 - names[::-1].index("fchmod")
    assert names[last - 3 : last] == ["write", "ftruncate", "fsync"]
    for position in range(2, last + 1):
        gate = Gate(position, failing(errno.ENOSPC))
        for module in (host_module, folders, writing):
            monkeypatch.setattr(module, "os", Os(gate))
        with pytest.raises(HostError, match=f"write {FILE}: ENOSPC"):
            host.write_file(FILE, NEW)
        monkeypatch.undo()
        host.complete(FILE)
        assert host.read_bytes("/etc/other") == OLD, names[position - 1]
        assert host.names("/etc") == ["nccl.conf", "other"], names[position - 1]


def test_a_write_in_place_killed_anywhere_is_completed_or_was_never_begun(host: Gated) -> None:
    def write(machine: Machine) -> None:
        machine.write_file(FILE, NEW)

    os.link(real(host), real(host, "/etc/other"))
    position, seen = 0, set()
    killed = True
    while killed:
        position += 1
        killed = killed_at(position, host, write)
        host.complete(FILE)
        host.tidy(FILE)
        content = host.read_bytes("/etc/other")
        assert content in (OLD, NEW), f"killed at change {position}"
        assert host.read_bytes(FILE) == content
        assert host.names("/etc") == ["nccl.conf", "other"], f"killed at change {position}"
        seen.add(content)
        host.write_file(FILE, OLD)
    assert position > 10
    assert seen == {OLD, NEW}


def test_what_has_lost_its_other_name_meanwhile_is_completed_too(host: Host) -> None:
    journal = real(host, f"/etc/{writing.journal_of('nccl.conf')}")
    with open(journal, "wb") as stream:
        stream.write(NEW)
    os.unlink(real(host))
    host.complete(FILE)
    assert host.read_bytes(FILE) == NEW
    assert host.names("/etc") == ["nccl.conf"]
