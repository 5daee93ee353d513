# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.linux import tuned

HPC = "/usr/lib/tuned/hpc-compute/tuned.conf"
BASE = "/usr/lib/tuned/latency-performance/tuned.conf"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    node = Machine.debian(str(tmp_path / "node"))
    node.put("/etc/tuned/active_profile", "hpc-compute\n")
    node.put(HPC, "[main]\ninclude=latency-performance\n# [sysctl]\n[sysctl]\nvm.swappiness=5\n")
    node.put(
        BASE,
        "[sysctl]\nvm.swappiness = 10\nvm.dirty_ratio=10\n[vm]\ntransparent_hugepages=always\n"
        "[cpu]\ngovernor=performance\n",
    )
    return node


@cases.table
def test_the_line_that_sets_it(
    node: Machine, kind: str, key: str, line: tuple[str, str] | None
) -> None:  # fmt: skip
    found = tuned.sets(node, kind, key)
    assert (found and tuple(found)) == line


def test_a_profile_of_the_administrator_comes_first(node: Machine) -> None:
    node.put("/etc/tuned/hpc-compute/tuned.conf", "[sysctl]\nvm.swappiness=1\n")
    found = tuned.sets(node, "sysctl", "vm.swappiness")
    assert found is not None
    assert found.where == "/etc/tuned/hpc-compute/tuned.conf:2"


def test_profiles_that_include_each_other_end(node: Machine) -> None:
    node.put(BASE, "[main]\ninclude=hpc-compute\n")
    assert tuned.sets(node, "sysctl", "vm.swappiness") is not None


@pytest.mark.parametrize("name", ["", "../../etc", "missing"])
def test_no_profile_sets_nothing(node: Machine, name: str) -> None:
    node.put("/etc/tuned/active_profile", f"{name}\n")
    assert tuned.sets(node, "sysctl", "vm.swappiness") is None


def of_sysctl(node: Machine, text: str, base: str = "") -> dict[str, str | None]:
    node.put(HPC, text)
    node.put(BASE, base)
    return {line.key: line.value for line in tuned.sysctls(node)}


@cases.table
def test_units_as_tuned_merges_them(
    node: Machine, text: str, base: str, found: dict[str, str | None]
) -> None:
    assert of_sysctl(node, text, base) == found


def test_variables_of_a_file_count(node: Machine) -> None:
    node.put("/etc/tuned/site-variables.conf", "low = 5\n")
    text = "[variables]\ninclude=/etc/tuned/site-variables.conf\n[sysctl]\nvm.swappiness=${low}\n"
    assert of_sysctl(node, text) == {"vm/swappiness": "5"}
