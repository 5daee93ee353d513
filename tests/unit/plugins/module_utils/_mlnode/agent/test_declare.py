# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole declaration: one transaction over its areas, and what leaves it goes back to its origin."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door, questions
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, install, made
from hypothesis import given, settings
from hypothesis import strategies as st
from mlnode.agent import call, declare, node
from mlnode.agent.declare import Order, Result
from mlnode.agent.registry import KINDS
from mlnode.engine import declared, digests, engine, origin, revert
from mlnode.engine.plan import Kept, Plan, Request
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model.setting import Layer

from ..knobs.nic.node import NicNode

SWAPPINESS = "/proc/sys/vm/swappiness"
DIRTY = "/proc/sys/vm/dirty_bytes"
DROP_IN = "/etc/sysctl.d/zz-mlnode-node.conf"
DECLARED = "/etc/mlnode/declared.d/node.json"

AREAS: dict[str, dict[str, Any]] = {
    "thp": {"enabled": "madvise"},
    "sysctl": {"settings": {"vm.swappiness": 10}},
    "limits": {"nofile": 1048576},
    "nccl": {"variables": {"NCCL_DEBUG": "WARN"}},
}


def order(areas: dict[str, dict[str, Any]], **more: Any) -> Order:
    found = Order("node", KINDS, areas, tuple(KINDS), whole=True)
    return found._replace(**more)


def settle(machine: Machine, areas: dict[str, dict[str, Any]], **more: Any) -> Result:
    found = declare.run(machine, order(areas, **more))
    assert not found.failed, found.msg
    return found


def by_module(machine: Machine, area: str, spec: dict[str, Any], agent: bool = False) -> None:
    """As the module of one area does, which names all of its options: through the agent, or else with no
    other kind."""
    options = {**dict.fromkeys(KINDS[area].OPTIONS), **spec}
    kinds = KINDS if agent else {area: KINDS[area]}
    found = declare.run(machine, Order("node", kinds, {area: options}, (area,), whole=agent))
    assert not found.failed, found.msg


def content(machine: Machine) -> dict[str, tuple[str, int]]:
    """All files but the record of what was before, whose order is that of the first changes."""
    return {path: found for path, found in machine.tree().items() if "origin.json" not in path}


def files(machine: Machine) -> dict[str, tuple[str, int]]:
    """The same without folders, which stay where another declaration was the first to need them."""
    return {path: found for path, found in content(machine).items() if found[0] != "/"}


def test_all_areas_are_applied_in_one_go(machine: Machine) -> None:
    found = settle(machine, AREAS)
    assert found.changed
    assert [*found.areas] == ["thp", "sysctl", "limits", "nccl"], "in the documented order"
    assert machine.now(SWAPPINESS) == "10"
    assert [*declared.load_all(machine)[0].kinds] == ["thp", "sysctl", "limits", "nccl"]
    again = settle(machine, AREAS)
    assert not again.changed
    assert again.diff == []


def test_a_check_writes_nothing_and_predicts_the_change(machine: Machine) -> None:
    before = machine.tree()
    found = settle(machine, AREAS, check=True)
    assert found.changed
    assert machine.tree() == before
    headers = [pair["before_header"] for pair in found.diff]
    assert [*dict.fromkeys(headers)] == headers, "one pair for each area and layer"
    assert {DECLARED, "thp runtime", "sysctl runtime", DROP_IN} <= {*headers}
    settle(machine, AREAS)
    assert not settle(machine, AREAS, check=True).changed


#: Of each area something that a small node has, in two versions. vm.min_free_kbytes is not among them: THP
#: moves it, so that what it was before depends on which of them was declared first.
_CHOICES: dict[str, list[dict[str, Any]]] = {
    "modules": [{"modules": {"tcp_bbr": True}}, {"modules": {"sch_fq": True, "tcp_bbr": False}}],
    "thp": [{"enabled": "madvise", "khugepaged": {"defrag": 0}}, {"enabled": "never", "defrag": "defer"}],
    "sysctl": [
        {"settings": {"vm.swappiness": 10, "vm.dirty_bytes": 268435456}},
        {"settings": {"vm.swappiness": 1, "net.core.rmem_max": 67108864}},
    ],
    "limits": [{"nofile": 1048576, "memlock": "unlimited"}, {"nofile": 65536}],
    "nccl": [{"variables": {"NCCL_DEBUG": "WARN"}}, {"variables": {"NCCL_IB_TIMEOUT": 20}}],
}


