# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import re
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build, machines
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.audit import isolation
from mlnode.checks.audit import run as audit
from mlnode.checks.model import BAD, Verdict
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.model import schema
from mlnode.model.errors import DeclarationError
from mlnode.model.record import replace
from mlnode.model.setting import Severity
from mlnode.report.audit import report

from .looking import CLOCK, CPU, EDAC, LIMITS, look, one

FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
THP = "/sys/kernel/mm/transparent_hugepage"
RELEASE, SWAP_ON = "/proc/sys/kernel/osrelease", "Filename\n/dev/sda2 partition 8 0 -2"
HOLES, FREQ = f"{CPU}/vulnerabilities", f"{CPU}/cpufreq"


def test_a_machine_as_it_should_be(node: GpuMachine) -> None:
    found = look(node)
    assert [str(check) for check in found.values() if check.verdict in BAD] == []
    passed = {name for name, _target in found if found[name, _target].verdict is Verdict.PASS}
    reported = {"swappiness", "time_sync", "smt", "mitigations", "pcie_link", "gpu_nodes", "free_memory"}
    # Of kernels and interfaces that this machine does not have
    reported |= {"napi_settings", "scheduler_names", "socket_buffers", "nic_drops", "kexec_handover", "imex"}
    reported |= {"nic_interrupts", "nic_messages", "rank_cpus", "rank_memory"}  # no NIC, no rank
    reported |= {"disks", "nvme_scheduler", "nfs_mounts", "file_systems", "crash_kernel"}
    reported |= {"nccl_disabled", "nccl_devices", "nccl_values", "container_sysctls"}
    reported |= {topic.name for topics, _look in isolation.LOOKS for topic in topics}  # no CPU is isolated
    assert {*audit.NAMES} - passed == reported


@cases.table
def test_what_is_told_of_files(
    node: GpuMachine, files: dict[str, str | None], name: str, verdict: str, found: str
) -> None:
    for path, text in files.items():
        if text is None:
            node.remove(path)
        else:
            node.put(path, f"{text}\n")
    check = one(node, name)
    assert (str(check.verdict), check.found[: len(found)]) == (verdict, found)
    assert bool(check.advice) is (verdict in ("fail", "warn"))
    assert check.reason
    assert check.reference


def test_clocks_of_a_kernel_without_policies_are_unknown(node: GpuMachine) -> None:
    shutil.rmtree(node.root + FREQ)
    for name in ("governor", "cpu_frequency"):
        assert one(node, name).found == "no CPU has a clock that this kernel can change"
    node.put(f"{CPU}/cpu0/cpufreq/scaling_governor", "powersave\n")
    for name in ("governor", "cpu_frequency"):
        check = one(node, name)
        assert check.verdict is Verdict.UNKNOWN
        assert check.found.startswith(f"this kernel has {CPU}/cpu0/cpufreq and no ")


@cases.table
def test_huge_pages_for_all_are_judged_with_how_hard_a_fault_works_for_them(
    node: GpuMachine, defrag: str, verdict: Verdict, severity: Severity
) -> None:
    node.put(f"{THP}/enabled", "[always] madvise never\n")
    node.put(f"{THP}/defrag", f"{defrag}\n")
    if not defrag:
        node.remove(f"{THP}/defrag")
    check = one(node, "thp")
    assert (check.verdict, check.severity) == (verdict, severity)
    node.put(f"{THP}/enabled", "always [madvise] never\n")
    assert one(node, "thp").verdict is Verdict.PASS


@pytest.mark.parametrize("name", ["kernel", "thp", "swap", "clocksource", "governor", "memory_errors"])
def test_what_cannot_be_read_is_unknown_and_what_is_not_there_is_told(node: GpuMachine, name: str) -> None:
    path = {
        "kernel": "/proc/sys/kernel/osrelease",
        "thp": "/sys/kernel/mm/transparent_hugepage/enabled",
        "swap": "/proc/swaps",
        "clocksource": CLOCK,
        "governor": f"{CPU}/cpufreq/policy0/scaling_governor",
        "memory_errors": f"{EDAC}/mc0/ce_count",
    }[name]
    node.unreadable[path] = errno.EIO
    assert one(node, name).verdict is Verdict.UNKNOWN
    del node.unreadable[path]
    node.remove(path)
    assert one(node, name).verdict is not Verdict.FAIL


