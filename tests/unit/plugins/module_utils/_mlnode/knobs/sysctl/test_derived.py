# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers that are made for one machine in one boot: no file of the system has them, the agent sets them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import MENU, GrubMachine, menu
from ansible_collections.mlnode.tuning.tests.unit.machine import KERNEL, Machine
from mlnode.agent import node, registry
from mlnode.engine import engine, revert
from mlnode.engine.kind import AGENT_UNIT, Row
from mlnode.engine.steps import FileWrite
from mlnode.knobs.boot.kind import kind as boot
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import Layer, Status

DROP_IN = "/etc/sysctl.d/zz-mlnode-t.conf"
POOL = "/proc/sys/vm/nr_hugepages"
GIB = 1 << 30

#: The least `auto` and `for_bytes` of each formula, with the sizing that it needs
COMPUTED: dict[str, Any] = {
    "vm.min_free_kbytes": "auto",
    "vm.dirty_bytes": "auto",
    "vm.dirty_background_bytes": "auto",
    "vm.nr_hugepages": {"for_bytes": GIB},
    "net.core.rmem_max": "auto",
    "net.ipv4.tcp_rmem": "4096 131072 auto",
}
#: As the version before wrote them
OLD = """\
# Written by mlnode.tuning for the declaration t; edits are overwritten.
# Declared in /etc/mlnode/declared.d/t.json; see: mlnode explain KEY
vm.swappiness = 1
# declared: auto
vm.min_free_kbytes = 327680
# declared: auto for 1073741824 bytes
vm.nr_hugepages = 538
"""


@pytest.fixture
def tuned(machine: Machine) -> Machine:
    machine.enable_agent()
    machine.put(
        "/lib/systemd/system/systemd-sysctl.service", "[Service]\nExecStart=/lib/systemd/systemd-sysctl\n"
    )
    return machine


def request(settings: Mapping[str, Any], **more: Any) -> engine.Request:
    return engine.Request("t", sysctl, {"settings": {**settings}, **more})


def applied(machine: Machine, settings: Mapping[str, Any], **more: Any) -> dict[str, Row]:
    """The rows after a run, as a later look finds them."""
    door.apply(machine, request(settings, **more))
    machine.forget()
    return {row.setting.key: row for row in engine.evaluate(machine, request(settings, **more)).rows}


def test_no_file_has_a_computed_number_and_the_agent_brings_it(tuned: Machine) -> None:
    rows = applied(tuned, COMPUTED)
    assert not tuned.exists(DROP_IN)
    for key, row in rows.items():
        assert (row.status, row.reading.boot.source) == (Status.OK, AGENT_UNIT), key
        assert row.reading.boot.value.text == row.reading.runtime.text == row.reading.want, key


def test_literals_beside_them_keep_their_lines(tuned: Machine) -> None:
    applied(tuned, {**COMPUTED, "vm.swappiness": 1, "vm.max_map_count": {"at_least": 1048576}})
    lines = [line for line in tuned.now(DROP_IN).splitlines() if not line.startswith("#")]
    assert lines == ["vm.swappiness = 1", "vm.max_map_count = 1048576"]


def test_without_the_agent_nothing_brings_them_back(machine: Machine) -> None:
    row = applied(machine, {"vm.min_free_kbytes": "auto"})["vm.min_free_kbytes"]
    assert row.status is Status.DRIFTED
    assert f"nothing brings it back, as {AGENT_UNIT} is not enabled" in row.reason


@cases.table
def test_the_agent_raises_what_any_file_sets(tuned: Machine, line: str, value: str, source: str) -> None:
    """It comes after systemd-sysctl, whatever the name of the file."""
    tuned.put("/etc/sysctl.d/zzz.conf", f"{line}\n")
    row = applied(tuned, {"net.core.rmem_max": "auto"})["net.core.rmem_max"]
    assert (row.status, row.reading.boot.value.text, row.reading.boot.source) == (Status.OK, value, source)


def test_the_agent_replaces_what_a_file_sets_exactly(tuned: Machine) -> None:
    tuned.put("/etc/sysctl.d/zzz.conf", "vm.dirty_ratio = 20\nvm.dirty_bytes = 99999490048\n")
    row = applied(tuned, {"vm.dirty_bytes": "auto"})["vm.dirty_bytes"]
    assert (row.status, row.reading.boot.value.text, row.reading.boot.source) == (
        Status.OK,
        "14999879680",
        AGENT_UNIT,
    )


