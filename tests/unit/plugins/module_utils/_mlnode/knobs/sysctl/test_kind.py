# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import re
import shutil
from typing import Any, Mapping

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, BuildHost, Machine
from mlnode.agent import node as whole_node
from mlnode.engine import engine, judge
from mlnode.engine.kind import AGENT_UNIT, Context, Facts, Row
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import BOTH_LAYERS, EXACTLY, Layer, Reading, Severity, Status, Write

DROP_IN = "/etc/sysctl.d/zz-mlnode-default.conf"
MODULES = "/etc/modules-load.d/mlnode-default.conf"
DEBUG = "/sys/kernel/debug/sched/migration_cost_ns"
MIGRATION_COST = "kernel.sched_migration_cost_ns"
CONGESTION = "net.ipv4.tcp_congestion_control"
QDISC = "net.core.default_qdisc"
BOOT_ONLY = (Layer.BOOT,)


def read_rows(
    machine: Machine,
    settings: Mapping[str, Any],
    *,
    layers: tuple[Layer, ...] = BOTH_LAYERS,
    sizing: Mapping[str, int] | None = None,
    agent: bool = False,
    declared: bool = True,
    origins: Mapping[str, str] | None = None,
) -> tuple[list[Row], Context]:
    """Each setting, read and judged, and what the kind was told. declared: the agent knows of them."""
    facts = Facts(machine)
    context = Context(machine, facts, layers=layers, agent=agent, origins=origins or {})
    spec = {"settings": settings, "sizing": sizing or {}}
    parsed = door.parse("sysctl", spec, facts if context.runtime else None)
    if declared:
        claims = {setting.key: setting.claim for setting in parsed}
        context = Context(machine, facts, layers=layers, agent=agent, on_disk=claims, origins=origins or {})
    rows = []
    for setting, reading in zip(parsed, sysctl.read(parsed, context)):
        status, causes = judge.judge(setting, reading, context)
        rows.append(Row(setting, reading, status, causes, sysctl.info(setting.key, reading.runtime)))
    return rows, context


def row(machine: Machine, key: str, value: Any, **how: Any) -> Row:
    (found,) = read_rows(machine, {key: value}, **how)[0]
    return found


def reading(machine: Machine, key: str, value: Any, **how: Any) -> Reading:
    return row(machine, key, value, **how).reading


def files(machine: Machine, settings: Mapping[str, Any], **how: Any) -> dict[str, str | None]:
    """Boot files of a declaration: path → text, None for none."""
    rows, context = read_rows(machine, settings, **how)
    found = sysctl.boot_files("default", rows, context)
    return {file.path: None if file.content is None else file.content.decode("utf-8") for file in found}


def settings_in(text: str | None) -> list[str]:
    """The lines of a boot file below its head."""
    assert text is not None
    lines = text.splitlines()
    assert [line[:1] for line in lines[:2]] == ["#", "#"]
    assert text.endswith("\n")
    return lines[2:]


@cases.table
def test_what_the_kernel_would_refuse_is_refused_before(
    machine: Machine, key: str, value: Any, words: str
) -> None:
    assert words in reading(machine, key, value).invalid
    asked = [engine.Request("default", sysctl, {"settings": {key: value}})]
    with pytest.raises(DeclarationError, match=re.escape(words)) as previewed:
        engine.preview(machine, asked)
    with pytest.raises(DeclarationError, match=r"nothing was changed") as applied:
        engine.apply_together(machine, lambda: asked)
    assert str(applied.value) == str(previewed.value)


@pytest.mark.parametrize("layers", [BOTH_LAYERS, BOOT_ONLY])
def test_a_misspelt_key_is_an_error_that_names_the_known_one(
    machine: Machine, layers: tuple[Layer, ...]
) -> None:
    found = row(machine, "vm.swapiness", 1, layers=layers)
    assert found.reading.invalid == "no kernel has this key; did you mean vm.swappiness?"
    if layers == BOTH_LAYERS:
        assert (found.status, found.reason) == (Status.UNKNOWN, found.reading.invalid)
    with pytest.raises(DeclarationError, match=r"did you mean vm\.swappiness"):
        engine.preview(
            machine, [engine.Request("default", sysctl, {"settings": {"vm.swapiness": 1}}, layers)]
        )


@cases.table
def test_a_key_of_another_kernel_is_unsupported(machine: Machine, key: str) -> None:
    assert row(machine, key, 1).status is Status.UNSUPPORTED


def test_a_key_that_only_this_kernel_has_is_no_mistake(machine: Machine) -> None:
    machine.put("/proc/sys/vm/swapiness", "60\n")
    assert row(machine, "vm.swapiness", 1).status is Status.DRIFTED


# -- runtime -------------------------------------------------------------------------------