def test_the_bias_of_intel_processors(node: GpuMachine) -> None:
    check = one(node, "energy_perf_bias")
    assert (check.verdict, check.found) == (Verdict.PASS, "0")
    path = f"{CPU}/cpu2/power/energy_perf_bias"
    node.put(path, "6\n")
    check = one(node, "energy_perf_bias")
    assert (check.verdict, check.found, check.expected) == (Verdict.WARN, "0: 0-1,3; 6: 2", "0 (performance)")
    node.unreadable[path] = errno.EIO
    assert one(node, "energy_perf_bias").verdict is Verdict.UNKNOWN
    del node.unreadable[path]
    node.remove(path)
    check = one(node, "energy_perf_bias")
    assert check.verdict is Verdict.UNKNOWN, "of one CPU"
    assert check.found.startswith("0; CPU 2 has no energy_perf_bias: ")
    node.put(f"{CPU}/cpu3/power/energy_perf_bias", "15\n")
    assert one(node, "energy_perf_bias").verdict is Verdict.WARN
    for number in (0, 1, 3):
        node.remove(f"{CPU}/cpu{number}/power/energy_perf_bias")
    check = one(node, "energy_perf_bias")
    assert check.verdict is Verdict.SKIP
    assert check.found.startswith("CPUs 0-3 have no energy_perf_bias: ")
    node.put("/proc/cpuinfo", "flags\t\t: fpu tsc epb\n")
    check = one(node, "energy_perf_bias")
    assert check.verdict is Verdict.UNKNOWN, "it is there, and this kernel does not show it"
    assert "Linux shows it since 5.2" in check.found
    node.remove("/proc/cpuinfo")
    assert one(node, "energy_perf_bias").verdict is Verdict.UNKNOWN


@cases.table
def test_a_clock_that_is_capped(node: GpuMachine, most: str, verdict: Verdict, found: str) -> None:
    for policy, now in ((0, "3700000"), (2, "1200000")):
        for name, text in (("cur", now), ("min", "800000"), ("max", "3800000")):
            node.put(f"{FREQ}/policy{policy}/scaling_{name}_freq", f"{text}\n")
        node.put(f"{FREQ}/policy{policy}/cpuinfo_max_freq", "3800000\n")
    node.put(f"{FREQ}/policy2/scaling_max_freq", f"{most}\n")
    check = one(node, "cpu_frequency")
    assert check.verdict == verdict
    assert check.found == f"now 1.20 to 3.70 GHz, limits 0.80 GHz and {found}, CPU maximum 3.80 GHz"
    node.unreadable[f"{FREQ}/policy0/scaling_max_freq"] = errno.EIO
    assert one(node, "cpu_frequency").verdict is Verdict.UNKNOWN


# -- GPUs ----------------------------------------------------------------------------------


@cases.table
def test_ecc(node: GpuMachine, columns: str, verdict: str, found: str) -> None:
    node.ecc[SECOND] = columns
    check = one(node, "gpu_ecc", f"GPU {SECOND}")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert one(node, "gpu_ecc", f"GPU {FIRST}").verdict is Verdict.PASS


UP = 100 * 3600


def xid(number: int, hours: float, gpu: str = "0000:1b:00") -> str:
    """A line of the kernel's log, some hours ago."""
    return f"[{UP - hours * 3600:12.6f}] NVRM: Xid (PCI:{gpu}): {number}, pid=7, name=python, Ch 00000008\n"


def recovery(state: str) -> str:
    """What the driver writes after an Xid, an hour ago: what has to be done about it, if anything."""
    words = f"GPU recovery action changed from 0x1 (GPU Reset Required) to {state}"
    return f"[{UP - 3600:12.6f}] NVRM: Xid (PCI:0000:1b:00): 154, {words}\n"


