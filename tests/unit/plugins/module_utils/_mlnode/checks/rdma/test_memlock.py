# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import DROP_IN, bad, daemon, named, run
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    Tree,
    rail,
)
from mlnode.checks.model import Check
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.origin import Origin, file_entry
from mlnode.knobs.limits.kind import kind as limits
from mlnode.model.setting import Layer

ETC = "/etc/systemd/system.conf.d"
LOW = "8388608"


def default(tree: Tree, **expect: object) -> Check:
    return named(run(tree.host, expect), "memlock_default")["systemd"]


@pytest.mark.parametrize("name", ["slurmd", "containerd", "dockerd", "crio", "pbs_mom"])
def test_who_starts_jobs(fabric: Tree, name: str) -> None:
    daemon(fabric, 950, name, LOW)
    if name == "slurmd":
        os.unlink(fabric.root / "proc/900/status")
    found = run(fabric.host)
    assert bad(found) == {("memlock", name): "fail"}
    check = named(found, "memlock")[name]
    assert (check.expected, check.found, check.source) == ("unlimited", f"{LOW} bytes", "/proc/950/limits")
    assert "LimitMEMLOCK=infinity" in check.advice


@pytest.mark.parametrize("name, words", [("sshd", "limits.d"), ("kubelet", "runtime")])
def test_whose_children_get_others(fabric: Tree, name: str, words: str) -> None:
    daemon(fabric, 901, name, LOW)
    found = run(fabric.host)
    assert bad(found) == {("memlock", name): "warn"}
    assert words in named(found, "memlock")[name].advice


def test_the_soft_limit_counts(fabric: Tree) -> None:
    daemon(fabric, 900, "slurmd", LOW, "unlimited")
    check = named(run(fabric.host), "memlock")["slurmd"]
    assert (check.verdict, check.found) == ("fail", f"{LOW} bytes, and up to unlimited for who asks")


def test_two_of_them(fabric: Tree) -> None:
    daemon(fabric, 950, "slurmd", LOW)
    found = [check for check in run(fabric.host) if check.name == "memlock" and check.target == "slurmd"]
    assert [(check.verdict, check.source) for check in found] == [
        ("pass", "/proc/900/limits"),
        ("fail", "/proc/950/limits"),
    ]


@cases.table
def test_an_amount_may_be_enough(fabric: Tree, declared: object, verdict: str) -> None:
    daemon(fabric, 900, "slurmd", LOW)
    assert named(run(fabric.host, {"memlock": declared}), "memlock")["slurmd"].verdict == verdict


# -- processes -------------------------------------------------------------------------------


def test_nobody_runs(fabric: Tree) -> None:
    for pid in (900, 901):
        os.unlink(fabric.root / f"proc/{pid}/status")
    check = named(run(fabric.host), "memlock")["node"]
    assert check.verdict == "skip"
    assert check.found.startswith("none of slurmd, containerd")


def test_hidden_processes(fabric: Tree) -> None:
    """hidepid=1: the folder is there, and nothing in it may be read."""
    host = fabric.refusing({"/proc/900/status": errno.EACCES})
    found = named(run(host), "memlock")
    assert (found["node"].verdict, found["sshd"].verdict) == ("unknown", "pass")
    assert "EACCES" in found["node"].found


def test_a_process_that_ends_meanwhile(fabric: Tree) -> None:
    fabric.put("/proc/7777/comm", "slurmd")
    assert bad(run(fabric.host)) == {}


@pytest.mark.parametrize("removed", [True, False])
def test_limits_that_cannot_be_read(fabric: Tree, removed: bool) -> None:
    host = fabric.host
    if removed:
        os.unlink(fabric.root / "proc/900/limits")
    else:
        host = fabric.refusing({"/proc/900/limits": errno.EPERM})
    assert named(run(host), "memlock")["slurmd"].verdict == "unknown"


@pytest.mark.parametrize("soft, verdict", [("unlimited", "pass"), (LOW, "fail")])
def test_a_container_has_its_own(fabric: Tree, soft: str, verdict: str) -> None:
    fabric.put("/.dockerenv", "")
    daemon(fabric, 1, "python3", soft)
    daemon(fabric, 900, "slurmd", LOW)
    found = [check for check in run(fabric.host) if check.name.startswith("memlock")]
    assert [(check.target, check.verdict) for check in found] == [("this container", verdict)]


# -- systemd ---------------------------------------------------------------------------------


def low(tree: Tree) -> None:
    """A daemon whose next start depends on the default."""
    daemon(tree, 900, "slurmd", LOW)


@cases.table
def test_what_systemd_takes(fabric: Tree, value: str, verdict: str) -> None:
    low(fabric)
    fabric.put(DROP_IN, f"[Manager]\nDefaultLimitMEMLOCK={value}")
    check = default(fabric)
    assert check.verdict == verdict
    assert ("DefaultLimitMEMLOCK=infinity" in check.advice) == (verdict != "pass")
    assert len(check.found) < 200
    taken = value in ("infinity", "infinity:infinity", "64M", "8M:infinity")
    assert ("does not take" in check.found) != taken
    assert check.source == f"{DROP_IN}:2"


def test_a_line_that_systemd_does_not_take_leaves_the_one_before(fabric: Tree) -> None:
    """src/core/load-fragment.c: config_parse_rlimit, which has no empty value that takes one back."""
    low(fabric)
    lines = "".join(f"DefaultLimitMEMLOCK={value}\n" for value in ("infinity", "", "lots"))
    fabric.put(DROP_IN, f"[Manager]\n{lines}")
    assert (default(fabric).verdict, default(fabric).source) == ("pass", f"{DROP_IN}:2")


