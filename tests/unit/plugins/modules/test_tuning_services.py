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

DECLARATION = "/etc/mlnode/declared.d/training.json"
DROP_IN = "/etc/systemd/system/tuned.service.d/zz-mlnode-stopped.training.conf"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> ServiceMachine:
    node = service_machine.made(str(tmp_path / "node"))
    node.tuned()
    return node


@pytest.fixture
def services(running: Make) -> Runner:
    return running(tuning_services)


def test_a_service_is_stopped_now_and_at_every_boot(services: Runner) -> None:
    done = services.ok(name="training", services={"tuned": "stop"})

    assert [*done.diff] == [DECLARATION, "runtime", DROP_IN]
    assert done.diff["runtime"] == ("service.tuned = running\n", "service.tuned = stopped\n")


def test_an_active_profile_of_tuned_is_named(
    machine: ServiceMachine, services: Runner, running: Make
) -> None:
    done = services.ok(name="training", services={"tuned": "leave", "tlp": None})
    assert done.settings["service.tuned"]["status"] == "ok"
    assert "with the profile throughput-performance" in done.settings["service.tuned"]["reason"]
    assert [*done.settings] == ["service.tuned"]
    assert machine.runs("tuned.service")


def test_every_service_is_documented() -> None:
    about = registry.options("services")["services"].text
    page = pathlib.Path(tuning_services.__file__).parents[2] / "docs/knobs/services.md"
    for name in SERVICES:
        assert f"C({name})" in about
        assert f"| `{name}` |" in page.read_text(encoding="utf-8")