@cases.table
def test_an_xid_is_judged_by_its_cause_and_its_age(
    node: GpuMachine, log: str, verdict: str, severity: str, found: str
) -> None:
    node.put("/proc/uptime", f"{UP}.25 900.00\n")
    node.log = log
    check = one(node, "gpu_messages", "GPU 0000:1b:00")
    assert (str(check.verdict), str(check.severity), check.found) == (verdict, severity, found)
    assert bool(check.advice) is (verdict in ("fail", "warn"))


def test_without_the_uptime_no_xid_is_old(node: GpuMachine) -> None:
    node.remove("/proc/uptime")
    node.log = xid(79, 99)
    assert one(node, "gpu_messages", "GPU 0000:1b:00").verdict is Verdict.FAIL


def test_each_gpu_is_told_by_itself(node: GpuMachine) -> None:
    node.put("/proc/uptime", f"{UP}.25 900.00\n")
    node.log = xid(79, 1) + xid(31, 1, "0000:1c:00")
    assert one(node, "gpu_messages", "GPU 0000:1b:00").verdict is Verdict.FAIL
    assert one(node, "gpu_messages", "GPU 0000:1c:00").verdict is Verdict.WARN
    assert ("gpu_messages", "node") not in look(node)


def test_how_far_back_the_log_goes(node: GpuMachine) -> None:
    node.put("/proc/uptime", f"{UP}.25 900.00\n")
    node.log = f"[{UP - 7200:.6f}] eth0: link up\n[{UP - 60:.6f}] eth0: link down\n"
    check = one(node, "gpu_messages")
    assert check.verdict is Verdict.UNKNOWN, "one of yesterday is among what is gone"
    assert check.found == (
        "none in the kernel's log, whose oldest line is from 2 h ago; the machine has been up for 4 days"
    )
    for begin in (0.5, UP - 25 * 3600):
        node.log = f"[{begin:.6f}] Linux version 6.12\n[{UP - 60:.6f}] eth0: link down\n"
        assert one(node, "gpu_messages").verdict is Verdict.PASS
    node.log = ""
    assert one(node, "gpu_messages").verdict is Verdict.UNKNOWN, "somebody has cleared it"
    node.log = None
    check = one(node, "gpu_messages")
    assert check.verdict is Verdict.UNKNOWN
    assert "Operation not permitted" in check.found


def test_gpus_at_several_nodes_are_told(node: GpuMachine) -> None:
    assert one(node, "gpu_nodes").found == "2 at node 0"
    node.put(f"/sys/devices/pci0000:1c/{SECOND}/numa_node", "1\n")
    check = one(node, "gpu_nodes")
    assert check.verdict is Verdict.SKIP
    assert check.found == "1 at node 0, 1 at node 1; bind each rank to its GPU's node: mlnode topology"


def test_persistence(node: GpuMachine) -> None:
    node.modes[SECOND] = "Disabled"
    check = one(node, "gpu_persistence", f"GPU {SECOND}")
    assert (check.verdict, check.severity) == (Verdict.WARN, Severity.MEDIUM)
    node.modes[SECOND] = "[N/A]"
    assert one(node, "gpu_persistence", f"GPU {SECOND}").verdict is Verdict.SKIP
    node.modes[SECOND] = "[GPU requires reset]"
    assert one(node, "gpu_persistence", f"GPU {SECOND}").verdict is Verdict.UNKNOWN
    assert one(node, "gpu_persistence", f"GPU {FIRST}").verdict is Verdict.PASS
    del node.modes[SECOND]
    assert one(node, "gpu_persistence", f"GPU {SECOND}").verdict is Verdict.UNKNOWN