def test_set_nowhere(fabric: Tree) -> None:
    low(fabric)
    os.unlink(fabric.host.real(DROP_IN))
    check = default(fabric)
    assert check.verdict == "warn"
    assert "is set nowhere" in check.found
    assert default(fabric, memlock="unlimited").verdict == "fail"


def test_not_needed_where_the_units_say_it(fabric: Tree) -> None:
    os.unlink(fabric.host.real(DROP_IN))
    check = default(fabric)
    assert check.verdict == "skip"
    assert "have high enough limits" in check.found


def test_not_needed_on_a_node_with_neither_rdma_nor_gpu(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path / "bare")
    tree.put("/run/systemd/system/.keep", "")
    check = default(tree)
    assert check.verdict == "skip"
    assert check.found.endswith("neither an RDMA device nor a GPU is here")
    assert default(tree, memlock="unlimited").verdict == "fail"
    rail(tree, 0x10, 0, 0)
    assert default(tree).verdict == "warn"


def test_unreadable(fabric: Tree) -> None:
    for path in (DROP_IN, ETC):
        check = named(run(fabric.refusing({path: errno.EACCES})), "memlock_default")["systemd"]
        assert check.verdict == "unknown"
        assert "EACCES" in check.found


def test_no_systemd(fabric: Tree) -> None:
    (fabric.root / "run/systemd/system/.keep").unlink()
    os.rmdir(fabric.root / "run/systemd/system")
    assert default(fabric).verdict == "skip"


# -- until a restart -------------------------------------------------------------------------

UNITS = "/usr/lib/systemd/system"
OWN = "/etc/systemd/system/{}.service.d/zz-mlnode-default.conf"
LOGINS = "/etc/security/limits.d/zz-mlnode-default.conf"


def given(tree: Tree, unit: str, process: str, pid: int) -> None:
    """A drop-in that was written after the daemon was started."""
    tree.put(f"{UNITS}/{unit}.service", "[Service]\nExecStart=/x")
    tree.put(OWN.format(unit), "[Service]\nLimitMEMLOCK=infinity")
    daemon(tree, pid, process, LOW)


def test_who_starts_jobs_is_pending_until_it_is_restarted(fabric: Tree) -> None:
    given(fabric, "slurmd", "slurmd", 900)
    check = named(run(fabric.host), "memlock")["slurmd"]
    where = f"{OWN.format('slurmd')}:2"
    assert (check.verdict, check.advice) == ("pending", "systemctl restart slurmd.service")
    assert check.found == (
        f"pending: slurmd runs with {LOW} bytes, and gets unlimited ({where}) from `systemctl restart "
        "slurmd.service`"
    )


def test_what_every_service_gets_counts_where_a_unit_says_nothing(fabric: Tree) -> None:
    fabric.put(f"{UNITS}/slurmd.service", "[Service]\nExecStart=/x")
    daemon(fabric, 900, "slurmd", LOW)
    check = named(run(fabric.host), "memlock")["slurmd"]
    assert (check.verdict, f"unlimited ({DROP_IN}:2)" in check.found) == ("pending", True)


def test_sshd_that_waits_for_a_restart_is_pending_as_for_the_kind_limits(fabric: Tree) -> None:
    """What its sessions have is PAM's, and is enough."""
    given(fabric, "ssh", "sshd", 901)
    fabric.put("/etc/pam.d/sshd", "session required pam_limits.so")
    fabric.put(LOGINS, "* - memlock unlimited")
    check = named(run(fabric.host), "memlock")["sshd"]
    where = f"{OWN.format('ssh')}:2"
    words = f"pending: sshd runs with {LOW} bytes, and gets unlimited ({where}) from `systemctl restart ssh"
    assert (check.verdict, check.advice) == ("skip", "systemctl restart ssh.service")
    assert check.found.startswith(words)
    assert check.found.endswith(f"logins get unlimited from {LOGINS}:1 all the same")

    spec = {"memlock": "unlimited", "services": ["ssh"]}
    Origin(fabric.host, []).remember([file_entry(fabric.host, LOGINS)])  # as of a node that was tuned
    host = captured(fabric.host.root, limits.MOUNTS)
    plan = engine.evaluate(host, Request("default", limits, spec, (Layer.RUNTIME,)))
    (row,) = [row for row in plan.rows if row.setting.key == "limits.services.memlock"]
    assert str(row.status) == "ok", row.reason
    assert row.reason.startswith(f"pending: sshd runs with {LOW}, and gets unlimited from `systemctl restart")


@cases.table
def test_what_sshd_runs_with_counts_where_pam_gives_less(
    fabric: Tree, lines: str, pam: str, verdict: str
) -> None:
    daemon(fabric, 901, "sshd", LOW)
    fabric.put("/etc/pam.d/sshd", f"session required {pam}")
    fabric.put(LOGINS, lines)
    assert named(run(fabric.host), "memlock")["sshd"].verdict == verdict


def test_a_unit_that_cannot_be_read_is_told(fabric: Tree) -> None:
    given(fabric, "slurmd", "slurmd", 900)
    check = named(run(fabric.refusing({OWN.format("slurmd"): errno.EACCES})), "memlock")["slurmd"]
    assert (check.verdict, "its next start is unknown" in check.found) == ("fail", True)
