# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.agent import install as agent
from mlnode.engine import declared, engine, kind, lock, origin, revert
from mlnode.engine import units as agent_files
from mlnode.host import places
from mlnode.host.system import Finished
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError, LockTimeoutError, TransactionError

DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
SWAPPINESS = "/proc/sys/vm/swappiness"


def tune(machine: Machine) -> None:
    settings = {"vm.swappiness": 10, "vm.dirty_bytes": 268435456, "net.ipv4.tcp_congestion_control": "bbr"}
    door.apply(machine, engine.Request("default", thp, {"enabled": "madvise"}))
    door.apply(machine, engine.Request("default", sysctl, {"settings": settings}))


def test_everything_is_as_before(machine: Machine) -> None:
    machine.put(DROP_IN, "# theirs\nvm.swappiness = 5\n", 0o640)
    before = {path: found for path, found in machine.tree().items() if "/mlnode" not in path}
    tune(machine)
    agent.install(machine)
    assert machine.tree() != before
    revert.revert(machine)
    assert machine.tree() == before
    machine.remove(DROP_IN)
    assert revert.revert(machine) == []


def test_what_is_pending_is_what_is_done_newest_first(machine: Machine) -> None:
    tune(machine)
    agent.install(machine)
    before = machine.tree()
    pending = revert.pending(machine)
    assert machine.tree() == before, "a look changes nothing"
    done = revert.revert(machine)
    assert done == pending
    keys = [change.key for change in done]
    assert keys[:3] == [agent_files.NIC_PATH_LINK, agent_files.NIC_SERVICE_LINK, kind.AGENT_LINK]
    assert keys[-2:] == [declared.path_of("default"), "thp.enabled"]
    assert "module tcp_bbr" in keys


def test_values_files_links_and_modules_are_told(machine: Machine) -> None:
    machine.link(kind.AGENT_LINK, "/old/unit")
    machine.put(DROP_IN, "old\n")
    tune(machine)
    agent.install(machine)
    found = {change.key: change for change in revert.pending(machine)}
    value = found["vm.swappiness"]
    assert (value.before, value.after, value.result, value.is_file) == ("10", "60", "60", False)
    file = found[DROP_IN]
    assert file.before is not None
    assert "vm.swappiness = 10" in file.before
    assert (file.after, file.result) == ("old\n", "restored")
    link = found[kind.AGENT_LINK]
    assert (link.before, link.after) == (f"link to {agent.UNIT_FILE}\n", "link to /old/unit\n")
    assert link.result == "restored"
    command = found[agent.COMMAND]
    assert command.before is not None
    assert command.before.endswith(" bytes\n")
    assert (command.after, command.result) == (None, "removed")
    module = found["module tcp_bbr"]
    assert (module.before, module.after, module.result) == ("loaded", "not loaded", "not loaded")


def test_a_value_that_was_empty_is_told_as_empty(machine: Machine) -> None:
    spec = {"settings": {"net.ipv4.ip_local_reserved_ports": "8080"}}
    door.apply(machine, engine.Request("default", sysctl, spec))
    change = next(item for item in revert.pending(machine) if item.key.startswith("net"))
    assert (change.before, change.after, change.result) == ("8080", "", "")


def test_what_somebody_else_put_back_is_no_change(machine: Machine) -> None:
    before = machine.tree()
    tune(machine)
    machine.put(SWAPPINESS, "60\n")
    assert "vm.swappiness" not in [change.key for change in revert.revert(machine)]
    assert machine.tree() == before


def test_what_cannot_be_put_back_is_kept_and_the_rest_is_done(machine: Machine) -> None:
    before = machine.tree()
    tune(machine)
    machine.fails[SWAPPINESS] = errno.EIO
    with pytest.raises(TransactionError) as caught:
        revert.revert(machine)
    assert "not everything could be put back" in str(caught.value)
    assert [words.split()[0] for words in caught.value.stuck] == ["vm.swappiness"]
    assert "EIO" in caught.value.stuck[0]
    assert machine.now(f"{THP}/enabled").startswith("[always]")
    assert machine.content(DROP_IN) is None
    assert [entry["key"] for entry in origin.Origin.load(machine).entries()] == ["vm.swappiness"]
    machine.fails.clear()
    assert [change.key for change in revert.revert(machine)] == ["vm.swappiness"]
    assert machine.tree() == before


def test_a_file_that_cannot_be_read_does_not_stop_the_rest(machine: Machine) -> None:
    before = machine.tree()
    tune(machine)
    os.unlink(machine.root + DROP_IN)
    os.mkdir(machine.root + DROP_IN)
    with pytest.raises(HostError, match="EISDIR"):
        revert.pending(machine)
    with pytest.raises(TransactionError, match=f"{DROP_IN} \\(cannot "):
        revert.revert(machine)
    assert machine.now(SWAPPINESS) == "60"
    os.rmdir(machine.root + DROP_IN)
    revert.revert(machine)
    assert machine.tree() == before


