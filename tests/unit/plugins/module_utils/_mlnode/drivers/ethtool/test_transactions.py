# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""That a NIC's settings are kernel files to everything above Host: read back, rolled back, reverted."""

from __future__ import annotations

import errno
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.unit.captures import of_ethtool as capture
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic, NicMachine
from mlnode.engine import transaction
from mlnode.engine.origin import Origin
from mlnode.engine.restore import restore
from mlnode.engine.steps import KernelWrite
from mlnode.model.errors import TransactionError
from mlnode.model.setting import KnobFile, Write

ETH0 = "/ethtool/eth0"
RING = f"{ETH0}/ring/rx,tx"
TSO = f"{ETH0}/feature/tx-tcp-segmentation"


def step(machine: NicMachine, path: str, value: str, *undo: str, device: str = "") -> KernelWrite:
    """Without a device what is not taken fails the run; with one, see knobs/test_devices.py."""
    before = machine.now(path)
    writes = tuple(Write(name, machine.now(name)) for name in (path, *undo))
    return KernelWrite("nic.eth0", KnobFile(0, path, before, value, writes, device=device))


def test_a_change_is_made_kept_and_taken_back(machine: NicMachine, nic: Nic) -> None:
    before = capture(machine.nic("eth0"))
    origin = Origin.load(machine)
    steps = [step(machine, RING, "8192 4096"), step(machine, TSO, "off")]
    transaction.run(machine, origin, steps)
    assert machine.now(RING) == "8192 4096"
    assert origin.values() == {RING: "1024 1024", TSO: "on"}
    for entry in reversed(origin.entries()):
        assert restore(machine, entry)
        assert not restore(machine, entry)
    assert capture(machine.nic("eth0")) == before


def test_a_driver_that_accepts_and_ignores_is_caught(machine: NicMachine, nic: Nic) -> None:
    nic.ignores = {"tx-tcp-segmentation"}
    steps = [
        step(machine, RING, "8192 4096"),
        step(machine, TSO, "off", f"{ETH0}/feature/requested/tx-tcp-segmentation"),
    ]
    with pytest.raises(TransactionError, match="accepted, but the kernel now shows 'on'") as caught:
        transaction.run(machine, Origin.load(machine), steps)
    assert caught.value.stuck == []
    assert machine.now(RING) == "1024 1024"
    assert nic.features["tx-tcp-segmentation"].requested


def test_a_driver_that_gives_less_is_caught(machine: NicMachine, nic: Nic) -> None:
    nic.most = {"ring/rx": 4096}
    with pytest.raises(TransactionError, match="now shows '4096 1024'"):
        transaction.run(machine, Origin.load(machine), [step(machine, RING, "8192 1024")])
    assert machine.now(RING) == "1024 1024"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EOPNOTSUPP, errno.EPERM, errno.ENODEV, errno.ENOENT])
def test_a_driver_that_refuses_leaves_everything_as_it_was(
    machine: NicMachine, nic: Nic, number: int
) -> None:
    before = capture(machine.nic("eth0"))
    steps = [step(machine, RING, "8192 4096"), step(machine, f"{ETH0}/channels/combined", "8")]
    nic.fails[0x3D] = number
    with pytest.raises(TransactionError, match=r"put back: nic\.eth0 = 1024 1024") as caught:
        transaction.run(machine, Origin.load(machine), steps)
    assert caught.value.stuck == []
    assert capture(machine.nic("eth0")) == before


def test_what_a_change_moves_along_goes_back_with_it(machine: NicMachine, nic: Nic) -> None:
    def fewer_flags(changed: Nic) -> None:
        assert changed.coalesce is not None
        changed.coalesce["rx-usecs"] = 3 if changed.coalesce["adaptive-rx"] else 50

    nic.along = fewer_flags
    usecs = f"{ETH0}/coalesce/rx-usecs"
    before = machine.now(usecs)
    origin = Origin.load(machine)
    transaction.run(machine, origin, [step(machine, f"{ETH0}/coalesce/adaptive-rx", "off", usecs)])
    assert machine.now(usecs) == "50"
    nic.along = lambda _nic: None
    for entry in origin.entries():
        restore(machine, entry)
    assert machine.now(usecs) == before


def test_a_nic_that_is_gone_has_nothing_to_put_back(machine: NicMachine, nic: Nic) -> None:
    origin = Origin.load(machine)
    transaction.run(machine, origin, [step(machine, RING, "8192 4096", device="/sys/class/net/eth0")])
    shutil.rmtree(machine.root + "/sys/class/net/eth0")
    assert not restore(machine, origin.entries()[0])


def test_a_driver_that_does_not_let_go_is_stuck_and_said(machine: NicMachine, nic: Nic) -> None:
    origin = Origin.load(machine)
    transaction.run(machine, origin, [step(machine, RING, "8192 4096")])
    nic.fails[0x11] = errno.ENOENT
    nic.most = {}
    with pytest.raises(Exception, match="ENOENT"):
        restore(machine, origin.entries()[0])
