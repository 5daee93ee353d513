# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door, nodes
from mlnode.engine import engine, units
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.host import places
from mlnode.knobs.metrics.kind import KEY
from mlnode.knobs.metrics.kind import kind as metrics
from mlnode.model.setting import Layer, Status

AUTO = {"textfile_directory": "auto"}
DROP_IN = "/etc/systemd/system/timers.target.d/zz-mlnode-site.conf"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> nodes.Node:
    node = nodes.made(nodes.CASES["metrics"], tmp_path / "node")
    nodes.install(node)
    return node


def row(node: nodes.Node, spec: dict[str, Any], layers: tuple[Layer, ...] = tuple(Layer)) -> Row:
    node.forget()
    [found] = engine.evaluate(node, Request("site", metrics, spec, layers)).rows
    return found


def apply(node: nodes.Node, spec: dict[str, Any]) -> engine.Outcome:
    node.forget()
    return door.apply(node, Request("site", metrics, spec))


def test_it_is_off_until_it_is_declared(node: nodes.Node) -> None:
    assert node.exists(units.CHECK_TIMER_FILE)
    assert places.CHECK_TIMER not in node.active
    assert row(node, AUTO).reading.runtime.text == "off"
    apply(node, AUTO)
    assert f"Wants={places.CHECK_TIMER} {places.WATCH_TIMER}\n" in node.text(DROP_IN)
    assert {places.CHECK_TIMER, places.WATCH_TIMER} <= {*node.active}
    assert row(node, AUTO).status is Status.OK
    assert not apply(node, AUTO).changed


@pytest.mark.parametrize("timer", [places.CHECK_TIMER, places.WATCH_TIMER])
def test_a_timer_that_was_stopped_is_started(node: nodes.Node, timer: str) -> None:
    apply(node, AUTO)
    node.run(["systemctl", "stop", timer])
    found = row(node, AUTO)
    assert (found.status, found.reason) == (
        Status.DRIFTED,
        "runtime is off; folder as in the default of prometheus-node-exporter.service",
    )
    assert apply(node, AUTO).changed
    assert timer in node.active


@pytest.mark.parametrize("file", [units.CHECK_TIMER_FILE, units.WATCH_TIMER_FILE])
def test_a_masked_timer_is_named(node: nodes.Node, file: str) -> None:
    apply(node, AUTO)
    os.unlink(node.root + file)
    node.link(file, "/dev/null")
    found = row(node, AUTO)
    assert found.status is Status.DRIFTED
    assert f"{file} masks {file.rpartition('/')[2]}" in found.reason


def test_a_drop_in_of_others_that_keeps_it_from_its_work(node: nodes.Node) -> None:
    apply(node, AUTO)
    other = f"{units.CHECK_SERVICE_FILE}.d/own.conf"
    node.put(other, "[Service]\nExecStart=\nExecStart=/bin/true\n")
    assert f"{other}:3 sets ExecStart=/bin/true" in row(node, AUTO).reason
    node.put(other, "[Service]\nNice=5\n")
    assert row(node, AUTO).status is Status.OK


def test_without_a_folder_it_is_drift(node: nodes.Node) -> None:
    apply(node, AUTO)
    found = row(node, {"textfile_directory": "/srv/none"})
    assert found.status is Status.DRIFTED
    assert "/srv/none does not exist" in found.reason


def test_without_systemd_it_is_unsupported(node: nodes.Node) -> None:
    os.unlink(f"{node.root}/run/systemd/system/.keep")
    os.rmdir(f"{node.root}/run/systemd/system")
    found = row(node, AUTO)
    assert (found.status, found.reason) == (
        Status.UNSUPPORTED,
        "systemd does not run here, and has the timer",
    )


def test_an_image_has_the_drop_in_and_looks_for_no_folder(node: nodes.Node) -> None:
    node.remove("/usr/lib/systemd/system/prometheus-node-exporter.service")
    assert row(node, AUTO, (Layer.BOOT,)).status is Status.DRIFTED
    node.forget()
    door.apply(node, Request("site", metrics, AUTO, (Layer.BOOT,)))
    assert row(node, AUTO, (Layer.BOOT,)).status is Status.OK
    assert places.CHECK_TIMER not in node.active


def test_an_explanation_names_what_starts_it(node: nodes.Node) -> None:
    apply(node, AUTO)
    assert metrics.boot_sources(KEY, node) == [
        f"{DROP_IN} starts it",
        "the default of prometheus-node-exporter.service: /var/lib/prometheus/node-exporter",
    ]