def test_only_root_reverts(machine: Machine) -> None:
    tune(machine)
    before = machine.tree()
    machine.superuser = False
    with pytest.raises(HostError, match="root is needed"):
        revert.revert(machine)
    assert machine.tree() == before


def test_a_user_may_ask_where_there_is_nothing(machine: Machine) -> None:
    machine.superuser = False
    assert revert.revert(machine) == []


def test_a_revert_waits_for_its_turn(machine: Machine) -> None:
    tune(machine)
    before = machine.tree()
    with lock.locked(machine), pytest.raises(LockTimeoutError):
        revert.revert(machine, wait_seconds=0)
    assert machine.tree() == before


@pytest.mark.parametrize(
    "path", ["/var/lib/mlnode/origin.json", "/var/lib/mlnode/history.json", "/run/mlnode/preflight-x.json"]
)
def test_what_a_run_left_that_was_killed_at_its_very_start_goes_too(machine: Machine, path: str) -> None:
    before = machine.tree()
    folder, name = path.rsplit("/", 1)
    machine.put(f"{folder}/.{name}.mlnode-tmp", '{"format": 1, "entr')
    assert revert.revert(machine) == []
    assert machine.tree() == before


def test_an_interrupted_revert_goes_on_where_it_was(machine: Machine) -> None:
    class Impatient(Machine):
        gate = Gate()

        def write_kernel(self, path: str, value: str) -> None:
            self.gate.step(path)
            super().write_kernel(path, value)

    def interrupt() -> None:
        raise KeyboardInterrupt

    before = machine.tree()
    tune(machine)
    impatient = Impatient(machine.root)
    impatient.gate = Gate(2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        revert.revert(impatient)
    assert not machine.exists(lock.LOCK_PATH)
    revert.revert(machine)
    assert machine.tree() == before


def test_what_moved_along_is_put_back_even_where_the_value_already_is(machine: Machine) -> None:
    before = machine.tree()
    for word in ("madvise", "always"):
        door.apply(machine, engine.Request("default", thp, {"enabled": word}))
    revert.revert(machine)
    assert machine.tree() == before


# -- what a revert makes NICs do -----------------------------------------------------------


class Noticing(Machine):
    """A machine whose udev raises the flag at each change of a value, as of a NIC's queues, and whose systemd
    then starts the service. failed: the units that `systemctl --failed` lists."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.failed: set[str] = set()

    def write_kernel(self, path: str, value: str) -> None:
        super().write_kernel(path, value)
        if self.exists(agent_files.UDEV_FILE):
            self.put(agent_files.NIC_FLAG, "")
        self._look()

    def _look(self) -> None:
        if agent_files.NIC_PATH_UNIT in self.active and self.exists(agent_files.NIC_FLAG):
            self.active.add(agent_files.NIC_SERVICE)
            if not self.exists(places.AGENT_COMMAND):
                self.failed.add(agent_files.NIC_SERVICE)

    def remove_file(self, path: str) -> None:
        super().remove_file(path)
        self._look()

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb == "reset-failed":
            self.failed.discard(unit)
            return Finished(0, "", "")
        if verb == "stop" and unit == agent_files.NIC_SERVICE and unit in self.active:
            self.failed.add(unit)  # a oneshot service that is killed before its end
        return super()._systemctl(verb, unit)


@pytest.mark.parametrize("began", [False, True])
@pytest.mark.parametrize("agent_first", [False, True])
def test_no_revert_leaves_a_failed_unit_or_a_flag(
    tmp_path: pathlib.Path, began: bool, agent_first: bool
) -> None:
    node = Noticing.debian(str(tmp_path / "node"))
    node.put("/run/systemd/system/.keep", "")
    node.put("/run/udev/.keep", "")
    before = node.tree()
    for step in (agent.install, tune) if agent_first else (tune, agent.install):
        step(node)
    assert agent_files.NIC_PATH_UNIT in node.active
    node.active.discard(agent_files.NIC_SERVICE)
    if began:
        node.put(agent_files.NIC_FLAG, "")
        node._look()
    revert.revert(node)
    assert node.failed == set()
    assert node.active == set()
    assert node.tree() == before


def test_a_revert_of_a_node_without_an_agent_asks_nothing_about_its_units(machine: Machine) -> None:
    machine.put("/run/systemd/system/.keep", "")
    machine.active.add(agent_files.NIC_PATH_UNIT)
    tune(machine)
    revert.revert(machine)
    assert agent_files.NIC_PATH_UNIT in machine.active


def test_a_boot_that_undoes_a_change_ends_well_in_the_sandbox(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is a mount below a file system that is read-only, so that nothing can remove it."""
    tune(machine)

    def refused(path: str, *, dir_fd: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "rmdir", refused)
    store = origin.Origin.load(machine)
    store.forget(store.entries())
    assert machine.names("/var/lib/mlnode") == []
