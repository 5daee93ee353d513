# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root acts on is root's, whatever the umask of a run and whatever other users try."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import drift, node
from mlnode.agent import install as agent
from mlnode.engine import confirm, confirm_store, declared, engine, lock, origin, revert
from mlnode.engine import failed_changes as held
from mlnode.engine import units as agent_files
from mlnode.engine.engine import Request
from mlnode.host import folders, places, trust
from mlnode.host.host import Host
from mlnode.knobs.limits.kind import kind as limits
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.linux import irqbalance
from mlnode.model.errors import HostError, MlnodeError, UntrustedError
from mlnode.model.setting import KnobFile
from mlnode.topology import management

DECLARED = f"{declared.FOLDER}/training.json"
DROP_IN = "/etc/sysctl.d/zz-mlnode-training.conf"
SWAPPINESS = "/proc/sys/vm/swappiness"
STRANGER = 1234

#: Umasks that a shell, a cron job or a broken profile may have
UMASKS = (0o000, 0o002, 0o022, 0o077, 0o777)


class Owned(Protocol):
    """Give the file at a path to the user with this number."""

    def __call__(self, path: str, uid: int, /) -> None: ...


@pytest.fixture(params=UMASKS, ids=oct)
def umask(machine: Machine, request: pytest.FixtureRequest) -> Iterator[int]:
    """Of the run, and not of what was there before."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def owned(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Owned:
    """Gives a file to a user: to the kernel's knowledge where this is root, else to that of the library."""
    owners: dict[str, int] = {}
    true = os.lstat

    def lstat(real: str) -> os.stat_result:
        found = true(real)
        fields = list(found)
        fields[4] = owners.get(real, found.st_uid)
        return os.stat_result(fields)

    def give(path: str, uid: int) -> None:
        real = machine.root + path
        if os.geteuid() == 0:
            os.chown(real, uid, -1, follow_symlinks=False)
            return
        owners[real] = uid
        monkeypatch.setattr(trust.os, "lstat", lstat)

    return give


def request(value: int = 10, name: str = "training") -> Request:
    return Request(name, sysctl, {"settings": {"vm.swappiness": value}})


def mode(machine: Machine, path: str) -> int:
    return os.stat(machine.root + path).st_mode & 0o7777


def uid(machine: Machine, path: str) -> int:
    return os.stat(machine.root + path).st_uid


def opened(machine: Machine, path: str, bits: int) -> None:
    os.chmod(machine.root + path, bits)


@pytest.fixture
def tuned(machine: Machine) -> Machine:
    """A node with an agent and what a run leaves."""
    machine.enable_agent()
    for path, text in agent_files.TEXTS.items():
        machine.put(path, text)
    door.apply(machine, request())
    door.apply(machine, Request("training", thp, {"enabled": "madvise"}))
    machine.put(f"{held.FOLDER}/eth0", "{}")
    machine.put(confirm_store.CONFIRMED, "abcdef01\n")
    machine.put(
        confirm_store.UNDONE,
        json.dumps(
            {"format": 1, "id": "abcdef01", "name": "x", "time": "t", "why": "y", "words": "w", "stuck": []}
        ),
    )
    assert node.survey(machine).compliant
    return machine


# -- what a run makes ----------------------------------------------------------------------


@pytest.mark.usefixtures("umask")
def test_no_umask_gives_others_a_folder_or_a_file(machine: Machine) -> None:
    before = machine.tree()
    agent.install(machine)
    door.apply(machine, request())
    door.apply(machine, Request("training", limits, {"nofile": 1048576}))
    held.hold(machine, "eth0", [], "words")
    made = [path for path in machine.tree() if path not in before]
    assert {path for path in made if os.path.isdir(machine.root + path)} >= {
        "/etc/mlnode", "/etc/mlnode/declared.d", "/run/mlnode", "/run/mlnode/failed",
    }  # fmt: skip
    made += [origin.PATH, origin.COPY, "/var/lib/mlnode"]  # which tree() leaves out
    for path in made:
        real = machine.root + path
        if os.path.islink(real):
            continue
        assert not mode(machine, path) & 0o022, path
        if os.path.isdir(real):
            assert mode(machine, path) == 0o755, path
        elif path not in (origin.PATH, origin.COPY):
            assert mode(machine, path) & 0o644 == 0o644, path
    assert mode(machine, origin.PATH) == mode(machine, origin.COPY) == 0o600
    assert trust.problems(machine) == []


