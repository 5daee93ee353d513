# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import nccl_conf
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nccl.node import (
    HCAS,
    block,
    declare_class,
    give_addresses,
    roce,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.knobs.nccl.file import PATH

DECLARATION = "/etc/mlnode/declared.d/jobs.json"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """With two RoCE rails."""
    return roce(str(tmp_path / "node"))


@pytest.fixture
def nccl(running: Make) -> Runner:
    return running(nccl_conf)


AUTO: dict[str, Any] = {"NCCL_IB_HCA": "auto", "NCCL_SOCKET_IFNAME": "auto", "NCCL_IB_TC": "auto"}


def test_a_block_with_what_auto_found_comes_before_the_lines_of_others(
    machine: Machine, nccl: Runner
) -> None:
    declare_class(machine, 106)
    machine.put(PATH, "NCCL_DEBUG=INFO\n")

    done = nccl.ok(name="jobs", variables=AUTO)

    assert done.diff[PATH] == (
        "NCCL_DEBUG=INFO\n",
        block(f"NCCL_IB_HCA={HCAS}", "NCCL_SOCKET_IFNAME==eth0", "NCCL_IB_TC=106") + "NCCL_DEBUG=INFO\n",
    )


def test_the_environment_that_wins_is_a_warning(machine: Machine, nccl: Runner) -> None:
    machine.put("/etc/environment", "NCCL_DEBUG=INFO\n")
    done = nccl.ok(variables={"NCCL_DEBUG": "WARN"})
    assert done.warnings == ["nccl.NCCL_DEBUG is overridden: boot: /etc/environment:1 sets INFO"]
    assert done.settings["nccl.NCCL_DEBUG"]["boot_source"] == "/etc/environment:1"


def test_an_index_is_written_where_it_is_certain(machine: Machine, nccl: Runner) -> None:
    done = nccl.ok(variables={"NCCL_IB_GID_INDEX": "auto"})
    assert "left out" in done.settings["nccl.NCCL_IB_GID_INDEX"]["reason"]
    assert not machine.exists(PATH)
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3]})
    nccl.ok(variables={"NCCL_IB_GID_INDEX": "auto"})
    assert "NCCL_IB_GID_INDEX=3\n" in machine.read(PATH)


def test_the_documented_sample_is_what_is_returned(machine: Machine, nccl: Runner) -> None:
    machine.put("/etc/environment", "A=1\nB=2\nNCCL_IB_TC=104\n")
    done = nccl.ok(variables={"NCCL_IB_TC": 106})
    [sample] = yaml.safe_load(nccl_conf.RETURN)["settings"]["sample"]
    assert sample.items() <= done.settings["nccl.NCCL_IB_TC"].items()