def test_a_setting_is_read_from_its_file(machine: Machine) -> None:
    found = reading(machine, "net.ipv4.tcp_rmem", "4096 131072 6291456")
    assert found.path == "/proc/sys/net/ipv4/tcp_rmem"
    assert found.runtime.text == "4096 131072 6291456"  # blanks instead of the kernel's tabs
    assert found.want == "4096 131072 6291456"
    assert found.native
    assert (found.blocked, found.refusal, found.parts[0].partial, found.invalid) == ("", "", False, "")


def test_a_vlan_interface_keeps_its_dot(machine: Machine) -> None:
    machine.put("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1\n")
    found = reading(machine, "net.ipv4.conf.eth0/100.rp_filter", 2)
    assert found.runtime.text == "1"
    assert found.parts[0].undo == (Write("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1"),)


@cases.table
def test_what_the_kernel_lacks_is_unsupported_with_the_reason(machine: Machine, key: str, words: str) -> None:
    found = row(machine, key, 1)
    assert found.status.value == "unsupported"
    assert words in found.reason
    assert not found.reading.parts
    assert found.reading.boot.value.absent is not None


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_what_cannot_be_read_is_unknown_and_not_absent(machine: Machine, number: int) -> None:
    machine.unreadable["/proc/sys/vm/swappiness"] = number
    found = row(machine, "vm.swappiness", 1)
    assert found.status.value == "unknown"
    assert errno.errorcode[number] in found.reason
    assert found.reading.runtime.absent is None


@pytest.mark.parametrize(("value", "status"), [(1, "unsupported"), (60, "ok")])
def test_a_read_only_file_matters_only_where_it_differs(machine: Machine, value: int, status: str) -> None:
    machine.read_only["/proc/sys/vm/swappiness"] = "read-only file system"
    machine.put(DROP_IN, f"vm.swappiness = {value}\n")
    found = row(machine, "vm.swappiness", value)
    assert found.status.value == status
    assert found.reason == ("read-only file system" if status == "unsupported" else "")


def test_a_moved_knob_is_used_where_it_went(machine: Machine) -> None:
    machine.put(DEBUG, "500000\n")
    found = reading(machine, MIGRATION_COST, 5000000)
    assert found.path == DEBUG
    assert found.runtime.text == "500000"
    assert found.parts[0].undo == (Write(DEBUG, "500000"),)
    assert not found.native  # no line of sysctl.d reaches it


def test_the_old_place_of_a_moved_knob_is_preferred(machine: Machine) -> None:
    machine.put(DEBUG, "500000\n")
    machine.put("/proc/sys/kernel/sched_migration_cost_ns", "400000\n")
    found = reading(machine, MIGRATION_COST, 5000000)
    assert found.path == "/proc/sys/kernel/sched_migration_cost_ns"
    assert found.native


@pytest.mark.parametrize(
    ("superuser", "number", "status"),
    [
        (True, errno.EPERM, "unsupported"),
        (True, errno.EACCES, "unsupported"),
        (True, errno.EIO, "unknown"),
        (False, errno.EPERM, "unknown"),
        (False, errno.EACCES, "unknown"),
    ],
)
def test_debugfs_that_is_closed_to_root_is_locked_down(
    machine: Machine, superuser: bool, number: int, status: str
) -> None:
    machine.put(DEBUG, "500000\n")
    machine.unreadable[DEBUG] = number
    machine.superuser = superuser
    found = row(machine, MIGRATION_COST, 5000000)
    assert found.status.value == status
    words = f"moved to debugfs in Linux 5.13, and lockdown denies {DEBUG}"
    assert (found.reason == words) is (status == "unsupported")


def test_only_debugfs_is_closed_by_lockdown(machine: Machine) -> None:
    machine.unreadable["/proc/sys/vm/swappiness"] = errno.EPERM
    assert row(machine, "vm.swappiness", 1).status.value == "unknown"


@cases.table
def test_a_floor_never_lowers(machine: Machine, key: str, floor: object, target: str) -> None:
    assert reading(machine, key, {"at_least": floor}).want == target


@cases.table
def test_an_exact_value_says_what_it_lowers(
    machine: Machine, key: str, present: str, declared: Any, lowers: bool
) -> None:
    """Old guides set what is less than the kernel's default of today."""
    machine.put(f"/proc/sys/{key.replace('.', '/')}", f"{present}\n")
    found = row(machine, key, declared)
    words = f"lowers {' '.join(present.split())}, as it is declared exactly"
    assert (found.status, words in found.reason) == (Status.DRIFTED, lowers)


def test_a_floor_is_added_to_a_list_that_is_there(machine: Machine) -> None:
    machine.put("/proc/sys/net/ipv4/ip_local_reserved_ports", "8080,29400-29499\n")
    found = reading(machine, "net.ipv4.ip_local_reserved_ports", {"at_least": "29500"})
    assert found.want == "8080,29400-29500"


