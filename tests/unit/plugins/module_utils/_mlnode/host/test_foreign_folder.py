# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root writes into a folder that another user owns, and that user is real, and hostile."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.faults import in_child, in_memory, start
from mlnode.host import folders, places, writing
from mlnode.host import host as host_module
from mlnode.host.host import Host
from mlnode.linux import node_exporter
from mlnode.model.errors import HostError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

STRANGER, GROUP = 1234, 1235
FOLDER = "/var/lib/prometheus/node-exporter"
FILE = f"{FOLDER}/{node_exporter.FILE}"
TEMPORARY, JOURNAL = f"{FOLDER}/.mlnode.prom.mlnode-tmp", f"{FOLDER}/.mlnode.prom.mlnode-new"
SECRET, SCRIPT = "/etc/shadow", "/etc/script"
CONTENT = "mlnode_check_success 1\n"
ACL = "system.posix_acl_access"


@pytest.fixture(params=["tmpfs", "disk"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A node in a folder that every user can enter: in memory, and on the file system of the checkout, which
    has extended attributes and ACLs."""
    with contextlib.ExitStack() as stack:
        if request.param == "tmpfs":
            made = contextlib.contextmanager(in_memory)()
            folder = stack.enter_context(made)
        else:
            folder = stack.enter_context(_on_disk())
        folder.chmod(0o755)
        host = Host(str(folder))
        for path, text, mode in ((SECRET, "root:secret:1::::::\n", 0o600), (SCRIPT, "#!/bin/sh\n", 0o755)):
            real = folder / path[1:]
            real.parent.mkdir(exist_ok=True)
            real.write_text(text)
            real.chmod(mode)
        (folder / FOLDER[1:]).mkdir(parents=True)
        yield host


@contextlib.contextmanager
def _on_disk() -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def given(host: Host, path: str, uid: int = STRANGER, gid: int = GROUP, mode: int = 0o755) -> str:
    real = host.root + path
    os.chown(real, uid, gid)
    os.chmod(real, mode)
    return real


def as_stranger(work: Callable[[], object]) -> Callable[[], None]:
    def become() -> None:
        os.setgroups([])
        os.setresgid(GROUP, GROUP, GROUP)
        os.setresuid(STRANGER, STRANGER, STRANGER)
        work()

    return become


def untouched(host: Host) -> dict[str, tuple[object, ...]]:
    """Content, owner, mode, links and attributes of what is root's: all that such an attack is after."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (SECRET, SCRIPT, "/etc"):
        real = host.root + path
        status = os.stat(real)
        attributes = [name for name in os.listxattr(real) if name.startswith(("system.", "user."))]
        text = pathlib.Path(real).read_bytes() if path != "/etc" else sorted(os.listdir(real))
        found[path] = (text, status.st_uid, status.st_gid, status.st_mode, status.st_nlink, attributes)
    return found


def write(host: Host) -> None:
    node_exporter.write(host, FOLDER, CONTENT)


# -- who writes ----------------------------------------------------------------------------


@pytest.mark.parametrize("owned", [FOLDER, "/var/lib/prometheus"])
def test_it_is_written_whoever_owns_the_folder_or_one_above(host: Host, owned: str) -> None:
    given(host, owned)
    write(host)
    status = os.stat(host.root + FILE)
    assert pathlib.Path(host.root + FILE).read_bytes() == node_exporter.MARK + CONTENT.encode()
    assert stat.S_IMODE(status.st_mode) == 0o644
    assert status.st_uid == (STRANGER if owned == FOLDER else 0), "as the owner of the folder itself"
    assert status.st_gid == (GROUP if owned == FOLDER else 0)
    assert os.listdir(host.root + FOLDER) == [node_exporter.FILE]


def test_the_process_that_writes_has_no_way_back(host: Host) -> None:
    real = given(host, FOLDER)
    seen: list[str] = []

    def work() -> None:
        # Nothing is imported on the way, as a Python may lie in a folder that is closed to this user.
        status = os.open("/proc/self/status", os.O_RDONLY)
        handle = os.open("seen", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder.handle)
        os.write(handle, os.read(status, 65536))
        for back in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
            try:
                back()
                os.write(handle, b"\nBACK\n")
            except PermissionError:
                pass
        os.close(handle)

    with folders.opened(host.root, FOLDER) as folder:
        folder.do(work)
    text = pathlib.Path(real, "seen").read_text(encoding="ascii")
    seen = [line for line in text.splitlines() if line.startswith(("Uid:", "Gid:", "Groups:", "Cap", "BACK"))]
    fields = dict(line.split(":", 1) for line in seen)
    assert fields["Uid"].split() == [str(STRANGER)] * 4
    assert fields["Gid"].split() == [str(GROUP)] * 4
    assert fields["Groups"].split() == []
    assert {int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
    assert os.geteuid() == 0, "and this one has kept its own"


def test_its_owner_may_take_the_right_to_write_away(host: Host) -> None:
    given(host, FOLDER, mode=0o555)
    with pytest.raises(HostError, match=rf"write {FILE}: EACCES.*as the owner of {FOLDER}, .* {STRANGER}"):
        write(host)
    assert os.listdir(host.root + FOLDER) == []


def test_a_process_that_its_owner_stops_is_not_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_SECONDS", 0.3)
    given(host, FOLDER)
    with folders.opened(host.root, FOLDER) as folder:
        with pytest.raises(OSError, match="was stopped or killed, or had no end in 0 s"):
            folder.do(lambda: os.kill(os.getpid(), signal.SIGSTOP))
        with pytest.raises(OSError, match="was stopped or killed"):
            folder.do(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_without_the_capability_it_is_said(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_groups: list[int]) -> None:
        raise PermissionError(errno.EPERM, "refused")

    given(host, FOLDER)
    monkeypatch.setattr(folders.os, "setgroups", refuse)
    with pytest.raises(HostError, match=rf"EPERM .*UID {STRANGER} needs CAP_SETUID"):
        write(host)


def test_root_who_may_kill_no_one_writes_all_the_same(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a service without CAP_KILL: no signal reaches another user's process."""

    def refuse(_child: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, "refused")

    given(host, FOLDER)
    monkeypatch.setattr(folders.os, "kill", refuse)
    write(host)
    assert os.listdir(host.root + FOLDER) == [node_exporter.FILE]
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)


# -- what lies there -----------------------------------------------------------------------

#: What the owner of the folder puts in the place of a name
PLANTS: dict[str, Callable[[Host, str], object]] = {
    "link": lambda host, real: os.symlink(host.root + SECRET, real),
    "link to a folder": lambda host, real: os.symlink(f"{host.root}/etc", real),
    "dangling link": lambda host, real: os.symlink(f"{host.root}/etc/new", real),
    "fifo": lambda _host, real: os.mkfifo(real),
    "folder": lambda _host, real: os.mkdir(real),
    "hard link": lambda host, real: os.link(host.root + SECRET, real),
    "other names": lambda _host, real: (
        pathlib.Path(real).write_text("x"),
        os.link(real, f"{os.path.dirname(real)}/other"),
    ),
    "attributes": lambda _host, real: (pathlib.Path(real).write_text("x"), os.chmod(real, 0o6777)),
}


@pytest.mark.parametrize("foreign", [True, False], ids=["his folder", "root's folder"])
@pytest.mark.parametrize("place", [FILE, TEMPORARY, JOURNAL], ids=["file", "temporary", "journal"])
@pytest.mark.parametrize("plant", PLANTS)
def test_whatever_lies_there_root_does_nothing_else(
    host: Host, plant: str, place: str, foreign: bool
) -> None:
    if foreign:
        given(host, FOLDER)
    PLANTS[plant](host, host.root + place)
    before = untouched(host)
    if plant == "folder" and place != JOURNAL:
        with pytest.raises(HostError, match=f"cannot write {FILE}: (EISDIR|EEXIST)"):
            write(host)
    else:
        write(host)
        assert pathlib.Path(host.root + FILE).read_bytes() == node_exporter.MARK + CONTENT.encode()
        status = os.lstat(host.root + FILE)
        assert stat.S_ISREG(status.st_mode)
        assert (stat.S_IMODE(status.st_mode), status.st_nlink) == (0o644, 1)
    after = untouched(host)
    if plant == "hard link":  # one of its names may be gone
        before = {path: (*found[:4], after[path][4], *found[5:]) for path, found in before.items()}
    assert after == before


@pytest.mark.parametrize("plant", ["link", "fifo", "folder", "hard link"])
def test_only_a_file_of_ours_is_removed(host: Host, plant: str) -> None:
    write(host)
    given(host, FOLDER)
    os.unlink(host.root + FILE)
    PLANTS[plant](host, host.root + FILE)
    before = untouched(host)
    node_exporter.remove(host)
    assert os.path.lexists(host.root + FILE)
    assert untouched(host) == before


def test_a_file_of_ours_is_removed(host: Host) -> None:
    given(host, FOLDER)
    write(host)
    node_exporter.remove(host)
    assert os.listdir(host.root + FOLDER) == []


# -- the way to it -------------------------------------------------------------------------


def test_a_link_on_the_way_that_another_user_made_is_refused(host: Host) -> None:
    given(host, "/var/lib/prometheus")
    os.rmdir(host.root + FOLDER)
    os.symlink(f"{host.root}/etc", host.root + FOLDER)
    before = untouched(host)
    with pytest.raises(HostError, match=f"write {FILE}: {FOLDER} is a link that another user"):
        write(host)
    assert untouched(host) == before


def test_a_link_of_root_is_followed(host: Host) -> None:
    os.rename(f"{host.root}/var/lib/prometheus", f"{host.root}/data")
    os.symlink("../../data", f"{host.root}/var/lib/prometheus")
    write(host)
    assert os.listdir(f"{host.root}/data/node-exporter") == [node_exporter.FILE]


def test_a_link_of_another_user_in_a_sticky_folder_is_refused(host: Host) -> None:
    os.mkdir(f"{host.root}/tmp")
    given(host, "/tmp", 0, 0, 0o1777)
    os.symlink(f"{host.root}/etc", f"{host.root}/tmp/metrics")
    os.chown(f"{host.root}/tmp/metrics", STRANGER, GROUP, follow_symlinks=False)
    with pytest.raises(HostError, match="/tmp/metrics is a link that another user"):
        node_exporter.write(host, "/tmp/metrics", CONTENT)
    assert node_exporter.FILE not in os.listdir(f"{host.root}/etc")


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant != "folder"])
def test_a_sticky_folder_of_all_users(host: Host, plant: str) -> None:
    os.mkdir(f"{host.root}/tmp")
    given(host, "/tmp", 0, 0, 0o1777)
    PLANTS[plant](host, f"{host.root}/tmp/{node_exporter.FILE}")
    before = untouched(host)
    node_exporter.write(host, "/tmp", CONTENT)
    status = os.lstat(f"{host.root}/tmp/{node_exporter.FILE}")
    assert (status.st_uid, stat.S_IMODE(status.st_mode), status.st_nlink) == (0, 0o644, 1)
    if plant != "hard link":
        assert untouched(host) == before


# -- our own paths -------------------------------------------------------------------------

DECLARED = "/etc/mlnode/declared.d/training.json"
DROP_IN = "/etc/sysctl.d/zz-mlnode-training.conf"
SHARED = "/etc/default/grub"


@pytest.mark.parametrize("path", [DECLARED, DROP_IN, SHARED, "/var/lib/mlnode/origin.json", *places.LOCKS])
def test_a_path_of_ours_is_not_written_where_another_user_owns_a_folder_above(host: Host, path: str) -> None:
    works: list[Callable[[], object]] = [lambda: host.write_file(path, b"x"), lambda: host.remove_file(path)]
    works.append(lambda: host.write_link(path, "/x"))
    if path in places.LOCKS:
        works = [lambda: host.open_lock(path)]
    for above in pathlib.PurePosixPath(path).parents:
        os.makedirs(host.root + os.path.dirname(path), exist_ok=True)
        given(host, str(above).rstrip("/") or "/", mode=0o755)
        if str(above) == "/":  # then the whole tree is that user's own
            continue
        for work in works:
            with pytest.raises(HostError, match=f"cannot .* {path}: {above} belongs to UID {STRANGER}"):
                work()
        given(host, str(above), 0, 0)
    assert not os.path.lexists(host.root + path)


@pytest.mark.parametrize(
    ("mode", "gid", "right"), [(0o777, 0, False), (0o775, 1000, False), (0o775, 50, True)]
)
def test_a_folder_that_others_can_write_to(host: Host, mode: int, gid: int, right: bool) -> None:
    os.makedirs(f"{host.root}/etc/sysctl.d")
    given(host, "/etc/sysctl.d", 0, gid, mode)
    if right:
        host.write_file(DROP_IN, b"x")
        return
    with pytest.raises(HostError, match=r"/etc/sysctl\.d can be changed by others than root"):
        host.write_file(DROP_IN, b"x")


def test_the_right_of_an_acl_counts(host: Host) -> None:
    """It hides behind the bits of the group, which is root's here."""
    anyone = 0xFFFFFFFF
    entries = (
        (0x01, 7, anyone),
        (0x02, 7, STRANGER),
        (0x04, 5, anyone),
        (0x10, 7, anyone),
        (0x20, 5, anyone),
    )
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.makedirs(f"{host.root}/etc/sysctl.d")
    os.setxattr(f"{host.root}/etc/sysctl.d", ACL, acl)
    assert stat.S_IMODE(os.stat(f"{host.root}/etc/sysctl.d").st_mode) == 0o775
    with pytest.raises(HostError, match=r"/etc/sysctl\.d can be changed by others than root"):
        host.write_file(DROP_IN, b"x")


def test_what_lies_in_a_folder_of_others_is_never_completed(host: Host) -> None:
    real = given(host, "/etc")
    pathlib.Path(real, ".nccl.conf.mlnode-new").write_text("of another user")
    assert host.complete("/etc/nccl.conf") is False
    assert not os.path.exists(f"{real}/nccl.conf")


# -- while he is at it ---------------------------------------------------------------------

#: Of swaps while root writes. Attacks on writes by path have needed 1 and 8 of them.
_SECONDS = 2.0


def _swap(host: Host) -> None:
    """As another user, as fast as can be: links, hard links, folders and files in the place of each name."""
    folder = host.root + FOLDER
    names = [os.path.basename(path) for path in (FILE, TEMPORARY, JOURNAL)]
    turn = 0
    while True:
        turn += 1
        name = f"{folder}/{names[turn % 3]}"
        spare = f"{folder}/spare{turn % 2}"
        with contextlib.suppress(OSError):
            os.unlink(spare)
        with contextlib.suppress(OSError):
            target = host.root + (SECRET, SCRIPT, "/etc/new")[turn % 7 % 3]
            if turn % 4:
                os.symlink(target, spare)
            else:
                pathlib.Path(spare).write_text("evil")
                os.setxattr(spare, "user.evil", b"x")
        with contextlib.suppress(OSError):
            os.rename(spare, name)


@pytest.mark.parametrize("above", [False, True], ids=["the folder is his", "his parent"])
def test_names_that_change_while_root_writes(host: Host, above: bool) -> None:
    """The folder itself, or, where the one above is his, the folder is exchanged for a link and back."""
    given(host, FOLDER)
    given(host, "/var/lib/prometheus")
    folder, aside = host.root + FOLDER, f"{host.root}/var/lib/prometheus/aside"

    def exchange() -> None:
        while True:
            with contextlib.suppress(OSError):
                os.rename(folder, aside)
                os.symlink(f"{host.root}/etc", folder)
            with contextlib.suppress(OSError):
                os.unlink(folder)
                os.rename(aside, folder)

    before = untouched(host)
    child = start(as_stranger(exchange if above else lambda: _swap(host)))
    tries, written, end = 0, 0, time.monotonic() + _SECONDS
    try:
        # On a machine that is busy the first turns may all meet a folder that is exchanged just then.
        while time.monotonic() < end or (not written and time.monotonic() < end + 10 * _SECONDS):
            tries += 1
            try:
                host.write_file(FILE, node_exporter.MARK + CONTENT.encode(), mode=0o644, fresh=True)
                host.remove_file(FILE, node_exporter.MARK)
                written += 1
            except HostError:
                pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert written, f"nothing was tried in {tries} turns"
    assert untouched(host) == before
    assert node_exporter.FILE not in os.listdir(f"{host.root}/etc")


def test_a_link_is_never_read_into_a_file_that_he_can_read(host: Host) -> None:
    """In a folder of root whose group is his: what root makes is new, and nothing of what lies there."""
    given(host, FOLDER, 0, GROUP, 0o775)
    before = untouched(host)
    child = start(as_stranger(lambda: _swap(host)))
    end = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < end:
            with contextlib.suppress(HostError):
                host.write_file(FILE, node_exporter.MARK, mode=0o644, fresh=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert untouched(host) == before


def test_a_write_that_was_killed_is_done_by_the_next(host: Host) -> None:
    real = given(host, FOLDER)

    def die(*_given: object, **_named: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        with pytest.MonkeyPatch.context() as patch, folders.opened(host.root, FOLDER) as folder:
            patch.setattr(writing.os, "rename", die)
            with pytest.raises(OSError, match="was stopped or killed"):
                writing.replace(folder, node_exporter.FILE, b"x", None, keeps=False)

    assert in_child(killed) == 0
    assert os.listdir(real) == [".mlnode.prom.mlnode-tmp"]
    write(host)
    assert os.listdir(real) == [node_exporter.FILE]


def test_no_folder_is_made_in_a_folder_of_another_user(host: Host) -> None:
    given(host, "/var/lib/prometheus")
    os.rmdir(host.root + FOLDER)
    with pytest.raises(HostError, match=f"write {FILE}: ENOENT"):
        write(host)
    assert os.listdir(f"{host.root}/var/lib/prometheus") == []


def test_all_that_writes_goes_through_the_walk() -> None:
    """Host itself reaches the system only to read and for files of the kernel."""
    text = pathlib.Path(host_module.__file__).read_text(encoding="utf-8")
    for call in ("os.rename(", "os.unlink(", "os.symlink(", "os.chown(", "os.chmod(", "os.link("):
        assert call not in text, call