def test_a_tool_that_hangs_fails_or_is_not_there(node: GpuMachine) -> None:
    node.hangs = True
    found = look(node)
    for name in ("gpu_ecc", "gpu_persistence"):
        assert found[name, "node"].verdict is Verdict.UNKNOWN
        assert "no answer in 60 s" in found[name, "node"].found
    node.hangs = False
    node.answer = Finished(9, "", "NVIDIA-SMI has failed\n")
    assert one(node, "gpu_ecc").verdict is Verdict.UNKNOWN
    node.installed = False
    assert one(node, "gpu_ecc").found == "nvidia-smi is not installed"
    node.remove("/proc/driver/nvidia/version")
    assert one(node, "gpu_messages").verdict is Verdict.SKIP


def test_gpus_of_others(tmp_path: pathlib.Path) -> None:
    intel = GpuMachine.of(str(tmp_path / "intel"), 1, "0x8086")
    assert one(intel, "gpu_ecc").found == "nothing here reads this of GPUs of Intel"
    assert intel.asked == []


def test_gpus_of_two_vendors(node: GpuMachine) -> None:
    """Each is judged by its own driver."""
    node.add("0000:41:00.0", "0x1002", "amdgpu")
    node.put("/sys/module/amdgpu/version", "6.12.12\n")
    checks = [check for check in audit.all_checks(node) if check.name == "gpu_ecc"]
    assert {check.target: check.verdict for check in checks} == {
        f"GPU {FIRST}": Verdict.PASS,
        f"GPU {SECOND}": Verdict.PASS,
        "GPU 0000:41:00.0": Verdict.UNKNOWN,
    }


def test_links_are_those_of_the_rdma_checks() -> None:
    found = look(Host(build.tree("hgx"), audit.MOUNTS))
    links = [check for (name, _target), check in found.items() if name == "pcie_link"]
    assert len(links) > 8
    assert {str(check.verdict) for check in links} <= {"pass", "skip", "warn", "fail"}
    severities = {str(check.verdict): check.severity for check in links}
    assert severities["pass"] is Severity.HIGH
    assert severities.get("warn", Severity.MEDIUM) is Severity.MEDIUM


# -- what runs beside jobs -----------------------------------------------------------------


@cases.table
def test_open_files_of_who_starts_jobs(
    node: GpuMachine, soft: str, hard: str, verdict: str, found: str
) -> None:
    node.put("/proc/9/limits", LIMITS.format(soft, hard))
    check = one(node, "nofile", "slurmd")
    assert (str(check.verdict), check.found) == (verdict, found)


@cases.table
def test_so_many_files_that_closing_them_all_takes_minutes(
    node: GpuMachine, line: str, nr_open: int, verdict: Verdict
) -> None:
    node.put("/proc/9/status", "Name:\tcontainerd\nPPid:\t1\nUid:\t0\t0\t0\t0\n")
    node.put("/proc/9/limits", LIMITS.format(nr_open, nr_open))
    node.put("/proc/sys/fs/nr_open", f"{nr_open}\n")
    node.put("/usr/lib/systemd/system/containerd.service", f"[Service]\n{line}\n")
    check = one(node, "nofile", "containerd")
    assert check.verdict == verdict
    if verdict == Verdict.WARN:
        assert check.found == (
            "1073741816; containerd.service gives 1073741816 to all that it starts "
            "(/usr/lib/systemd/system/containerd.service:2)"
        )


def test_processes_that_are_hidden(node: GpuMachine) -> None:
    node.unreadable["/proc/9/status"] = errno.EACCES
    assert one(node, "nofile").verdict is Verdict.UNKNOWN


def test_services_that_tune(node: GpuMachine) -> None:
    node.tuned()
    node.install("thermald.service", runs=False)
    found = look(node)
    assert found["tuning_services", "tuned"].found == "tuned.service runs"
    assert found["tuning_services", "tuned"].severity is Severity.MEDIUM
    assert "starts" not in found["tuning_services", "thermald"].found
    assert found["tuning_services", "thermald"].found.endswith(".wants/thermald.service")
    assert ("tuning_services", "node") not in found


