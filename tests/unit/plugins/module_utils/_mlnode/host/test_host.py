# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
import stat
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Os, failing
from mlnode.host import folders, writing
from mlnode.host import host as host_module
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, NotMountedError
from mlnode.model.setting import Value


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A captured tree, with a secret outside of it that no link may reach."""
    (tmp_path / "secret").write_text("outside\n")
    tree = tmp_path / "node"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/file").write_text("inside\n")
    return tree


@pytest.fixture
def host(root: pathlib.Path) -> Host:
    return Host(str(root))


def mode_of(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# -- drivers -------------------------------------------------------------------------------


class Lamp:
    """A driver of one file, /gpu/lamp."""

    def __init__(self) -> None:
        self.text = "off"

    def read(self, host: Host, path: str) -> bytes:
        return f"{self.text} in {os.path.basename(host.root)}{path}\n".encode()

    def write(self, host: Host, path: str, value: str) -> None:
        self.text = value

    def names(self, host: Host, path: str) -> list[str]:
        return ["lamp"]

    def exists(self, host: Host, path: str) -> bool:
        return path in ("/gpu", "/gpu/lamp")

    def blocked(self, host: Host, path: str) -> str:
        return f"{path} is bolted down"


def test_a_driver_has_the_say_below_its_folder(root: pathlib.Path) -> None:
    lamp = Lamp()
    host = Host(str(root), {"/gpu": lambda: lamp})
    host.write_kernel("/gpu/lamp", "on")
    assert host.value("/gpu/lamp") == Value(text="on in node/gpu/lamp")
    assert host.matching("/gpu/*") == ["/gpu/lamp"]
    assert not host.exists("/gpu/other")
    assert host.blocked("/gpu/lamp") == "/gpu/lamp is bolted down"
    assert host.text("/etc/file") == "inside\n"


@pytest.mark.parametrize(
    "look",
    [
        lambda host: host.value("/dcb/eth0/trust/state"),
        lambda host: host.text("/dcb/eth0/trust/state"),
        lambda host: host.write_kernel("/dcb/eth0/trust/state", "dscp"),
        lambda host: host.exists("/dcb"),
        lambda host: host.names("/dcb/eth0"),
        lambda host: host.matching("/dcb/*"),
        lambda host: host.blocked("/dcb/eth0/trust/state"),
    ],
)
def test_without_its_driver_a_folder_is_a_mistake_and_not_absent(
    root: pathlib.Path, look: Callable[[Host], object]
) -> None:
    host = Host(str(root), {"/gpu": Lamp})
    with pytest.raises(NotMountedError, match="no driver is mounted at /dcb"):
        look(host)
    assert host.exists("/etc")  # and /dcbx, say, is a folder like any other
    assert not host.exists("/dcbx/eth0")


# -- where a path leads --------------------------------------------------------------------


@cases.table
def test_links_of_a_captured_tree_stay_inside(
    host: Host, root: pathlib.Path, link: str, target: str, leads_to: str
) -> None:
    (root / link[1:]).symlink_to(target)
    assert host.real(link) == f"{root}{leads_to}"
    # Once more, from the folder that is known now
    assert host.real("/etc/file") == f"{root}/etc/file"
    assert host.real(link) == f"{root}{leads_to}"
    assert host.real(link, follow=False) == f"{root}{link}"


@pytest.mark.parametrize("target", ["../secret", "../../secret", "/../secret", "/secret"])
def test_no_link_leads_out_of_a_captured_tree(host: Host, root: pathlib.Path, target: str) -> None:
    (root / "link").symlink_to(target)
    with pytest.raises(HostError) as caught:
        host.read("/link")
    assert caught.value.absent


def test_a_path_with_dots_stays_inside(host: Host, root: pathlib.Path) -> None:
    assert host.real("/etc/../../../etc/./file") == f"{root}/etc/file"
    assert host.read("/../etc/file") == "inside\n"


def test_a_link_in_the_middle_is_followed_even_where_the_last_one_is_not(
    host: Host, root: pathlib.Path
) -> None:
    (root / "folder").symlink_to("/etc")
    (root / "etc/link").symlink_to("file")
    assert host.real("/etc/file") == f"{root}/etc/file"
    assert host.real("/folder/link", follow=False) == f"{root}/etc/link"
    assert host.real("/folder/link") == f"{root}/etc/file"


def test_a_loop_of_links_is_an_error_and_not_absent(host: Host, root: pathlib.Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    for ask in (host.read, host.content, host.exists, host.names):
        with pytest.raises(HostError) as caught:
            ask("/a")
        assert caught.value.errno == errno.ELOOP
        assert not caught.value.absent
    assert host.value("/a").unreadable is not None


def test_the_live_machine_is_taken_as_it_is() -> None:
    live = Host()
    assert live.live
    assert live.real("/etc/../etc/x") == "/etc/../etc/x"
    assert live.is_superuser() is (os.geteuid() == 0)


# -- reading -------------------------------------------------------------------------------


def test_absent_is_not_unreadable(host: Host, root: pathlib.Path) -> None:
    assert host.value("/etc/none").absent == "/etc/none does not exist"
    assert host.value("/etc/file/below").absent is not None, "a file has nothing below it"
    folder = host.value("/etc")
    assert folder.absent is None
    assert folder.unreadable is not None
    assert "EISDIR" in folder.unreadable
    assert host.value("/etc/file").text == "inside"


def test_bytes_that_are_no_text_survive(host: Host, root: pathlib.Path) -> None:
    (root / "etc/raw").write_bytes(b"\xff\xfe\n")
    value = host.value("/etc/raw").text
    assert value is not None
    host.write_kernel("/etc/raw", value)
    assert (root / "etc/raw").read_bytes() == b"\xff\xfe\n"


def test_names_are_sorted_and_a_missing_folder_has_none(host: Host, root: pathlib.Path) -> None:
    for name in ("c", "a", "b"):
        (root / "etc" / name).touch()
    assert host.names("/etc") == ["a", "b", "c", "file"]
    assert host.names("/none") == []
    assert host.names("/etc/file") == [], "as a path below a file does not exist"


def test_a_pattern_stays_within_a_folder(host: Host, root: pathlib.Path) -> None:
    for path in ("node0/pages", "node1/pages", "node10/pages", "node2/other", "x/node3/pages"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert host.matching("/node*/pages") == ["/node0/pages", "/node1/pages", "/node10/pages"]
    assert host.matching("/node?/pages") == ["/node0/pages", "/node1/pages"]
    assert host.matching("/node[12]/*") == ["/node1/pages", "/node2/other"]
    assert host.matching("/*/pages") == ["/node0/pages", "/node1/pages", "/node10/pages"]
    assert host.matching("/node0/pages") == ["/node0/pages"]
    assert host.matching("/none/*") == []


def test_exists_follows_links(host: Host, root: pathlib.Path) -> None:
    (root / "good").symlink_to("/etc/file")
    (root / "bad").symlink_to("/etc/none")
    assert (host.exists("/good"), host.exists("/bad")) == (True, False)
    assert (host.is_link("/good"), host.is_link("/bad"), host.is_link("/etc/file")) == (True, True, False)
    assert host.link_target("/bad") == "/etc/none"
    assert host.link_target("/etc/file") == host.link_target("/etc/none") == ""


def test_what_nobody_can_look_at_is_an_error(host: Host) -> None:
    name = "/" + "x" * 300
    with pytest.raises(HostError, match="ENAMETOOLONG"):
        host.exists(name)
    with pytest.raises(HostError, match="ENAMETOOLONG"):
        host.names(name)


def test_systemd_is_recognized_by_its_folder(host: Host, root: pathlib.Path) -> None:
    assert not host.systemd_runs()
    (root / "run/systemd/system").mkdir(parents=True)
    assert host.systemd_runs()


class Root(Host):
    def is_superuser(self) -> bool:
        return True


# -- kernel files --------------------------------------------------------------------------


def test_a_kernel_write_never_creates_a_file(host: Host, root: pathlib.Path) -> None:
    with pytest.raises(HostError, match="cannot write '1' to /etc/none: ENOENT"):
        host.write_kernel("/etc/none", "1")
    assert not (root / "etc/none").exists()


def test_an_empty_value_still_reaches_the_kernel(host: Host, root: pathlib.Path) -> None:
    host.write_kernel("/etc/file", "")
    assert (root / "etc/file").read_text() == "\n", "a write of no bytes would never arrive"


def test_a_kernel_write_keeps_the_inode(host: Host, root: pathlib.Path) -> None:
    before = (root / "etc/file").stat().st_ino
    host.write_kernel("/etc/file", "longer than before")
    assert (root / "etc/file").stat().st_ino == before
    assert (root / "etc/file").read_text() == "longer than before\n"


# -- our own files -------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("mode", [None, 0o600, 0o644, 0o755])
def test_a_new_file_has_its_mode_whatever_the_umask(
    host: Host, root: pathlib.Path, mask: int, mode: int | None
) -> None:
    old = os.umask(mask)
    try:
        host.write_file("/etc/new", b"x", mode)
    finally:
        os.umask(old)
    assert mode_of(root / "etc/new") == (0o644 if mode is None else mode)


def test_a_file_keeps_its_mode_unless_one_is_given(host: Host, root: pathlib.Path) -> None:
    (root / "etc/file").chmod(0o640)
    host.write_file("/etc/file", b"new\n")
    assert ((root / "etc/file").read_bytes(), mode_of(root / "etc/file")) == (b"new\n", 0o640)
    host.write_file("/etc/file", b"new\n", 0o600)
    assert mode_of(root / "etc/file") == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_keeps_its_owner(host: Host, root: pathlib.Path) -> None:
    os.chown(root / "etc/file", 12, 34)
    host.write_file("/etc/file", b"new\n")
    found = (root / "etc/file").stat()
    assert (found.st_uid, found.st_gid) == (12, 34)


def test_a_link_is_replaced_by_a_file_and_not_followed(host: Host, root: pathlib.Path) -> None:
    (root / "etc/link").symlink_to("/etc/file")
    host.write_file("/etc/link", b"own\n")
    assert (root / "etc/file").read_text() == "inside\n"
    assert not (root / "etc/link").is_symlink()
    assert mode_of(root / "etc/link") == 0o644, "a link's own mode, 0777, means nothing"


def test_missing_folders_are_made_and_known_beforehand(host: Host, root: pathlib.Path) -> None:
    assert host.missing_folders("/etc/a/b/c/file") == ("/etc/a", "/etc/a/b", "/etc/a/b/c")
    host.write_file("/etc/a/b/c/file", b"x")
    assert (root / "etc/a/b/c/file").read_bytes() == b"x"
    assert host.missing_folders("/etc/a/b/c/file") == ()
    assert host.missing_folders("/file") == ()


def test_a_temporary_file_left_by_a_killed_run_is_taken_over(host: Host, root: pathlib.Path) -> None:
    (root / "etc/.file.mlnode-tmp").write_text("half of something that was much longer than the new content")
    host.write_file("/etc/file", b"new\n")
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["file"]
    assert (root / "etc/file").read_bytes() == b"new\n"


def test_a_link_in_place_of_the_temporary_file_is_not_followed(host: Host, root: pathlib.Path) -> None:
    (root / "etc/.file.mlnode-tmp").symlink_to(root.parent / "secret")
    host.write_file("/etc/file", b"new\n")
    assert (root.parent / "secret").read_text() == "outside\n"
    assert (root / "etc/file").read_text() == "new\n"
    assert not (root / "etc/file").is_symlink()


def test_a_temporary_file_planted_by_somebody_does_not_give_them_the_new_file(
    host: Host, root: pathlib.Path
) -> None:
    planted = root / "etc/.file.mlnode-tmp"
    planted.write_text("")
    planted.chmod(0o666)
    inode = planted.stat().st_ino
    with planted.open() as kept:  # so that the inode cannot be used again
        host.write_file("/etc/file", b"new\n")
        assert (root / "etc/file").stat().st_ino != inode
        assert kept.read() == ""


def test_a_write_that_fails_anywhere_leaves_the_old_file_and_no_other(
    host: Host, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pass_through(gate: Gate) -> None:
        for module in (host_module, folders, writing):
            monkeypatch.setattr(module, "os", Os(gate))

    gate = Gate()
    pass_through(gate)
    host.write_file("/etc/probe", b"x" * 1000)
    names = [what.split()[0] for what in gate.seen]
    assert names == ["unlink", "open", "fchmod", "write", "fsync", "rename", "fsync"]
    for position in range(2, names.index("rename") + 2):
        pass_through(Gate(position, failing(errno.ENOSPC)))
        with pytest.raises(HostError, match="cannot write /etc/other: ENOSPC"):
            host.write_file("/etc/other", b"x" * 1000)
        assert sorted(path.name for path in (root / "etc").iterdir()) == ["file", "probe"], position


def test_a_short_write_is_continued(host: Host, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Os):
        def write(self, handle: int, data: bytes) -> int:
            return os.write(handle, bytes(data)[:7])

    monkeypatch.setattr(writing, "os", Slow(Gate()))
    host.write_file("/etc/file", b"0123456789" * 10)
    assert (root / "etc/file").read_bytes() == b"0123456789" * 10


def test_a_file_and_its_temporary_leftover_are_removed(host: Host, root: pathlib.Path) -> None:
    (root / "etc/.file.mlnode-tmp").touch()
    host.remove_file("/etc/file")
    assert list((root / "etc").iterdir()) == []
    host.remove_file("/etc/file")
    host.remove_file("/none/at/all")


def test_a_folder_is_no_file_to_remove(host: Host, root: pathlib.Path) -> None:
    with pytest.raises(HostError, match="cannot remove /etc: "):
        host.remove_file("/etc")


def test_only_an_empty_folder_is_removed(host: Host, root: pathlib.Path) -> None:
    (root / "empty").mkdir()
    host.remove_folder_if_empty("/empty")
    host.remove_folder_if_empty("/empty")
    host.remove_folder_if_empty("/etc")
    assert sorted(path.name for path in root.iterdir()) == ["etc"]
    with pytest.raises(HostError, match="ENOTDIR"):
        host.remove_folder_if_empty("/etc/file")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EBUSY])
def test_an_empty_folder_that_has_to_stay_is_no_failure(
    host: Host, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As that of StateDirectory= below ProtectSystem=strict, in the sandbox of the boot service."""
    (root / "empty").mkdir()

    def refused(_path: str, *, dir_fd: int) -> None:
        raise OSError(number, "as in a sandbox")

    monkeypatch.setattr(os, "rmdir", refused)
    host.remove_folder_if_empty("/empty", may_stay=True)
    assert (root / "empty").is_dir()
    if number == errno.EROFS:
        with pytest.raises(HostError, match="EROFS"):
            host.remove_folder_if_empty("/empty")


