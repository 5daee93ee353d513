# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads below the root folder of a container, whose owner puts there what he likes."""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from mlnode.host import namespaces
from mlnode.model.errors import HostError


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[tuple[int, pathlib.Path]]:
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret of the node")
    with namespaces.root_at(str(folder)) as handle:
        yield handle, folder


def words(root: int, path: str, most: int = 100) -> str:
    with pytest.raises(HostError) as error:
        namespaces.read(root, path, most)
    return str(error.value)


def test_a_file_is_read(root: tuple[int, pathlib.Path]) -> None:
    handle, folder = root
    (folder / "etc/nccl.conf").write_bytes(b"NCCL_DEBUG=WARN\n\xff")
    assert namespaces.read(handle, "/etc/nccl.conf", 100) == b"NCCL_DEBUG=WARN\n\xff"
    assert namespaces.read(handle, "/etc/nccl.conf", 17) == b"NCCL_DEBUG=WARN\n\xff"
    assert words(handle, "/etc/nccl.conf", 16).endswith("expected at most 16 bytes, got more")


def test_links_inside_of_the_root_are_followed(root: tuple[int, pathlib.Path]) -> None:
    handle, folder = root
    (folder / "etc/own").write_text("own")
    (folder / "etc/nccl.conf").symlink_to("/etc/own")
    assert namespaces.read(handle, "/etc/nccl.conf", 100) == b"own"


@pytest.mark.parametrize("target", ["{outside}", "../../secret", "../../../../../../{outside}", "/../secret"])
def test_no_link_leads_out_of_the_root(root: tuple[int, pathlib.Path], target: str) -> None:
    handle, folder = root
    (folder / "etc/nccl.conf").symlink_to(target.format(outside=folder.parent / "secret"))
    with pytest.raises(HostError) as error:
        namespaces.read(handle, "/etc/nccl.conf", 100)
    assert error.value.absent
    with pytest.raises(HostError):
        namespaces.read(handle, f"/../../..{folder.parent}/secret", 100)


_RENAMES = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("a", "b")
    os.rename("b", "a")
"""


def test_a_file_that_is_renamed_elsewhere_spoils_no_read(root: tuple[int, pathlib.Path]) -> None:
    """The kernel answers EAGAIN to a path with `..` when any file of the machine was renamed meanwhile."""
    handle, folder = root
    (folder / "etc/own").write_text("own")
    (folder / "etc/nccl.conf").symlink_to("../../../etc/own")
    (folder / "a").touch()
    renames = [sys.executable, "-c", _RENAMES, str(folder)]
    with subprocess.Popen(renames, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert {namespaces.read(handle, "/etc/nccl.conf", 100) for _read in range(2000)} == {b"own"}
        finally:
            process.kill()


def test_a_folder_that_is_a_link_does_not_lead_out_either(root: tuple[int, pathlib.Path]) -> None:
    handle, folder = root
    (folder / "out").symlink_to(folder.parent)
    assert "ENOENT" in words(handle, "/out/secret")


def test_links_of_proc_and_other_file_systems_are_not_followed(root: tuple[int, pathlib.Path]) -> None:
    """The root is the real one here, as /proc is on another file system than it."""
    _handle, folder = root
    link = folder / "to-proc"
    link.symlink_to("/proc/self/root/etc/passwd")
    with namespaces.root_at("/") as real:
        assert words(real, str(link)).endswith("a link leads to another file system, and is not followed")


def test_a_circle_of_links_ends(root: tuple[int, pathlib.Path]) -> None:
    handle, folder = root
    (folder / "loop").symlink_to("loop")
    assert "ELOOP" in words(handle, "/loop")


def test_only_a_regular_file_is_opened(
    root: tuple[int, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, folder = root
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(folder)  # a path of a socket has 107 characters
        server.bind("socket")
        for name, kind in (("fifo", "a FIFO"), ("folder", "a folder"), ("socket", "a socket")):
            assert words(handle, f"/{name}").endswith(f"expected a regular file, got {kind}")
    with namespaces.root_at("/dev") as devices:
        assert words(devices, "/null").endswith("expected a regular file, got a device")


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_is_replaced_on_its_server_is_opened_again(
    root: tuple[int, pathlib.Path], monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """NFS answers ESTALE to a handle of a file that another node has replaced."""
    handle, folder = root
    (folder / "etc/nccl.conf").write_text("new")
    real, stale = namespaces._content, [errno.ESTALE] * times

    def content(opened: int, most: int) -> bytes:
        if stale:
            raise OSError(stale.pop(), "")
        return real(opened, most)

    monkeypatch.setattr(namespaces, "_content", content)
    if times == 1:
        assert namespaces.read(handle, "/etc/nccl.conf", 100) == b"new"
    else:
        assert "ESTALE" in words(handle, "/etc/nccl.conf")


def test_an_absent_file_is_absent(root: tuple[int, pathlib.Path]) -> None:
    handle, _folder = root
    for path, absent in (
        ("/etc/nccl.conf", True),
        ("/no/such/file", True),
        ("/", False),
        ("/etc\0/x", False),
    ):
        with pytest.raises(HostError) as error:
            namespaces.read(handle, path, 100)
        assert error.value.absent == absent


def test_an_old_kernel_is_a_reason(root: tuple[int, pathlib.Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_openat2", lambda *_given: -errno.ENOSYS)
    assert words(root[0], "/etc/x").endswith("openat2(2) is missing; it needs Linux 5.6")


def test_the_space_of_a_folder(root: tuple[int, pathlib.Path]) -> None:
    handle, folder = root
    known = os.statvfs(folder)
    assert namespaces.space(handle, "/etc").size == known.f_blocks * known.f_frsize
    with pytest.raises(HostError):
        namespaces.space(handle, "/dev/shm")


def test_namespaces_of_a_process_that_is_gone() -> None:
    with pytest.raises(HostError) as error:
        namespaces.enter(4194304 + 1, ["net"])
    assert error.value.absent
