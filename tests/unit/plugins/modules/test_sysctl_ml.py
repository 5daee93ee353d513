# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

SWAPPINESS = "/proc/sys/vm/swappiness"
MAP_COUNT = "/proc/sys/vm/max_map_count"
DROP_IN = "/etc/sysctl.d/zz-mlnode-training.conf"
DECLARATION = "/etc/mlnode/declared.d/training.json"
MODULES = "/etc/modules-load.d/mlnode-training.conf"

#: One of each sort: exact, list, floor, formula, a value with a module, without a kernel file, freed
SETTINGS: dict[str, Any] = {
    "vm.swappiness": 1,
    "net.ipv4.ip_local_reserved_ports": "9100,29500",
    "vm.max_map_count": {"at_least": 1048576},
    "vm.min_free_kbytes": "auto",
    "net.ipv4.tcp_congestion_control": "bbr",
    "kernel.no_such_knob": 1,
    "vm.dirty_ratio": None,
}


@pytest.fixture
def sysctl(running: Make) -> Runner:
    return running(sysctl_ml)


def test_the_diff_has_one_pair_for_the_kernel_and_one_per_file(machine: Machine, sysctl: Runner) -> None:
    machine.put("/proc/sys/net/ipv4/ip_local_reserved_ports", "8080,8443\n")
    settings = {
        "vm.swappiness": 1,
        "net.ipv4.ip_local_reserved_ports": "",
        "net.ipv4.tcp_congestion_control": "bbr",
    }

    diff = sysctl.ok(name="training", settings=settings).diff

    assert list(diff) == [DECLARATION, "runtime", DROP_IN, MODULES]
    was, now = (text.splitlines() for text in diff["runtime"])
    assert was == [
        "vm.swappiness = 60",
        "net.ipv4.ip_local_reserved_ports = 8080,8443",
        "net.ipv4.tcp_congestion_control = cubic",
    ]
    assert now == [
        "vm.swappiness = 1",
        'net.ipv4.ip_local_reserved_ports = ""',
        "module tcp_bbr loaded",
        "net.ipv4.tcp_congestion_control = bbr",
    ]
    for path in (DECLARATION, DROP_IN, MODULES):
        assert diff[path] == ("", machine.read(path))


def test_a_file_that_is_no_longer_needed_is_shown_as_removed(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1})
    content = machine.read(DROP_IN)

    done = sysctl.ok(name="training", settings={"vm.max_map_count": {"at_least": 1}})

    assert done.diff[DROP_IN] == (content, "")
    assert not machine.exists(DROP_IN)


def test_only_what_was_said_is_kept_on_the_node(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1, "vm.dirty_ratio": None})
    plain = json.loads(machine.read(DECLARATION))["kinds"]["sysctl"]
    sysctl.ok(
        name="training", settings={"vm.swappiness": 1}, sizing={"hosts": 4, "rails": 8}, allow=["overcommit"]
    )
    full = json.loads(machine.read(DECLARATION))["kinds"]["sysctl"]

    assert plain == {"settings": {"vm.swappiness": 1}}
    assert full["allow"] == ["overcommit"]
    assert full["sizing"] == {"hosts": 4, "rails": 8}


@pytest.mark.parametrize("more", [{}, {"sizing": {"rtt_us": 200}}, {"allow": ["overcommit"]}])
def test_a_declaration_of_nothing_leaves_the_node(
    machine: Machine, sysctl: Runner, more: dict[str, Any]
) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1})
    content = {path: machine.read(path) for path in (DECLARATION, DROP_IN)}

    done = sysctl.ok(name="training", settings={}, **more)

    removed = {path: (text, "") for path, text in content.items()}
    assert {path: pair for path, pair in done.diff.items() if path != "runtime"} == removed
    assert not machine.exists(DECLARATION)
    assert not machine.exists(DROP_IN)
    assert not sysctl.ok(name="training", settings={}, **more).changed


def test_a_declaration_whose_settings_are_all_left_out_is_none(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": None})

    assert not machine.exists(DECLARATION)


def test_the_sizing_changes_what_auto_means(machine: Machine, sysctl: Runner) -> None:
    near = sysctl.ok(check=True, settings={"net.core.rmem_max": "auto"})
    far = sysctl.ok(check=True, settings={"net.core.rmem_max": "auto"}, sizing={"rtt_us": 20000})

    assert near.settings["net.core.rmem_max"]["want"] == "16777216"
    assert far.settings["net.core.rmem_max"]["want"] == "134217728"


# -- bad input -----------------------------------------------------------------------------


def test_an_error_names_the_kind_and_the_declaration(machine: Machine, sysctl: Runner) -> None:
    msg = sysctl.msg(name="training", settings={"vm.swappiness": True})

    assert msg.startswith("sysctl training: vm.swappiness: YAML boolean true; ")


def test_two_declarations_that_disagree_are_both_named(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1})
    before = machine.tree()

    msg = sysctl.msg(name="fabric", settings={"vm.swappiness": 10})

    assert msg == (
        "sysctl fabric: vm.swappiness: declared as '10' by fabric and as '1' by training "
        f"({DECLARATION}): the two must agree, or one must leave it out"
    )
    assert machine.tree() == before