@pytest.mark.parametrize("before", ["nothing", "file", "link", "leftover"])
def test_a_link_replaces_what_is_there(host: Host, root: pathlib.Path, before: str) -> None:
    if before == "file":
        (root / "etc/link").touch()
    elif before == "link":
        (root / "etc/link").symlink_to("/old")
    elif before == "leftover":
        (root / "etc/.link.mlnode-tmp").symlink_to("/half")
    host.write_link("/etc/link", "/new")
    assert os.readlink(root / "etc/link") == "/new"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["file", "link"]


def test_a_folder_is_not_replaced_by_a_link(host: Host, root: pathlib.Path) -> None:
    (root / "etc/folder").mkdir()
    with pytest.raises(HostError, match="cannot link /etc/folder: "):
        host.write_link("/etc/folder", "/new")
    assert (root / "etc/folder").is_dir()
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["file", "folder"]


def test_a_failed_link_leaves_the_old_one(
    host: Host, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "etc/link").symlink_to("/old")
    # The first change is to clear away what a killed run may have left.
    for position in (2, 3):
        gate = Gate(position, failing(errno.EIO))
        for module in (host_module, folders, writing):
            monkeypatch.setattr(module, "os", Os(gate))
        with pytest.raises(HostError, match="cannot link /etc/link: EIO"):
            host.write_link("/etc/link", "/new")
        assert os.readlink(root / "etc/link") == "/old"
        assert sorted(path.name for path in (root / "etc").iterdir()) == ["file", "link"]


