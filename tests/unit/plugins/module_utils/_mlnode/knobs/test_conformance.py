# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every kind of knob, each on a node of its own: a look predicts the run, a second run changes
nothing, bad input is named, and whatever was declared goes back."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import BuildHost, captured
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Case, Node, made
from mlnode.agent import registry
from mlnode.engine import declared, engine, origin, revert
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Layer, Status, Value
from mlnode.report import diff
from mlnode.topology import management

every_kind = pytest.mark.parametrize("kind", registry.KINDS)

#: Only the next boot brings what they declare, whatever a run does
AT_BOOT = ("limits", "boot")

#: What some of them have is in no file: a program or a driver has to be asked
NO_FILES = ("gpu", "nic", "qos")

#: Two declarations of them add up
AGREEING = ("modules",)
#: What disagrees where the other declaration of the case does not
RIVALS: dict[str, dict[str, Any]] = {
    "nccl": {"variables": {"NCCL_DEBUG": "INFO"}},
    "containers": {"shm_size": "8GiB", "runtimes": ["podman"]},
    "sysfs": {"settings": {"/sys/kernel/mm/lru_gen/min_ttl_ms": 500}},
    "boot": {"parameters": {"iommu": "off"}},
}


@pytest.fixture
def case(kind: str) -> Case:
    return CASES[kind]


@pytest.fixture
def node(case: Case) -> Iterator[Node]:
    """Where the agent brings back what no file does."""
    for folder in in_memory():
        yield installed(case, folder)


def installed(case: Case, folder: pathlib.Path) -> Node:
    node = made(case, folder / "node")
    node.enable_agent()
    return node


@every_kind
def test_a_look_predicts_the_run_and_a_second_one_changes_nothing(node: Node, case: Case) -> None:
    before = node.state()
    seen = engine.preview(node, [case.request])
    assert node.state() == before, "a look has written something"
    [foreseen] = seen.outcomes
    node.forget()

    done = door.apply(node, case.request)

    assert (foreseen.changed, done.changed) == (True, True)
    assert diff.diff([*seen.shared, *foreseen.steps]) == diff.diff(done.steps)
    assert {row.status for row in done.rows} <= {Status.CHANGED, Status.PENDING_REBOOT}
    assert [row.setting for row in done.rows] == [row.setting for row in foreseen.rows]
    if case.kind not in AT_BOOT:
        assert [row.reading.runtime.text for row in done.rows] == [row.reading.want for row in foreseen.rows]

    node.forget()
    tuned, written = node.state(), [*node.writes]
    again = door.apply(node, case.request)
    assert (again.changed, again.plan.steps) == (False, ())
    assert {row.status for row in again.rows} <= {Status.OK, Status.PENDING_REBOOT}
    assert (node.state(), node.writes) == (tuned, written)


@every_kind
def test_whatever_is_declared_goes_back(node: Node, case: Case) -> None:
    before = node.state()
    for request in (case.request, case.other_request):
        door.apply(node, request)
        node.forget()
    revert.revert(node)
    node.unload()
    assert node.state() == before
    assert not node.exists(origin.PATH)


@every_kind
def test_nothing_declared_is_nothing_done(node: Node, case: Case) -> None:
    before = node.state()
    nothing = case.request._replace(spec=door.checked(case.kind, dict.fromkeys(registry.options(case.kind))))
    assert door.parse(case.kind, nothing.spec) == []
    assert not door.apply(node, nothing).changed
    assert node.state() == before

    door.apply(node, case.request)
    node.forget()
    assert door.apply(node, nothing).changed
    left = {path for path, found in node.tuned().items() if path not in before and found[0] != "/"}
    assert left <= {management.RECORD}


@every_kind
def test_bad_input_is_named_and_nothing_is_written(node: Node, case: Case) -> None:
    before = node.state()
    for spec, names in (case.bad, ({**case.spec, "nonsense": 1}, (f"{case.kind}.nonsense",))):
        with pytest.raises(DeclarationError) as caught:
            door.apply(node, door.request("default", case.kind, spec))
        assert [name for name in names if name not in str(caught.value)] == []
    assert node.state() == before


@every_kind
def test_what_is_kept_on_the_node_means_the_same(node: Node, case: Case) -> None:
    door.apply(node, case.request)
    kept = json.loads(node.read(declared.path_of("default")))["kinds"][case.kind]
    assert door.parse(case.kind, kept) == door.parse(case.kind, case.spec)


@every_kind
def test_an_image_build_looks_at_no_hardware(node: Node, case: Case) -> None:
    node.__class__ = type("Build", (BuildHost, type(node)), {})
    request = case.request._replace(layers=(Layer.BOOT,))
    assert door.apply(node, request).changed
    node.forget()
    again = door.apply(node, request)
    assert not again.changed
    assert {row.status for row in again.rows} <= {Status.OK}
    assert {row.reading.runtime for row in again.rows} == {Value()}
    assert node.writes == []


@every_kind
def test_a_captured_tree_is_judged_as_the_machine(node: Node, case: Case) -> None:
    door.apply(node, case.request)
    node.forget()
    status = {row.setting.key: row.status for row in engine.evaluate(node, case.request).rows}
    tree = captured(node.root, case.request.kind.MOUNTS)
    for row in engine.evaluate(tree, case.request).rows:
        lacking = row.status is Status.UNKNOWN and case.kind in NO_FILES
        assert lacking or row.status is status[row.setting.key], row.reason


@pytest.mark.parametrize("kind", [kind for kind in registry.KINDS if kind not in AGREEING])
def test_two_declarations_that_disagree_are_both_named(node: Node, case: Case) -> None:
    door.apply(node, case.request)
    node.forget()
    before = node.state()
    rival = door.request("rival", case.kind, RIVALS.get(case.kind, case.other))
    with pytest.raises(DeclarationError) as caught:
        door.apply(node, rival)
    assert re.search(r"\bby rival\b.*\bby default\b", str(caught.value)), caught.value
    assert node.state() == before


@every_kind
def test_every_setting_has_its_reason_and_a_source(case: Case, kind: str) -> None:
    for setting in door.parse(case.kind, case.spec):
        found = case.request.kind.info(setting.key, Value())
        assert found.reason
        assert found.source
        assert not case.request.kind.conflicts(setting.key, setting.key)
