# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import (
    MODULES,
    Make,
    patch_module_args,
)
from mlnode.host import host


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
