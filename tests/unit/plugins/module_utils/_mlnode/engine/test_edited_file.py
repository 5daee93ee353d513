# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that others edit as well: a revert takes out what is ours, and loses nothing of theirs."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import Gated, in_memory, killed_at, kills
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DEFAULTS, MKCONFIG, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import declared, edited_file, engine, origin, revert, transaction
from mlnode.engine.edited_file import KEPT
from mlnode.engine.lock import locked
from mlnode.engine.origin import Origin
from mlnode.engine.steps import FileWrite
from mlnode.knobs.boot.kind import kind as boot
from mlnode.knobs.nccl.kind import kind as nccl
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import HostError, StoreError, TransactionError

GRUB = (
    'GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="net.ifnames=0"\n'
)
#: A= "one two" x
QUOTED = "QT0gIm9uZSB0d28iIHgK"
CONF = "/etc/nccl.conf"
DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
SWAPPINESS = {"settings": {"vm.swappiness": 10}}
PT = {"parameters": {"iommu": "pt"}}


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


@pytest.fixture
def machine(folder: pathlib.Path) -> Machine:
    return Machine.debian(str(folder / "node"))


@pytest.fixture
def node(folder: pathlib.Path) -> GrubMachine:
    """Its GRUB reads no drop-ins, so that /etc/default/grub itself is edited."""
    found = GrubMachine.debian_with_grub(str(folder / "grub"), GRUB)
    found.put("/usr/sbin/grub-mkconfig", MKCONFIG, 0o755)
    return found


def apply(machine: Machine, kind: Any, spec: dict[str, Any]) -> None:
    door.apply(machine, engine.Request("default", kind, kind.checked(spec)))


def edit(machine: Machine, path: str, *pairs: tuple[str, str]) -> None:
    text = machine.read(path)
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} in {text!r}"
        text = text.replace(old, new)
    machine.put(path, text)


def result(changes: list[revert.Change], path: str) -> str:
    return next(change.result for change in changes if change.key == path)


def write(machine: Machine, path: str, content: bytes | None) -> None:
    """What a kind of knob would write, in a transaction."""
    with locked(machine):
        transaction.run(machine, Origin.load(machine), [FileWrite(path, path, content)])


# -- /etc/default/grub ---------------------------------------------------------------------


def test_edits_of_grub_after_the_first_run_are_kept_and_told(node: GrubMachine) -> None:
    apply(node, boot, PT)
    assert 'GRUB_CMDLINE_LINUX="iommu=pt net.ifnames=0"' in node.read(DEFAULTS)
    edit(node, DEFAULTS, ("TIMEOUT=5", "TIMEOUT=30"), ("net.ifnames=0", "net.ifnames=0 crashkernel=512M"))
    pending = revert.pending(node)
    done = revert.revert(node)
    assert done == pending
    assert result(done, DEFAULTS) == KEPT
    assert node.read(DEFAULTS) == GRUB.replace("TIMEOUT=5", "TIMEOUT=30").replace(
        "net.ifnames=0", "net.ifnames=0 crashkernel=512M"
    )
    assert "iommu" not in node.line()
    assert "crashkernel=512M" in node.line()
    assert revert.revert(node) == []


def test_a_grub_file_without_later_edits_comes_back_whole(node: GrubMachine) -> None:
    before = node.tree()
    apply(node, boot, PT)
    apply(node, boot, {"parameters": {"iommu": "on"}})
    assert result(revert.revert(node), DEFAULTS) == "restored"
    assert {path: found for path, found in node.tree().items() if path != "/boot/grub/grub.cfg"} == {
        path: found for path, found in before.items() if path != "/boot/grub/grub.cfg"
    }


def test_edits_between_two_runs_are_kept(node: GrubMachine) -> None:
    """The second run writes the file anew, so that it is exactly what was written last."""
    apply(node, boot, PT)
    edit(node, DEFAULTS, ("TIMEOUT=5", "TIMEOUT=30"), ("net.ifnames=0", "crashkernel=512M net.ifnames=0"))
    apply(node, boot, {"parameters": {"iommu": "on", "audit": "0"}})
    assert result(revert.revert(node), DEFAULTS) == KEPT
    assert node.read(DEFAULTS) == GRUB.replace("TIMEOUT=5", "TIMEOUT=30").replace(
        "net.ifnames=0", "crashkernel=512M net.ifnames=0"
    )


