# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.engine import boot_run, declared, engine, lock, origin
from mlnode.engine.declared import Declaration
from mlnode.engine.engine import Outcome, Request
from mlnode.engine.plan import Kept, Plan
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import DeclarationError, HostError, LockTimeoutError, MlnodeError, RefusedError
from mlnode.model.setting import Layer, Status

DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
DECLARED = "/etc/mlnode/declared.d/default.json"
SWAPPINESS = "/proc/sys/vm/swappiness"
PAGES = "/proc/sys/vm/nr_hugepages"
RUNTIME, BOOT = (Layer.RUNTIME,), (Layer.BOOT,)


def request(settings: dict[str, Any], name: str = "default", **more: Any) -> Request:
    extra = {key: more.pop(key) for key in ("allow", "sizing") if key in more}
    return door.request(name, "sysctl", {"settings": settings, **extra}, **more)


def declare(machine: Machine, name: str, settings: dict[str, Any]) -> None:
    content = declared.render(Declaration(name, {"sysctl": {"settings": settings}}))
    machine.put(declared.path_of(name), content.decode())


def statuses(found: Plan | Outcome) -> dict[str, Status]:
    return {row.setting.key: row.status for row in found.rows}


def reasons(found: Plan | Outcome) -> dict[str, str]:
    return {row.setting.key: row.reason for row in found.rows}


def lines(machine: Machine) -> list[str]:
    text = (machine.content(DROP_IN) or b"").decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


# -- statuses ------------------------------------------------------------------------------


def test_only_the_wrong_one_of_two_is_changed(machine: Machine) -> None:
    work = request({"vm.swappiness": 10, "vm.max_map_count": 65530})
    door.apply(machine, work)
    machine.put(SWAPPINESS, "30\n")
    outcome = door.apply(machine, work)
    assert statuses(outcome) == {"vm.swappiness": Status.CHANGED, "vm.max_map_count": Status.OK}
    assert machine.writes[-1] == (SWAPPINESS, "10")
    assert reasons(outcome)["vm.swappiness"] == "runtime is 30"


def test_what_this_kernel_lacks_is_unsupported(machine: Machine) -> None:
    outcome = door.apply(machine, request({"vm.swappiness": 10, "vm.no_such_knob": 1}))
    assert statuses(outcome) == {"vm.swappiness": Status.CHANGED, "vm.no_such_knob": Status.UNSUPPORTED}
    assert "does not exist" in reasons(outcome)["vm.no_such_knob"]
    # The line stays for a module or interface that brings the file later.
    assert lines(machine) == ["vm.swappiness = 10", "vm.no_such_knob = 1"]


def test_what_may_not_be_written_here_is_unsupported_and_kept_for_the_next_boot(machine: Machine) -> None:
    machine.read_only[SWAPPINESS] = "the host owns it"
    outcome = door.apply(machine, request({"vm.swappiness": 10}))
    assert statuses(outcome) == {"vm.swappiness": Status.UNSUPPORTED}
    assert reasons(outcome) == {"vm.swappiness": "the host owns it"}
    assert machine.writes == []
    assert lines(machine) == ["vm.swappiness = 10"]


def test_a_right_value_that_may_not_be_written_is_fine(machine: Machine) -> None:
    machine.read_only[SWAPPINESS] = "the host owns it"
    plan = engine.evaluate(machine, request({"vm.swappiness": 60}, layers=RUNTIME))
    assert statuses(plan) == {"vm.swappiness": Status.OK}


def test_what_cannot_be_read_is_unknown_and_not_written(machine: Machine) -> None:
    machine.unreadable[SWAPPINESS] = errno.EIO
    outcome = door.apply(machine, request({"vm.swappiness": 10, "vm.max_map_count": 262144}))
    assert statuses(outcome)["vm.swappiness"] is Status.UNKNOWN
    assert "EIO" in reasons(outcome)["vm.swappiness"]
    assert [path for path, _value in machine.writes] == ["/proc/sys/vm/max_map_count"]


