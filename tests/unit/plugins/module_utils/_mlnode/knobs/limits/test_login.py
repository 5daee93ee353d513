# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logins that do not get what /etc/security says, as sshd, PAM and shells would do it."""

from __future__ import annotations

import errno
import pathlib
import tempfile
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, pam_stacks
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.knobs.limits import login as limits_login
from mlnode.knobs.limits.kind import kind as limits
from mlnode.model.setting import Layer

SPEC: dict[str, Any] = {"nofile": "65536:1048576", "memlock": "unlimited", "core": 0}
CONFIG = "/etc/ssh/sshd_config"
PAM_SSHD = "/etc/pam.d/sshd"
YES = "UsePAM yes\n"
#: As Debian has it
STACK = (
    "# PAM configuration for the Secure Shell service\n@include common-auth\n@include common-session\n"
    "session    required     pam_limits.so\n"
)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    found = LimitsMachine.node(str(tmp_path / "node"))
    found.put(CONFIG, f"Include /etc/ssh/sshd_config.d/*.conf\n{YES}")
    found.put(PAM_SSHD, STACK)
    found.put("/etc/pam.d/common-auth", "auth required pam_unix.so\n")
    found.put("/etc/pam.d/common-session", "session required pam_unix.so\n")
    door.apply(found, Request("default", limits, SPEC))
    assert rows(found) == {("ok", "")}
    return found


def rows(machine: Machine, limit: str = "nofile") -> set[tuple[str, str]]:
    """Status and reason of the logins of everybody and of root."""
    found = engine.evaluate(machine, Request("default", limits, SPEC)).rows
    keys = [f"limits.login.{domain}.{limit}" for domain in ("*", "root")]
    return {(str(row.status), row.reason) for row in found if row.setting.key in keys}


def overridden(whom: str, words: str, runtime: str = "65536:1048576") -> tuple[str, str]:
    return "overridden", f"runtime is less for {whom}, else {runtime}; boot: {words}"


# -- sshd ----------------------------------------------------------------------------------


@cases.table
def test_an_sshd_that_does_not_ask(machine: LimitsMachine, files: dict[str, str], words: str) -> None:
    for path, text in files.items():
        machine.put(path, text)
    assert rows(machine) == {overridden("SSH", f"{words}: logins over SSH get what sshd has")}


@cases.table
def test_an_sshd_that_asks(machine: LimitsMachine, files: dict[str, str]) -> None:
    for path, text in files.items():
        machine.put(path, text)
    assert rows(machine) == {("ok", "")}


SKIPS = "session sufficient pam_x.so\nsession required pam_limits.so\n"
COMMON, LOGIN = "/etc/pam.d/common-session", "/etc/pam.d/login"
CONSOLE = "logins get what init has"


def ends(path: str, line: str, result: str = "logins over SSH get what sshd has") -> tuple[str, str]:
    words = f"{path} can end before pam_limits.so, by the line {line}: {result}"
    return "unknown", f"{words}; move pam_limits.so before it"


LIMITS = "session required pam_limits.so\n"
OTHER_FILE = "session required pam_limits.so conf=/etc/x\n"
JUMP = "session [success=2 default=ignore] pam_x.so"
UNIX = "session required pam_unix.so\n"


