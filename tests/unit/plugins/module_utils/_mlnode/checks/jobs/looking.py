# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training node with jobs: CPUs 0-3, GPU 0 and rail 0 on node 0, CPUs 4-7, GPU 1 and rail 1 on node 1."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Mapping

import pytest
from ansible_collections.mlnode.tuning.tests.unit import fabric_tree, job_machine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.checks.jobs import run
from mlnode.checks.jobs.run import Jobs
from mlnode.checks.model import Check
from mlnode.host import namespaces
from mlnode.model.errors import HostError

FIRST, SECOND = "0000:13:00.0", "0000:93:00.0"
SCOPE = f"/system.slice/docker-{job_machine.CONTAINER}.scope"
OWN_NET = {"net": 4026532001}


def training_node(root: pathlib.Path) -> Machine:
    machine = Machine(str(root))
    job_machine.furnish(machine)
    shutil.rmtree(root / "sys/class/net")
    fabric_tree.healthy(Tree(root))
    machine.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    machine.put("/proc/sys/vm/swappiness", "60\n")
    for minor, address in enumerate((FIRST, SECOND)):
        text = f"Model: \t X\nDevice Minor: \t {minor}\n"
        machine.put(f"/proc/driver/nvidia/gpus/{address}/information", text)
    return machine


def see(monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str]) -> None:
    """The device files that all jobs have: name below /dev → MAJOR:MINOR, empty for another kind of file. No
    test needs root to make them."""

    def names(_root: int, path: str, _most: int) -> list[str]:
        below = path[len("/dev") :].lstrip("/")
        rows = [name.rpartition("/") for name in files]
        return [name for folder, _slash, name in rows if folder == below]

    def device(_root: int, path: str) -> str:
        return files[path[len("/dev/") :]]

    monkeypatch.setattr(namespaces, "names", names)
    monkeypatch.setattr(namespaces, "device", device)


def look(node: Machine) -> Jobs:
    node.forget()
    return run.look(node, {})


def named(jobs: Jobs, name: str) -> Check:
    (check,) = (check for check in jobs.checks if check.name == name)
    return check


def refuse(*_given: object) -> object:
    raise HostError("list", "/dev", None, "no answer in 1 s")
