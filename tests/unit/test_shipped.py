# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module of one area brings that area's files to the node, and no other's."""

from __future__ import annotations

import ast
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, shipped
from mlnode.agent import registry
from mlnode.agent.mounts import ALL
from mlnode.agent.registry import KINDS, MODULES
from mlnode.host import places

#: Driver's folder → what is sent along for it
DRIVERS = {
    "/ethtool": "_mlnode.drivers.ethtool.files",
    "/dcb": "_mlnode.drivers.dcb.files",
    "/roce": "_mlnode.drivers.roce.files",
    "/service": "_mlnode.drivers.services",
    "/gpu": "_mlnode.drivers.gpu.nvidia_smi",
    places.AGENT: "_mlnode.agent.state",
}


def test_every_driver_is_known_here() -> None:
    assert {*DRIVERS} == {*ALL} == {*places.DRIVEN}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_mounts_the_drivers_of_the_folders_that_it_names(kind: str) -> None:
    named = {
        folder
        for name in shipped.of_library(f"_mlnode.knobs.{kind}.kind") - {"_mlnode.host.places"}
        for node in ast.walk(shipped.source(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for folder in places.DRIVEN
        if f"{node.value}/".startswith(f"{folder}/")
    }
    assert {*KINDS[kind].MOUNTS} == named


#: Area → the other areas whose files it cannot do without: queues are made for the CPUs that an interrupt may
#: have, priorities belong to NICs, NCCL depends on the priorities of the fabric, containers get the node's
#: sysctls and limits, and the driver of GPUs has a service.
NEEDED = {
    "nic": {"irq"},
    "qos": {"nic"},
    "nccl": {"qos", "nic"},
    "containers": {"sysctl", "limits"},
    "gpu": {"services"},
}

#: For the agent and a revert, which deal with whatever was declared; agent/declare.py makes results for all
_OF_THE_AGENT = (
    "_mlnode.agent.",
    "_mlnode.engine.leftovers",
    "_mlnode.engine.partial",
    "_mlnode.engine.revert",
)

#: The engine with its four states, the store of the origin and the way back to it, what goes back when it
#: leaves, the host with its calls and its memory, the folders and files that root writes and their labels,
#: the answers of devices, the bridge to Ansible, whether boot files are in memory, and causes; options with
#: their specs and scalars; the agent answers for the next boot and for what waits to be confirmed
MOST = 42


@pytest.mark.parametrize(("own", "module"), MODULES.items())
def test_a_module_brings_its_own_area_and_no_other(own: str, module: str) -> None:
    sent = shipped.of(shipped.MODULES / f"{module}.py")
    knobs = {name.split(".")[2] for name in sent if name.startswith("_mlnode.knobs.")}
    # sizing: formulas; summary: a row of many devices; rules: what all that have them share; nics: what those
    # for NICs share, and the options of a rule that those of storage have, too; timers: of two;
    # own_file: the head of files
    areas = knobs - {"sizing", "summary", "rules", "nics", "timers", "own_file"}
    assert areas == {own, *NEEDED.get(own, ())}
    has_rules = any("rules" in registry.options(area) for area in areas)
    assert ("nics" in knobs) == has_rules
    # A pattern is for many files, as a rule is for many devices.
    assert ("rules" in knobs) == (has_rules or own == "sysfs")
    drivers = {folder for folder, name in DRIVERS.items() if name in sent}
    assert drivers == {*KINDS[own].MOUNTS}
    assert [name for name in sent if name.startswith(_OF_THE_AGENT)] == ["_mlnode.agent.declare"]
    assert ("_mlnode.engine.confirm" in sent) == (module == "nic_ethtool")


def test_what_all_modules_bring_stays_small() -> None:
    sent = shipped.of(shipped.MODULES / "thp.py")
    assert len(sent) <= MOST, sorted(sent)
    assert not any(name.startswith("_mlnode.topology") for name in sent)


@cases.table
def test_a_check_brings_nothing_that_changes_a_node(module: str) -> None:
    sent = shipped.of(shipped.MODULES / f"{module}.py")
    assert not {"_mlnode.engine.engine", "_mlnode.engine.transaction", "_mlnode.agent.declare"} & sent


#: Files of others in which we keep lines of our own → the area that does
_SHARED = {
    "/etc/default/grub": "boot",
    "/etc/kernel/cmdline": "boot",
    "/boot/loader/entries/x.conf": "boot",
    "/etc/nccl.conf": "nccl",
    "/etc/docker/daemon.json": "containers",
    "/etc/systemd/system/multi-user.target.wants/irqbalance.service": "irq",
}


def test_what_carries_edits_of_others_is_sent_where_they_edit() -> None:
    assert all(any(re.fullmatch(one, path) for path in _SHARED) for one in places._SHARED)
    for area in KINDS:
        sent = "_mlnode.engine.edited_file" in shipped.of_library(f"_mlnode.knobs.{area}.kind")
        assert sent == (area in _SHARED.values()), area


@pytest.mark.parametrize("area", KINDS)
def test_who_is_told_of_a_file_is_sent_with_it(area: str) -> None:
    for name in shipped.of_library(f"_mlnode.knobs.{area}.kind"):
        calls = [node for node in ast.walk(shipped.source(name)) if isinstance(node, ast.Call)]
        files = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "BootFile"]
        tells = any(len(node.args) > 2 or "notify" in {word.arg for word in node.keywords} for node in files)
        assert not tells or "_mlnode.engine.handlers" in shipped.of_library(name), name


def test_who_undoes_everything_has_all_drivers() -> None:
    for module in ("agent", "node_revert"):
        assert {*DRIVERS.values()} <= shipped.of(shipped.MODULES / f"{module}.py")


def test_an_import_in_a_function_and_a_package_count() -> None:
    # Of drivers/ethtool/__init__.py, which names the driver in a function
    assert "_mlnode.drivers.ethtool.files" in shipped.of_library("_mlnode.drivers.ethtool.words")
    assert shipped.of_library("_mlnode.model.errors") == {"_mlnode.model.errors", "_mlnode.model", "_mlnode"}
