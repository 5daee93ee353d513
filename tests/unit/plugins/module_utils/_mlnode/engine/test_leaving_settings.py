# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves a declaration: the guards, the neighbours and the order of its way back."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door, service_machine
from ansible_collections.mlnode.tuning.tests.unit.machine import RECOMMENDED_MIN_FREE, THP, Machine
from mlnode.agent import declare, node
from mlnode.agent.declare import Order, Result
from mlnode.agent.registry import KINDS
from mlnode.engine import confirm, confirm_store, revert, transaction
from mlnode.engine.origin import Origin
from mlnode.engine.plan import Request
from mlnode.engine.steps import PutBack
from mlnode.host import detached
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import HostError

from ..knobs.nic.node import NicNode
from ..knobs.rail.node import RAILS, RailNode

ENABLED = f"{THP}/enabled"
MIN_FREE = "/proc/sys/vm/min_free_kbytes"
POOL = "/proc/sys/vm/nr_hugepages"
SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NIC has to be watched, none answers later what it refuses once, and no process waits to undo."""
    monkeypatch.setattr(confirm, "STUBBORN", 0.0)
    monkeypatch.setattr(detached, "start", lambda _work: None)


def run(machine: Machine, areas: dict[str, dict[str, Any]], **more: Any) -> Result:
    machine.forget()
    return declare.run(machine, Order("node", KINDS, areas, tuple(KINDS), whole=True, **more))


def settle(machine: Machine, areas: dict[str, dict[str, Any]], **more: Any) -> Result:
    found = run(machine, areas, **more)
    assert not found.failed, found.msg
    return found


def refuse(machine: Machine, path: str) -> None:
    """A kernel that takes nothing more for one file."""
    write: Callable[[str, str], None] = machine.write_kernel

    def refusing(asked: str, value: str) -> None:
        if asked == path:
            raise HostError("write", path, 5)
        write(asked, value)

    machine.write_kernel = refusing  # type: ignore[method-assign]  # of this machine alone


# -- together with what stays ------------------------------------------------------------------------


def test_what_a_value_moved_along_goes_back_with_it(machine: Machine) -> None:
    before = machine.now(MIN_FREE)
    settle(machine, {"thp": {"enabled": "never"}})
    settle(machine, {})
    assert machine.now(ENABLED) == "[always] madvise never"
    assert machine.now(MIN_FREE) == before


def test_what_it_moved_along_stays_where_another_area_declares_it(machine: Machine) -> None:
    sized = {"sysctl": {"settings": {"vm.min_free_kbytes": 100000}}}
    settle(machine, {"thp": {"enabled": "never"}, **sized})
    settle(machine, sized)
    assert machine.now(ENABLED) == "[always] madvise never"
    assert machine.now(MIN_FREE) == "100000", f"and not {RECOMMENDED_MIN_FREE}, which the kernel makes of it"
    assert not settle(machine, sized).changed


def test_another_declaration_keeps_it_by_another_area(machine: Machine) -> None:
    door.apply(machine, Request("site", sysctl, {"settings": {"vm.min_free_kbytes": 100000}}))
    settle(machine, {"thp": {"enabled": "never"}})
    settle(machine, {})
    assert machine.now(MIN_FREE) == "100000"
    assert node.survey(machine).errors == ()


def test_a_module_that_knows_its_own_area_only_leaves_the_others_alone(machine: Machine) -> None:
    sized = {"sysctl": {"settings": {"vm.min_free_kbytes": 100000}}}
    settle(machine, {"thp": {"enabled": "never"}, **sized})
    order = Order("node", {"thp": thp}, {"thp": {"defrag": "madvise"}}, ("thp",))
    found = declare.run(machine, order)
    assert not found.failed, found.msg
    assert machine.now(ENABLED) == "[always] madvise never"
    assert machine.now(MIN_FREE) == "100000", "and not what it was before THP was declared"


def test_a_value_goes_back_by_its_counterpart_where_other_areas_are_unknown(machine: Machine) -> None:
    ratio = machine.now("/proc/sys/vm/dirty_ratio")
    settle(machine, {"thp": {"enabled": "never"}, "sysctl": {"settings": {"vm.dirty_bytes": 268435456}}})
    found = declare.run(machine, Order("node", {"sysctl": sysctl}, {"sysctl": {}}, ("sysctl",)))
    assert not found.failed, found.msg
    assert machine.now("/proc/sys/vm/dirty_ratio") == ratio
    assert machine.now("/proc/sys/vm/dirty_bytes") == "0"


def test_what_cannot_be_read_keeps_all_that_leaves(machine: Machine) -> None:
    settle(machine, {"sysctl": {"settings": {"vm.swappiness": 10}}})
    door.apply(machine, Request("site", thp, {"enabled": "never"}))
    other = "/etc/mlnode/declared.d/site.json"
    machine.put(other, machine.read(other).replace('"never"', '["never"]'))
    found = settle(machine, {})
    assert machine.now(SWAPPINESS) == "10"
    assert "whether site still declares settings of thp is unknown" in " ".join(found.warnings)


# -- undone with the rest ----------------------------------------------------------------------------


def test_a_failure_after_it_brings_it_back(machine: Machine) -> None:
    areas: dict[str, dict[str, Any]] = {
        "thp": {"enabled": "never"},
        "sysctl": {"settings": {"vm.swappiness": 10}},
    }
    settle(machine, areas)
    before = machine.tree()
    refuse(machine, SWAPPINESS)
    found = run(machine, {"sysctl": {"settings": {"vm.swappiness": 20}}})
    assert found.failed
    assert SWAPPINESS in found.msg
    assert machine.tree() == before
    assert Origin.load(machine).value_of(ENABLED) is not None


# -- guards ------------------------------------------------------------------------------------------


def test_a_pool_in_use_stays_and_is_named(machine: Machine) -> None:
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    settle(machine, {"sysctl": {"settings": {"vm.nr_hugepages": 64}}})
    machine.put(f"{folder}/free_hugepages", "0\n")
    machine.put(f"{folder}/resv_hugepages", "0\n")
    found = settle(machine, {})
    assert machine.now(POOL) == "64"
    [words] = [text for text in found.warnings if "vm.nr_hugepages" in text]
    assert "stays 64" in words
    assert "in use" in words
    assert Origin.load(machine).value_of(POOL) == "0", "a revert still knows it"


def test_a_pool_that_is_free_goes_back(machine: Machine) -> None:
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    settle(machine, {"sysctl": {"settings": {"vm.nr_hugepages": 64}}})
    machine.put(f"{folder}/free_hugepages", "64\n")
    machine.put(f"{folder}/resv_hugepages", "0\n")
    settle(machine, {})
    assert machine.now(POOL) == "0"


@pytest.fixture
def rails(tmp_path: pathlib.Path) -> RailNode:
    return RailNode.made(tmp_path)


def test_rails_get_back_what_they_had(rails: RailNode) -> None:
    path = "/proc/sys/net/ipv4/conf/eth2/rp_filter"
    before = rails.now(path)
    settle(rails, {"rail": {"rules": {"rails": {key: RAILS[key] for key in RAILS if key != "name"}}}})
    assert rails.now(path) != before
    settle(rails, {})
    assert rails.now(path) == before


def test_a_rail_that_carries_the_connection_is_not_cut_off(rails: RailNode) -> None:
    paths = [f"/proc/sys/net/ipv4/conf/{name}/rp_filter" for name in ("eth2", "eth3")]
    for path in paths:
        rails.put(path, "1\n")
    settle(rails, {"rail": {"rules": {"rails": {"nics": {"names": ["eth2", "eth3"]}, "rp_filter": 2}}}})
    rails.carry("eth2")
    found = settle(rails, {})
    assert [rails.now(path) for path in paths] == ["2", "1"], "eth3 carries nothing"
    assert any("eth2" in words and "with rp_filter 1 it drops" in words for words in found.warnings)


def test_a_nic_keeps_what_only_a_reset_would_bring_back(tmp_path: pathlib.Path) -> None:
    host = NicNode.made(tmp_path)
    before = host.eth2.ring["rx"]
    settle(host, {"nic": {"rules": {"data": {"nics": {"names": ["eth2"]}, "rings": {"rx": 4096}}}}})
    found = settle(host, {})
    assert host.eth2.ring["rx"] == 4096 != before
    assert any("resets eth2" in words for words in found.warnings)


# -- services ----------------------------------------------------------------------------------------


def test_a_stopped_service_runs_again(tmp_path: pathlib.Path) -> None:
    host = service_machine.made(str(tmp_path / "node"))
    host.tuned()
    settle(host, {"services": {"services": {"tuned": "stop"}}})
    assert not host.runs("tuned.service")
    found = settle(host, {})
    assert found.changed
    assert host.runs("tuned.service"), "its condition has to be gone before it is started"


def test_a_service_that_is_left_alone_is_not_kept_stopped(tmp_path: pathlib.Path) -> None:
    host = service_machine.made(str(tmp_path / "node"))
    host.tuned()
    settle(host, {"services": {"services": {"tuned": "stop"}}})
    settle(host, {"services": {"services": {"tuned": "leave"}}})
    assert host.runs("tuned.service")


def test_a_run_that_is_killed_before_a_service_runs_again_is_made_up_for(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = service_machine.made(str(tmp_path / "node"))
    host.tuned()
    settle(host, {"services": {"services": {"tuned": "stop"}}})
    with monkeypatch.context() as patch:
        patch.setattr(PutBack, "perform", _killed)
        patch.setattr(transaction.Transaction, "_undo", lambda *_told: None)
        with pytest.raises(KeyboardInterrupt):
            run(host, {})
    settle(host, {})
    assert host.runs("tuned.service")


def _killed(*_told: object) -> None:
    raise KeyboardInterrupt


# -- with a change that waits to be confirmed ----------------------------------------------------------


def test_an_undo_brings_back_what_left(tmp_path: pathlib.Path) -> None:
    host = NicNode.made(tmp_path)
    host.put(SWAPPINESS, "60\n")
    settle(host, {"sysctl": {"settings": {"vm.swappiness": 10}}})
    before = host.tree()
    nic = {"allow": ["management"], "rules": {"path": {"nics": {"names": ["eth4"]}, "mtu": 9000}}}
    settle(host, {"nic": nic}, confirm_seconds=60)
    waits = confirm_store.load_pending(host)
    assert waits is not None
    assert host.now(SWAPPINESS) != "10"
    assert confirm.undo(host, waits.id).stuck == ()
    assert host.now(SWAPPINESS) == "10"
    after = host.tree()
    assert [path for path, was in before.items() if after.get(path) != was] == []


def test_a_confirmed_change_leaves_no_origin_of_what_left(tmp_path: pathlib.Path) -> None:
    host = NicNode.made(tmp_path)
    host.put(SWAPPINESS, "60\n")
    settle(host, {"sysctl": {"settings": {"vm.swappiness": 10}}})
    nic = {"allow": ["management"], "rules": {"path": {"nics": {"names": ["eth4"]}, "mtu": 9000}}}
    settle(host, {"nic": nic}, confirm_seconds=60)
    waits = confirm_store.load_pending(host)
    assert waits is not None
    assert Origin.load(host).value_of(SWAPPINESS) == "60", "an undo needs it"
    assert confirm.confirm(host, waits.id)
    assert Origin.load(host).value_of(SWAPPINESS) is None
    host.write_kernel(SWAPPINESS, "30")
    settle(host, {"nic": nic, "sysctl": {"settings": {"vm.swappiness": 10}}})
    assert Origin.load(host).value_of(SWAPPINESS) == "30"


def test_what_an_area_moved_along_is_not_lost_where_it_leaves_alone(machine: Machine) -> None:
    before = machine.tree()
    door.apply(machine, Request("node", thp, {"enabled": "never"}))
    door.apply(machine, Request("node", sysctl, {"settings": {"vm.no_such_knob": 1}}))
    # Without the code of the area sysctl it is unknown whether that declares vm.min_free_kbytes.
    door.apply(machine, Request("node", thp, {}))
    assert machine.now(ENABLED) == "[always] madvise never"
    door.apply(machine, Request("node", sysctl, {}))
    revert.revert(machine)
    assert machine.tree() == before