def test_a_floor_that_this_kernel_cannot_compare_is_invalid_and_not_an_accident(machine: Machine) -> None:
    found = reading(machine, "net.ipv4.tcp_rmem", {"at_least": "4096 131072"})
    assert "'4096 131072' cannot be compared" in found.invalid
    assert found.want is None


def test_auto_never_lowers_what_a_newer_kernel_starts_with(machine: Machine) -> None:
    machine.put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
    assert reading(machine, "net.ipv4.tcp_rmem", "4096 131072 auto").want == "4096 131072 33554432"


# -- exactly -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1024, "1024", {"exactly": 1024}])
@cases.table
def test_an_exact_value_lowers_a_capacity_and_says_so(
    machine: Machine, key: str, present: str, lowers: str | None, value: object
) -> None:
    machine.put("/proc/sys/" + key.replace(".", "/"), present + "\n")
    if lowers is None:
        value = {"exactly": 0} if isinstance(value, dict) else 0
    asked = [engine.Request("default", sysctl, {"settings": {key: value}})]
    ((found,),) = (outcome.rows for outcome in engine.preview(machine, asked).outcomes)
    assert (found.setting.claim, found.setting.raise_only) == (str(found.reading.want), False)
    said = f"{lowers}, {EXACTLY}" if lowers else ""
    assert found.reading.lowers == said
    assert ("lowers" in found.reason, said in found.reason) == (bool(lowers), True)
    assert not lowers or found.info.severity is not Severity.LOW
    engine.apply_together(machine, lambda: asked)
    assert machine.read("/proc/sys/" + key.replace(".", "/")).split() == [found.reading.want]


def test_a_least_value_of_the_present_number_or_less_lowers_nothing(machine: Machine) -> None:
    machine.put("/proc/sys/vm/max_map_count", "65530\n")
    for least in (1024, 65530):
        found = row(machine, "vm.max_map_count", {"at_least": least})
        assert (found.status, found.reading.lowers, found.reading.want) == (Status.OK, "", "65530")


# -- undo ----------------------------------------------------------------------------------


@cases.table
def test_undo_brings_the_ruling_value_back(
    machine: Machine, present: dict[str, str], key: str, undo: dict[str, str]
) -> None:
    for path, text in present.items():
        machine.put(f"/proc/sys/{path}", f"{text}\n")
    found = reading(machine, key, "4096 131072 16777216" if key.endswith("tcp_rmem") else 1)
    assert found.parts[0].undo == tuple(Write(f"/proc/sys/{path}", text) for path, text in undo.items())


def share(node: int, size: str = "2048kB") -> str:
    return f"/sys/devices/system/node/node{node}/hugepages/hugepages-{size}/nr_hugepages"


def numa(machine: Machine, *pages: int) -> None:
    """As many NUMA nodes as numbers of pages; 20000000 kB free in each."""
    for node, number in enumerate(pages):
        machine.put(share(node), f"{number}\n")
        machine.put(share(node, "1048576kB"), "0\n")
        machine.put(
            f"/sys/devices/system/node/node{node}/meminfo",
            f"Node {node} MemTotal:  32768000 kB\nNode {node} MemFree:   20000000 kB\n",
        )
    machine.put("/proc/sys/vm/nr_hugepages", f"{sum(pages)}\n")


def test_undo_of_a_pool_over_two_nodes_is_per_node(machine: Machine) -> None:
    """A write to the total would spread an uneven pool evenly."""
    numa(machine, 100, 300)
    found = reading(machine, "vm.nr_hugepages", 0)
    assert found.runtime.text == "400"
    assert found.parts[0].undo == (Write(share(0), "100"), Write(share(1), "300"))
    assert found.parts[0].partial
    assert found.native


def test_undo_of_a_pool_on_one_node_is_the_total(machine: Machine) -> None:
    numa(machine, 100)
    (file,) = reading(machine, "vm.nr_hugepages", 0).parts
    assert file.undo == (Write("/proc/sys/vm/nr_hugepages", "100"),)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("vm.nr_hugepages@node1", share(1)),
        ("vm.nr_hugepages@node1/2048kB", share(1)),
        ("vm.nr_hugepages@node1/1048576kB", share(1, "1048576kB")),
    ],
)
def test_a_share_of_one_node_is_left_to_the_agent(machine: Machine, key: str, path: str) -> None:
    numa(machine, 0, 0)
    found = reading(machine, key, 4, agent=True)
    assert found.path == path
    assert found.parts[0].undo == (Write(path, "0"),)
    assert found.parts[0].partial
    assert not found.native
    assert (found.boot.value.text, found.boot.source) == ("4", AGENT_UNIT)


# -- modules -------------------------------------------------------------------------------