@pytest.mark.usefixtures("umask")
def test_the_folder_of_the_lock_is_writable_for_root_only(tmp_path: pathlib.Path) -> None:
    host = Host(str(tmp_path))
    with lock.locked(host):
        assert os.stat(tmp_path / "run").st_mode & 0o7777 == 0o755


def test_at_no_time_may_others_write_into_a_new_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or another user could use the moment before a later chmod."""
    seen = []
    true = os.mkdir

    def mkdir(path: str, bits: int = 0o777, *, dir_fd: int) -> None:
        true(path, bits, dir_fd=dir_fd)
        seen.append(os.stat(path, dir_fd=dir_fd).st_mode & 0o7777)

    monkeypatch.setattr(folders.os, "mkdir", mkdir)
    before = os.umask(0)
    try:
        Host(str(tmp_path)).write_file("/a/b/c/file", b"")
    finally:
        os.umask(before)
    assert seen == [0o755] * 3


def test_a_file_in_place_of_a_folder_is_an_error_of_the_write(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc").write_text("")
    with pytest.raises(HostError, match="cannot write /etc/mlnode/x"):
        Host(str(tmp_path)).write_file("/etc/mlnode/x", b"")


def let_go(machine: Machine) -> None:
    """As a run does that is watched."""
    for name in machine.names(held.FOLDER):
        machine.remove_file(f"{held.FOLDER}/{name}")


# -- what a run refuses --------------------------------------------------------------------


def test_a_declaration_of_another_user_is_not_obeyed(tuned: Machine, owned: Owned) -> None:
    owned(DECLARED, STRANGER)
    let_go(tuned)
    before = tuned.tree()
    words = f"{DECLARED} belongs to UID 1234, .* `chown -h root:root {DECLARED}`"
    with pytest.raises(UntrustedError, match=words):
        door.apply(tuned, request(20))
    with pytest.raises(UntrustedError):
        engine.evaluate(tuned, request(20))
    assert not node.apply_all(tuned).compliant
    assert tuned.tree() == before


@pytest.mark.parametrize("bits", [0o666, 0o646, 0o664], ids=oct)
def test_a_run_takes_the_right_to_write_a_declaration_away(tuned: Machine, bits: int) -> None:
    opened(tuned, DECLARED, bits)
    assert [DECLARED in words and f"{bits:04o}" in words for words in node.survey(tuned).errors] == [True]
    assert door.apply(tuned, request()).changed, "a mode that is mended is a change"
    assert mode(tuned, DECLARED) == 0o644
    assert not door.apply(tuned, request()).changed
    assert node.survey(tuned).compliant


def test_one_declaration_that_is_not_trusted_costs_only_itself(tuned: Machine, owned: Owned) -> None:
    door.apply(tuned, Request("storage", sysctl, {"settings": {"vm.max_map_count": 262144}}))
    owned(DECLARED, STRANGER)
    tuned.put("/proc/sys/vm/max_map_count", "65530\n")
    tuned.put(SWAPPINESS, "60\n")
    found = node.apply_all(tuned)
    assert tuned.now("/proc/sys/vm/max_map_count") == "262144"
    assert tuned.now(SWAPPINESS) == "60", "nothing of it is applied"
    assert len(found.errors) == 1
    assert DECLARED in found.errors[0]


def test_an_origin_of_another_user_is_not_put_back(tuned: Machine, owned: Owned) -> None:
    owned(origin.PATH, STRANGER)
    let_go(tuned)
    before = tuned.tree()
    for ask in (
        lambda: revert.revert(tuned),
        lambda: revert.pending(tuned),
        lambda: door.apply(tuned, request(20)),
    ):
        with pytest.raises(UntrustedError, match=f"{origin.PATH} belongs to UID"):
            ask()
    assert tuned.tree() == before


def test_what_waits_to_be_confirmed_is_not_undone_for_another_user(tuned: Machine, owned: Owned) -> None:
    tuned.put(confirm_store.PENDING, "{}")
    owned(confirm_store.PENDING, STRANGER)
    with pytest.raises(UntrustedError, match=confirm_store.PENDING):
        confirm.undo(tuned)
    with pytest.raises(UntrustedError, match=confirm_store.PENDING):
        door.apply(tuned, request(20))


@pytest.mark.parametrize("path", [confirm_store.UNDONE, confirm_store.CONFIRMED, management.RECORD])
def test_a_record_of_another_user_is_not_read(tuned: Machine, owned: Owned, path: str) -> None:
    tuned.put(path, "{}")
    owned(path, STRANGER)
    read = {
        confirm_store.UNDONE: confirm_store.load_undone,
        confirm_store.CONFIRMED: confirm_store.confirmed,
        management.RECORD: lambda host: trust.read(host, path),
    }[path]
    with pytest.raises(UntrustedError, match=path):
        read(tuned)
    if path == management.RECORD:
        assert path in management.unknown(tuned)


def test_a_note_of_another_user_holds_nothing_back(machine: Machine, owned: Owned) -> None:
    part = KnobFile(0, "/ethtool/eth0/ring/rx", "1", "2", (), device="/sys/class/net/eth0")
    machine.put(f"{held.FOLDER}/eth0", json.dumps({part.path: ["2", "it failed"]}))
    assert "it failed" in held.held_back(machine, part)
    owned(f"{held.FOLDER}/eth0", STRANGER)
    assert held.held_back(machine, part) == ""


@pytest.mark.parametrize("path", [DECLARED, origin.PATH])
def test_a_link_is_no_file_of_ours(tuned: Machine, path: str) -> None:
    tuned.put("/home/eve/file.json", tuned.read(path))
    tuned.remove(path)
    tuned.link(path, "/home/eve/file.json")
    with pytest.raises(UntrustedError, match=f"{path} is a link to /home/eve/file.json"):
        door.apply(tuned, request(20))
    assert any(path in words for words in node.survey(tuned).errors)


def test_a_masked_unit_is_no_file_that_others_can_change(tuned: Machine) -> None:
    """Everybody may write to /dev/null, and nothing is in it. The mask itself is a matter of agent.boot."""
    tuned.put("/dev/null", "", 0o666)
    tuned.remove(agent_files.NIC_SERVICE_FILE)
    tuned.link(agent_files.NIC_SERVICE_FILE, "/dev/null")
    assert node.survey(tuned).errors == ()


def test_a_linked_folder_is_as_good_as_what_it_leads_to(tuned: Machine, owned: Owned) -> None:
    """As /usr/local is on systems whose /usr cannot be written."""
    os.rename(f"{tuned.root}/etc/mlnode", f"{tuned.root}/srv-mlnode")
    tuned.link("/etc/mlnode", "../srv-mlnode")
    assert node.survey(tuned).compliant
    owned("/srv-mlnode", STRANGER)
    (words,) = node.survey(tuned).errors
    assert words == (
        "/srv-mlnode belongs to UID 1234, not to root, so its content is ignored: inspect it, then "
        "`chown -h root:root /srv-mlnode` or remove it"
    )


def test_a_link_to_nothing_is_no_missing_origin(tuned: Machine) -> None:
    tuned.remove(origin.PATH)
    tuned.link(origin.PATH, "/nowhere")
    with pytest.raises(UntrustedError, match=f"{origin.PATH} is a link to /nowhere"):
        door.apply(tuned, request(20))


def test_links_without_an_end_are_an_error_and_no_hang(machine: Machine) -> None:
    machine.link("/etc/mlnode", "/etc/mlnode")
    assert node.survey(machine).errors
    with pytest.raises(HostError):
        declared.load(machine, "x")


# -- what a run mends ----------------------------------------------------------------------

OURS = ["/etc/mlnode", declared.FOLDER, "/var/lib/mlnode", "/run/mlnode", held.FOLDER]


@pytest.mark.parametrize("path", OURS)
@pytest.mark.parametrize("bits", [0o777, 0o775, 0o757, 0o700], ids=oct)
def test_a_run_makes_a_folder_of_ours_what_it_should_be(tuned: Machine, path: str, bits: int) -> None:
    opened(tuned, path, bits)
    found = node.survey(tuned).errors
    assert len(found) == (0 if bits == 0o700 else 1), "one line, however many files are below"
    assert all(words.startswith(f"{path} can be changed by others") for words in found)
    node.apply_all(tuned)
    assert mode(tuned, path) == 0o755
    assert node.survey(tuned).compliant


def _undone(host: Host) -> None:
    with pytest.raises(MlnodeError, match="no change waits"):
        confirm.undo(host, "00000000")


@pytest.mark.parametrize(
    "work",
    [lambda host: door.apply(host, request()), node.apply_all, agent.install, revert.revert, _undone],
    ids=["apply", "agent apply", "install", "revert", "undo"],
)
def test_every_run_mends(tuned: Machine, work: Callable[[Machine], object]) -> None:
    tuned.put("/etc/mlnode/irqbalance-policy", "#!/bin/sh\n", 0o777)
    opened(tuned, "/etc/mlnode", 0o777)
    work(tuned)
    assert mode(tuned, "/etc/mlnode") == 0o755
    assert mode(tuned, "/etc/mlnode/irqbalance-policy") == 0o755


def test_nothing_is_mended_by_who_is_not_root(tuned: Machine) -> None:
    opened(tuned, "/etc/mlnode", 0o777)
    tuned.superuser = False
    assert trust.repair(tuned) == []
    assert mode(tuned, "/etc/mlnode") == 0o777


def test_a_link_is_not_followed_by_what_mends(tuned: Machine) -> None:
    tuned.put("/srv/shared/x", "", 0o666)
    opened(tuned, "/srv/shared", 0o777)
    tuned.link("/etc/mlnode/shared", "/srv/shared")
    tuned.link("/etc/mlnode/x", "/srv/shared/x")
    node.apply_all(tuned)
    assert (mode(tuned, "/srv/shared"), mode(tuned, "/srv/shared/x")) == (0o777, 0o666)


#: What is made from our own sources has nothing in it that could come from another user
MADE = [DROP_IN, agent.COMMAND, agent.UNIT_FILE, agent_files.UDEV_FILE]


@pytest.mark.parametrize("path", MADE)
def test_what_we_write_ourselves_becomes_roots_again(tuned: Machine, owned: Owned, path: str) -> None:
    opened(tuned, path, 0o777)
    owned(path, STRANGER)
    assert len([words for words in node.survey(tuned).errors if path in words]) == 1
    door.apply(tuned, request())
    agent.install(tuned)
    if os.geteuid() == 0:
        assert uid(tuned, path) == 0
    assert mode(tuned, path) == (0o755 if path == agent.COMMAND else 0o644)


@pytest.mark.parametrize("path", ["/usr/local/bin", "/usr", "/etc/systemd/system", "/etc/udev/rules.d"])
def test_no_agent_is_installed_where_others_could_replace_it(
    machine: Machine, owned: Owned, path: str
) -> None:
    os.makedirs(machine.root + path, exist_ok=True)
    owned(path, STRANGER)
    before = machine.tree()
    with pytest.raises(UntrustedError, match=f"{path} belongs to UID"):
        agent.install(machine)
    assert machine.tree() == before


def test_a_declaration_that_is_replaced_keeps_nothing_of_the_old_one(machine: Machine, owned: Owned) -> None:
    machine.put(DECLARED, "", 0o666)
    owned(DECLARED, STRANGER)
    machine.write_file(DECLARED, b"new")
    assert mode(machine, DECLARED) == 0o644
    assert uid(machine, DECLARED) == os.geteuid()


def test_a_file_of_others_keeps_its_owner_and_mode(machine: Machine) -> None:
    machine.put("/etc/default/grub", "", 0o640)
    if os.geteuid() == 0:
        os.chown(f"{machine.root}/etc/default/grub", STRANGER, STRANGER)
    machine.write_file("/etc/default/grub", b"new")
    assert mode(machine, "/etc/default/grub") == 0o640
    assert uid(machine, "/etc/default/grub") == (STRANGER if os.geteuid() == 0 else os.geteuid())


# -- what a look reports -------------------------------------------------------------------


def ours(machine: Machine) -> list[str]:
    """Everything that root acts on, and every folder above it."""
    files = [
        DECLARED, origin.PATH, confirm_store.UNDONE, confirm_store.CONFIRMED, f"{held.FOLDER}/eth0", DROP_IN,
        agent.COMMAND, *agent_files.TEXTS,
    ]  # fmt: skip
    above = {str(folder) for path in files for folder in pathlib.PurePosixPath(path).parents}
    return [*files, *sorted(above - {"/"})]


def test_everything_that_root_acts_on_is_looked_at(tuned: Machine, owned: Owned) -> None:
    for path in ours(tuned):
        assert os.path.exists(tuned.root + path), path
        before = mode(tuned, path)
        opened(tuned, path, before | 0o002)
        found = [words for words in node.survey(tuned).errors if words.startswith(f"{path} can be changed")]
        assert len(found) == 1, path
        answer = drift.answer(tuned, {"fail_at": "high", "ignore": [], "declarations": {}})
        assert answer["errors"].count(found[0]) == 1
        assert answer["failed"] is True
        opened(tuned, path, before)
        owned(path, STRANGER)
        found = [words for words in node.survey(tuned).errors if words.startswith(f"{path} belongs to")]
        assert len(found) == 1, path
        owned(path, os.geteuid())
        assert node.survey(tuned).compliant


def test_the_folders_above_are_looked_at_where_nothing_is_ours_yet(machine: Machine) -> None:
    assert trust.problems(machine) == []
    opened(machine, "/etc", 0o777)
    assert [words.startswith("/etc can be changed") for words in trust.problems(machine)] == [True]


def test_a_group_of_the_distribution_may_write_into_a_folder_of_its_own(
    tuned: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/usr/local/bin is root:staff 2775 on Debian."""
    place = f"{tuned.root}/usr/local/bin"
    true = os.lstat
    group = 50

    def lstat(real: str) -> os.stat_result:
        found = true(real)
        fields = list(found)
        fields[5] = group if real == place else found.st_gid
        return os.stat_result(fields)

    monkeypatch.setattr(trust.os, "lstat", lstat)
    os.chmod(place, 0o2775)
    assert trust.problems(tuned) == []
    group = 100
    assert [words.startswith("/usr/local/bin can be") for words in trust.problems(tuned)] == [True]
    group = 50
    os.chmod(place, 0o777)
    assert [words.startswith("/usr/local/bin can be") for words in trust.problems(tuned)] == [True]