def test_drift_that_a_run_mends_is_no_edit_to_keep(node: GrubMachine) -> None:
    apply(node, boot, PT)
    edit(node, DEFAULTS, ("iommu=pt", "iommu=off"))
    node.write_menu()
    apply(node, boot, PT)
    assert "iommu=pt" in node.read(DEFAULTS)
    revert.revert(node)
    assert node.read(DEFAULTS) == GRUB


def test_a_new_version_of_the_package_stays(node: GrubMachine) -> None:
    apply(node, boot, PT)
    new = "# new in this version\n" + GRUB.replace("TIMEOUT=5", "TIMEOUT=5\nGRUB_TIMEOUT_STYLE=menu")
    node.put(DEFAULTS, new)
    revert.revert(node)
    assert node.read(DEFAULTS) == new


def test_what_would_be_no_shell_any_more_is_not_written(node: GrubMachine) -> None:
    write(node, DEFAULTS, b"A= one two x\n")
    entry = next(entry for entry in Origin.load(node).entries() if entry.get("file") == DEFAULTS)
    node.put(DEFAULTS, "A= one y\n")
    broken = {**entry, "saved": {**entry["saved"], "content": QUOTED}}
    node.put(origin.PATH, json.dumps({"format": 1, "entries": [broken]}))
    with pytest.raises(TransactionError, match="remove mlnode's part by hand"):
        revert.revert(node)
    assert node.read(DEFAULTS) == "A= one y\n"
    assert Origin.load(node).entries() == [broken], "kept for the next try"


# -- files that were not there before ------------------------------------------------------


def test_lines_of_others_in_a_file_that_we_made_stay(machine: Machine) -> None:
    apply(machine, nccl, {"variables": {"NCCL_DEBUG": "WARN"}})
    machine.put(CONF, machine.read(CONF) + "NCCL_SOCKET_IFNAME=eth0\n")
    assert result(revert.revert(machine), CONF) == KEPT
    assert machine.read(CONF) == "NCCL_SOCKET_IFNAME=eth0\n"


def test_a_file_that_holds_nothing_of_others_is_removed(machine: Machine) -> None:
    apply(machine, nccl, {"variables": {"NCCL_DEBUG": "WARN"}})
    machine.put(CONF, machine.read(CONF) + "\n\n")
    assert result(revert.revert(machine), CONF) == "removed"
    assert not machine.exists(CONF)


