# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit.machine import Live
from mlnode.checks import expect
from mlnode.checks.model import Check, Verdict
from mlnode.checks.rdma import neighbour, run
from mlnode.drivers import services
from mlnode.host.host import Host
from mlnode.linux import lldp
from mlnode.linux.lldp import Neighbour
from mlnode.model.errors import HostError
from mlnode.topology import hardware


def look(name: str) -> dict[str, Check]:
    host = Host(tree(name), run.MOUNTS)
    checks = neighbour.checks(host, hardware.topology(host), expect.parse({}))
    assert {check.verdict for check in checks} == {Verdict.SKIP}, (
        "one node does not know where a rail should be"
    )
    return {check.target: check for check in checks}


def test_each_port_has_its_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(
        nic.name for nic in hardware.topology(Host(tree("roce8"), run.MOUNTS)).nics if "mlx5_0" in nic.rdma
    )
    monkeypatch.setattr(lldp, "neighbours", lambda host: {first: Neighbour("leaf3", "swp7")})
    found = {target: check.found for target, check in look("roce8").items()}
    assert found.pop("mlx5_0/1") == "swp7 of leaf3"
    assert len(found) == 7
    assert {*found.values()} == {"no neighbour has announced itself"}


def test_two_switches_at_one_port_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are they compared between nodes."""
    every = {nic.name: Neighbour("leaf3", "etp7", ("leaf4",)) for nic in hardware.topology(
        Host(tree("roce8"), run.MOUNTS)).nics}  # fmt: skip
    monkeypatch.setattr(lldp, "neighbours", lambda host: every)
    check = look("roce8")["mlx5_0/1"]
    assert check.found == "etp7 of leaf3, and leaf4 announce themselves: none is certain"
    assert check.value is None


def test_infiniband_is_left_to_the_subnet() -> None:
    assert look("ndr-ib")["node"].found == "no RoCE interface is judged"


def test_without_lldpd(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is a captured tree" in look("roce8")["node"].found

    def missing(host: Host) -> None:
        raise HostError("run", lldp.TOOL, 2)

    monkeypatch.setattr(lldp, "neighbours", missing)
    assert look("roce8")["node"].found == "lldpctl is not installed"


@pytest.mark.parametrize(
    ("action", "runs", "verdict"),
    [
        ("understand", False, Verdict.UNKNOWN), ("understand", True, Verdict.UNKNOWN),
        ("run", True, Verdict.UNKNOWN), (lldp.ASK, True, Verdict.UNKNOWN), (lldp.ASK, False, Verdict.SKIP),
    ],
)  # fmt: skip
def test_an_answer_that_is_none(
    monkeypatch: pytest.MonkeyPatch, action: str, runs: bool, verdict: Verdict
) -> None:
    """Only a daemon that does not run has none to give."""

    def fails(host: Host) -> None:
        raise HostError(action, lldp.TOOL, None, "no JSON")

    monkeypatch.setattr(lldp, "neighbours", fails)
    monkeypatch.setattr(services, "is_running", lambda host, unit: runs and unit == "lldpd.service")
    host = Live(str(tree("roce8")))
    [check] = neighbour.checks(host, hardware.topology(host), expect.parse({}))
    assert (check.verdict, check.found) == (verdict, f"cannot {action} lldpctl: no JSON")