@st.composite
def _declarations(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    areas = draw(st.sets(st.sampled_from([*_CHOICES]), min_size=1))
    return {area: draw(st.sampled_from(_CHOICES[area])) for area in _CHOICES if area in areas}


#: What THP moves along stays where a module alone cannot read the other areas that are declared: they may
#: have it.
_MOVED = "/proc/sys/vm/min_free_kbytes"


@given(first=_declarations(), then=_declarations(), agent=st.booleans())
@settings(max_examples=10 * EFFORT)
def test_whole_or_area_by_area_leaves_the_same_files(first: Any, then: Any, agent: bool) -> None:
    """Declared, and declared once more as something else. Areas that are left out go first, as in one go."""
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = (Machine.debian(f"{folder}/{name}") for name in ("whole", "parts"))
        for areas in (first, then):
            settle(whole, areas)
            gone = [area for area in reversed(_CHOICES) if area not in areas]
            for area in (*gone, *areas):
                by_module(parts, area, areas.get(area, {}), agent)
        left, right = content(whole), content(parts)
        if not agent:
            left.pop(_MOVED)
            right.pop(_MOVED)
        assert left == right
        one, other = declared.load_all(whole), declared.load_all(parts)
        assert [digests.digests(item.kinds) for item in one] == [
            digests.digests(item.kinds) for item in other
        ]


@pytest.mark.parametrize("area", CASES)
def test_every_area_declared_as_a_whole_or_by_its_module_leaves_the_same(
    tmp_path: pathlib.Path, area: str
) -> None:
    """Something, something else, and nothing any more."""
    case = CASES[area]
    whole, parts = (made(case, tmp_path / name) for name in ("whole", "parts"))
    for machine in (whole, parts):
        install(machine)
    for spec in (case.spec, case.other, {}):
        settle(whole, {area: spec} if spec else {})
        by_module(parts, area, spec)
        assert whole.tuned() == parts.tuned()
        one, other = declared.load_all(whole), declared.load_all(parts)
        assert [digests.digests(item.kinds) for item in one] == [
            digests.digests(item.kinds) for item in other
        ]


def test_a_failure_in_a_later_area_undoes_the_earlier_ones(machine: Machine) -> None:
    before = machine.tree()
    machine.fail_writes = {SWAPPINESS}
    machine.put(THP + "/enabled", "[always] madvise never\n")
    before = machine.tree()

    def refuse(path: str, value: str) -> None:
        if path == SWAPPINESS:
            raise origin.HostError("write", path, 5)
        write(path, value)

    write = machine.write_kernel
    machine.write_kernel = refuse  # type: ignore[method-assign]  # a kernel that refuses one of them
    found = declare.run(machine, order(AREAS))
    assert found.failed
    assert "sysctl node" in found.msg
    assert SWAPPINESS in found.msg
    assert machine.tree() == before


def test_nothing_is_written_where_a_later_area_is_wrong(machine: Machine) -> None:
    before = machine.tree()
    found = declare.run(machine, order({**AREAS, "sysctl": {"settings": {"vm.swappiness": "a lot"}}}))
    assert found.failed
    assert "vm.swappiness" in found.msg
    assert machine.tree() == before


def test_a_refused_setting_leaves_the_rest_of_the_node_to_be_applied(machine: Machine) -> None:
    areas = {"thp": {"enabled": "madvise"}, "sysctl": {"settings": {"vm.overcommit_memory": 2}}}
    machine.put(THP + "/enabled", "[always] madvise never\n")
    found = declare.run(machine, order(areas))
    assert found.failed
    assert found.changed
    assert "vm.overcommit_memory" in found.msg
    assert "all else is applied" in found.msg
    assert machine.now(THP + "/enabled") == "always [madvise] never"
    assert found.areas["sysctl"]["settings"][0]["status"] == "refused"


def test_areas_of_which_nothing_is_said_are_not_looked_at(machine: Machine) -> None:
    """Unless they were declared before, and leave."""
    settle(machine, {"nccl": AREAS["nccl"]})
    empty: dict[str, Any] = {"sysctl": {"settings": {}, "allow": []}, "irq": {"rules": {}}, "nccl": {}}
    found = settle(machine, {"thp": AREAS["thp"], **empty})
    assert {*found.areas} == {"thp", "nccl"}
    assert [*declared.load_all(machine)[0].kinds] == ["thp"]


def test_a_setting_that_leaves_goes_back_to_its_origin(machine: Machine) -> None:
    before = machine.now(SWAPPINESS)
    settle(machine, {"sysctl": {"settings": {"vm.swappiness": 10, "vm.max_map_count": 262144}}})
    found = settle(machine, {"sysctl": {"settings": {"vm.max_map_count": 262144}}})
    assert found.changed
    assert machine.now(SWAPPINESS) == before
    assert "swappiness" not in machine.now(DROP_IN)
    assert origin.Origin.load(machine).value_of(SWAPPINESS) is None, "a later first change has a later origin"
    assert any("vm.swappiness = 10" in pair["before"] for pair in found.diff)
    assert node.survey(machine).errors == ()


def test_settings_with_one_cause_share_a_warning(machine: Machine) -> None:
    """Of whatever areas; that each reason has the path of its own setting makes no other cause."""
    unknown = {"sysctl": {"settings": {"vm.no_such": 1}}}
    for areas in (unknown, {"thp": AREAS["thp"], **unknown}):
        [found] = settle(machine, areas, check=True).warnings
        assert found.startswith("vm.no_such is unsupported: /proc/sys/vm/no_such does not exist: ")

    keys = ["lnet.a", "lnet.b", "lnet.c", "lnet.d", "lnet.e"]
    [found] = settle(machine, {"sysctl": {"settings": dict.fromkeys(keys, 1)}}, check=True).warnings
    assert found.startswith("lnet.a, lnet.b, lnet.c and 2 more are unsupported: its file does not exist: ")


def test_the_operator_s_own_settings_that_the_node_lacks_are_named(machine: Machine) -> None:
    """Also by the drift check, and not those that a profile alone asks for."""
    areas = {"sysctl": {"settings": {"lnet.debug": 1, "lnet.dump": 1, "vm.swappiness": 10}}}
    profile = {"sysctl": {"settings": {"lnet.dump": 1}}}
    expected = ["lnet.debug: /proc/sys/lnet/debug does not exist: this kernel has no such setting"]
    assert settle(machine, areas, profile=profile).unsupported_overrides == expected
    asked = {"fail_at": "never", "ignore": [], "declarations": {"node": areas}}
    assert call.CALLS["drift"](machine, asked)["unsupported_overrides"] == expected

    settle(machine, areas, profile=areas)
    assert call.CALLS["drift"](machine, asked)["unsupported_overrides"] == []


def test_an_area_that_leaves_takes_its_files_along(machine: Machine) -> None:
    before = machine.now(SWAPPINESS)
    settle(machine, AREAS)
    settle(machine, {"thp": AREAS["thp"]})
    assert machine.now(SWAPPINESS) == before
    assert not machine.exists(DROP_IN)
    assert [*declared.load_all(machine)[0].kinds] == ["thp"]


def test_what_is_to_be_left_keeps_its_value(machine: Machine) -> None:
    settle(machine, {"sysctl": {"settings": {"vm.swappiness": 10, "vm.max_map_count": 262144}}})
    settle(machine, {"sysctl": {"settings": {"vm.max_map_count": 262144}}}, leave=True)
    assert machine.now(SWAPPINESS) == "10"
    revert.revert(machine)
    assert machine.now(SWAPPINESS) == "60"


def test_what_another_name_declares_too_stays(machine: Machine) -> None:
    door.apply(machine, door.request("other", "sysctl", {"settings": {"vm.swappiness": 10}}))
    settle(machine, {"sysctl": {"settings": {"vm.swappiness": 10, "vm.max_map_count": 262144}}})
    settle(machine, {"sysctl": {"settings": {"vm.max_map_count": 262144}}})
    assert machine.now(SWAPPINESS) == "10"


def test_a_value_with_a_counterpart_goes_back(machine: Machine) -> None:
    """A ratio and the bytes of one limit: to set one of them makes the other 0."""
    ratio = machine.now("/proc/sys/vm/dirty_ratio")
    settle(machine, {"sysctl": {"settings": {"vm.dirty_bytes": 268435456, "vm.swappiness": 10}}})
    assert machine.now(DIRTY) == "268435456"
    settle(machine, {"sysctl": {"settings": {"vm.swappiness": 10}}})
    assert machine.now(DIRTY) == "0"
    assert machine.now("/proc/sys/vm/dirty_ratio") == ratio


def test_a_check_shows_what_leaves(machine: Machine) -> None:
    settle(machine, AREAS)
    before = machine.tree()
    found = settle(machine, {"thp": AREAS["thp"]}, check=True)
    assert found.changed
    assert machine.tree() == before
    assert any(pair["after"] == "vm.swappiness = 60\n" for pair in found.diff)


def test_areas_that_are_not_selected_stay_as_they_are(machine: Machine) -> None:
    settle(machine, AREAS)
    selected = ("thp",)
    settle(machine, {"thp": {"enabled": "never"}}, selected=selected)
    assert machine.now(SWAPPINESS) == "10"
    assert [*declared.load_all(machine)[0].kinds] == [*AREAS]


def test_an_image_build_touches_no_value(machine: Machine) -> None:
    before = machine.now(SWAPPINESS)
    settle(machine, AREAS, layers=(Layer.BOOT,))
    settle(machine, {"thp": AREAS["thp"]}, layers=(Layer.BOOT,))
    assert machine.now(SWAPPINESS) == before
    assert not machine.exists(DROP_IN)


def test_a_node_that_is_right_is_looked_at_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(machine, AREAS)
    seen = []
    evaluate = engine.evaluate

    def counted(host: Host, request: Request, known: Kept | None = None) -> Plan:
        seen.append(request.kind.KIND)
        return evaluate(host, request, known)

    monkeypatch.setattr(engine, "evaluate", counted)
    settle(machine, AREAS)
    assert seen == [*AREAS]


# -- as a controller asks for it -------------------------------------------------------------------

OPTIONS = questions.declare(
    {"thp": {"enabled": "madvise"}}, selected=[*KINDS], confirm_seconds=60, risky=False
)


def ask(machine: Machine, **changes: Any) -> dict[str, Any]:
    return call.CALLS["declare"](machine, {**OPTIONS, **changes})


def test_the_agent_is_installed_with_the_declaration(machine: Machine) -> None:
    found = ask(machine)
    assert not found["failed"], found["msg"]
    assert machine.exists("/usr/local/bin/mlnode")
    assert found["areas"]["thp"]["settings"][0]["status"] in ("ok", "changed")
    assert not ask(machine)["changed"]


def test_an_unknown_area_is_refused_before_anything_is_touched(machine: Machine) -> None:
    before = machine.tree()
    found = ask(machine, areas={"sysctll": {}})
    assert found["failed"]
    assert "did you mean sysctl?" in found["msg"]
    assert machine.tree() == before


@pytest.mark.parametrize("wanted", ("auto", "roce", "infiniband"))
def test_a_node_without_rdma_is_no_part_of_a_fabric(machine: Machine, wanted: str) -> None:
    before = machine.tree()
    found = ask(machine, fabric_type=wanted)
    assert found["failed"]
    assert "no RDMA device" in found["msg"]
    assert machine.tree() == before


def test_an_image_of_a_fabric_needs_no_rdma_device(machine: Machine) -> None:
    assert not ask(machine, fabric_type="auto", layers=["boot"])["failed"]


def test_what_a_later_file_overrides_is_not_in_force(machine: Machine) -> None:
    machine.put("/etc/sysctl.d/zzz-other.conf", "vm.swappiness = 60\n")
    areas = {"sysctl": {"settings": {"vm.swappiness": 10}}}
    found = ask(machine, areas=areas, fail_at="low")
    assert not found["failed"]
    assert any("zzz-other.conf" in line for line in found["not_in_force"])
    assert ask(machine, areas=areas, fail_at="low", check=True)["not_in_force"] == []
    assert ask(machine, areas=areas, fail_at="high")["not_in_force"] == []
    known = {"key": "vm.swappiness", "reason": "OPS-1", "until": "2999-01-01"}
    assert ask(machine, areas=areas, fail_at="low", ignore=[known])["not_in_force"] == []


@pytest.mark.parametrize("change", ({"layers": "runtime"}, {"areas": []}, {"check": 1}, {"ignore": None}))
def test_a_question_of_another_form_is_refused(machine: Machine, change: dict[str, Any]) -> None:
    before = machine.tree()
    with pytest.raises(ValueError, match=next(iter(change))):
        ask(machine, **change)
    assert machine.tree() == before


# -- what is for another kind of node ----------------------------------------------------------------

MTU = {"nics": {"names": ["eth2"], "link_layer": "Ethernet"}, "mtu": 9000}


def test_a_rule_for_ethernet_is_no_failure_on_infiniband(tmp_path: pathlib.Path) -> None:
    host = NicNode.made(tmp_path)
    host.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    found = settle(host, {"nic": {"rules": {"rails": MTU}}}, on_unsupported="fail")
    assert found.areas["nic"]["settings"][0]["status"] == "unsupported"
    assert found.warnings == []


def test_a_rule_for_a_nic_that_is_not_there_is_one(tmp_path: pathlib.Path) -> None:
    host = NicNode.made(tmp_path)
    rule = {**MTU, "nics": {"names": ["eth9"], "link_layer": "Ethernet"}}
    found = declare.run(host, order({"nic": {"rules": {"rails": rule}}}, on_unsupported="fail"))
    assert found.failed
    assert "eth9" in found.msg


NEEDED: dict[str, dict[str, Any]] = {
    "modules": {"where_needed": {"nvidia_peermem": True}},
    "boot": {"parameters": {"iommu": "auto"}},
}


def test_what_this_node_does_not_need_is_no_failure_and_no_warning(machine: Machine) -> None:
    machine.put("/proc/cpuinfo", "flags\t\t: fpu\n")
    for choice in ("fail", "warn"):
        found = settle(machine, NEEDED, on_unsupported=choice)
        assert [found.areas[area]["settings"][0]["status"] for area in NEEDED] == ["unsupported"] * 2
        assert found.warnings == []


def test_what_it_needs_and_cannot_have_is_a_failure(machine: Machine) -> None:
    machine.put("/proc/cpuinfo", "flags\t\t: fpu\n")
    machine.put("/sys/class/infiniband/mlx5_0/device/vendor", "0x15b3\n")
    machine.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15\n")
    found = declare.run(machine, order(NEEDED, on_unsupported="fail"))
    assert found.failed
    assert ("memory_peers" in found.msg, "iommu" in found.msg) == (True, False)


def test_a_module_that_is_loaded_on_the_way_may_bring_what_is_missing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The area before has not been applied yet when all are looked at."""
    ports = "/proc/sys/net/core/made_by_a_module"
    run = machine.run

    def loading(command: Sequence[str], seconds: float = 60) -> Finished:
        done = run(command, seconds)
        if command[0] == "modprobe":
            machine.put(ports, "0\n")
        return done

    monkeypatch.setattr(machine, "run", loading)
    areas: dict[str, dict[str, Any]] = {
        "modules": {"modules": {"tcp_bbr": True}},
        "sysctl": {"settings": {"net.core.made_by_a_module": 1}},
    }
    settle(machine, areas, on_unsupported="fail")
    assert machine.now(ports) == "1"


def test_what_no_module_brings_is_undone_with_the_rest(machine: Machine) -> None:
    before = machine.tree()
    areas: dict[str, dict[str, Any]] = {
        "modules": {"modules": {"tcp_bbr": True}},
        "sysctl": {"settings": {"net.core.made_by_a_module": 1}},
    }
    found = declare.run(machine, order(areas, on_unsupported="fail"))
    assert found.failed
    assert "net.core.made_by_a_module" in found.msg
    assert machine.tree() == before


def test_a_declaration_without_areas_takes_all_of_it_back(machine: Machine) -> None:
    """What playbooks/drift.yml advises for a name that older versions used, beside another declaration."""
    settle(machine, {"thp": {"enabled": "madvise"}})
    before = files(machine)
    old = Order(
        "training_node", KINDS, {"sysctl": {"settings": {"vm.swappiness": 10}}}, tuple(KINDS), whole=True
    )
    assert declare.run(machine, old).changed

    found = declare.run(machine, old._replace(areas={}))

    assert not found.failed, found.msg
    assert files(machine) == before