def test_a_congestion_control_in_a_module_loads_it_now_and_at_boot(machine: Machine) -> None:
    found = reading(machine, CONGESTION, "bbr")
    assert found.offered == ("reno", "cubic")
    assert (found.load, found.modules, found.blocked) == (("tcp_bbr",), ("tcp_bbr",), "")


def test_a_module_that_is_loaded_is_still_needed_at_boot(machine: Machine) -> None:
    machine.run(["modprobe", "--", "tcp_bbr"])
    machine.run(["modprobe", "--", "sch_fq"])
    for key, value, module in ((CONGESTION, "bbr", "tcp_bbr"), (QDISC, "fq", "sch_fq")):
        found = reading(machine, key, value)
        assert (found.load, found.modules) == ((), (module,))


def test_what_is_built_in_needs_no_module(machine: Machine) -> None:
    machine.put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n")
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "")
    for key, value in ((CONGESTION, "bbr"), (QDISC, "fq")):
        found = reading(machine, key, value)
        assert (found.load, found.modules, found.blocked) == ((), (), "")


def test_a_queueing_discipline_in_a_module_is_loaded(machine: Machine) -> None:
    assert reading(machine, QDISC, "fq").load == ("sch_fq",)


@pytest.mark.parametrize("listing", ["", "kernel/net/ipv4/tcp_bbr2.ko:\n", None])
def test_a_congestion_control_that_nothing_has_is_not_written(machine: Machine, listing: str | None) -> None:
    path = f"/lib/modules/{RELEASE}/modules.dep"
    if listing is None:
        machine.remove(path)  # a container without the host's modules
    else:
        machine.put(path, listing)
    assert reading(machine, CONGESTION, "bbr").parts[0].answer == (
        f"bbr is not offered by this kernel (reno, cubic), and /lib/modules/{RELEASE} has no module tcp_bbr"
    )


def test_a_kernel_without_a_list_says_so(machine: Machine) -> None:
    machine.remove("/proc/sys/net/ipv4/tcp_available_congestion_control")
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "")
    assert "not offered by this kernel (no list)" in reading(machine, CONGESTION, "bbr").parts[0].answer


@cases.table
def test_a_module_is_known_by_its_name_in_any_spelling(machine: Machine, entry: str) -> None:
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", f"kernel/a.ko:\n{entry}\n")
    assert reading(machine, CONGESTION, "bbr").load == ("tcp_bbr",)


# -- boot files ----------------------------------------------------------------------------


def test_exact_values_become_lines_and_modules_a_list(machine: Machine) -> None:
    found = files(
        machine,
        {
            "vm.swappiness": 1,
            "vm.dirty_bytes": "auto",
            CONGESTION: "bbr",
            QDISC: "fq",
            "net.ipv4.conf.eth0/100.rp_filter": 2,
        },
    )
    assert settings_in(found[DROP_IN]) == [
        "vm.swappiness = 1",
        f"{CONGESTION} = bbr",
        f"{QDISC} = fq",
        "net.ipv4.conf.eth0/100.rp_filter = 2",
    ]
    assert settings_in(found[MODULES]) == ["sch_fq", "tcp_bbr"]


def test_where_nothing_is_to_be_said_no_file_is_wanted(machine: Machine) -> None:
    assert files(machine, {"vm.max_map_count": {"at_least": 65530}}) == {DROP_IN: None, MODULES: None}
    assert files(machine, {}) == {DROP_IN: None, MODULES: None}


@cases.table
def test_a_floor_has_a_line_where_a_file_or_the_kernel_sets_less(
    machine: Machine, foreign: str, lines: list[str]
) -> None:
    """Where they set as much, a fixed line would lower a default that grows with memory."""
    machine.put("/etc/sysctl.d/50-vendor.conf", foreign)
    # What an earlier run wrote is not foreign.
    machine.put(DROP_IN, "vm.max_map_count = 1048576\n")
    found = files(machine, {"vm.max_map_count": {"at_least": 1048576}})[DROP_IN]
    assert (settings_in(found) if found else []) == lines


@cases.table
def test_what_another_file_has_more_of_is_kept_by_the_agent(
    machine: Machine, key: str, value: Any, foreign: str, want: str
) -> None:
    """A line would hold what was not declared, and hide what the other file says later."""
    machine.put("/etc/sysctl.d/50-vendor.conf", f"{key} = {foreign}\n")
    assert files(machine, {key: value})[DROP_IN] is None
    boot = reading(machine, key, value, agent=True).boot
    assert (boot.value.text, boot.source) == (want, AGENT_UNIT)


@cases.table
def test_without_a_file_what_the_node_had_before_us_decides(
    machine: Machine, origin: str | None, runtime: str, lines: list[str]
) -> None:
    path = "/proc/sys/vm/max_map_count"
    machine.put(path, f"{runtime}\n")
    origins = {} if origin is None else {path: origin}
    found = files(machine, {"vm.max_map_count": {"at_least": 1048576}}, origins=origins)[DROP_IN]
    assert (settings_in(found) if found else []) == lines


