# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links that a change has reset are no links that fail."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from mlnode.checks import expect
from mlnode.checks.rdma import run
from mlnode.linux import link_counters

from .node import NicNode, apply

DOWNS = "/sys/class/net/eth2/carrier_down_count"
#: Of packets that are under way as the NIC is reset
LOST = (
    "/sys/class/infiniband/mlx5_0/ports/1/counters/excessive_buffer_overrun_errors",
    "/sys/class/infiniband/mlx5_0/ports/1/counters/local_link_integrity_errors",
    "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rnr_nak_retry_err",
)
LINK_DOWNED = "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"


class Resetting(NicNode):
    """The driver of eth2 takes the link down and up again at each change. down: how often it was."""

    down = 3

    def fall(self, _nic: Nic | None = None) -> None:
        self.down += 1
        self.told()

    def told(self) -> None:
        for path in (DOWNS, LINK_DOWNED, *LOST):
            self.put(path, f"{self.down}\n")


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Resetting:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    found = Resetting.made(tmp_path / "node")
    assert isinstance(found, Resetting)
    found.eth2.along = found.fall
    found.put("/proc/uptime", "100.00 5.00\n")
    found.told()
    return found


def seen(host: NicNode) -> dict[str, str]:
    """What the check of the fabric says of eth2's counters."""
    host.forget()
    wanted = expect.parse({"devices": {"mlx5_0": {"counters": {"carrier_down_count": 0}}}})
    found = run.all_checks(host, wanted, writable=True)
    names = ("flap", "fatal_counters")
    return {one.name: str(one.verdict) for one in found if one.name in names and one.target == "mlx5_0/1"}


def resize(host: NicNode, size: int) -> bool:
    host.forget()
    return apply(host, {"name": "fast", "nics": {"names": ["eth2"]}, "rings": size}).changed


def test_a_link_that_a_change_has_reset_does_not_flap(host: Resetting) -> None:
    assert seen(host) == {"flap": "skip", "fatal_counters": "skip"}
    for size in (2048, 4096, 8192):
        assert resize(host, size)
    assert host.down == 6
    assert seen(host) == {"flap": "pass", "fatal_counters": "pass"}

    host.fall()
    assert seen(host) == {"flap": "fail", "fatal_counters": "fail"}


@pytest.mark.parametrize("text", ["rubbish", '{"format": 9}'])
def test_a_change_does_not_fail_with_what_is_kept_of_counters(host: Resetting, text: str) -> None:
    host.put(link_counters.PATH, text)
    assert resize(host, 2048)
    assert host.text(link_counters.PATH) == text