def test_a_boot_gets_the_number_of_its_own_memory(tuned: Machine) -> None:
    applied(tuned, COMPUTED)
    # The node comes up with a quarter of its memory: a failed riser, or a smaller instance of the image.
    tuned.put("/proc/meminfo", KERNEL["/proc/meminfo"].replace("65536000", "16384000") + "\n")
    for path in ("/proc/sys/vm/min_free_kbytes", "/proc/sys/vm/dirty_bytes", POOL):
        tuned.put(path, f"{KERNEL[path]}\n")
    tuned.forget()
    assert node.apply_all(tuned).compliant
    assert tuned.now("/proc/sys/vm/min_free_kbytes") == "81920"
    assert tuned.now("/proc/sys/vm/dirty_bytes") == str(16384000 * 1024 * 2 // 5 >> 20 << 20)


def test_a_link_that_comes_up_after_the_boot_service_gets_its_buffers(tuned: Machine) -> None:
    settings, sizing = {"net.core.rmem_max": "auto"}, {"rtt_us": 20000}
    applied(tuned, settings, sizing=sizing)
    assert tuned.now("/proc/sys/net/core/rmem_max") == "134217728"
    tuned.put("/proc/sys/net/core/rmem_max", "212992\n")
    tuned.put("/sys/class/net/eth0/operstate", "down\n")
    tuned.forget()
    node.apply_all(tuned)
    assert tuned.now("/proc/sys/net/core/rmem_max") == "16777216"
    tuned.put("/sys/class/net/eth0/operstate", "up\n")
    node.apply_all(tuned, registry.WITH_LINKS)
    assert tuned.now("/proc/sys/net/core/rmem_max") == "134217728"


def test_a_value_raised_by_hand_is_not_what_a_boot_brings(tuned: Machine) -> None:
    applied(tuned, {"net.core.rmem_max": "auto"})
    tuned.put("/proc/sys/net/core/rmem_max", "999999999\n")
    tuned.forget()
    (row,) = engine.evaluate(tuned, request({"net.core.rmem_max": "auto"})).rows
    assert (row.status, row.reading.runtime.text, row.reading.boot.value.text) == (
        Status.OK,
        "999999999",
        "16777216",
    )


# -- nodes of the version before -----------------------------------------------------------


@pytest.mark.parametrize("literal", [{"vm.swappiness": 1}, {}])
@pytest.mark.parametrize("whole", [False, True])
def test_the_next_run_takes_the_numbers_out_of_the_file_and_a_revert_is_whole(
    tuned: Machine, literal: dict[str, Any], whole: bool
) -> None:
    settings = {**literal, "vm.min_free_kbytes": "auto", "vm.nr_hugepages": {"for_bytes": GIB}}
    before = tuned.tuned()
    # The version before has written this file, which its origin knows as absent.
    applied(tuned, {"vm.swappiness": 1, **settings})
    tuned.put(DROP_IN, OLD)
    tuned.forget()

    if whole:
        assert node.apply_all(tuned).compliant
    rows = applied(tuned, settings)

    lines = tuned.now(DROP_IN).splitlines()[2:] if tuned.exists(DROP_IN) else []
    assert lines == (["vm.swappiness = 1"] if literal else [])
    assert {row.status for row in rows.values()} == {Status.OK}
    assert {rows[key].reading.boot.source for key in rows if key != "vm.swappiness"} == {AGENT_UNIT}
    assert tuned.now("/proc/sys/vm/min_free_kbytes") == "327680"
    assert not engine.evaluate(tuned, request(settings)).steps
    revert.revert(tuned)
    assert tuned.tuned() == before


def test_a_number_that_cannot_be_read_this_once_leaves_the_file_too(tuned: Machine) -> None:
    settings = {"vm.swappiness": 1, "vm.min_free_kbytes": "auto"}
    applied(tuned, settings)
    tuned.put(DROP_IN, OLD)
    tuned.unreadable["/proc/sys/vm/min_free_kbytes"] = 5
    door.apply(tuned, request(settings))
    assert "min_free" not in tuned.now(DROP_IN)


# -- huge pages ----------------------------------------------------------------------------


def with_menu(machine: Machine, words: str) -> None:
    machine.put(MENU, menu(words))
    machine.put("/usr/sbin/grub-mkconfig", "", 0o755)
    machine.put("/usr/sbin/update-grub", "", 0o755)


@pytest.mark.parametrize(
    ("words", "count", "said"),
    [
        ("quiet", "538", ""),
        ("default_hugepagesz=2M", "538", ""),
        ("default_hugepagesz=1G", "2", f"pages of 1048576 kB ({MENU}:16); the agent sets 2 of them"),
        ("default_hugepagesz=1048576k", "2", f"pages of 1048576 kB ({MENU}:16)"),
        ("default_hugepagesz=1G default_hugepagesz=2M", "2", "1048576 kB"),
        ("default_hugepagesz=32M", "34", "32768 kB"),
        ("default_hugepagesz=huge", f"auto for {GIB} bytes", "has default_hugepagesz=huge"),
    ],
)
def test_a_pool_is_counted_in_the_pages_of_the_next_boot(
    tuned: Machine, words: str, count: str, said: str
) -> None:
    with_menu(tuned, words)
    row = applied(tuned, {"vm.nr_hugepages": {"for_bytes": GIB}})["vm.nr_hugepages"]
    assert (row.status, row.reading.want, row.reading.runtime.text) == (Status.OK, "538", "538")
    assert (row.reading.boot.value.text, row.reading.boot.source) == (count, AGENT_UNIT)
    assert said in row.reason
    assert not tuned.exists(DROP_IN)


def test_the_boot_with_other_pages_is_as_it_was_said(tuned: Machine) -> None:
    with_menu(tuned, "default_hugepagesz=1G")
    applied(tuned, {"vm.nr_hugepages": {"for_bytes": GIB}})
    tuned.put("/proc/meminfo", KERNEL["/proc/meminfo"].replace("2048 kB", "1048576 kB") + "\n")
    tuned.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz default_hugepagesz=1G\n")
    tuned.put(POOL, "0\n")
    tuned.forget()
    assert node.apply_all(tuned).compliant
    assert tuned.now(POOL) == "2"
    # And back again: without the parameter the kernel has pages of a PMD.
    with_menu(tuned, "quiet")
    tuned.put("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n")
    tuned.forget()
    (row,) = engine.evaluate(tuned, request({"vm.nr_hugepages": {"for_bytes": GIB}})).rows
    assert (row.status, row.reading.boot.value.text) == (Status.OK, "538")


@cases.table
def test_a_number_of_pages_that_the_next_boot_takes_for_half_of_the_memory_is_in_no_file(
    tuned: Machine, words: str, number: int, allow: list[str], in_file: bool
) -> None:
    with_menu(tuned, words)
    settings = {"vm.nr_hugepages": number, "vm.swappiness": 1}
    plan = engine.evaluate(tuned, request(settings, allow=allow))
    written = {step.path: step.content for step in plan.steps if isinstance(step, FileWrite)}
    assert (f"vm.nr_hugepages = {number}".encode() in (written[DROP_IN] or b"")) is in_file
    row = applied(tuned, settings, allow=allow)["vm.nr_hugepages"]
    assert (f"vm.nr_hugepages = {number}" in tuned.now(DROP_IN)) is in_file
    assert row.status is (Status.OK if in_file else Status.DRIFTED)
    if words != "quiet":
        assert f"{number} of them are {number << 20} kB" in row.reason
    if words != "quiet" and not allow:
        assert "declare vm.nr_hugepages: {for_bytes: N}" in row.reason


@cases.table
def test_the_pages_that_the_same_run_declares_for_the_next_boot_count(
    tuned: Machine, parameters: dict[str, Any]
) -> None:
    """Its menu is regenerated last of all, and the reboot is what follows the run."""
    machine = GrubMachine.debian_with_grub(tuned.root)
    pool = request({"vm.nr_hugepages": 512, "vm.swappiness": 1})
    parameter = engine.Request("t", boot, {"parameters": parameters})
    outcomes = engine.apply_together(machine, lambda: [pool, parameter])
    assert machine.now(DROP_IN).splitlines()[2:] == ["vm.swappiness = 1"]
    (row,) = (row for row in outcomes.outcomes[0].rows if row.setting.key == "vm.nr_hugepages")
    assert "boot.default_hugepagesz" in row.reason


@pytest.mark.parametrize("parameters", [None, 5, [], {"default_hugepagesz": None}])
def test_a_damaged_declaration_of_the_command_line_says_nothing(tuned: Machine, parameters: Any) -> None:
    machine = GrubMachine.debian_with_grub(tuned.root)
    document = {"format": 1, "name": "other", "kinds": {"boot": {"parameters": parameters}}}
    machine.put("/etc/mlnode/declared.d/other.json", json.dumps(document))

    door.apply(machine, request({"vm.nr_hugepages": 512}))

    assert "vm.nr_hugepages = 512" in machine.now(DROP_IN)


def test_a_menu_that_cannot_be_read_leaves_the_number_to_that_boot(tuned: Machine) -> None:
    with_menu(tuned, "quiet")
    tuned.unreadable[MENU] = 5
    row = applied(tuned, {"vm.nr_hugepages": {"for_bytes": GIB}})["vm.nr_hugepages"]
    assert (row.status, row.reading.boot.value.text) == (Status.OK, f"auto for {GIB} bytes")
    assert "EIO" in row.reason


def test_an_image_has_none_of_them(tuned: Machine) -> None:
    door.apply(tuned, request({**COMPUTED, "vm.swappiness": 1})._replace(layers=(Layer.BOOT,)))
    assert [line for line in tuned.now(DROP_IN).splitlines() if line[0] != "#"] == ["vm.swappiness = 1"]
