# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import kernel_modules
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture
def modules(running: Make, machine: Machine) -> Runner:
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "a/ib_uverbs.ko:\na/rdma_ucm.ko:\n")
    return running(kernel_modules)


def test_the_documented_sample_is_what_is_returned(machine: Machine, modules: Runner) -> None:
    machine.put("/etc/modprobe.d/local.conf", "# theirs\nblacklist ib_uverbs\n")
    done = modules.ok(modules=["ib_uverbs"])
    [sample] = yaml.safe_load(kernel_modules.RETURN)["settings"]["sample"]
    assert sample.items() <= done.settings["module.ib_uverbs"].items()