def test_a_word_of_our_block_that_was_edited_stays_and_the_block_goes(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    apply(machine, nccl, {"variables": {"NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": 22}})
    edit(machine, CONF, ("NCCL_DEBUG=WARN", "NCCL_DEBUG=INFO"))
    assert result(revert.revert(machine), CONF) == KEPT
    assert machine.read(CONF) == "NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n"


def test_a_drop_in_of_ours_that_was_edited_goes_and_a_copy_is_kept(machine: Machine) -> None:
    before = machine.tree()
    apply(machine, sysctl, SWAPPINESS)
    edit(machine, DROP_IN, ("vm.swappiness = 10", "vm.swappiness = 1\nkernel.panic = 5"))
    edited = machine.read(DROP_IN)
    copy = DROP_IN + edited_file.COPY_SUFFIX
    assert result(revert.revert(machine), DROP_IN) == f"removed; it was edited, and a copy is in {copy}"
    assert not machine.exists(DROP_IN)
    assert machine.read(copy) == edited
    machine.remove(copy)
    os.rmdir(f"{machine.root}/etc/sysctl.d")
    assert machine.tree() == before


def test_an_edit_of_a_drop_in_that_a_run_mends_is_not_kept(machine: Machine) -> None:
    before = machine.tree()
    apply(machine, sysctl, SWAPPINESS)
    edit(machine, DROP_IN, ("vm.swappiness = 10", "vm.swappiness = 1"))
    apply(machine, sysctl, SWAPPINESS)
    assert result(revert.revert(machine), DROP_IN) == "removed"
    assert machine.tree() == before


# -- what else can have happened to a file --------------------------------------------------


def test_what_others_have_removed_is_not_brought_back(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    write(machine, CONF, b"NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n")
    machine.remove(CONF)
    assert result(revert.revert(machine), CONF) == "left as it is: removed by others since"
    assert not machine.exists(CONF)


@pytest.mark.parametrize("saved", ["NCCL_ALGO=Ring\n", ""])
def test_what_others_have_made_a_link_stays_one(machine: Machine, saved: str) -> None:
    if saved:
        machine.put(CONF, saved)
    write(machine, CONF, b"NCCL_DEBUG=WARN\n")
    machine.remove(CONF)
    machine.link(CONF, "/etc/nccl.site")
    assert result(revert.revert(machine), CONF) == "left as it is: replaced by others since"
    assert machine.link_target(CONF) == "/etc/nccl.site"


def test_what_was_a_link_and_was_edited_since_stays_a_file(machine: Machine) -> None:
    machine.link(CONF, "/etc/nccl.site")
    write(machine, CONF, b"NCCL_DEBUG=WARN\n")
    machine.put(CONF, "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n")
    assert result(revert.revert(machine), CONF) == "left as it is: replaced by others since"
    assert machine.read(CONF) == "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n"


def test_a_file_that_we_removed_comes_back_unless_others_made_another(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    write(machine, CONF, None)
    shutil.copytree(machine.root, machine.root + "-2")
    revert.revert(machine)
    assert machine.read(CONF) == "NCCL_ALGO=Ring\n"
    other = Machine(machine.root + "-2")
    other.put(CONF, "NCCL_ALGO=Tree\n")
    assert result(revert.revert(other), CONF) == "left as it is: replaced by others since"
    assert other.read(CONF) == "NCCL_ALGO=Tree\n"


def test_what_others_made_where_we_had_removed_it_is_the_new_origin(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    write(machine, CONF, None)
    machine.put(CONF, "NCCL_ALGO=Tree\n")
    write(machine, CONF, b"NCCL_DEBUG=WARN\nNCCL_ALGO=Tree\n")
    revert.revert(machine)
    assert machine.read(CONF) == "NCCL_ALGO=Tree\n"


def test_bytes_that_are_no_text_survive(machine: Machine) -> None:
    saved = b"# \xff\r\nNCCL_ALGO=Ring"
    machine.put(CONF, saved)
    write(machine, CONF, b"NCCL_DEBUG=WARN\n" + saved)
    machine.put(CONF, b"NCCL_DEBUG=WARN\n" + saved + b"\n# \xfe\n")
    revert.revert(machine)
    assert machine.read_bytes(CONF) == saved + b"\n# \xfe\n"


def test_an_archive_is_never_merged(machine: Machine) -> None:
    machine.put(CONF, b"old\0")
    write(machine, CONF, b"new\0")
    machine.put(CONF, b"theirs\0")
    revert.revert(machine)
    assert machine.read_bytes(CONF) == b"theirs\0"


def test_an_origin_of_an_older_version_restores_whole(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    entry = origin.file_entry(machine, CONF)
    machine.put(origin.PATH, json.dumps({"format": 1, "entries": [entry]}))
    machine.put(CONF, "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n")
    assert result(revert.revert(machine), CONF) == "restored"
    assert machine.read(CONF) == "NCCL_ALGO=Ring\n"


def test_its_next_write_records_what_it_had_written(machine: Machine) -> None:
    machine.put(CONF, "NCCL_ALGO=Ring\n")
    entry = origin.file_entry(machine, CONF)
    machine.put(origin.PATH, json.dumps({"format": 1, "entries": [entry]}))
    machine.put(CONF, "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n")
    write(machine, CONF, b"NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n")
    machine.put(CONF, "NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n# theirs\n")
    revert.revert(machine)
    assert machine.read(CONF) == "NCCL_ALGO=Ring\n# theirs\n"


@pytest.mark.parametrize(
    "wrote", ["x", {}, [1], ["x"], [{}], [{"content": "eA="}], [{"sha256": "no"}], [{"content": 1}]]
)
def test_a_damaged_record_is_a_damaged_store(machine: Machine, wrote: Any) -> None:
    entry = {**origin.file_entry(machine, CONF), "wrote": wrote}
    machine.put(origin.PATH, json.dumps({"format": 1, "entries": [entry]}))
    with pytest.raises(StoreError, match="damaged"):
        Origin.load(machine)


# -- failures and kills --------------------------------------------------------------------


def test_a_rollback_is_byte_for_byte_even_where_others_edited(node: GrubMachine) -> None:
    apply(node, boot, PT)
    edit(node, DEFAULTS, ("TIMEOUT=5", "TIMEOUT=30"))
    before = node.read(DEFAULTS), node.read(origin.PATH)
    node.broken = 1
    with pytest.raises(TransactionError):
        apply(node, boot, {"parameters": {"iommu": "on"}})
    assert (node.read(DEFAULTS), node.read(origin.PATH)) == before


class Edited(Gated):
    """With a file that has two names."""


def test_a_run_killed_anywhere_loses_no_edit_and_no_name(folder: pathlib.Path) -> None:
    first, second = b"NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n", b"NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n# theirs\n"
    template = Edited.debian(str(folder / "template"))
    template.put(CONF, "NCCL_ALGO=Ring\n")
    os.link(template.root + CONF, template.root + "/etc/nccl.other")
    write(template, CONF, first)
    edit(template, CONF, ("NCCL_ALGO=Ring\n", "NCCL_ALGO=Ring\n# theirs\n"))
    position, killed = 0, True
    while killed:
        position += 1
        root = f"{folder}/at-{position}"
        shutil.copytree(template.root, root, symlinks=True)
        os.unlink(root + "/etc/nccl.other")
        os.link(root + CONF, root + "/etc/nccl.other")
        machine = Edited(root)
        killed = killed_at(position, machine, lambda it: write(it, CONF, second))
        revert.revert(machine)
        where = f"killed at change {position}"
        assert machine.read(CONF) == machine.read("/etc/nccl.other") == "NCCL_ALGO=Ring\n# theirs\n", where
        assert not machine.exists(origin.PATH), where
        assert [name for name in machine.names("/etc") if "nccl" in name] == ["nccl.conf", "nccl.other"], (
            where
        )
        shutil.rmtree(root)
    assert position > 20


def test_a_revert_killed_anywhere_ends_in_the_same_file(folder: pathlib.Path) -> None:
    template = Gated.debian(str(folder / "template"))
    template.put(CONF, "NCCL_ALGO=Ring\n")
    write(template, CONF, b"NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n")
    edit(template, CONF, ("NCCL_ALGO=Ring", "NCCL_IB_TC=106\nNCCL_ALGO=Ring NCCL"))
    for machine, where in kills(template, revert.revert):
        revert.revert(machine)
        assert machine.read(CONF) == "NCCL_IB_TC=106\nNCCL_ALGO=Ring NCCL\n", where


def test_a_file_that_could_not_be_written_is_not_said_to_be_stuck(machine: Machine) -> None:
    """It never changed: on a read-only file system no write can put back anything, and none has to."""

    class ReadOnly(Machine):
        def write_file(self, path: str, content: bytes, mode: int | None = None) -> None:
            if path.startswith(("/etc/sysctl.d", declared.FOLDER)):
                raise HostError("write", path, errno.EROFS)
            super().write_file(path, content, mode)

        def remove_folder_if_empty(self, path: str, may_stay: bool = False) -> None:
            raise HostError("remove", path, errno.EROFS)

    read_only = ReadOnly(machine.root)
    machine.put(DROP_IN, "vm.swappiness = 5\n")
    before = machine.read(DROP_IN)
    with locked(read_only), pytest.raises(TransactionError) as caught:
        transaction.run(
            read_only, Origin(read_only, []), [FileWrite(DROP_IN, DROP_IN, b"vm.swappiness = 10\n")]
        )
    assert "EROFS" in str(caught.value)
    assert machine.read(DROP_IN) == before
    assert not [words for words in caught.value.stuck if DROP_IN in words]


def test_a_file_of_json_stays_one(machine: Machine) -> None:
    path = "/etc/docker/daemon.json"
    machine.put("/usr/bin/dockerd", "", 0o755)
    machine.put(path, '{\n  "debug": true\n}\n')
    spec = {"shm_size": "2GiB", "runtimes": ["docker"]}
    door.apply(machine, door.request("default", "containers", spec))
    edit(machine, path, (',\n  "debug": true', ""))
    machine.forget()
    assert KEPT in result(revert.revert(machine), path)
    assert json.loads(machine.read(path)) == {}

    machine.put(path, '{\n  "debug": true\n}\n')
    door.apply(machine, door.request("default", "containers", spec))
    machine.put(path, "{")
    machine.forget()
    with pytest.raises(HostError, match=r"it is not a JSON object now .* remove mlnode's part by hand"):
        edited_file.way_back(machine, Origin.load(machine).entries()[-1])
    assert machine.read(path) == "{"