# -- what was before -----------------------------------------------------------------------


def test_a_file_is_put_back_with_its_mode(host: Host, root: pathlib.Path) -> None:
    path = root / "etc/file"
    path.write_bytes(b"\xff\x00 raw")
    path.chmod(0o4750)
    saved = host.snapshot("/etc/file")
    path.unlink()
    host.put_back("/etc/file", saved)
    assert (path.read_bytes(), mode_of(path)) == (b"\xff\x00 raw", 0o4750)
    path.write_text("other")
    path.chmod(0o600)
    host.put_back("/etc/file", saved)
    assert (path.read_bytes(), mode_of(path)) == (b"\xff\x00 raw", 0o4750)
    assert host.snapshot("/etc/file") == saved


@pytest.mark.parametrize("now", ["file", "link", "nothing"])
@pytest.mark.parametrize("before", ["file", "link", "nothing"])
def test_anything_becomes_what_it_was(host: Host, root: pathlib.Path, before: str, now: str) -> None:
    def make(what: str) -> None:
        path = root / "etc/thing"
        if os.path.lexists(path):
            path.unlink()
        if what == "file":
            path.write_text("content")
        elif what == "link":
            path.symlink_to("/etc/file")

    make(before)
    saved = host.snapshot("/etc/thing")
    assert (saved is None) is (before == "nothing")
    make(now)
    host.put_back("/etc/thing", saved)
    assert host.snapshot("/etc/thing") == saved
    assert (root / "etc/file").read_text() == "inside\n"