def test_a_file_comes_before_what_the_node_had(machine: Machine) -> None:
    machine.put("/etc/sysctl.d/50-vendor.conf", "vm.max_map_count = 5\n")
    origins = {"/proc/sys/vm/max_map_count": "2000000"}
    found = files(machine, {"vm.max_map_count": {"at_least": 1048576}}, origins=origins)[DROP_IN]
    assert settings_in(found) == ["vm.max_map_count = 1048576"]


def test_a_floor_adds_to_a_list_that_was_there_before_us(machine: Machine) -> None:
    key, path = "net.ipv4.ip_local_reserved_ports", "/proc/sys/net/ipv4/ip_local_reserved_ports"
    machine.put(path, "8080,9000,29500\n")  # 9000 came by hand, and is not ours to keep
    settings, origins = {key: {"at_least": "29500-29501"}}, {path: "8080"}
    assert files(machine, settings, origins=origins)[DROP_IN] is None
    boot = reading(machine, key, settings[key], origins=origins, agent=True).boot
    assert (boot.value.text, boot.source) == ("8080,29500-29501", AGENT_UNIT)


def test_a_buffer_that_needs_more_than_the_cap_is_clamped_and_no_drift(machine: Machine) -> None:
    spec = {"settings": {"net.core.rmem_max": "auto"}, "sizing": {"rtt_us": 20000}}
    request = engine.Request("default", sysctl, spec, (Layer.RUNTIME,))
    (before,) = engine.evaluate(machine, request).rows
    assert before.status is Status.DRIFTED
    (after,) = door.apply(machine, request).rows
    assert after.status is Status.CLAMPED
    assert "1073741824 bytes" in after.reason
    assert "is 134217728" in after.reason
    machine.forget()
    assert engine.evaluate(machine, request).rows[0].status is Status.CLAMPED
    # More than the cap is kept, as it is never lowered, and then no cap decides.
    machine.put("/proc/sys/net/core/rmem_max", "268435456\n")
    machine.forget()
    (kept,) = engine.evaluate(machine, request).rows
    assert (kept.status, kept.reading.want) == (Status.OK, "268435456")


def test_only_what_can_work_is_kept(machine: Machine) -> None:
    machine.unreadable["/proc/sys/vm/zone_reclaim_mode"] = errno.EIO
    machine.read_only["/proc/sys/vm/swappiness"] = "read-only file system"
    machine.put(DEBUG, "500000\n")
    numa(machine, 0, 0)
    found = files(
        machine,
        {
            "vm.no_such_key": 1,  # comes with a module, perhaps
            "vm.no_such_limit": {"at_least": 1},  # but nobody knows what it would raise
            "vm.zone_reclaim_mode": 0,  # unknown this once, which takes no line away
            "vm.overcommit_memory": 2,  # refused
            "vm.swappiness": 1,  # not to be written here, and declared for the next boot all the same
            "net.ipv4.tcp_rmem": {"at_least": "1 2"},  # invalid
            MIGRATION_COST: 5000000,  # not in /proc/sys here
            "vm.nr_hugepages@node1": 1,  # nor is this
            "vm.nr_hugepages@node7": 1,  # nor is this, and it is absent
            "kernel.numa_balancing": 0,
        },
    )
    assert settings_in(found[DROP_IN]) == [
        "vm.no_such_key = 1",
        "vm.zone_reclaim_mode = 0",
        "vm.swappiness = 1",
        "kernel.numa_balancing = 0",
    ]


def test_what_cannot_be_written_but_is_right_keeps_its_line(machine: Machine) -> None:
    machine.read_only["/proc/sys/vm/swappiness"] = "read-only file system"
    assert settings_in(files(machine, {"vm.swappiness": 60})[DROP_IN]) == ["vm.swappiness = 60"]


def test_an_interface_that_is_gone_for_a_while_keeps_its_line(machine: Machine) -> None:
    """udev reads the line again when the interface comes."""
    folder = "/proc/sys/net/ipv4/conf/eth0.100"
    machine.put(f"{folder}/rp_filter", "0\n")
    spec = {"settings": {"net.ipv4.conf.eth0/100.rp_filter": 2}}
    door.apply(machine, engine.Request("default", sysctl, spec))
    before = machine.read(DROP_IN)
    assert settings_in(before) == ["net.ipv4.conf.eth0/100.rp_filter = 2"]

    shutil.rmtree(machine.root + folder)
    (found,) = whole_node.apply_all(machine).rows
    assert found.row.status.value == "unsupported"
    assert machine.read(DROP_IN) == before

    machine.put(f"{folder}/rp_filter", "2\n")
    (found,) = whole_node.apply_all(machine).rows
    assert (found.row.status.value, machine.read(DROP_IN)) == ("ok", before)


