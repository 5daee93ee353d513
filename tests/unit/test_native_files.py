# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that other systems read hold nothing that was computed for one machine in one boot: a crash kernel,
an initramfs, an image and a boot with other memory read them as well."""

from __future__ import annotations

import pathlib
import re
import tempfile
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plans import Installed
from hypothesis import given, settings
from hypothesis import strategies as st
from mlnode.agent.registry import KINDS
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.steps import FileWrite
from mlnode.host.host import Host
from mlnode.linux import sysctl_d

#: Mlnode's own, and NCCL's, which the agent of each boot writes for the devices that it finds
_OF_THE_AGENT = ("/etc/mlnode/", "/etc/nccl.conf")

SIZING = {"hosts": 1024, "rails": 8}
PROFILES = ("training", "inference", "fabric")


def areas(name: str) -> dict[str, Any]:
    """A profile, with a pool of huge pages, of a kind that none of them has."""
    found = profile.combined(name, {}).areas
    sysctl = {**found["sysctl"], "settings": {**found["sysctl"]["settings"]}}
    sysctl["settings"]["vm.nr_hugepages"] = {"for_bytes": 1 << 33}
    return {**found, "sysctl": {**sysctl, "sizing": {**sysctl.get("sizing", {}), **SIZING}}}


def files(host: Host, spec: dict[str, Any]) -> dict[str, bytes | None]:
    """The files of others that a run would write."""
    plans = [
        engine.evaluate(host, Request("t", kind, kind.checked(spec[area])))
        for area, kind in KINDS.items()
        if area in spec
    ]
    return {
        step.path: step.content
        for plan in plans
        for step in plan.steps
        if isinstance(step, FileWrite) and not step.path.startswith(_OF_THE_AGENT)
    }


@pytest.mark.parametrize("name", PROFILES)
@settings(max_examples=3 * EFFORT)
@given(
    memory=st.integers(1 << 21, 1 << 33),
    page=st.sampled_from([2048, 32768, 524288, 1048576]),
    speed=st.sampled_from([-1, 1000, 100000, 800000]),
    least=st.integers(0, 1 << 30),
)
def test_files_are_the_same_on_a_machine_of_another_size(
    name: str, memory: int, page: int, speed: int, least: int
) -> None:
    """least: what a kernel of that size starts with, in the files whose default grows with memory."""
    found = []
    for number in range(2):
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine.debian(folder)
            machine.put("/proc/sys/net/core/wmem_max", "212992\n")
            machine.put("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n")
            if number:
                rows = f"MemTotal: {memory} kB\nMemAvailable: {memory} kB\nHugepagesize: {page} kB\n"
                machine.put("/proc/meminfo", rows)
                machine.put("/sys/class/net/eth0/speed", f"{speed}\n")
                machine.put("/proc/sys/vm/min_free_kbytes", f"{least}\n")
                machine.put("/proc/sys/net/ipv4/tcp_wmem", f"4096\t16384\t{least}\n")
            found.append(files(machine, areas(name)))
    assert found[0] == found[1]


@cases.table
def test_every_line_of_a_profile_on_each_machine_is_a_declared_one(
    hardware: str, name: str, tmp_path: pathlib.Path
) -> None:
    host = Installed(hardware, tmp_path)
    spec = areas(name)["sysctl"]
    declared = {key: value["at_least"] if isinstance(value, dict) and "at_least" in value else value
                for key, value in spec["settings"].items()}  # fmt: skip
    content = files(host, {"sysctl": spec}).get("/etc/sysctl.d/zz-mlnode-t.conf") or b""
    for line in sysctl_d.parse(content.decode(), ""):
        assert line.value == str(declared[sysctl_d.dotted(line.key)]), line.text
    assert not re.search(rb"declared: auto|min_free|dirty|mem_max|nr_hugepages", content)
