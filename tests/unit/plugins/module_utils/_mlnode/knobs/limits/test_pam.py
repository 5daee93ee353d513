# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is expected here is what logins got from pam_limits of Linux-PAM 1.5.2 with the same files."""

from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.host import Host
from mlnode.knobs.limits import pam as limits_pam

MAIN, FOLDER = "/etc/security/limits.conf", "/etc/security/limits.d"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    return LimitsMachine.node(str(tmp_path / "node"))


def found(machine: Machine, domain: str = "*", item: str = "nofile") -> tuple[str, list[str]]:
    limit = limits_pam.load(machine).login_limits(domain, item)
    return str(limit), [line.where for line in limit.lines]


def test_the_folder_comes_after_the_file_in_the_order_of_names(machine: LimitsMachine) -> None:
    machine.put(MAIN, "* - nofile 1\n")
    assert found(machine) == ("1", [f"{MAIN}:1"])
    machine.put(f"{FOLDER}/a.conf", "* - nofile 3\n")
    machine.put(f"{FOLDER}/B.conf", "* - nofile 2\n")
    machine.put(f"{FOLDER}/9.conf", "* - nofile 4\n")
    assert found(machine) == ("3", [f"{FOLDER}/a.conf:1"])
    machine.put(f"{FOLDER}/a.conf.rpmsave", "* - nofile 5\n")
    machine.put(f"{FOLDER}/.zz.conf", "* - nofile 6\n")
    assert found(machine) == ("3", [f"{FOLDER}/a.conf:1"])


@cases.table
def test_lines(machine: LimitsMachine, text: str, amount: str) -> None:
    machine.put(MAIN, text)
    assert found(machine)[0] == amount


@cases.table
def test_memory_is_in_kib(machine: LimitsMachine, item: str, amount: str) -> None:
    machine.put(MAIN, f"* - {item} 64\n")
    assert found(machine, item=item)[0] == amount


@cases.table
def test_root_is_also_user_0(machine: LimitsMachine, name: str, applies: bool) -> None:
    machine.put(MAIN, f"{name} - nofile 5\n")
    assert found(machine, "root")[0] == ("5" if applies else "inherited")
    machine.put(MAIN, f"{name} -\nroot - nofile 6\n")
    assert (limits_pam.load(machine).login_limits("root", "nofile").exempt is not None) is applies


def test_what_is_closer(machine: LimitsMachine) -> None:
    machine.put(
        MAIN, "* - nofile 1\n@a - nofile 2\nb - nofile 3\nc -\nroot - nofile 4\n% - nofile 5\nb - core 6\n"
    )
    limits = limits_pam.load(machine)
    assert [line.text for line in limits.closer("*", "nofile")] == ["@a - nofile 2", "b - nofile 3", "c -"]
    assert [line.text for line in limits.closer("@z", "nofile")] == ["b - nofile 3", "c -"]
    assert limits.closer("b", "nofile") == []


def test_ranges_of_numbers(machine: LimitsMachine) -> None:
    machine.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbad\n")
    machine.put(
        MAIN, "* - nofile 9\n1000: - nofile 1\n@100: - nofile 2\n:0 - nofile 3\n0: - core 4\n: - nofile 5\n"
    )
    limits = limits_pam.load(machine)
    texts = ["1000: - nofile 1", "@100: - nofile 2", ": - nofile 5"]
    assert [line.text for line in limits.closer("*", "nofile")] == texts
    assert [line.text for line in limits.closer("@staff", "nofile")] == texts
    # A user that is known here is in a range or is not; one of a directory service may be.
    assert found(machine, "alice") == ("1", [f"{MAIN}:2"])
    assert limits.closer("alice", "nofile") == []
    assert [line.text for line in limits.closer("bob", "nofile")] == ["1000: - nofile 1", ": - nofile 5"]
    # All users, and not root alone
    assert [line.text for line in limits.closer("*", "core")] == ["0: - core 4"]


# -- who uses it ---------------------------------------------------------------------------


@cases.table
def test_services_have_to_ask_for_it(machine: LimitsMachine, text: str, used: bool) -> None:
    machine.put("/etc/pam.d/login", text)
    limits = limits_pam.load(machine)
    assert limits.unused == (
        ""
        if used
        else "no file in /etc/pam.d or /usr/lib/pam.d or /usr/etc/pam.d uses pam_limits.so: logins get their "
        "limits elsewhere"
    )


@pytest.mark.parametrize("path", [MAIN, f"{FOLDER}/a.conf", "/etc/pam.d/login"])
def test_what_cannot_be_read_is_no_silence(machine: LimitsMachine, path: str) -> None:
    machine.put(path, "")
    machine.unreadable[path] = errno.EACCES
    assert path in limits_pam.load(machine).unreadable


# -- the vendor's folder -------------------------------------------------------------------------

VENDOR = "/usr/etc/security"


def test_the_vendors_files_sort_among_those_of_etc(machine: LimitsMachine) -> None:
    machine.put(f"{VENDOR}/limits.d/50-vendor.conf", "* - nofile 5\n")
    machine.put(f"{FOLDER}/40-site.conf", "* - nofile 4\n")
    assert found(machine) == ("5", [f"{VENDOR}/limits.d/50-vendor.conf:1"])
    machine.put(f"{FOLDER}/60-site.conf", "* - nofile 6\n")
    assert found(machine) == ("6", [f"{FOLDER}/60-site.conf:1"])


def test_a_file_of_etc_hides_that_of_its_name(machine: LimitsMachine) -> None:
    machine.put(f"{VENDOR}/limits.d/50.conf", "* - nofile 5\n")
    machine.put(f"{FOLDER}/50.conf", "")
    assert found(machine) == ("inherited", [])
    machine.put(f"{VENDOR}/limits.conf", "* - nofile 3\n")
    assert found(machine) == ("inherited", [])  # limits.conf of /etc is there
    machine.remove(MAIN)
    assert found(machine) == ("3", [f"{VENDOR}/limits.conf:1"])


@pytest.mark.parametrize(
    ("compiled", "limit"),
    [
        (b"x\0/etc/security/limits.d/*.conf\0y", "inherited"),  # Debian's, the Red Hat family's
        (b"/etc/security/limits.d/*.conf\0/usr/etc/security/limits.d/*.conf\0", "5"),
        (b"/usr/share/pam/security/limits.d/*.conf\0/etc/security/limits.d/*.conf\0", "7"),
        (b"another build", "5"),
    ],
)
def test_the_folders_are_those_that_the_module_was_built_with(
    machine: LimitsMachine, compiled: bytes, limit: str
) -> None:
    machine.put("/usr/lib64/security/pam_limits.so", compiled)
    machine.put(f"{VENDOR}/limits.d/50.conf", "* - nofile 5\n")
    machine.put("/usr/share/pam/security/limits.d/50.conf", "* - nofile 7\n")
    assert found(machine)[0] == limit


def test_the_module_of_this_machine_names_its_folders() -> None:
    assert limits_pam.read_by_module(Host("/"))[0] == "/etc/security"


def test_a_service_whose_own_file_hides_the_vendors_uses_nothing(machine: LimitsMachine) -> None:
    machine.put("/etc/pam.d/login", "session required pam_unix.so\n")
    machine.put("/usr/etc/pam.d/login", "session required pam_limits.so\n")
    assert "pam_limits.so" in limits_pam.load(machine).unused
    machine.remove("/etc/pam.d/login")
    assert limits_pam.load(machine).unused == ""