def test_a_boot_file_that_cannot_be_read_may_say_anything(machine: Machine) -> None:
    work = request({"vm.swappiness": 10})
    door.apply(machine, work)
    before = machine.tree()
    machine.unreadable["/usr/lib/sysctl.d/50-default.conf"] = errno.EIO
    outcome = door.apply(machine, work)
    assert statuses(outcome) == {"vm.swappiness": Status.UNKNOWN}
    assert "50-default.conf" in reasons(outcome)["vm.swappiness"]
    assert machine.tree() == before, "and what we had written for the boot stays"


def test_a_partial_pool_is_clamped_with_both_numbers(machine: Machine) -> None:
    machine.gives[PAGES] = 700
    work = request({"vm.nr_hugepages": 1000})
    first = door.apply(machine, work)
    assert first.changed
    assert statuses(first) == {"vm.nr_hugepages": Status.CLAMPED}
    assert "asked for 1000, the kernel gave 700" in reasons(first)["vm.nr_hugepages"]
    second = door.apply(machine, work)
    assert not second.changed
    assert statuses(second) == {"vm.nr_hugepages": Status.CLAMPED}
    del machine.gives[PAGES]
    third = door.apply(machine, work)
    assert (third.changed, statuses(third)) == (True, {"vm.nr_hugepages": Status.CHANGED})


def test_a_declared_value_on_an_untouched_knob_has_an_origin_too(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 60}))
    assert origin.Origin.load(machine).value_of(SWAPPINESS) == "60"


# -- guards --------------------------------------------------------------------------------


def test_a_refused_setting_keeps_no_other_from_being_set(machine: Machine) -> None:
    work = request({"vm.swappiness": 10, "vm.overcommit_memory": 2})
    with pytest.raises(RefusedError) as caught:
        door.apply(machine, work)
    text = str(caught.value)
    assert text.startswith("refused: vm.overcommit_memory: ")
    assert "allow: [overcommit]" in text
    assert text.endswith("; all else is applied")
    assert machine.now("/proc/sys/vm/swappiness") == "10"
    assert machine.now("/proc/sys/vm/overcommit_memory") == "0"
    assert "overcommit_memory" not in machine.now(DROP_IN)
    with pytest.raises(RefusedError, match="; nothing was changed"):
        door.apply(machine, work)


def test_a_gate_lets_the_rest_pass(machine: Machine) -> None:
    engine.admit(engine.evaluate(machine, request({"vm.swappiness": 10, "vm.no_such_knob": 1})))


SIZED = "thp.hugepages-64kB.enabled"


def word_not_on_offer(profile: frozenset[str] = frozenset()) -> Request:
    spec = {"enabled": "madvise", "sizes": {"64kB": {"enabled": "within_size"}}}
    return Request("default", thp, spec, profile=profile)


def test_a_word_this_kernel_does_not_offer_costs_that_setting_alone(machine: Machine) -> None:
    with pytest.raises(RefusedError, match=r"does not offer 'within_size'.*all else is applied"):
        door.apply(machine, word_not_on_offer())
    assert machine.now(f"{THP}/enabled") == "always [madvise] never"
    found = {row.setting.key: row.status for row in engine.evaluate(machine, word_not_on_offer()).rows}
    assert found[SIZED] is Status.REFUSED


def test_a_profile_may_ask_for_a_word_that_is_not_on_offer(machine: Machine) -> None:
    outcome = door.apply(machine, word_not_on_offer(frozenset({SIZED})))
    assert statuses(outcome)[SIZED] is Status.UNSUPPORTED


# -- layers --------------------------------------------------------------------------------