def test_owner_and_mode_that_cannot_be_put_back_are_an_error(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Root(str(root))
    saved = host.snapshot("/etc/file")
    gate = Gate()
    monkeypatch.setattr(writing, "os", Os(gate))
    host.put_back("/etc/file", saved)
    found = [number for number, what in enumerate(gate.seen, 1) if what.startswith(("fchown", "fchmod"))]
    assert len(found) == 3 if os.geteuid() == 0 else 1
    for position in found:
        monkeypatch.setattr(writing, "os", Os(Gate(position, failing(errno.EPERM))))
        with pytest.raises(HostError, match="write /etc/file: EPERM"):
            host.put_back("/etc/file", saved)


# -- commands ------------------------------------------------------------------------------


def test_nothing_runs_on_a_captured_tree(host: Host, root: pathlib.Path) -> None:
    with pytest.raises(HostError, match="captured tree") as caught:
        host.run(["touch", str(root / "ran")])
    assert str(root) in str(caught.value)
    assert not (root / "ran").exists()


def test_a_command_gives_status_and_outputs() -> None:
    done = Host().run(["sh", "-c", "cat; echo right; echo wrong >&2; exit 3"])
    assert (done.rc, done.out, done.err) == (3, "right\n", "wrong\n")


def test_a_command_sees_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert Host().run(["sh", "-c", "echo $LC_ALL,$LD_PRELOAD"]).out == "C,\n"


def test_output_that_is_no_text_does_no_harm() -> None:
    assert Host().run(["printf", r"a\377b"]).out == "a\ufffdb"


def test_a_missing_program_is_named() -> None:
    with pytest.raises(HostError, match="cannot run no-such-program: ENOENT") as caught:
        Host().run(["no-such-program"])
    assert caught.value.absent


def test_a_program_that_hangs_is_given_up() -> None:
    with pytest.raises(HostError, match="cannot run sleep: no answer in 0 s"):
        Host().run(["sleep", "30"], seconds=0.2)


# -- what waits for a program --------------------------------------------------------------


def test_what_is_begun_ahead_is_begun_and_ended_once(host: Host) -> None:
    done: list[str] = []

    def end() -> str:
        done.append("ended")
        return "value"

    def begin() -> Callable[[], str]:
        done.append("begun")
        return end

    host.ahead("key", begin)
    host.ahead("key", begin)
    assert done == ["begun"], "before it is asked for"
    assert [host.once("key", end), host.once("key", end)] == ["value", "value"]
    assert done == ["begun", "ended"]
    host.forget()
    host.once("key", end)
    assert done == ["begun", "ended", "ended"]


def test_an_error_ahead_is_raised_where_the_value_is_asked_for(host: Host) -> None:
    def fail() -> str:
        raise HostError("run", "systemctl", errno.ENOENT)

    host.ahead("key", lambda: fail)
    for _time in range(2):
        with pytest.raises(HostError, match="systemctl"):
            host.once("key", fail)


def test_what_failed_ahead_is_begun_anew(host: Host) -> None:
    def fail() -> str:
        raise HostError("run", "systemctl", errno.ETIMEDOUT)

    host.ahead("key", lambda: fail)
    with pytest.raises(HostError):
        host.once("key", lambda: "anew")
    assert host.once("key", lambda: "anew") == "anew"


def test_a_program_runs_beside_its_caller(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = Host().begin(["cat", str(pipe)])
    pipe.write_text("of the caller")  # waits for a reader
    assert end() == Finished(0, "of the caller", "")


def test_a_program_of_a_captured_tree_is_not_begun(host: Host) -> None:
    with pytest.raises(HostError, match="captured tree"):
        host.begin(["true"])()
