# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keywords, values and matches of the files of network managers."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.nics import owner_lines as nics_owner_lines
from mlnode.knobs.nics.owner_lines import Line, Target

ETH0 = Target("eth0", "aa:bb:cc:00:00:01", "mlx5_core")
NET = "/sys/class/net/eth0"


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put(f"{NET}/type", "1\n")
    machine.put(f"{NET}/addr_assign_type", "0\n")
    machine.put(f"{NET}/ifindex", "7\n")
    machine.put("/run/udev/data/n7", "I:1\nE:ID_PATH=pci-0000:01:00.0\nE:ID_NET_DRIVER=mlx5_core\n")
    return machine


@cases.table
def test_the_knob_and_the_value_of_a_line(section: str, key: str, text: str, file: str, value: str) -> None:
    assert nics_owner_lines.file_of(Line(section, key, text, "f:1")) == file
    assert nics_owner_lines.value_of(file, text, key) == value


@cases.table
def test_what_a_command_sets(text: str, expected: list[tuple[str, str]]) -> None:
    assert [*nics_owner_lines.commands(text, "eth0", "eth0")] == expected


def test_lines_have_their_section_and_place() -> None:
    text = "A=0\n[One]\n ;B=2\nC = 'x y' # z\nno equals\n[Two]\r\n# D=1\nE=\n"
    assert nics_owner_lines.lines(text, "/f\n") == [
        Line("", "A", "0", "/f\\n:1"),
        Line("One", "C", "x y", "/f\\n:4"),
        Line("Two", "E", "", "/f\\n:8"),
    ]


@cases.table
def test_the_interfaces_of_a_file(host: Machine, text: str, expected: bool | None) -> None:
    found = nics_owner_lines.lines(text, "/f")
    assert nics_owner_lines.concerns(found, nics_owner_lines.known(host, ETH0)) is expected


@cases.table
def test_what_an_interface_does_not_show_is_not_resolved(
    host: Machine, path: str, value: str, text: str
) -> None:
    found = nics_owner_lines.lines(text, "/f")
    assert nics_owner_lines.concerns(found, nics_owner_lines.known(host, ETH0)) is not None
    host.put(path, value)
    assert nics_owner_lines.concerns(found, nics_owner_lines.known(host, ETH0)) is None


def test_a_port_of_a_bond_is_known_by_its_own_address(host: Machine) -> None:
    host.put(f"{NET}/addr_assign_type", "3\n")
    host.put(f"{NET}/bonding_slave/perm_hwaddr", "AA:BB:CC:00:00:99\n")
    found = nics_owner_lines.lines("[Match]\nPermanentMACAddress=aa:bb:cc:00:00:99", "/f")
    assert nics_owner_lines.concerns(found, nics_owner_lines.known(host, ETH0)) is True
