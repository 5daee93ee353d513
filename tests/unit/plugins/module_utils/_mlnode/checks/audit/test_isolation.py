# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolation of CPUs that others need. Two NUMA nodes of 8 CPUs; a GPU on each, unless a case removes one."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build, machines
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from mlnode.checks.audit import isolation
from mlnode.checks.audit import run as audit
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.host.host import Host
from mlnode.topology import hardware

from .looking import CPU, NODES

#: The second GPU
SECOND = "/sys/devices/pci0000:1c/0000:1c:00.0"
#: NVIDIA/nodewright-packages, issue 95: 50,404 tokens/s with it, 148,344 without
PUBLISHED = "isolcpus=0,1,48,49"


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


@pytest.fixture
def large(folder: pathlib.Path) -> GpuMachine:
    machine = GpuMachine.of(str(folder / "node"), 2)
    for path, text in {
        **{f"{CPU}/{name}": "0-15" for name in ("online", "present", "possible")},
        f"{CPU}/isolated": "",
        f"{CPU}/nohz_full": "  (null)",
        f"{NODES}/online": "0-1",
        f"{NODES}/node0/cpulist": "0-7",
        f"{NODES}/node1/cpulist": "8-15",
        "/proc/cmdline": "root=/dev/vda1 ro",
        "/proc/sys/kernel/osrelease": "6.8.0",
        "/proc/uptime": "1000.00 9.00",
        f"{SECOND}/numa_node": "1",
        "/proc/1/status": "Name:\tsystemd\nPPid:\t0\nUid:\t0\t0\t0\t0",
        "/proc/interrupts": "".join(f"{f'CPU{cpu}':>11}" for cpu in range(16)),
    }.items():
        machine.put(path, f"{text}\n")
    return machine


def look(host: Host) -> list[Check]:
    host.forget()
    return [*checks(isolation.LOOKS, host, hardware.topology(host))]


def told(found: list[Check]) -> dict[str, str]:
    """Verdict of each check; its target is left out if it is the node."""
    return {
        f"{check.name} {check.target}".replace(" node", "", 1) if check.target == "node"
        else f"{check.name} {check.target}": str(check.verdict)
        for check in found
    }  # fmt: skip


@cases.table
def test_verdicts(
    large: GpuMachine, files: dict[str, str], verdicts: dict[str, str], words: list[str]
) -> None:
    """verdicts: all that are neither pass nor skip. words: in the evidence or the source of these."""
    for path, text in files.items():
        large.put(path, f"{text}\n")
    found = look(large)
    bad = [check for check in found if check.verdict not in (Verdict.PASS, Verdict.SKIP)]
    assert told(bad) == verdicts
    evidence = "\n".join(f"{check} {check.source}" for check in bad)
    assert [word for word in words if word not in evidence] == []
    assert all(check.advice for check in bad if check.verdict is not Verdict.UNKNOWN)


@pytest.mark.parametrize("words", ["nohz_full=0-15", "isolcpus=nohz,domain,0-7"])
def test_a_kernel_without_nohz_full_ignores_its_words(large: GpuMachine, words: str) -> None:
    """drivers/base/cpu.c makes no file, and housekeeping_setup() in kernel/sched refuses the word."""
    large.remove(f"{CPU}/nohz_full")
    large.put("/proc/cmdline", f"{words}\n")

    bad = [check for check in look(large) if check.verdict not in (Verdict.PASS, Verdict.SKIP)]

    assert told(bad) == {"isolation": "warn"}
    assert f"{words}: this kernel is built without CONFIG_NO_HZ_FULL" in str(bad[0])


def grub(machine: GpuMachine, *lines: str) -> None:
    """The menu of the next boot, with a kernel for each command line."""
    machine.put("/usr/sbin/update-grub", "", 0o755)
    machine.put("/boot/grub/grub.cfg", "".join(ENTRY.format(line=line) for line in lines))


ENTRY = """\
menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple-1' {{
    linux /boot/vmlinuz-6.12.0 root=/dev/vda1 ro {line}
}}
"""
LATER = " after the next boot"


@pytest.mark.parametrize(
    ("line", "verdicts"),
    [
        ("isolcpus=0", {"isolated_housekeeping node": "fail", "isolated_gpu_cpus node 0": "warn"}),
        ("isolcpus=9-15", {"isolated_housekeeping node": "fail", "isolated_gpu_cpus node 1": "fail"}),
        ("nohz_full=0-99", {"isolation node": "warn"}),
        ("irqaffinity=0", {"isolated_interrupts irqaffinity": "warn"}),
    ],
)
def test_the_command_line_of_the_next_boot_is_judged(
    large: GpuMachine, line: str, verdicts: dict[str, str]
) -> None:
    grub(large, line)
    found = [check for check in look(large) if check.verdict not in (Verdict.PASS, Verdict.SKIP)]
    told_later = {f"{check.name} {check.target}": str(check.verdict) for check in found}
    assert told_later == {f"{name}{LATER}": verdict for name, verdict in verdicts.items()}
    assert {check.source for check in found} == {"/boot/grub/grub.cfg:2"}
    large.put("/proc/cmdline", f"root=/dev/vda1 ro {line}\n")
    assert [check for check in look(large) if check.target.endswith(LATER)] == [], "it is in force"


