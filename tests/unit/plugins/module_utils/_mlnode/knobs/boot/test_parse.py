# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases, door
from mlnode.knobs.boot import parse as boot_parse


def declared(spec: dict[str, Any]) -> list[tuple[str, Any, str]]:
    return [(setting.key, setting.want, setting.claim) for setting in door.parse("boot", spec)]


def test_parameters_in_all_their_forms() -> None:
    spec = {
        "parameters": {
            "transparent_hugepage": "madvise",
            "intel_idle.max_cstate": 1,
            "nosmt": "",
            "console": ["tty0", "ttyS0,115200n8"],
            "nohz-full": "2-3",
            "crashkernel": "1G-4G:192M,4G-64G:256M",
            "acpi_osi": "!Windows",
            "rcu_nocbs": "",
            "panic": -1,
            "numa_balancing": None,
        },
        "absent": ["quiet", "mce-x"],
        "allow": ["housekeeping"],
    }
    assert declared(spec) == [
        ("boot.transparent_hugepage", "transparent_hugepage=madvise", "transparent_hugepage=madvise"),
        ("boot.intel_idle.max_cstate", "intel_idle.max_cstate=1", "intel_idle.max_cstate=1"),
        ("boot.nosmt", "nosmt", "nosmt"),
        ("boot.console", "console=tty0 console=ttyS0,115200n8", "console=tty0 console=ttyS0,115200n8"),
        ("boot.nohz_full", "nohz-full=2-3", "nohz-full=2-3"),
        ("boot.crashkernel", "crashkernel=1G-4G:192M,4G-64G:256M", "crashkernel=1G-4G:192M,4G-64G:256M"),
        ("boot.acpi_osi", "acpi_osi=!Windows", "acpi_osi=!Windows"),
        ("boot.rcu_nocbs", "rcu_nocbs", "rcu_nocbs"),
        ("boot.panic", "panic=-1", "panic=-1"),
        ("boot.quiet", "absent", "absent"),
        ("boot.mce_x", "absent", "absent"),
    ]


def test_a_name_stays_as_it_was_spelled() -> None:
    spec = {"parameters": {"nohz-full": "2", "nosmt": ""}, "absent": ["a-b"], "isolate": None}
    assert [boot_parse.name_of(setting) for setting in door.parse("boot", spec)] == [
        "nohz-full",
        "nosmt",
        "a_b",
    ]


def test_isolation_is_one_list_in_four_parameters() -> None:
    assert declared({"isolate": {"cpus": "34-63,2-31"}}) == [
        ("boot.isolcpus", *["isolcpus=managed_irq,domain,2-31,34-63"] * 2),
        ("boot.nohz_full", *["nohz_full=2-31,34-63"] * 2),
        ("boot.rcu_nocbs", *["rcu_nocbs=2-31,34-63"] * 2),
        ("boot.irqaffinity", None, "all CPUs but 2-31,34-63"),
    ]


def test_the_list_is_exact() -> None:
    """2,10 is not 2-10."""
    assert declared({"isolate": {"cpus": "2,10"}})[0][1] == "isolcpus=managed_irq,domain,2,10"


@cases.table
def test_each_part_of_isolation_can_be_left_out(off: list[str], wants: list[Any]) -> None:
    spec = {"isolate": {"cpus": 3, "irqaffinity": None, **dict.fromkeys(off, False)}}
    assert [want for _key, want, _claim in declared(spec)] == wants


def test_the_longest_declaration_that_the_kernel_reads_is_taken() -> None:
    assert len(declared({"parameters": {"a": "x" * 2044}})[0][1]) == 2046