def test_the_runtime_layer_alone_writes_no_file_of_ours(machine: Machine) -> None:
    before = machine.tree()
    outcome = door.apply(machine, request({"vm.swappiness": 10}, layers=RUNTIME))
    assert statuses(outcome) == {"vm.swappiness": Status.CHANGED}
    now = machine.tree()
    different = {path for path in {*before, *now} if before.get(path) != now.get(path)}
    assert different == {SWAPPINESS}
    assert machine.exists(origin.PATH)
    assert machine.exists(origin.COPY)


def test_the_boot_layer_alone_needs_the_agent_for_what_no_file_carries(machine: Machine) -> None:
    work = Request("default", thp, {"enabled": "madvise"}, BOOT)
    outcome = door.apply(machine, work)
    assert statuses(outcome) == {"thp.enabled": Status.DRIFTED}
    assert "mlnode-apply.service is not enabled" in reasons(outcome)["thp.enabled"]
    machine.enable_agent()
    assert statuses(engine.evaluate(machine, work)) == {"thp.enabled": Status.OK}


# -- files ---------------------------------------------------------------------------------


def test_a_key_that_is_dropped_leaves_the_drop_in(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10, "vm.max_map_count": 262144}))
    assert lines(machine) == ["vm.swappiness = 10", "vm.max_map_count = 262144"]
    door.apply(machine, request({"vm.max_map_count": 262144}))
    assert lines(machine) == ["vm.max_map_count = 262144"]
    assert machine.now(SWAPPINESS) == "60", "what leaves goes back"


def test_a_key_declared_as_null_is_left_alone(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10, "vm.max_map_count": 262144}))
    outcome = door.apply(machine, request({"vm.swappiness": None, "vm.max_map_count": 262144}))
    assert list(statuses(outcome)) == ["vm.max_map_count"]
    assert lines(machine) == ["vm.max_map_count = 262144"]
    assert b"vm.swappiness" not in (machine.content(declared.path_of("default")) or b"")


def test_the_last_key_takes_the_drop_in_with_it(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10}))
    outcome = door.apply(machine, request({}))
    assert outcome.changed
    assert outcome.rows == ()
    assert machine.content(DROP_IN) is None


def test_another_kind_of_the_same_name_is_kept(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10}))
    door.apply(machine, Request("default", thp, {"enabled": "madvise"}))
    found = declared.load(machine, "default")
    assert found is not None
    assert set(found.kinds) == {"sysctl", "thp"}
    assert lines(machine) == ["vm.swappiness = 10"]


def test_a_file_alone_that_is_wrong_is_a_change(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10}))
    machine.put(DROP_IN, "# edited\nvm.swappiness = 99\n")
    outcome = door.apply(machine, request({"vm.swappiness": 10}))
    assert outcome.changed
    assert statuses(outcome) == {"vm.swappiness": Status.CHANGED}
    assert reasons(outcome) == {"vm.swappiness": f"boot: {DROP_IN}:2 sets 99"}
    assert lines(machine) == ["vm.swappiness = 10"]


# -- several names -------------------------------------------------------------------------


@cases.table
def test_two_names_may_not_declare_what_changes_each_other(machine: Machine, mine: str, theirs: str) -> None:
    declare(machine, "other", {theirs: 5})
    before = machine.tree()
    with pytest.raises(DeclarationError) as caught:
        door.apply(machine, request({mine: 10}))
    for words in (f"{mine} (declared by default)", f"{theirs} (declared by other", declared.path_of("other")):
        assert words in str(caught.value)
    assert machine.tree() == before


def test_two_names_that_agree_are_fine(machine: Machine) -> None:
    declare(machine, "other", {"vm.swappiness": 10, "vm.max_map_count": None})
    outcome = door.apply(machine, request({"vm.swappiness": "10", "vm.max_map_count": 262144}))
    assert outcome.changed


def test_a_name_may_change_its_own_mind(machine: Machine) -> None:
    door.apply(machine, request({"vm.dirty_bytes": 268435456}))
    outcome = door.apply(machine, request({"vm.dirty_ratio": 5}))
    assert statuses(outcome) == {"vm.dirty_ratio": Status.CHANGED}
    assert machine.now("/proc/sys/vm/dirty_ratio") == "5"


