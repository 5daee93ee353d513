# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import nccl_conf
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nccl.node import (
    roce,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """With two RoCE rails."""
    return roce(str(tmp_path / "node"))


@pytest.fixture
def nccl(running: Make) -> Runner:
    return running(nccl_conf)


def test_the_documented_sample_is_what_is_returned(machine: Machine, nccl: Runner) -> None:
    machine.put("/etc/environment", "A=1\nB=2\nNCCL_IB_TC=104\n")
    done = nccl.ok(variables={"NCCL_IB_TC": 106})
    [sample] = yaml.safe_load(nccl_conf.RETURN)["settings"]["sample"]
    assert sample.items() <= done.settings["nccl.NCCL_IB_TC"].items()