def test_a_daemon_of_the_clock(node: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    node.remove("/run/systemd/timesync/synchronized")
    node.put("/run/systemd/system/.keep", "")
    assert one(node, "time_sync").found == "nothing that is known here keeps the clock"
    node.install("systemd-timesyncd.service")
    assert one(node, "time_sync").verdict is Verdict.WARN
    node.install("ntpsec.service")
    assert one(node, "time_sync").verdict is Verdict.SKIP
    node.install("chrony.service")
    answers = {
        "text": "A29FC87B,162.159.200.123,4,1763754000.1,0.0,0.0,0.0,1.0,0.0,0.0,0.0,0.0,64.2,Normal\n"
    }
    outer = node.run

    def run(command: Any, seconds: float = 60) -> Finished:
        return Finished(0, answers["text"], "") if command[0] == "chronyc" else outer(command, seconds)

    monkeypatch.setattr(node, "run", run)
    assert one(node, "time_sync").verdict is Verdict.PASS
    answers["text"] = answers["text"].replace("Normal", "Not synchronised")
    assert one(node, "time_sync").found == "chronyd: Not synchronised"
    assert one(node, "time_sync").verdict is Verdict.WARN
    answers["text"] = "506 Cannot talk to daemon\n"
    assert one(node, "time_sync").verdict is Verdict.UNKNOWN


# -- all together --------------------------------------------------------------------------


def test_what_matters_most_comes_first(node: GpuMachine) -> None:
    node.put("/proc/sys/kernel/numa_balancing", "1\n")
    node.put("/proc/swaps", f"{SWAP_ON}\n")
    node.put(CLOCK, "hpet\n")
    node.log = None
    names = [check.name for check in audit.all_checks(node)]
    assert names[:5] == ["swappiness", "clocksource", "numa_balancing", "swap", "gpu_messages"]


def test_names_that_are_left_out(node: GpuMachine) -> None:
    assert "thp" not in {check.name for check in audit.all_checks(node, ["thp"])}
    with pytest.raises(DeclarationError, match="skip: 'thpp' is not a check; did you mean thp"):
        schema.refuse_others("skip", ["thpp"], "check", audit.NAMES)
    with pytest.raises(DeclarationError, match="known are kernel, thp"):
        schema.refuse_others("skip", ["?"], "check", audit.NAMES)


@pytest.mark.parametrize("name", [*machines.ALL])
def test_captured_trees_of_whole_machines(name: str) -> None:
    found = audit.all_checks(Host(build.tree(name), audit.MOUNTS))
    assert {check.name for check in found} == {*audit.NAMES}
    for check in found:
        assert check.found
        assert check.source
    assert report(found, 80)


def test_an_empty_tree_passes_nothing_that_was_not_seen(tmp_path: pathlib.Path) -> None:
    found = audit.all_checks(Host(str(tmp_path), audit.MOUNTS))
    passed = {check.name for check in found if check.verdict is Verdict.PASS}
    assert passed <= {"tuning_services"}


def test_the_report(node: GpuMachine) -> None:
    node.put(CLOCK, "hpet\n")
    node.log = None
    text = report(audit.all_checks(node), 100)
    assert text.startswith(
        "HIGH      clocksource, node: hpet (expected tsc)\n"
        "why       each look at the clock is a system call and a slow register: a microsecond, not 20 ns\n"
    )
    assert "\ndo        look in dmesg for why tsc" in text
    assert "\nNOT KNOWN  gpu_messages, node: cannot read the kernel's log with dmesg" in text
    summary, after = re.split(r"\n(?=NOT JUDGED  )", text)
    assert re.search(r"^[0-9]+ checks: 1 fail, ", summary.splitlines()[-1])
    assert len(after.splitlines()) > 10
    assert max(map(len, text.splitlines())) <= 100


def test_what_would_move_a_cursor_is_not_printed(node: GpuMachine) -> None:
    [check, *_more] = audit.all_checks(node)
    assert "\x1b" not in report([replace(check, verdict=Verdict.WARN, found="\x1b[2J")], None)
