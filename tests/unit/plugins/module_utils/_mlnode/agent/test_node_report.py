# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import node_report
from mlnode.agent import rows as agent_rows
from mlnode.agent.node import Survey, survey
from mlnode.agent.registry import KINDS
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import Severity, Status
from mlnode.model.version import VERSION
from mlnode.report.document import drift_line

SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def tuned(machine: Machine) -> Machine:
    settings = {"vm.swappiness": 1, "kernel.no_such_knob": 1}
    door.apply(machine, Request("training", sysctl, {"settings": settings}))
    return machine


def test_a_whole_node_as_plain_data(tuned: Machine) -> None:
    found = survey(tuned)

    assert node_report.node(found) == {
        "format": 1,
        "mlnode": VERSION,
        "compliant": True,
        "changed": False,
        "summary": {"ok": 1, "unsupported": 1},
        "errors": [],
        "settings": [{**item.row.document(), "declared_by": ["training"]} for item in found.rows],
    }


def drift_lines(found: Survey) -> list[str]:
    return [drift_line(item.row.document()) for item in found.rows if item.row.status.is_drift]


def test_drift_is_told_in_lines_that_stand_alone(tuned: Machine) -> None:
    tuned.put(SWAPPINESS, "60\n")
    tuned.put("/etc/sysctl.d/zzz.conf", "vm.swappiness = 30\n")

    words = "runtime is 60; boot: /etc/sysctl.d/zzz.conf:1 sets 30"
    state = "drifted, want 1, runtime 60, boot 30 (high)"
    assert drift_lines(survey(tuned)) == [f"vm.swappiness: {state}: {words}"]


def test_drift_to_and_from_an_empty_value_shows_both_sides(machine: Machine) -> None:
    ports = "net.ipv4.ip_local_reserved_ports"
    door.apply(machine, Request("one", sysctl, {"settings": {ports: ""}}))
    machine.put("/proc/sys/net/ipv4/ip_local_reserved_ports", "9100\n")

    [line] = drift_lines(survey(machine))

    assert line.startswith(f'{ports}: drifted, want "", runtime 9100, boot "" (')


def test_the_schema_names_the_same_fields_and_words_as_the_code(tuned: Machine) -> None:
    path = pathlib.Path(__file__).parents[6] / "docs/schema/node.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    setting = schema["$defs"]["setting"]["properties"]
    state = node_report.node(survey(tuned))

    assert list(schema["properties"]) == list(state)
    assert list(setting) == list(state["settings"][0])
    assert schema["$defs"]["status"]["enum"] == [str(status) for status in Status]
    assert setting["severity"]["enum"] == [str(severity) for severity in Severity]
    assert [
        kind for kind in (agent_rows.KIND, *KINDS) if not re.search(setting["kind"]["pattern"], kind)
    ] == []
    assert schema["properties"]["format"]["const"] == node_report.FORMAT
