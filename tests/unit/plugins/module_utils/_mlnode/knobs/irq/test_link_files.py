# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of systemd's .link files that choose CPUs for a NIC's interrupts and packets."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.knobs.irq.kind import kind as irq
from mlnode.model.setting import Status

from .node import IrqNode, apply, row

LINK = "/etc/systemd/network/10-a.link"
RULE = {"name": "two", "nics": {"names": ["eth2"]}, "strategy": "list", "cpus": "2"}
RPS = {"name": "two", "nics": {"names": ["eth2"]}, "rps": "0-3"}


@pytest.fixture(name="node")
def _node(node: IrqNode) -> IrqNode:
    systemd(node, "260.1-1")
    for rule in (RULE, RPS):
        apply(node, {**RULE, **rule, "rps": "0-3"})
    return node


def systemd(node: IrqNode, version: str) -> None:
    for path in node.matching("/usr/lib/*/systemd/libsystemd-shared-*.so"):
        node.remove(path)
    node.put(f"/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-{version}.so", "")


def put(node: IrqNode, lines: str, match: str = "OriginalName=eth2") -> None:
    node.put(LINK, f"[Match]\n{match}\n[Link]\n" + lines.replace(" | ", "\n") + "\n")
    node.forget()


@cases.table
def test_a_line_with_other_cpus_is_named_and_one_with_the_same_agrees(
    node: IrqNode, lines: str, rule: str, reason: str
) -> None:
    put(node, lines)
    found = row(node, RPS if rule == "rps" else RULE)
    words = f"boot: {LINK}:{reason}" if reason else ""
    assert (found.status, found.reason) == (Status.OVERRIDDEN if reason else Status.OK, words)


@pytest.mark.parametrize(
    ("rule", "line"), [(RULE, "IRQAffinityPolicy=spread"), (RPS, "ReceivePacketSteeringCPUMask=9")]
)
def test_an_older_systemd_ignores_the_option_and_an_unknown_one_may(
    node: IrqNode, rule: dict[str, object], line: str
) -> None:
    systemd(node, "252.1")
    put(node, line)
    assert (row(node, rule).status, row(node, rule).reason) == (Status.OK, "")
    systemd(node, "252.1")
    node.put("/usr/lib/systemd/libsystemd-shared-260.so", "")
    node.forget()
    assert f"{LINK}:4 (systemd .link) may set" in row(node, rule).reason


def test_a_file_for_another_nic_is_no_matter(node: IrqNode) -> None:
    put(node, "IRQAffinityPolicy=spread", match="OriginalName=eth3")
    assert row(node, RULE).reason == ""
    put(node, "IRQAffinityPolicy=spread", match="Host=other")
    assert "may set spread" in row(node, RULE).reason


@pytest.mark.parametrize("problem", [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_makes_the_row_unknown(node: IrqNode, problem: int) -> None:
    put(node, "IRQAffinityPolicy=spread")
    node.unreadable[LINK] = problem
    for rule in (RULE, RPS):
        found = row(node, rule)
        assert found.status is Status.UNKNOWN
        assert LINK in found.reason
    # XPS has no such line.
    assert row(node, {**RPS, "rps": None, "xps": "0-3"}).status is not Status.UNKNOWN


def test_a_file_of_a_program_without_such_a_line_is_no_matter(node: IrqNode) -> None:
    """Only root may read profiles of NetworkManager."""
    profile = "/etc/NetworkManager/system-connections/a.nmconnection"
    node.put("/sys/fs/cgroup/system.slice/NetworkManager.service/cgroup.procs", "1\n")
    node.put(profile, "[connection]\ninterface-name=eth2\n")
    node.unreadable[profile] = errno.EACCES
    node.forget()
    for rule in (RULE, RPS):
        assert (row(node, rule).status, row(node, rule).reason) == (Status.OK, "")
    assert irq.boot_sources("irq.two", node) == []


def test_an_explanation_lists_the_lines(node: IrqNode) -> None:
    put(node, "IRQAffinityPolicy=single | ReceivePacketSteeringCPUMask=0-3")
    assert irq.boot_sources("irq.two", node) == [f"{LINK}:4: eth2 irq/policy single (systemd .link)"]
    assert irq.boot_sources("irq.two.rps", node) == [f"{LINK}:5: eth2 rps/cpus 0-3 (systemd .link)"]
    assert irq.boot_sources("irq.two.xps", node) == []