def test_a_boot_only_run_writes_what_needs_no_hardware(machine: Machine) -> None:
    found = files(
        machine, {"vm.swappiness": 1, "vm.dirty_bytes": "auto", "vm.nr_hugepages@node0": 1}, layers=BOOT_ONLY
    )
    assert settings_in(found[DROP_IN]) == ["vm.swappiness = 1"]


# -- boot states ---------------------------------------------------------------------------


@cases.table
def test_who_decides_at_boot(
    machine: Machine, name: str, text: str, value: str | None, foreign: bool
) -> None:
    machine.put(f"/etc/sysctl.d/{name}", f"# head\n{text}\n")
    boot = reading(machine, "vm.swappiness", 1).boot
    assert boot.value.text == value
    assert boot.foreign is foreign
    assert boot.source == f"/etc/sysctl.d/{name}:2"
    if value is None:
        assert boot.value.absent == f"/etc/sysctl.d/{name}:2 excludes it"


def test_our_line_beats_a_later_glob_once_it_is_written(machine: Machine) -> None:
    machine.put(DROP_IN, "vm.swappiness = 1\n")
    machine.put("/etc/sysctl.d/zzz.conf", "vm.swap* = 60\n")
    assert reading(machine, "vm.swappiness", 1).boot.source == f"{DROP_IN}:1"


def test_an_override_is_drift_of_the_boot_layer_with_file_and_line(machine: Machine) -> None:
    machine.put("/proc/sys/vm/swappiness", "1\n")
    machine.put(DROP_IN, "vm.swappiness = 1\n")
    machine.put("/run/sysctl.d/zzz-late.conf", "\nvm.swappiness = 10\n")
    found = row(machine, "vm.swappiness", 1)
    assert found.status.value == "overridden"
    assert found.reason == "boot: /run/sysctl.d/zzz-late.conf:2 sets 10"


@cases.table
def test_a_later_line_that_the_kernel_takes_is_seen(
    machine: Machine, key: str, present: str, text: str, reason: str
) -> None:
    machine.put("/proc/sys/" + key.replace(".", "/"), f"{present}\n")
    machine.put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n")
    machine.put(DROP_IN, f"{key} = {present}\n")
    machine.put("/etc/sysctl.d/zzz.conf", f"{key} = {text}\n")
    found = row(machine, key, present)
    assert (found.status.value, found.reason) == ("overridden", reason.format("/etc/sysctl.d/zzz.conf:1"))


@cases.table
def test_a_line_whose_effect_is_not_known_is_not_harmless(
    machine: Machine, key: str, present: str, text: str, why: str
) -> None:
    machine.put("/proc/sys/" + key.replace(".", "/"), f"{present}\n")
    machine.put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n")
    machine.put(DROP_IN, f"{key} = {present}\n")
    assert row(machine, key, present).status.value == "ok"
    machine.put("/etc/sysctl.d/zzz.conf", f"{key} = {text}\n")
    found = row(machine, key, present)
    assert found.status.value == "unknown"
    assert found.reason == f"boot: /etc/sysctl.d/zzz.conf:1 sets {text!r}, whose effect is unknown: {why}"
    if present.isdigit():  # also for a floor that the present value reaches
        assert row(machine, key, {"at_least": int(present)}).status.value == "unknown"


def test_a_glob_that_the_kernel_refuses_leaves_what_an_earlier_one_sets(machine: Machine) -> None:
    machine.put("/etc/sysctl.d/50-a.conf", "vm.swap* = 30\n")
    machine.put("/etc/sysctl.d/60-b.conf", "vm.swappines? = 201\n")
    boot = reading(machine, "vm.swappiness", 60).boot
    assert (boot.value.text, boot.source) == ("30", "/etc/sysctl.d/50-a.conf:1")


def test_a_floor_is_compared_with_what_the_kernel_reads_of_a_file(machine: Machine) -> None:
    """10000 in octal is less than the floor, and y sets nothing."""
    machine.put("/etc/sysctl.d/50-vendor.conf", "vm.max_map_count = 0100000\nfs.file-max = y\n")
    spec = {"vm.max_map_count": {"at_least": 65530}, "fs.file-max": {"at_least": 1000}}
    assert settings_in(files(machine, spec)[DROP_IN]) == ["vm.max_map_count = 65530"]


@cases.table
def test_a_line_for_the_other_half_of_a_family_counts(
    machine: Machine, name: str, text: str, value: str, foreign: bool
) -> None:
    machine.put(DROP_IN, "vm.dirty_bytes = 4096000\n")
    machine.put(f"/etc/sysctl.d/{name}", f"{text}\n")
    boot = reading(machine, "vm.dirty_bytes", 4096000).boot
    assert boot.value.text == value
    assert boot.foreign is foreign
    source = f"/etc/sysctl.d/{name}:1 (vm.dirty_ratio)" if value == "0" else f"{DROP_IN}:1"
    assert boot.source == source


