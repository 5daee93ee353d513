# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Nic


@pytest.fixture
def bridge() -> Bridge:
    return Bridge()


@pytest.fixture
def machine(tmp_path: pathlib.Path, bridge: Bridge) -> DcbMachine:
    return made(tmp_path / "node", bridge)


def made(folder: pathlib.Path, bridge: Bridge) -> DcbMachine:
    machine = DcbMachine.with_nics(str(folder), eth0=Nic(), eth1=Nic("e1000e", **BARE))
    assert isinstance(machine, DcbMachine)
    machine.bridges = {"eth0": bridge, "eth1": Bridge.bare()}
    machine.install("dcb")
    return machine


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> DcbMachine:
    """One for all examples of a property, which takes long to make."""
    return made(tmp_path_factory.mktemp("node"), Bridge())
