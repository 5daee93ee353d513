# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module's main() as Ansible does: arguments as JSON in, one JSON document on stdout and an exit
status out."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from ansible.module_utils import _internal as ansible_internal
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common import warnings as ansible_warnings
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module, tuning_module
from ansible_collections.mlnode.tuning.plugins.modules import (
    agent,
    campaign,
    ib_subnet,
    memory_bandwidth,
    node_audit,
    node_job,
    node_preflight,
    node_revert,
    node_topology,
    path_mtu,
    rdma_check,
    sysctl_ml,
    timed_command,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES
from mlnode.agent import registry
from mlnode.host.host import Mounts

#: Every module that declares something → arguments that do
DECLARING: dict[ModuleType, dict[str, Any]] = {
    **{
        importlib.import_module(f"{agent.__package__}.{name}"): CASES[area].spec
        for area, name in registry.MODULES.items()
    },
    # Settings that are there, and one that is not
    sysctl_ml: {"settings": {"vm.swappiness": 1, "kernel.no_such_knob": 1}},
}

#: Every module that runs on a node → arguments with which it has something to do
MODULES: dict[ModuleType, dict[str, Any]] = {
    agent: {},
    node_topology: {},
    path_mtu: {"peers": ["127.0.0.1"], "fail_on": "never"},
    rdma_check: {"fail_on": "never"},
    ib_subnet: {"fail_on": "never"},
    campaign: {"state": "collected", "id": "spring"},
    memory_bandwidth: {},
    timed_command: {"command": ["true"]},
    node_audit: {},
    node_job: {"pid": [4_194_304], "fail_on": "never"},  # beyond the kernel's greatest number
    node_preflight: {"fail_on": "never"},
    **DECLARING,
    node_revert: {},
}


@dataclass(frozen=True)
class Finished:
    """What a module left: its exit status and its document."""

    rc: int
    result: dict[str, Any]

    @property
    def changed(self) -> bool:
        return bool(self.result["changed"])

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        return {setting["key"]: setting for setting in self.result["settings"]}

    @property
    def warnings(self) -> list[str]:
        """As texts; the controller makes them of the objects."""
        return [warning["event"]["msg"] for warning in self.result.get("warnings", [])]

    @property
    def diff(self) -> dict[str, tuple[str, str]]:
        """Header → what was and what is; both headers of a pair are the same."""
        pairs = self.result["diff"]
        assert all(pair["before_header"] == pair["after_header"] for pair in pairs)
        return {pair["before_header"]: (pair["before"], pair["after"]) for pair in pairs}


@dataclass(frozen=True)
class Runner:
    """Calls a module on one machine; `result` and `msg` fail the test where it ended the other way."""

    capsys: pytest.CaptureFixture[str]
    module: ModuleType

    def __call__(self, check: bool = False, **arguments: Any) -> Finished:
        self.capsys.readouterr()
        # They pile up in the process, and a real module has one of its own.
        ansible_warnings._global_warnings.clear()
        told = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(told), pytest.raises(SystemExit) as ended:
            self.module.main()
        out, err = self.capsys.readouterr()
        assert err == ""
        result = json.loads(out)
        # The arguments, which ansible-core 2.19 adds to every result and 2.21 only where that is asked for.
        result.pop("invocation", None)
        return Finished(int(str(ended.value.code)), result)

    def ok(self, check: bool = False, **arguments: Any) -> Finished:
        done = self(check, **arguments)
        assert done.rc == 0, done.result
        assert "failed" not in done.result
        return done

    def msg(self, check: bool = False, **arguments: Any) -> str:
        """The words of a failure."""
        done = self(check, **arguments)
        assert done.rc == 1, done.result
        assert done.result["failed"] is True
        return str(done.result["msg"])


Make = Callable[[ModuleType], Runner]


def _mounted(machine: Machine, mounts: Mounts = MappingProxyType({})) -> Machine:
    """The same machine, all state shared, with the drivers that a module asks for and no others."""
    mine = {folder: driver for folder, driver in machine.mounts.items() if folder in mounts}
    lacking = type("Mounted", (type(machine),), {"mounts": property(lambda _self: mine)})
    found: Machine = lacking.__new__(lacking)
    found.__dict__ = machine.__dict__
    return found


def put_in_place(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every module work on this machine."""
    for user in (tuning_module, check_module, agent, node_revert):
        monkeypatch.setattr(user, "Host", partial(_mounted, machine))
    # Tests of action plugins make a controller of this process, where a warning is no part of the answer.
    monkeypatch.setattr(ansible_internal, "is_controller", False)
    # It adds owner and mode of the file at a result's path, where the real machine has one.
    monkeypatch.setattr(AnsibleModule, "add_path_info", lambda _self, result: result)