def jumps(line: str, path: str = "/etc/pam.d/sshd") -> tuple[str, str]:
    status, reason = ends(path, line)
    return status, reason.replace("can end before", "can jump over")


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (f"{OTHER_FILE}{LIMITS}", ("ok", "")),
        (f"{LIMITS}{OTHER_FILE}", ("ok", "")),
        (f"{JUMP}\n{LIMITS}", jumps(JUMP)),
        (f"{JUMP}\n{UNIX}{LIMITS}", jumps(JUMP)),
        (f"{JUMP}\n{UNIX}{UNIX}{LIMITS}", ("ok", "")),
        (f"{JUMP}\n{LIMITS}{UNIX}{LIMITS}", ("ok", "")),
        (f"session [default=1] pam_x.so\n{LIMITS}", jumps("session [default=1] pam_x.so")),
        (f"session [default=1] pam_permit.so\n{UNIX}{UNIX}{LIMITS}", ("ok", "")),
        (f"{JUMP}\nsession substack three\n{LIMITS}", jumps(JUMP)),
        (f"{JUMP}\nsession include three\n{LIMITS}", ("ok", "")),
        (f"session substack jumps\n{LIMITS}", ("ok", "")),
        (f"session include jumps\n{LIMITS}", jumps(JUMP, "/etc/pam.d/jumps")),
        (f"auth [success=2] pam_x.so\n{LIMITS}", ("ok", "")),
    ],
)
def test_every_line_of_a_stack_counts(machine: LimitsMachine, stack: str, expected: tuple[str, str]) -> None:
    machine.put("/etc/pam.d/three", UNIX * 3)
    machine.put("/etc/pam.d/jumps", f"{JUMP}\n")
    machine.put(PAM_SSHD, stack)
    machine.forget()
    assert rows(machine) == {expected}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({PAM_SSHD: SKIPS}, ends(PAM_SSHD, "session sufficient pam_x.so")),
        (
            {COMMON: "\nsession [success=done default=ignore] pam_x.so\n"},
            ends(COMMON, "session [success=done default=ignore] pam_x.so"),
        ),
        ({LOGIN: SKIPS}, ends(LOGIN, "session sufficient pam_x.so", CONSOLE)),
        (
            {PAM_SSHD: "session include nothing\n" + "@include sshd\n" * 9},
            ("unknown", f"cannot follow {PAM_SSHD}: it includes nothing, which does not exist"),
        ),
        ({PAM_SSHD: "@include sshd\n"}, ("unknown", f"cannot follow {PAM_SSHD}: it includes itself")),
        (
            {LOGIN: "session required pam_unix.so\n"},
            overridden(
                "consoles",
                f"{LOGIN} and its includes do not use pam_limits.so for sessions: {CONSOLE}",
            ),
        ),
        ({"/etc/pam.d/cron": SKIPS}, ("ok", "")),
    ],
)
def test_a_stack_without_the_limits(
    machine: LimitsMachine, files: dict[str, str], expected: tuple[str, str]
) -> None:
    for path, text in files.items():
        machine.put(path, text)
    machine.forget()
    assert rows(machine) == {expected}


@pytest.mark.parametrize("name", pam_stacks.ALL)
def test_stock_stacks_are_right(tmp_path: pathlib.Path, name: str) -> None:
    """And a line that can end them before the limits is seen."""
    machine = LimitsMachine.node(str(tmp_path / "node"))
    machine.remove("/etc/pam.d/login")
    machine.put(CONFIG, YES)
    paths = {}
    for file, text in pam_stacks.ALL[name].items():
        paths[file] = file if file.startswith("/") else f"/etc/pam.d/{file}"
        machine.put(paths[file], text)
    door.apply(machine, Request("default", limits, SPEC))
    assert rows(machine) == {("ok", "")}
    for file, text in pam_stacks.ALL[name].items():
        if file.rpartition("/")[2] in ("login", "sshd"):
            machine.put(paths[file], f"session sufficient pam_x.so\n{text}")
            ((status, reason),) = rows(machine)
            assert (status, f"{paths[file]} can end before" in reason) == ("unknown", True), file
            machine.put(paths[file], text)


def test_without_a_file_of_its_own_sshd_has_that_of_all_others(machine: LimitsMachine) -> None:
    machine.remove(PAM_SSHD)
    assert rows(machine) == {("ok", "")}  # PAM itself would refuse every session then
    machine.put("/etc/pam.d/other", "session required pam_deny.so\n")
    words = "/etc/pam.d/other and its includes do not use pam_limits.so for sessions"
    assert rows(machine) == {overridden("SSH", f"{words}: logins over SSH get what sshd has")}


def test_without_sshd_there_is_nothing_to_ask(machine: LimitsMachine) -> None:
    machine.remove(CONFIG)
    machine.remove(PAM_SSHD)
    assert rows(machine) == {("ok", "")}


def test_where_nothing_uses_pam_limits_an_sshd_is_no_excuse(machine: LimitsMachine) -> None:
    machine.remove("/etc/pam.d/login")
    machine.put(PAM_SSHD, "session required pam_unix.so\n")
    ((status, _reason),) = rows(machine)
    assert status == "overridden"


# -- lines for some ------------------------------------------------------------------------


@cases.table
def test_a_closer_line_that_gives_less(machine: LimitsMachine, line: str, whom: str) -> None:
    machine.put("/etc/security/limits.d/a.conf", f"{line}\n")
    words = f"/etc/security/limits.d/a.conf:1 gives less to {whom}: {line}"
    assert rows(machine) == {("ok", ""), overridden(whom, words)}