def test_kinds_do_not_meet(machine: Machine) -> None:
    declare(machine, "other", {"vm.swappiness": 10})
    door.apply(machine, Request("default", thp, {"enabled": "madvise"}))
    assert machine.now(f"{THP}/enabled") == "always [madvise] never"


# -- who may, and when ---------------------------------------------------------------------


def test_only_root_changes(machine: Machine) -> None:
    machine.superuser = False
    before = machine.tree()
    with pytest.raises(HostError, match=r"cannot change .*: root is needed"):
        door.apply(machine, request({"vm.swappiness": 10}))
    assert machine.tree() == before


def test_nothing_to_do_needs_no_root(machine: Machine) -> None:
    machine.superuser = False
    before = machine.tree()
    outcome = door.apply(machine, request({"vm.swappiness": 60}, layers=RUNTIME))
    assert not outcome.changed
    assert machine.tree() == before


def test_an_apply_waits_for_its_turn(machine: Machine) -> None:
    before = machine.tree()
    with lock.locked(machine), pytest.raises(LockTimeoutError):
        door.apply(machine, request({"vm.swappiness": 10}), wait_seconds=0)
    assert machine.tree() == before


def test_a_look_needs_no_lock(machine: Machine) -> None:
    with lock.locked(machine):
        assert engine.evaluate(machine, request({"vm.swappiness": 10})).steps


def test_a_user_may_look_though_the_origin_is_closed(machine: Machine) -> None:
    door.apply(machine, request({"vm.swappiness": 10}))
    machine.superuser = False
    machine.unreadable["/var/lib/mlnode/origin.json"] = errno.EACCES
    (row,) = engine.evaluate(machine, request({"vm.swappiness": 10})).rows
    assert (row.status, row.origin) == (Status.OK, None)
    machine.superuser = True
    with pytest.raises(HostError, match="origin"):
        engine.evaluate(machine, request({"vm.swappiness": 10}))


@pytest.mark.parametrize("each", [False, True], ids=["play", "boot"])
def test_an_error_after_the_changes_says_that_they_stay(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    """Of the look at what has become of it, when nothing is rolled back any more."""
    looks = []
    evaluate = engine.evaluate

    def failing(host: Machine, request: engine.Request, known: Kept | None = None) -> Plan:
        looks.append(request)
        if len(looks) > 1:
            raise HostError("read", "/proc/x", errno.EIO)
        return evaluate(host, request, known)

    request = engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}}, alone=each)
    monkeypatch.setattr(boot_run if each else engine, "evaluate", failing)
    with pytest.raises(MlnodeError) as caught:
        (boot_run.apply_each if each else door.apply)(machine, request)
    assert str(caught.value).startswith("cannot read /proc/x: EIO")
    first = "" if each else f"{DECLARED}, "  # a boot does not write the declaration
    words = f"after all changes had been made, and they stay: {first}vm.swappiness, {DROP_IN}"
    assert words in str(caught.value)
    assert machine.now("/proc/sys/vm/swappiness") == "10"


def test_a_boot_looks_again_only_where_it_has_changed_something(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    evaluate = engine.evaluate

    def counted(host: Machine, request: engine.Request, known: Kept | None = None) -> Plan:
        seen.append(request)
        return evaluate(host, request, known)

    monkeypatch.setattr(boot_run, "evaluate", counted)
    request = engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}}, alone=True)
    outcome, errors = boot_run.apply_each(machine, request)
    assert (outcome.changed, errors, len(seen)) == (True, [], 2)
    outcome, errors = boot_run.apply_each(machine, request)
    assert (outcome.changed, errors, len(seen)) == (False, [], 3)
    assert [(row.status, str(row.reading.runtime)) for row in outcome.rows] == [(Status.OK, "10")]
