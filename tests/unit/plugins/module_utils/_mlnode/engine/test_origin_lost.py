# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lost file is not the end, and two are no success: what a node says whose origin is gone."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import TextIO

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import Gated, in_memory, kills
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    DEFAULTS,
    DROP_INS,
    MKCONFIG,
    GrubMachine,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli, node, without_origin
from mlnode.agent import install as agent
from mlnode.engine import declared, engine, origin, origin_paths, revert
from mlnode.engine import units as agent_files
from mlnode.engine.origin import COPY, PATH, Origin
from mlnode.knobs.boot.kind import kind as boot
from mlnode.knobs.nccl.kind import kind as nccl
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import HostError, LostOriginError, MlnodeError, RefusedError, TransactionError

SWAPPINESS = "/proc/sys/vm/swappiness"
DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
CONF = "/etc/nccl.conf"


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


@pytest.fixture
def machine(folder: pathlib.Path) -> Machine:
    return Machine.debian(str(folder / "node"))


def tune(machine: Machine, value: int = 10) -> None:
    door.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": value}}))


def lose(machine: Machine) -> None:
    for path in (PATH, COPY):
        machine.remove(path)


def rows(machine: Machine) -> list[str]:
    return [str(item.row.status) for item in node.survey(machine).rows]


# -- the copy ------------------------------------------------------------------------------


def test_there_are_two_alike_for_root_alone_and_both_go_with_a_revert(machine: Machine) -> None:
    before = machine.tree()
    tune(machine)
    assert machine.read(PATH) == machine.read(COPY)
    assert [os.stat(machine.root + path).st_mode & 0o7777 for path in (PATH, COPY)] == [0o600, 0o600]
    revert.revert(machine)
    assert machine.tree() == before


@pytest.mark.parametrize("lost", [PATH, COPY], ids=["store", "copy"])
def test_a_run_that_has_nothing_to_do_brings_back_the_one_that_is_lost(machine: Machine, lost: str) -> None:
    tune(machine)
    before = machine.tree()
    machine.remove(lost)
    tune(machine)
    assert machine.tree() == before


class Begun(Machine):
    """A first run begins just when somebody looks at the node, and has read that there is no origin."""

    begun = False

    def read_bytes(self, path: str) -> bytes:
        try:
            return super().read_bytes(path)
        except HostError:
            if path == COPY and not self.begun:
                self.begun = True
                tune(Machine(self.root))
            raise


def test_a_first_run_that_begins_meanwhile_is_no_lost_origin(machine: Machine) -> None:
    looking = Begun(machine.root)
    assert Origin.load(looking).value_of(SWAPPINESS) == "60"
    assert looking.begun


@pytest.mark.parametrize("damage", [None, "", '{"format": 1, "entr'], ids=["missing", "empty", "half"])
@pytest.mark.parametrize("lost", [PATH, COPY], ids=["store", "copy"])
def test_one_that_is_lost_costs_nothing(machine: Machine, lost: str, damage: str | None) -> None:
    before = machine.tree()
    tune(machine)
    machine.remove(lost) if damage is None else machine.put(lost, damage)
    tune(machine, 20)
    assert machine.read(PATH) == machine.read(COPY), "the next run makes it whole"
    assert Origin.load(machine).value_of(SWAPPINESS) == "60"
    revert.revert(machine)
    assert machine.tree() == before