def test_a_line_that_takes_all_limits_from_some(machine: LimitsMachine) -> None:
    machine.put("/etc/security/limits.d/a.conf", "alice -\n")
    words = "/etc/security/limits.d/a.conf:1 takes all limits from alice"
    assert rows(machine) == {("ok", ""), overridden("alice", words)}


@cases.table
def test_a_closer_line_that_gives_as_much(machine: LimitsMachine, line: str) -> None:
    machine.put("/etc/security/limits.d/a.conf", f"{line}\n")
    for limit in ("nofile", "memlock"):
        assert {status for status, _reason in rows(machine, limit)} == {"ok"}


# -- shells --------------------------------------------------------------------------------


@cases.table
def test_a_shell_that_takes_less(machine: LimitsMachine, path: str, line: str, shown: str) -> None:
    machine.put(path, f"# head\n{line}\n")
    words = f"{path}:2 has shells do `ulimit {shown or '-n 1024'}`"
    assert rows(machine) == {overridden("shells", words)}
    assert rows(machine, "memlock") == {("ok", "")}


def test_memory_of_a_shell_is_in_kib(machine: LimitsMachine) -> None:
    machine.put("/etc/profile", "ulimit -l 64\nulimit -n 2000000\n")
    words = "/etc/profile:1 has shells do `ulimit -l 64`"
    assert rows(machine, "memlock") == {overridden("shells", words, "unlimited")}
    assert rows(machine) == {("ok", "")}


@cases.table
def test_a_shell_that_leaves_enough(machine: LimitsMachine, line: str) -> None:
    machine.put("/etc/profile", f"{line}\n")
    for limit in ("nofile", "memlock", "core"):
        assert rows(machine, limit) == {("ok", "")}


@pytest.mark.parametrize("value", ["$FILES", "$(cat /etc/files)", "${FILES:-10}"])
def test_what_only_the_shell_can_tell_is_unknown(machine: LimitsMachine, value: str) -> None:
    machine.put("/etc/profile", f"ulimit -n {value}\n")
    ((status, reason),) = rows(machine)
    assert status == "unknown"
    assert reason.startswith("/etc/profile:1 has shells do `ulimit -n $")
    machine.put("/etc/bash.bashrc", "ulimit -n 1024\n")
    ((status, reason),) = rows(machine)
    assert (status, "/etc/bash.bashrc:1" in reason) == ("overridden", True)


def test_a_profile_of_the_vendor_counts_until_one_of_etc_hides_it(machine: LimitsMachine) -> None:
    machine.put("/usr/etc/profile.d/x.sh", "ulimit -n 1024\n")
    ((status, reason),) = rows(machine)
    assert (status, "/usr/etc/profile.d/x.sh:1" in reason) == ("overridden", True)
    machine.put("/etc/profile.d/x.sh", "")
    assert rows(machine) == {("ok", "")}


def test_files_of_other_shells_do_not_count(machine: LimitsMachine) -> None:
    machine.put("/etc/profile.d/x.csh", "ulimit -n 1024\n")
    machine.put("/etc/profile.d/x.sh.rpmnew", "ulimit -n 1024\n")
    assert rows(machine) == {("ok", "")}


@pytest.mark.parametrize("path", ["/etc/profile", CONFIG, PAM_SSHD, "/etc/pam.d/common-session"])
def test_what_cannot_be_read_is_unknown(machine: LimitsMachine, path: str) -> None:
    machine.put(path, "")
    machine.unreadable[path] = errno.EIO
    ((status, reason),) = rows(machine)
    assert (status, path in reason) == ("unknown", True)


def test_an_image_build_sees_it_too(machine: LimitsMachine) -> None:
    machine.put("/etc/profile", "ulimit -n 1024\n")
    request = Request("default", limits, SPEC, (Layer.BOOT,))
    found = {row.setting.key: str(row.status) for row in engine.evaluate(machine, request).rows}
    assert found["limits.login.*.nofile"] == "overridden"


pieces = strategies.sampled_from(
    ["ulimit", "-n", "-Sn", "5", "$(", ")", "`", ";", "\n", " ", "#", "UsePAM", "no", "Include", "@include",
     "session", "sshd", "pam_limits.so", "[", "]", "\\", "*", "\0", '"', "="]
)  # fmt: skip


@quick
@given(strategies.lists(pieces).map("".join), strategies.sampled_from([CONFIG, PAM_SSHD, "/etc/profile"]))
def test_no_file_breaks_it(text: str, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(folder)
        machine.put(CONFIG, YES)
        machine.put(path, text)
        limits_login.load(machine)
