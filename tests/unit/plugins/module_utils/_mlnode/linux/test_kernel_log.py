# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Live, Machine
from mlnode.host.host import Host
from mlnode.host.system import Finished, records
from mlnode.linux import kernel_log
from mlnode.model.errors import HostError

BEGIN = "5,0,0,-;Linux version 6.12.0\n"
LATER = "4,812,904512,-;e1000e: eth0 NIC Link is Up\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1f.6\n"


class Logging(Live):
    """ring: what /dev/kmsg gives. journal: what journalctl does; None where it fails."""

    ring: Sequence[str] = ()
    journal: str | None = None

    def kernel_log(self, path: str) -> list[str]:
        if not self.ring:
            raise HostError("read", path, errno.EPERM)
        return list(self.ring)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "journalctl" or self.journal is None:
            raise HostError("run", command[0], errno.ENOENT)
        return Finished(0, self.journal, "")


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Logging:
    return Logging(str(tmp_path))


def test_a_ring_that_has_all_is_asked_alone(node: Logging) -> None:
    node.ring, node.journal = (BEGIN, LATER), "another\n"
    assert kernel_log.lines(node) == ("Linux version 6.12.0", "e1000e: eth0 NIC Link is Up")


def test_the_journal_has_what_the_ring_forgot(node: Logging) -> None:
    node.ring, node.journal = (LATER,), "Linux version 6.12.0\n"
    assert kernel_log.lines(node)[0] == "Linux version 6.12.0"
    assert "e1000e: eth0 NIC Link is Up" in kernel_log.lines(node)


def test_what_is_closed_says_nothing(node: Logging) -> None:
    assert kernel_log.lines(node) == ()


def test_the_log_of_a_captured_tree(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    assert kernel_log.lines(machine) == ()
    machine.forget()
    machine.put("/dev/kmsg.txt", "[    0.000000] Linux version 6.12.0\nMalformed early option 'x'\n")
    assert kernel_log.lines(machine) == ("Linux version 6.12.0", "Malformed early option 'x'")


def test_the_kernel_of_this_machine() -> None:
    """Its records have the form that is expected here, if this user may read them at all."""
    try:
        found = records("/dev/kmsg", "/dev/kmsg")
    except HostError:
        pytest.skip("the kernel's log is closed to this user")
    assert all(kernel_log._RECORD.match(record) for record in found)
    assert len(kernel_log.lines(Host("/"))) >= len(found)