def test_a_sticky_folder_keeps_what_is_roots(tuned: Machine) -> None:
    """/run is 1777 in a container of podman that runs systemd."""
    os.chmod(f"{tuned.root}/run", 0o1777)
    assert trust.problems(tuned) == []
    os.chmod(f"{tuned.root}/run/mlnode", 0o1777)
    assert [words.startswith("/run/mlnode can be changed") for words in trust.problems(tuned)] == [True]


def test_a_user_who_may_look_sees_what_there_is_to_see(
    tuned: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0600 is right, and what is below a folder that is closed to this user is not to be told."""
    tuned.superuser = False
    true = os.lstat

    def lstat(real: str) -> os.stat_result:
        if "/var/lib/mlnode/" in real:
            raise PermissionError(13, "closed")
        return true(real)

    tuned.unreadable[origin.PATH] = 13
    assert node.survey(tuned).compliant
    monkeypatch.setattr(trust.os, "lstat", lstat)
    assert node.survey(tuned).compliant
    tuned.superuser = True
    assert any("EACCES" in words for words in node.survey(tuned).errors), "which root is told"


def test_a_tree_that_a_user_has_unpacked_is_theirs(tuned: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(found: os.stat_result) -> os.stat_result:
        fields = list(found)
        fields[4] = STRANGER
        return os.stat_result(fields)

    lstat, stat = os.lstat, os.stat
    monkeypatch.setattr(trust.os, "lstat", lambda real: given(lstat(real)))
    assert trust.problems(tuned), "a tree of root with files of another user"
    monkeypatch.setattr(trust.os, "stat", lambda real: given(stat(real)))
    assert trust.problems(tuned) == []


# -- root is needed ------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 13], ids=["EPERM", "EACCES"])
@pytest.mark.parametrize(
    "work", [lambda host: door.apply(host, request()), node.apply_all, revert.revert, agent.install]
)
def test_a_user_is_told_that_root_is_needed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, work: Callable[[Machine], Any], number: int
) -> None:
    def refuse(_host: Host, path: str) -> int:
        raise HostError("lock", path, number)

    monkeypatch.setattr(Machine, "open_lock", refuse)
    machine.superuser = False
    with pytest.raises(HostError, match=r"\Acannot change this node: root is needed\Z"):
        work(machine)
    machine.superuser = True
    with pytest.raises(HostError, match=r"cannot lock /run/mlnode\.lock: E"):
        work(machine)


# -- the table -----------------------------------------------------------------------------


def test_the_table_knows_what_each_part_calls_its_own() -> None:
    own = [
        DECLARED, origin.PATH, confirm_store.PENDING, confirm_store.UNDONE, confirm_store.CONFIRMED,
        management.RECORD, irqbalance.IRQBALANCE_POLICY, f"{held.FOLDER}/eth0", agent.COMMAND,
        *agent_files.TEXTS, *agent_files.LINKS, DROP_IN,
    ]  # fmt: skip
    assert [path for path in own if not places.is_own(path)] == []
    for folder in places.FOLDERS:
        assert not places.is_own(folder)
        assert not places.is_own(f"{folder}x/y")
    assert not places.is_own("/etc/default/grub")
    assert not places.is_own("/etc/systemd/system/mlnode-apply.service.d/x.conf")
