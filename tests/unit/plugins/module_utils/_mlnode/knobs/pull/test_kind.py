# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import calendar
import pathlib
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases, door, nodes
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.host import places
from mlnode.knobs.pull import window
from mlnode.knobs.pull.kind import kind as pull
from mlnode.model.setting import Status

DROP_IN = "/etc/systemd/system/timers.target.d/zz-mlnode.pull-site.conf"


def test_the_timer_runs_while_it_is_declared(tmp_path: pathlib.Path) -> None:
    node = nodes.made(nodes.CASES["pull"], tmp_path)
    nodes.install(node)

    def row() -> Any:
        node.forget()
        return engine.evaluate(node, Request("site", pull, nodes.PULL)).rows[0]

    assert row().reading.runtime.text == "off"
    door.apply(node, Request("site", pull, nodes.PULL))
    assert f"Wants={places.PULL_TIMER}\n" in node.text(DROP_IN)
    assert {*node.active} & {places.PULL_TIMER, places.CHECK_TIMER} == {places.PULL_TIMER}
    assert row().status is Status.OK
    node.run(["systemctl", "stop", places.PULL_TIMER])
    assert row().status is Status.DRIFTED
    assert door.apply(node, Request("site", pull, nodes.PULL)).changed
    assert row().status is Status.OK


SATURDAY = (2026, 11, 28)


@cases.table
def test_windows(text: str, hour: int, minute: int, is_open: bool) -> None:
    assert window.FORM.pattern.match(text)
    assert window.is_open([text], calendar.timegm((*SATURDAY, hour, minute, 0))) is is_open


def test_without_a_window_it_is_always_open() -> None:
    assert window.is_open([], 0)
