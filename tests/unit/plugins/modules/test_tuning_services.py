# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import tuning_services
from ansible_collections.mlnode.tuning.tests.unit import service_machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from ansible_collections.mlnode.tuning.tests.unit.service_machine import ServiceMachine
from mlnode.agent import registry
from mlnode.knobs.services.known import SERVICES

DROP_IN = "/etc/systemd/system/tuned.service.d/zz-mlnode-stopped.training.conf"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> ServiceMachine:
    node = service_machine.made(str(tmp_path / "node"))
    node.tuned()
    return node


@pytest.fixture
def services(running: Make) -> Runner:
    return running(tuning_services)


def test_every_service_is_documented() -> None:
    about = registry.options("services")["services"].text
    page = pathlib.Path(tuning_services.__file__).parents[2] / "docs/knobs/services.md"
    for name in SERVICES:
        assert f"C({name})" in about
        assert f"| `{name}` |" in page.read_text(encoding="utf-8")