def test_the_other_half_alone_means_that_nothing_of_ours_is_written_yet(machine: Machine) -> None:
    machine.put("/etc/sysctl.d/50-vendor.conf", "vm.dirty_ratio = 20\n")
    boot = reading(machine, "vm.dirty_bytes", 4096000).boot
    source = "/etc/sysctl.d/50-vendor.conf:1 (vm.dirty_ratio)"
    assert (boot.value.text, boot.source, boot.foreign) == ("0", source, False)


def test_the_same_bytes_again_do_not_move_behind_the_ratio(machine: Machine) -> None:
    """systemd leaves a repeated value at its first place, so that the ratio between has the last word."""
    machine.put("/etc/sysctl.d/10-a.conf", "vm.dirty_bytes = 4096000\n")
    machine.put("/etc/sysctl.d/20-b.conf", "vm.dirty_ratio = 20\n")
    machine.put(DROP_IN, "vm.dirty_bytes = 4096000\n")
    boot = reading(machine, "vm.dirty_bytes", 4096000).boot
    assert (boot.value.text, boot.source) == ("0", "/etc/sysctl.d/20-b.conf:1 (vm.dirty_ratio)")


def test_an_exact_value_that_no_file_sets_is_gone_after_a_boot(machine: Machine) -> None:
    machine.put("/proc/sys/vm/swappiness", "1\n")
    for agent in (False, True):  # the agent is no excuse: the drop-in is how it is done
        found = row(machine, "vm.swappiness", 1, agent=agent)
        assert found.status.value == "drifted"
        assert "no file in sysctl.d sets it: the kernel's default comes back" in found.reason


@pytest.mark.parametrize("agent", [False, True])
def test_a_floor_above_the_default_needs_a_line_and_no_agent(machine: Machine, agent: bool) -> None:
    settings = {"vm.max_map_count": {"at_least": 1048576}}
    machine.put("/proc/sys/vm/max_map_count", "1048576\n")
    origins = {"/proc/sys/vm/max_map_count": "65530"}
    (found,), _context = read_rows(machine, settings, agent=agent, origins=origins)
    assert found.status.value == "drifted"
    assert "no file in sysctl.d sets it: the kernel's default comes back" in found.reason
    machine.put(DROP_IN, files(machine, settings, origins=origins)[DROP_IN] or "")
    (found,), _context = read_rows(machine, settings, agent=agent, origins=origins)
    assert (found.status.value, found.reading.boot.source) == ("ok", f"{DROP_IN}:3")
    assert found.reading.boot.value.text == "1048576"


@cases.table
def test_a_setting_outside_of_proc_sys_is_brought_back_by_the_agent(
    machine: Machine, agent: bool, declared: bool, value: str | None, words: str
) -> None:
    machine.put(DEBUG, "500000\n")
    boot = reading(machine, MIGRATION_COST, 5000000, agent=agent, declared=declared).boot
    assert boot.value.text == value
    assert words in (boot.source or boot.value.problem)


@pytest.mark.parametrize("lines", ["", "-fs.file-max\n"])
def test_a_default_above_the_floor_needs_nobody(machine: Machine, lines: str) -> None:
    machine.put("/etc/sysctl.d/50-vendor.conf", lines)
    found = row(machine, "fs.file-max", {"at_least": 2097152})
    assert (found.reading.boot.value.text, found.reading.boot.source) == (
        "9223372036854775807",
        "no file sets it",
    )
    assert found.status.value == "ok"
    assert files(machine, {"fs.file-max": {"at_least": 2097152}})[DROP_IN] is None


def test_what_the_node_had_before_us_is_shown_and_not_what_it_has(machine: Machine) -> None:
    path = "/proc/sys/vm/max_map_count"
    machine.put(path, "3000000\n")
    origins = {path: "2000000"}
    (found,), _context = read_rows(machine, {"vm.max_map_count": {"at_least": 1048576}}, origins=origins)
    assert (found.reading.boot.value.text, found.reading.boot.source) == ("2000000", "no file sets it")
    assert found.status.value == "ok"


def test_an_unreadable_boot_file_leaves_the_boot_layer_unknown(machine: Machine) -> None:
    machine.put("/proc/sys/vm/swappiness", "1\n")
    machine.put(DROP_IN, "vm.swappiness = 1\n")
    machine.put("/etc/sysctl.d/zzz.conf", "")
    machine.unreadable["/etc/sysctl.d/zzz.conf"] = errno.EIO
    found = row(machine, "vm.swappiness", 1)
    assert found.status.value == "unknown"
    assert "/etc/sysctl.d/zzz.conf" in found.reason