@pytest.mark.parametrize("damaged", [False, True])
def test_that_the_copy_is_used_is_said(
    machine: Machine, damaged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(machine)
    machine.put(PATH, "{") if damaged else machine.remove(PATH)
    words = f"{PATH} is {'damaged' if damaged else 'missing'}"
    assert origin.note(machine).startswith(words)
    assert origin.note(machine).endswith(f"its copy {COPY} is used")
    cli.main(["status", "--root", machine.root])
    assert words in capsys.readouterr().err


def test_where_etc_cannot_be_written_there_is_no_copy(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "is_read_only", lambda host, path: path == COPY)
    Origin.load(machine).remember([origin.module_entry("x")])
    assert machine.exists(PATH)
    assert not machine.exists(COPY)


def test_a_run_killed_anywhere_leaves_one_that_can_be_used(folder: pathlib.Path) -> None:
    template = Gated.debian(str(folder / "template"))
    original = template.tree()
    tune(template)
    for machine, where in kills(template, lambda it: tune(it, 20)):
        for lost in (PATH, COPY):
            other = Gated(f"{machine.root}-without")
            shutil.copytree(machine.root, other.root, symlinks=True)
            other.remove(lost)
            revert.revert(other)
            assert other.tree() == original, f"{where}, and {lost} lost"
            shutil.rmtree(other.root)


# -- lost ----------------------------------------------------------------------------------


def test_a_node_that_was_never_tuned_has_lost_nothing(machine: Machine) -> None:
    assert Origin.load(machine).entries() == []
    assert revert.revert(machine) == []
    assert without_origin.remove(machine) == without_origin.Removal()


@pytest.mark.parametrize(
    "trace",
    [
        *(declared.path_of("x"), agent.COMMAND, agent.UNIT_FILE, DROP_IN, *agent_files.TEXTS),
        *("/etc/modules-load.d/mlnode-x.conf", "/etc/systemd/system/sshd.service.d/zz-mlnode-x.conf"),
        *(f"{DROP_INS}/zz-mlnode-x.cfg", "/etc/security/limits.d/zz-mlnode-x.conf"),
    ],
)
def test_what_shows_that_it_was_tuned_is_named(folder: pathlib.Path, trace: str) -> None:
    machine = Machine.debian(str(folder / "bare"))
    with open_quietly(machine, trace) as stream:
        stream.write(declared.render(declared.Declaration("x", {})).decode())
    for ask in (lambda: tune(machine), lambda: revert.revert(machine), lambda: revert.pending(machine)):
        before = machine.tree()
        with pytest.raises(LostOriginError) as caught:
            ask()
        assert f"{trace} is there" in str(caught.value)
        assert "--without-origin" in str(caught.value)
        assert f"Restore {PATH} from a backup" in str(caught.value)
        assert machine.tree() == before


def open_quietly(machine: Machine, path: str) -> TextIO:
    """Behind the back of the machine, which would remember the origin of what it is given."""
    os.makedirs(os.path.dirname(machine.root + path), exist_ok=True)
    return open(machine.root + path, "w")


@pytest.mark.parametrize("damaged", [False, True])
def test_a_play_is_refused_also_in_check_mode(machine: Machine, damaged: bool) -> None:
    tune(machine)
    lose(machine)
    if damaged:
        machine.put(PATH, "{")
    before = machine.tree()
    request = engine.Request("default", sysctl, {"settings": {"vm.swappiness": 20}})
    for work in (door.apply, engine.evaluate):
        with pytest.raises(LostOriginError, match="damaged" if damaged else "missing"):
            work(machine, request)
    with pytest.raises(LostOriginError):
        agent.install(machine)
    assert machine.tree() == before


@pytest.mark.parametrize("damaged", [False, True])
def test_a_boot_tunes_the_node_all_the_same_and_records_nothing(machine: Machine, damaged: bool) -> None:
    tune(machine)
    lose(machine)
    if damaged:
        machine.put(PATH, "{")
    store = machine.content(PATH)
    machine.put(SWAPPINESS, "60\n")
    found = node.apply_all(machine)
    assert machine.now(SWAPPINESS) == "10"
    assert [str(item.row.status) for item in found.rows] == ["changed"]
    assert len(found.errors) == 1
    assert "the state before the first run is unknown" in found.errors[0]
    assert machine.content(PATH) == store
    assert machine.content(COPY) is None


def test_a_look_reports_it_once_beside_all_rows(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    tune(machine)
    door.apply(machine, engine.Request("default", nccl, {"variables": {"NCCL_DEBUG": "WARN"}}))
    before = rows(machine)
    lose(machine)
    assert rows(machine) == before
    assert cli.main(["check", "--root", machine.root]) == cli.ERROR
    assert capsys.readouterr().err.count("the state before the first run is unknown") == 1


# -- the way out ---------------------------------------------------------------------------


def tuned(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    tune(machine)
    door.apply(machine, engine.Request("default", nccl, {"variables": {"NCCL_DEBUG": "WARN"}}))
    agent.install(machine)


def test_what_is_owned_goes_and_what_stays_is_named(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    before = machine.tree()
    tuned(machine)
    lose(machine)
    pending = without_origin.pending(machine)
    done = without_origin.remove(machine)
    assert done.changes == pending.changes
    assert done.stays == ("vm.swappiness = 10 until the node is booted",)
    machine.put(SWAPPINESS, "60\n")
    folders = {path for path, found in machine.tree().items() if found[0] == "/"}
    assert {path: found for path, found in machine.tree().items() if path not in folders} == {
        path: found for path, found in before.items() if path not in folders
    }
    assert not machine.exists("/etc/mlnode")
    assert not machine.exists("/var/lib/mlnode")
    results = {change.key: change.result for change in done.changes}
    assert results[CONF] == "mlnode's part removed, the rest kept"
    assert results[agent.COMMAND] == results[DROP_IN] == "removed"
    assert revert.revert(machine) == []


def test_a_damaged_store_goes_too(machine: Machine) -> None:
    tuned(machine)
    for path in (PATH, COPY):
        machine.put(path, "{")
    without_origin.remove(machine)
    assert not machine.exists(PATH)
    assert not machine.exists(COPY)


def test_it_is_refused_where_the_origin_is_known(machine: Machine) -> None:
    tuned(machine)
    before = machine.tree()
    for work in (without_origin.remove, without_origin.pending):
        with pytest.raises(RefusedError, match="run `mlnode revert`, which restores"):
            work(machine)
    assert machine.tree() == before


def test_words_without_a_mark_are_named(folder: pathlib.Path) -> None:
    node_ = GrubMachine.debian_with_grub(str(folder / "grub"))
    node_.put("/usr/sbin/grub-mkconfig", MKCONFIG, 0o755)
    door.apply(node_, engine.Request("default", boot, {"parameters": {"iommu": "pt"}}))
    assert "iommu=pt" in node_.read(DEFAULTS)
    lose(node_)
    done = without_origin.remove(node_)
    assert [words for words in done.stays if "boot.iommu = iommu=pt at the next boots" in words]


def test_a_drop_in_of_the_boot_loader_goes_and_its_menu_is_made_anew(folder: pathlib.Path) -> None:
    node_ = GrubMachine.debian_with_grub(str(folder / "grub"))
    door.apply(node_, engine.Request("default", boot, {"parameters": {"iommu": "pt"}}))
    lose(node_)
    done = without_origin.remove(node_)
    assert "iommu=pt" not in node_.line()
    assert [change.key for change in done.changes if change.at_boot] == [f"{DROP_INS}/zz-mlnode-default.cfg"]
    assert not [words for words in done.stays if "next boots" in words]


def test_only_root_removes(machine: Machine) -> None:
    tuned(machine)
    lose(machine)
    machine.superuser = False
    with pytest.raises(HostError, match="root is needed"):
        without_origin.remove(machine)
    assert machine.exists(agent.COMMAND)


def test_what_cannot_be_removed_is_named_and_tried_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(machine)
    lose(machine)
    remove = machine.remove_file

    def stubborn(path: str) -> None:
        if path == DROP_IN:
            raise HostError("remove", path, errno.EIO)
        remove(path)

    monkeypatch.setattr(machine, "remove_file", stubborn)
    with pytest.raises(TransactionError, match=f"remove {DROP_IN}: EIO"):
        without_origin.remove(machine)
    monkeypatch.undo()
    without_origin.remove(machine)
    assert not origin_paths.present(machine)


def test_killed_anywhere_it_can_be_repeated(folder: pathlib.Path) -> None:
    template = Gated.debian(str(folder / "template"))
    tuned(template)
    lose(template)
    for machine, where in kills(template, without_origin.remove):
        without_origin.remove(machine)
        assert origin_paths.present(machine) == {}, where
        assert machine.read(CONF) == "NCCL_ALGO=Ring\n"


def test_every_file_that_a_kind_owns_is_known_by_its_name(folder: pathlib.Path) -> None:
    """Of the kinds that write files of their own for any node."""
    machine = GrubMachine.debian_with_grub(str(folder / "node"))
    machine.put("/usr/lib/systemd/system/ssh.service", "[Service]\nExecStart=/x\n")
    specs = {
        "sysctl": {"settings": {"vm.swappiness": 10, "net.ipv4.tcp_congestion_control": "bbr"}},
        "boot": {"parameters": {"iommu": "pt"}},
        "modules": {"modules": ["tcp_bbr"]},
        "limits": {"memlock": "unlimited"},
    }
    for kind, spec in specs.items():
        try:
            door.apply(machine, door.request("default", kind, spec))
        except MlnodeError as error:
            pytest.fail(f"{kind}: {error}")
    agent.install(machine)
    files = {entry["file"] for entry in Origin.load(machine).entries() if "file" in entry}
    assert len(files) > 10
    assert files == origin_paths.present(machine).keys()
