# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import kernel_modules
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/fabric.json"
FILE = "/etc/modules-load.d/mlnode-modules.fabric.conf"


@pytest.fixture
def modules(running: Make, machine: Machine) -> Runner:
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "a/ib_uverbs.ko:\na/rdma_ucm.ko:\n")
    return running(kernel_modules)


def test_modules_are_loaded_now_and_at_every_boot(machine: Machine, modules: Runner) -> None:
    done = modules.ok(name="fabric", modules=["ib_uverbs", "rdma-ucm"])

    assert done.diff["runtime"] == ("", "module ib_uverbs loaded\nmodule rdma_ucm loaded\n")
    assert done.diff[FILE][1].splitlines()[2:] == ["ib_uverbs", "rdma_ucm"]
    assert json.loads(machine.read(DECLARATION))["kinds"] == {
        "modules": {"modules": ["ib_uverbs", "rdma-ucm"]}
    }


def test_the_documented_sample_is_what_is_returned(machine: Machine, modules: Runner) -> None:
    machine.put("/etc/modprobe.d/local.conf", "# theirs\nblacklist ib_uverbs\n")
    done = modules.ok(modules=["ib_uverbs"])
    [sample] = yaml.safe_load(kernel_modules.RETURN)["settings"]["sample"]
    assert sample.items() <= done.settings["module.ib_uverbs"].items()
