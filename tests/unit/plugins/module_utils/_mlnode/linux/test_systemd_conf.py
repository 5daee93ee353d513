# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is expected here is what systemd 252 made of the same files (systemd --test)."""

from __future__ import annotations

import errno
import pathlib
import tempfile

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.linux import systemd_conf
from mlnode.model.errors import HostError

ETC, RUN, LOCAL, USR, LIB = systemd_conf.UNITS
KEY = "LimitNOFILE"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    found = Machine.debian(str(tmp_path / "node"))
    found.put(f"{USR}/x.service", f"[Service]\n{KEY}=1\n")
    return found


def last(machine: Machine, *names: str) -> str:
    found = systemd_conf.service(machine, names or ("x.service",), KEY)
    return f"{found[-1].value} {found[-1].where}" if found else ""


def drop_in(machine: Machine, path: str, value: object) -> None:
    machine.put(path, f"[Service]\n{KEY}={value}\n")


def test_drop_ins_count_by_name_whatever_their_folder(machine: Machine) -> None:
    assert last(machine) == f"1 {USR}/x.service:2"
    drop_in(machine, f"{USR}/x.service.d/20.conf", 20)
    drop_in(machine, f"{ETC}/x.service.d/10.conf", 10)
    assert last(machine) == f"20 {USR}/x.service.d/20.conf:2"
    drop_in(machine, f"{RUN}/x.service.d/zz.conf", 99)
    assert last(machine) == f"99 {RUN}/x.service.d/zz.conf:2"


@pytest.mark.parametrize("number", range(len(systemd_conf.UNITS) - 1))
def test_a_name_in_an_earlier_folder_hides_the_later(machine: Machine, number: int) -> None:
    earlier, later = systemd_conf.UNITS[number : number + 2]
    drop_in(machine, f"{later}/x.service.d/a.conf", 2)
    drop_in(machine, f"{earlier}/x.service.d/a.conf", 1)
    assert last(machine) == f"1 {earlier}/x.service.d/a.conf:2"


def test_those_of_a_unit_hide_those_of_all_services(machine: Machine) -> None:
    drop_in(machine, f"{ETC}/service.d/b.conf", 5)
    drop_in(machine, f"{LIB}/x.service.d/a.conf", 6)
    assert last(machine) == f"5 {ETC}/service.d/b.conf:2"
    machine.put(f"{USR}/x.service.d/b.conf", "[Service]\n")
    assert last(machine) == f"6 {LIB}/x.service.d/a.conf:2"


def test_other_names_of_a_unit_have_drop_ins_too(machine: Machine) -> None:
    drop_in(machine, f"{ETC}/alias.service.d/a.conf", 7)
    assert last(machine, "x.service", "alias.service") == f"7 {ETC}/alias.service.d/a.conf:2"
    assert last(machine) == f"1 {USR}/x.service:2"


@pytest.mark.parametrize("path", [f"{ETC}/x.service", f"{ETC}/x.service.d/a.conf"])
def test_a_link_to_nowhere_hides(machine: Machine, path: str) -> None:
    drop_in(machine, f"{USR}/x.service.d/a.conf", 7)
    machine.link(path, "/dev/null")
    assert last(machine) == (
        f"1 {USR}/x.service:2" if path.endswith(".conf") else f"7 {USR}/x.service.d/a.conf:2"
    )
    assert bool(systemd_conf.fragment(machine, "x.service")) is path.endswith(".conf")


@cases.table
def test_lines(machine: Machine, text: str, value: str | None) -> None:
    machine.put(f"{USR}/x.service", text)
    found = systemd_conf.service(machine, ["x.service"], KEY)
    assert (found[-1].value if found else None) == value


def test_aliases(machine: Machine) -> None:
    machine.link(f"{ETC}/alias.service", f"{USR}/x.service")
    machine.link(f"{ETC}/linked.service", "/opt/linked.service")
    assert systemd_conf.alias_of(machine, f"{ETC}/alias.service") == "x.service"
    assert systemd_conf.alias_of(machine, f"{ETC}/linked.service") == ""
    assert systemd_conf.alias_of(machine, f"{USR}/x.service") == ""


def test_the_manager(machine: Machine) -> None:
    def found() -> list[str]:
        machine.forget()  # as a run does that has written a file
        return [f"{one.value} {one.where}" for one in systemd_conf.manager(machine, KEY)]

    assert found() == []
    machine.put("/usr/lib/systemd/system.conf", f"[Manager]\n{KEY}=1\n")
    machine.put("/usr/lib/systemd/system.conf.d/50.conf", f"[Manager]\n{KEY}=2\n")
    assert found() == ["1 /usr/lib/systemd/system.conf:2", "2 /usr/lib/systemd/system.conf.d/50.conf:2"]
    machine.put("/etc/systemd/system.conf", "[Manager]\n")
    machine.put("/etc/systemd/system.conf.d/40.conf", f"[Manager]\n{KEY}=3\n")
    assert found() == ["3 /etc/systemd/system.conf.d/40.conf:2", "2 /usr/lib/systemd/system.conf.d/50.conf:2"]


def test_what_cannot_be_read_is_no_silence(machine: Machine) -> None:
    machine.unreadable[f"{USR}/x.service"] = errno.EACCES
    with pytest.raises(HostError, match="EACCES"):
        last(machine)


@quick
@given(strategies.text("[Service]\n=\\#; LimtNOFIE5\0\r"))
def test_no_file_breaks_it(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(folder)
        machine.put(f"{USR}/x.service", text)
        for one in systemd_conf.service(machine, ["x.service"], KEY):
            assert "\n" not in one.value
            assert 1 <= one.number <= text.count("\n") + 1