def test_a_setting_outside_of_proc_sys_takes_no_word_from_sysctl_d(machine: Machine) -> None:
    machine.put(DEBUG, "5000000\n")
    machine.put("/etc/sysctl.d/zzz.conf", f"{MIGRATION_COST} = 1\n")
    assert reading(machine, MIGRATION_COST, 5000000, agent=True).boot.source == AGENT_UNIT


# -- an image build ------------------------------------------------------------------------


def test_a_boot_only_run_looks_at_no_hardware(tmp_path: Any) -> None:
    machine = BuildHost(str(tmp_path))
    machine.put("/etc/sysctl.d/50-vendor.conf", "vm.swappiness = 60\n")
    declared = {
        "vm.swappiness": 1,
        "vm.min_free_kbytes": "auto",
        "vm.dirty_bytes": "auto",
        "net.core.rmem_max": "auto",
        "vm.max_map_count": {"at_least": 1048576},
        "vm.nr_hugepages@node0": {"for_bytes": 1 << 30},
        MIGRATION_COST: 5000000,
        CONGESTION: "bbr",
        QDISC: "fq",
    }
    rows, context = read_rows(machine, declared, layers=BOOT_ONLY, agent=True)
    boot = {item.setting.key: item.reading.boot for item in rows}
    assert boot["vm.swappiness"].source == "/etc/sysctl.d/50-vendor.conf:1"
    # The hardware that boots the image decides, so the word itself is what is kept.
    assert (boot["vm.min_free_kbytes"].value.text, boot["vm.min_free_kbytes"].source) == ("auto", AGENT_UNIT)
    assert boot["vm.nr_hugepages@node0"].value.text == "auto for 1073741824 bytes"
    assert all(item.reading.runtime.text is None and not item.reading.parts for item in rows)
    # Nothing is known of this limit: a line could lower what the hardware starts with.
    assert (boot["vm.max_map_count"].value.text, boot["vm.max_map_count"].source) == ("1048576", AGENT_UNIT)
    found = sysctl.boot_files("default", rows, context)
    assert [file.path for file in found] == [DROP_IN, MODULES]
    assert found[0].content is not None
    assert settings_in(found[0].content.decode()) == [
        "vm.swappiness = 1",
        f"{MIGRATION_COST} = 5000000",
        f"{CONGESTION} = bbr",
        f"{QDISC} = fq",
    ]


def test_an_image_build_raises_what_a_file_sets_too_low(tmp_path: Any) -> None:
    machine = BuildHost(str(tmp_path))
    machine.put("/etc/sysctl.d/50-vendor.conf", "vm.max_map_count = 65530\n")
    found = files(machine, {"vm.max_map_count": {"at_least": 1048576}}, layers=BOOT_ONLY)[DROP_IN]
    assert settings_in(found) == ["vm.max_map_count = 1048576"]


@pytest.mark.parametrize(("agent", "words"), [(True, AGENT_UNIT), (False, f"{AGENT_UNIT} is not enabled")])
def test_an_image_build_leaves_an_unknown_limit_to_the_agent(tmp_path: Any, agent: bool, words: str) -> None:
    machine = BuildHost(str(tmp_path))
    settings = {"vm.max_map_count": {"at_least": 1048576}}
    (found,), _context = read_rows(machine, settings, layers=BOOT_ONLY, agent=agent)
    assert found.status.value == ("ok" if agent else "drifted")
    assert words in (found.reading.boot.source or found.reason)
    assert files(machine, settings, layers=BOOT_ONLY, agent=agent)[DROP_IN] is None


def test_the_build_host_of_the_test_above_does_notice() -> None:
    with pytest.raises(AssertionError, match="looked at /proc"):
        Facts(BuildHost("/nonexistent")).memory_kbytes()


# -- what is said about a key --------------------------------------------------------------


def test_mentions_are_all_lines_in_the_order_in_which_they_count(machine: Machine) -> None:
    machine.put("/etc/sysctl.d/zzz.conf", "net.ipv4.conf.all.rp_filter = 1\n")
    assert sysctl.boot_sources("net.ipv4.conf.all.rp_filter", machine) == [
        "/usr/lib/sysctl.d/50-default.conf:2: net.ipv4.conf.*.rp_filter = 2",
        "/etc/sysctl.d/zzz.conf:1: net.ipv4.conf.all.rp_filter = 1",
    ]
    assert sysctl.boot_sources("vm.swappiness", machine) == []


@cases.table
def test_rivals_are_the_keys_that_a_write_would_change(key: str, others: tuple[str, ...]) -> None:
    every = ["vm.dirty_bytes", "vm.dirty_ratio", "vm.overcommit_kbytes", "vm.nr_hugepages", "vm.laptop_mode"]
    assert tuple(other for other in every if sysctl.conflicts(key, other)) == others
