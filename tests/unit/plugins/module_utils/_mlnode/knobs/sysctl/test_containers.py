# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `mlnode explain` says about a key in containers of this node."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.sysctl import containers

RELEASE = "/proc/sys/kernel/osrelease"
DEVCONF = "/proc/sys/net/core/devconf_inherit_init_net"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("vm.swappiness", "same value"),
        ("net.core.rmem_max", "same value, no file"),
        ("net.ipv4.tcp_rmem", "copy of the node's value"),
        ("net.core.somaxconn", "kernel default; set it for the container, or use the host's network"),
        ("kernel.shmmax", "kernel default; set it for the container, or use the host's IPC namespace"),
        ("net.ipv4.conf.eth0.rp_filter", "no such interface"),
        ("net.core.optmem_max", "same value, no file"),
        ("net.ipv4.no_such_key", "not known for this kernel"),
    ],
)
def test_one_line_about_a_key(machine: Machine, key: str, expected: str) -> None:
    machine.put(RELEASE, "6.1.0-57-amd64\n")
    assert containers.words(machine, key) == expected


def test_the_kernel_and_its_present_values_decide(machine: Machine) -> None:
    machine.put(RELEASE, "6.12.1\n")
    machine.put(DEVCONF, "0\n")
    assert containers.words(machine, "net.core.rmem_max") == "same value, read-only"
    assert containers.words(machine, "net.ipv6.conf.default.accept_ra").startswith("kernel default")
    machine.put(DEVCONF, "1\n")
    assert containers.words(machine, "net.ipv6.conf.default.accept_ra") == "copy of the node's value"
    machine.put(DEVCONF, "2\n")
    assert containers.words(machine, "net.ipv4.ip_forward").startswith("kernel default")


def test_a_file_that_cannot_be_read_makes_the_keys_unknown_that_depend_on_it(machine: Machine) -> None:
    machine.unreadable[RELEASE] = errno.EIO
    machine.unreadable[DEVCONF] = errno.EIO
    for key in ("net.core.rmem_max", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        assert containers.words(machine, key) == containers.UNKNOWN
    assert containers.words(machine, "net.ipv4.tcp_rmem") == "copy of the node's value"
