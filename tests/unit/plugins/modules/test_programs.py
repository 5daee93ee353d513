# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import campaign, path_mtu, sysctl_ml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import (
    MODULES,
    Make,
    patch_module_args,
)
from mlnode.host import host

#: What a module does not start without
_REQUIRED: dict[ModuleType, dict[str, Any]] = {
    sysctl_ml: {"settings": {"vm.swappiness": 1}},
    path_mtu: {"peers": ["127.0.0.1"]},
    campaign: {"state": "collected", "id": "spring"},
}


@pytest.mark.parametrize(("module", "arguments"), MODULES.items())
def test_a_module_is_a_program(
    machine: Machine,
    running: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: ModuleType,
    arguments: dict[str, Any],
) -> None:
    before = machine.tree()
    # Run anew, a module imports its Host anew too.
    monkeypatch.setattr(host, "Host", lambda mounts=(): machine)

    told = {**arguments, "_ansible_check_mode": True}
    path = pathlib.Path(str(module.__file__))
    # As runpy would, which Ansible's own importer keeps from finding a file.
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")

    with patch_module_args(told), pytest.raises(SystemExit) as ended:
        exec(code, {"__name__": "__main__"})

    assert ended.value.code == 0
    assert "changed" in json.loads(capsys.readouterr().out)
    assert machine.tree() == before


@pytest.mark.parametrize("module", MODULES)
def test_an_option_that_does_not_exist_is_named(running: Make, machine: Machine, module: ModuleType) -> None:
    before = machine.tree()

    required = _REQUIRED.get(module, {})
    msg = running(module).msg(surprise=1, **required)

    assert "Unsupported parameters for" in msg
    assert "surprise" in msg
    assert machine.tree() == before