def test_two_declarations_with_different_sizing_disagree(machine: Machine, sysctl: Runner) -> None:
    settings = {"net.core.rmem_max": "auto"}
    sysctl.ok(name="training", settings=settings, sizing={"rtt_us": 20000})

    msg = sysctl.msg(name="fabric", settings=settings)

    assert "declared as 'auto' by fabric and as 'auto (rtt_us 20000)' by training" in msg
    sysctl.ok(name="fabric", settings=settings, sizing={"rtt_us": 20000})
    # What the formula does not ask for makes no difference.
    sysctl.ok(name="fabric", settings=settings, sizing={"rtt_us": 20000, "hosts": 4, "rails": 8})


def test_two_declarations_may_agree_and_add(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(name="training", settings={"vm.swappiness": 1})

    done = sysctl.ok(name="fabric", settings={"vm.swappiness": 1, "vm.max_map_count": 1048576})

    assert {key: setting["status"] for key, setting in done.settings.items()} == {
        "vm.swappiness": "ok",
        "vm.max_map_count": "changed",
    }


def test_a_damaged_declaration_of_another_name_stops_the_module(machine: Machine, sysctl: Runner) -> None:
    # Nobody can tell whether it disagrees.
    machine.put("/etc/mlnode/declared.d/other.json", "{")
    before = machine.tree()

    msg = sysctl.msg(name="training", settings={"vm.swappiness": 1})

    assert "/etc/mlnode/declared.d/other.json is damaged" in msg
    assert machine.tree() == before


# -- what the kernel does not do --------------------------------------------------------------


def test_a_file_that_not_even_root_may_write_is_unsupported(machine: Machine, sysctl: Runner) -> None:
    machine.read_only[SWAPPINESS] = f"{SWAPPINESS} is on a read-only file system"

    done = sysctl.ok(settings={"vm.swappiness": 1})

    assert done.settings["vm.swappiness"]["status"] == "unsupported"
    assert done.warnings == [f"vm.swappiness is unsupported: {SWAPPINESS} is on a read-only file system"]


@pytest.mark.parametrize("check", [False, True])
def test_a_dangerous_change_is_refused_with_the_way_to_allow_it(
    machine: Machine, sysctl: Runner, check: bool
) -> None:
    msg = sysctl.msg(check, settings={"vm.swappiness": 1, "vm.overcommit_memory": 2})

    assert "refused: vm.overcommit_memory: " in msg
    assert msg.endswith(f"allow: [overcommit]; all else {'would be' if check else 'is'} applied")
    assert machine.now("/proc/sys/vm/overcommit_memory") == "0"
    assert machine.now("/proc/sys/vm/swappiness") == ("60" if check else "1")


def test_an_allowed_change_goes_through(machine: Machine, sysctl: Runner) -> None:
    done = sysctl.ok(settings={"vm.overcommit_memory": 2}, allow=["overcommit"])

    assert done.settings["vm.overcommit_memory"]["status"] == "changed"
    assert machine.now("/proc/sys/vm/overcommit_memory") == "2"


def test_a_failed_write_names_all_there_is_to_know_and_everything_is_put_back(
    machine: Machine, sysctl: Runner
) -> None:
    machine.fails[MAP_COUNT] = errno.EINVAL
    before = machine.tree()

    msg = sysctl.msg(name="training", settings={"vm.swappiness": 1, "vm.max_map_count": 1048576})

    reason = "EINVAL (Invalid argument; the kernel does not accept this value)"
    failed = f"sysctl training: vm.max_map_count: cannot write '1048576' to {MAP_COUNT}: {reason}"
    assert msg == f"{failed}. put back: vm.swappiness = 60, {DECLARATION} = absent"
    assert machine.tree() == before


def test_a_write_without_effect_is_a_failure_too(machine: Machine, sysctl: Runner) -> None:
    machine.ignores.add(MAP_COUNT)
    before = machine.tree()

    msg = sysctl.msg(settings={"vm.swappiness": 1, "vm.max_map_count": 1048576})

    assert "the write was accepted, but the kernel now shows '65530'" in msg
    assert machine.tree() == before


def test_less_huge_pages_than_asked_for_are_clamped_with_both_numbers(
    machine: Machine, sysctl: Runner
) -> None:
    machine.gives["/proc/sys/vm/nr_hugepages"] = 10

    done = sysctl.ok(settings={"vm.nr_hugepages": 64})

    setting = done.settings["vm.nr_hugepages"]
    assert (setting["status"], setting["want"], setting["runtime"]) == ("clamped", "64", "10")
    assert done.warnings == [f"vm.nr_hugepages is clamped: {setting['reason']}"]
    assert "asked for 64, the kernel gave 10" in setting["reason"]


def test_an_unreadable_setting_is_unknown_and_loud(machine: Machine, sysctl: Runner) -> None:
    machine.unreadable[SWAPPINESS] = errno.EACCES

    done = sysctl.ok(settings={"vm.swappiness": 1, "vm.max_map_count": 1048576})

    setting = done.settings["vm.swappiness"]
    assert (setting["status"], setting["runtime"]) == ("unknown", None)
    assert done.warnings == [f"vm.swappiness is unknown: {setting['reason']}"]
    assert machine.now(MAP_COUNT) == "1048576"


def test_a_node_without_root_is_told_so(machine: Machine, sysctl: Runner) -> None:
    machine.superuser = False
    before = machine.tree()

    assert "root is needed" in sysctl.msg(settings={"vm.swappiness": 1})
    assert machine.tree() == before


# -- boot layer ----------------------------------------------------------------------------


@pytest.mark.parametrize("check", [False, True])
def test_a_later_file_that_wins_is_a_warning_with_file_and_line(
    machine: Machine, sysctl: Runner, check: bool
) -> None:
    machine.put("/etc/sysctl.d/zzz.conf", "# the vendor's\nvm.swappiness = 30\n")
    sysctl.ok(name="training", settings={"vm.swappiness": 1})

    done = sysctl.ok(check, name="training", settings={"vm.swappiness": 1})

    setting = done.settings["vm.swappiness"]
    assert (setting["status"], setting["boot"]) == ("overridden", "30")
    assert setting["boot_source"] == "/etc/sysctl.d/zzz.conf:2"
    assert done.warnings == ["vm.swappiness is overridden: boot: /etc/sysctl.d/zzz.conf:2 sets 30"]
    assert not done.changed


def test_what_only_the_agent_could_bring_back_is_a_warning_without_it(
    machine: Machine, sysctl: Runner
) -> None:
    machine.put("/sys/kernel/debug/sched/migration_cost_ns", "500000\n")
    settings = {"kernel.sched_migration_cost_ns": 5000000}

    checked = sysctl.ok(check=True, settings=settings)
    done = sysctl.ok(settings=settings)

    words = "boot: nothing brings it back, as mlnode-apply.service is not enabled (install the agent)"
    assert done.warnings == [f"kernel.sched_migration_cost_ns is drifted: {words}"]
    # In check mode drift is what the diff shows, and no news.
    assert checked.warnings == []


def test_a_floor_is_kept_by_its_line_and_needs_no_agent(machine: Machine, sysctl: Runner) -> None:
    settings = {"vm.max_map_count": {"at_least": 1048576}}

    done = sysctl.ok(name="training", settings=settings)

    assert done.warnings == []
    assert machine.read(DROP_IN).splitlines()[-1] == "vm.max_map_count = 1048576"
    assert done.settings["vm.max_map_count"]["boot_source"] == f"{DROP_IN}:3"
    assert not sysctl.ok(name="training", settings=settings).changed


def test_the_boot_layer_alone_neither_reads_nor_changes_the_build_host(
    machine: Machine, sysctl: Runner
) -> None:
    machine.unreadable = dict.fromkeys(
        [SWAPPINESS, "/proc/meminfo", "/proc/sys/vm/min_free_kbytes"], errno.EIO
    )

    done = sysctl.ok(
        name="training", settings={"vm.swappiness": 1, "vm.min_free_kbytes": "auto"}, layers=["boot"]
    )

    assert done.changed
    assert machine.writes == []
    assert [*done.diff] == [DECLARATION, DROP_IN]
    assert "vm.swappiness = 1" in machine.read(DROP_IN)
    assert "min_free" not in machine.read(DROP_IN)
    setting = done.settings["vm.min_free_kbytes"]
    assert (setting["want"], setting["runtime"]) == (None, None)


def test_the_runtime_layer_alone_keeps_nothing(machine: Machine, sysctl: Runner) -> None:
    done = sysctl.ok(name="training", settings={"vm.swappiness": 1}, layers=["runtime"])

    assert [*done.diff] == ["runtime"]
    assert machine.now(SWAPPINESS) == "1"
    assert not machine.exists(DECLARATION)
    assert not machine.exists(DROP_IN)


def test_the_order_of_the_layers_does_not_matter(machine: Machine, sysctl: Runner) -> None:
    sysctl.ok(settings={"vm.swappiness": 1}, layers=["boot", "runtime"])

    assert not sysctl.ok(settings={"vm.swappiness": 1}).changed


def test_nothing_here_ever_needs_a_reboot(machine: Machine, sysctl: Runner) -> None:
    assert sysctl.ok(settings=SETTINGS).result["reboot_required"] is False


@pytest.mark.parametrize("value", ["4096 131072 auto", "4096\t131072  auto"])
def test_white_space_in_a_value_is_no_reason_to_write_it_again(
    machine: Machine, sysctl: Runner, value: str
) -> None:
    sysctl.ok(settings={"net.ipv4.tcp_rmem": "4096 131072 auto"})
    writes = list(machine.writes)

    sysctl.ok(settings={"net.ipv4.tcp_rmem": value})

    assert machine.writes == writes
