# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new file, folder or link gets the label that the policy has for its path, or is not made."""

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import stat
from typing import Any

import pytest
from mlnode.host import host as host_module
from mlnode.host import places, selinux
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

LABEL = b"system_u:object_r:systemd_unit_file_t:s0"


class Policy:
    """libselinux with one answer for all paths. number: the errno of an answer that it has not."""

    def __init__(self, label: bytes = LABEL, number: int = 0) -> None:
        self.label, self.number = label, number
        self.asked: list[tuple[bytes, int]] = []

    def matchpathcon(self, path: bytes, kind: int, label: Any) -> int:
        self.asked.append((path, kind))
        label._obj.value = self.label  # pylint: disable=protected-access
        ctypes.set_errno(self.number)
        return -1 if self.number else 0

    def freecon(self, label: Any) -> None:
        assert label.value == self.label


@pytest.fixture
def set_next(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was written as the label of the next file."""
    labels: list[bytes] = []
    monkeypatch.setattr(selinux, "_set", lambda _name, label, _path: labels.append(label))
    return labels


def enable(monkeypatch: pytest.MonkeyPatch, policy: Policy | None) -> None:
    monkeypatch.setattr(selinux, "is_on", lambda: policy is not None)
    monkeypatch.setattr(selinux, "_library", lambda: policy)


def test_files_folders_and_links_are_labelled_by_their_final_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, set_next: list[bytes]
) -> None:
    policy = Policy()
    enable(monkeypatch, policy)
    for module in (places, host_module.places):
        monkeypatch.setattr(module, "checked", lambda path: path)
    host = Host("/")

    host.write_file(f"{tmp_path}/unit.d/x.conf", b"")
    host.write_link(f"{tmp_path}/link", "unit.d")

    named = [(path.decode().replace(str(tmp_path), ""), stat.S_IFMT(kind)) for path, kind in policy.asked]
    assert named == [("/unit.d", stat.S_IFDIR), ("/unit.d/x.conf", stat.S_IFREG), ("/link", stat.S_IFLNK)]
    assert set_next == [LABEL, b"\n"] * 3, "what others make afterwards has the kernel's label again"


def test_a_captured_tree_is_not_labelled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, set_next: list[bytes]
) -> None:
    policy = Policy()
    enable(monkeypatch, policy)
    Host(str(tmp_path)).write_file("/etc/sysctl.d/zz-mlnode-node.conf", b"")
    assert (policy.asked, set_next) == ([], [])


@pytest.mark.parametrize("policy", [None, Policy(number=errno.ENOENT)], ids=["off", "no label for this path"])
def test_the_kernel_labels_what_the_policy_does_not(
    monkeypatch: pytest.MonkeyPatch, set_next: list[bytes], policy: Policy | None
) -> None:
    enable(monkeypatch, policy)
    with selinux.labelled("/run/mlnode.lock", stat.S_IFREG):
        pass
    assert set_next == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EINVAL, errno.ENOMEM])
def test_an_unknown_label_is_an_error(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    enable(monkeypatch, Policy(number=number))
    words = f"find the SELinux label of /etc/x: {errno.errorcode[number]}"
    with pytest.raises(HostError, match=words), selinux.labelled("/etc/x", stat.S_IFREG):
        pytest.fail("the file was made")


def test_a_label_that_the_kernel_refuses_is_an_error_and_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    enable(monkeypatch, Policy())
    monkeypatch.setattr(selinux, "_THREAD", f"{tmp_path}/absent")
    words = "give the SELinux label .*systemd_unit_file_t:s0 to /etc/x: ENOENT"
    with pytest.raises(HostError, match=words), selinux.labelled("/etc/x", stat.S_IFREG):
        pytest.fail("the file was made")


def test_a_program_is_started_in_the_domain_of_its_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(selinux, "_THREAD", str(tmp_path))
    monkeypatch.setattr(selinux, "TOP", str(tmp_path))
    (tmp_path / "exec").write_bytes(b"")
    (tmp_path / "current").write_bytes(b"u:r:initrc_t:s0\0")
    with selinux.own_domain("ssh-keygen"):
        assert (tmp_path / "exec").read_bytes() == b"", "SELinux is off"
    (tmp_path / "enforce").write_text("1")
    with selinux.own_domain("ssh-keygen"):
        assert (tmp_path / "exec").read_bytes() == b"u:r:initrc_t:s0"
    assert (tmp_path / "exec").read_bytes().startswith(b"\n")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENODATA])
def test_a_label_or_domain_that_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, number: int
) -> None:
    def refused(*_words: object) -> bytes:
        raise OSError(number, "refused")

    (tmp_path / "enforce").write_text("1")
    monkeypatch.setattr(selinux, "TOP", str(tmp_path))
    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr(os, "getxattr", refused)
    words = f"domain of ssh-keygen: {errno.errorcode[number]}"
    with pytest.raises(HostError, match=words), selinux.own_domain("ssh-keygen"):
        pytest.fail("it was started")
    with pytest.raises(HostError, match=f"label of /etc/x: {errno.errorcode[number]}"):
        selinux.label_of("/etc/x")


def test_a_file_that_is_absent_has_the_label_that_it_would_get(monkeypatch: pytest.MonkeyPatch) -> None:
    enable(monkeypatch, Policy())
    assert selinux.label_of("/absent") == LABEL.decode()
    enable(monkeypatch, Policy(number=errno.ENOENT))
    with pytest.raises(HostError, match="label of /absent: the policy has none"):
        selinux.label_of("/absent")


def test_a_missing_library_is_an_error_only_where_selinux_is_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    selinux._library.cache_clear()
    monkeypatch.setattr(selinux, "TOP", str(tmp_path))
    monkeypatch.setattr("ctypes.CDLL", _missing)
    with selinux.labelled("/etc/x", stat.S_IFREG):
        pass
    (tmp_path / "enforce").write_text("1")
    try:
        words = r"load libselinux\.so\.1: .*No such file"
        with pytest.raises(HostError, match=words), selinux.labelled("/etc/x", stat.S_IFREG):
            pytest.fail("the file was made")
    finally:
        selinux._library.cache_clear()


def _missing(name: str, use_errno: bool) -> None:
    assert use_errno
    raise OSError(errno.ENOENT, f"{name}: No such file")


def test_a_read_only_policy_is_the_one_of_the_node_around_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, set_next: list[bytes]
) -> None:
    (tmp_path / "enforce").write_text("1")
    monkeypatch.setattr(selinux, "TOP", str(tmp_path))
    assert selinux.is_on()
    status = os.statvfs(tmp_path)
    words = [*status]
    words[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(words))
    with selinux.own_domain("ssh-keygen"), selinux.labelled("/etc/x", stat.S_IFREG):
        pass
    assert set_next == []


@pytest.mark.parametrize("missing", [ImportError, MemoryError])
@pytest.mark.parametrize(
    ("rc", "out", "label"),
    [(0, f"{LABEL.decode()}\n", LABEL), (0, "<<none>>\n", b""), (1, "", None), (0, "", None)],
)
def test_without_ctypes_a_program_knows_the_label(
    monkeypatch: pytest.MonkeyPatch,
    set_next: list[bytes],
    missing: type[Exception],
    rc: int,
    out: str,
    label: bytes | None,
) -> None:
    def lacking() -> None:
        raise missing("ctypes")

    commands = []

    def run(command: list[str], _seconds: float) -> Finished:
        commands.append(command)
        return Finished(rc, out, "no file_contexts\n" if rc else "")

    monkeypatch.setattr(selinux, "is_on", lambda: True)
    monkeypatch.setattr(selinux, "_library", lacking)
    monkeypatch.setattr(selinux.system, "run", run)
    if label is None:
        words = "label of /etc/x: " + ("no file_contexts" if rc else "exit status 0")
        with pytest.raises(HostError, match=words), selinux.labelled("/etc/x", stat.S_IFLNK):
            pytest.fail("the file was made")
    else:
        with selinux.labelled("/etc/x", stat.S_IFLNK):
            pass
        assert set_next == ([label, b"\n"] if label else [])
    assert commands == [["matchpathcon", "-N", "-n", "-m", "lnk_file", "/etc/x"]]