def test_isolation_that_the_next_boot_ends_is_no_fault_then(large: GpuMachine) -> None:
    large.put("/proc/cmdline", "isolcpus=0\n")
    grub(large, "quiet")
    later = [check for check in look(large) if check.target.endswith(LATER)]
    assert told(later) == {f"isolation node{LATER}": "skip"}


def test_an_unknown_next_boot_is_told_once(large: GpuMachine) -> None:
    later = f"isolation node{LATER}"
    grub(large, "isolcpus=0", "isolcpus=1")
    assert told(look(large))[later] == "unknown", "either may start"
    for number in (errno.EACCES, errno.EIO):
        large.unreadable = {"/boot/grub/grub.cfg": number}
        bad = {name: verdict for name, verdict in told(look(large)).items() if verdict == "unknown"}
        assert bad == {later: "unknown"}


def test_no_isolation_is_skipped_with_words(large: GpuMachine) -> None:
    found = look(large)
    assert {check.verdict for check in found} == {Verdict.SKIP}
    assert all(check.found.startswith("no CPU is isolated") for check in found)


@pytest.mark.parametrize(
    "path", ["/proc/cmdline", f"{CPU}/isolated", f"{NODES}/node0/cpulist", "/sys/fs/cgroup"]
)
def test_unreadable_sources_are_unknown(large: GpuMachine, path: str) -> None:
    large.put("/sys/fs/cgroup/cpuset.cpus.effective", "0-15\n")
    large.unreadable[path] = errno.EIO
    assert {check.verdict for check in look(large)} == {Verdict.UNKNOWN}


def test_unreadable_interrupts_are_unknown(large: GpuMachine) -> None:
    large.put("/proc/cmdline", "isolcpus=6-7\n")
    large.unreadable["/proc/interrupts"] = errno.EACCES
    assert told(look(large))["isolated_interrupts"] == "unknown"


def rank(node: GpuMachine, cpus: str) -> None:
    node.put("/proc/77/comm", "python3\n")
    node.put("/proc/77/status", f"Name:\tpython3\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n")
    node.put("/proc/77/stat", "77 (python3) S\n")
    if not node.is_link("/proc/77/fd/7"):
        node.link("/proc/77/fd/7", "/dev/nvidia0")


def test_isolated_cpus_that_ranks_are_bound_to_are_in_use(large: GpuMachine) -> None:
    large.put("/proc/cmdline", "isolcpus=2-7\n")
    assert told(look(large))["isolated_gpu_cpus node 0"] == "fail"
    rank(large, "2-7")
    found = look(large)
    assert told(found)["isolated_gpu_cpus node 0"] == "pass"
    assert any("6 more that ranks are bound to" in check.found for check in found)
    rank(large, "2-4")
    assert told(look(large))["isolated_gpu_cpus node 0"] == "warn", "three are lost to all others"


def test_the_published_line_fails_on_two_sockets_with_gpus(folder: pathlib.Path) -> None:
    machine = machines.hgx()
    machine = replace(
        machine,
        cmdline=f"{machine.cmdline} {PUBLISHED}",
        cpus=replace(machine.cpus, isolated=(0, 1, 48, 49)),
        extra={"/etc/default/grub": f'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="{PUBLISHED}"\n'},
    )
    found = look(captured(build.build(machine, str(folder / "hgx")), audit.MOUNTS))
    verdicts = told(found)
    assert verdicts["isolated_housekeeping"] == verdicts["isolated_interrupts"] == "fail"
    assert verdicts["isolated_gpu_cpus node 0"] == "warn"
    failed = next(check for check in found if check.name == "isolated_housekeeping")
    assert failed.source == "/etc/default/grub:2"
    assert failed.found == f"CPU 0 is isolated, by {PUBLISHED} (/etc/default/grub:2)"


def test_isolation_of_a_machine_of_the_fixtures() -> None:
    """Half of node 0 is isolated, with a GPU near it, and ice has put queues there."""
    verdicts = told(look(captured(build.tree("epyc256"), audit.MOUNTS)))
    assert {name for name, verdict in verdicts.items() if verdict == "fail"} == {
        "isolated_gpu_cpus node 0", "isolated_interrupts",
    }  # fmt: skip
