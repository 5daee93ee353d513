# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import ModuleType

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner, put_in_place


@pytest.fixture
def running(machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Make:
    """Makes a module callable, on the fixture `machine`."""
    put_in_place(machine, monkeypatch)

    def make(module: ModuleType) -> Runner:
        return Runner(capsys, module)

    return make
