# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode apply --dry-run` shows what `mlnode apply` does, and does nothing."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli
from mlnode.engine import engine

from .test_cli import DECLARED, Run, _signals, declare, live, run, schema, tuned

__all__ = ["_signals", "live", "run", "tuned"]

DECLARATION = {
    "thp": {"enabled": "madvise"},
    "sysctl": {"settings": {"vm.swappiness": 1, "vm.overcommit_memory": 2, "kernel.no_such_knob": 1}},
}
DROP_IN = "/etc/sysctl.d/zz-mlnode-one.conf"


@pytest.fixture
def due(live: Machine) -> Machine:
    """A node that is not yet what it is declared to be."""
    declare(live, "one", **DECLARATION)
    live.enable_agent()
    return live


def test_it_names_all_that_would_be_changed_and_changes_nothing(due: Machine, run: Run) -> None:
    before = due.tree()
    due.writes.clear()

    status, out, err = run("apply", "--dry-run")

    assert (status, err) == (cli.DRIFT, "")
    assert re.search(
        r"^thp\.enabled +madvise +always +madvise +drifted +runtime is always$", out, re.MULTILINE
    )
    assert re.search(r"^vm\.swappiness +1 +60 +- +drifted +runtime is 60; boot: no file", out, re.MULTILINE)
    assert re.search(r"^vm\.overcommit_memory .* refused .* allow: \[overcommit\]$", out, re.MULTILINE)
    assert "no_such_knob" not in out
    assert out.endswith(
        "5 settings: 2 drifted, 1 ok, 1 refused, 1 unsupported\n"
        "would change 2 settings of the running kernel\n"
        f"would write {DROP_IN}\n"
        "dry run: nothing was changed\n"
    )
    assert (due.tree(), due.writes) == (before, [])


def test_its_statuses_are_those_of_check_mode(due: Machine, run: Run) -> None:
    document = json.loads(run("apply", "--dry-run", "--json")[1])
    shown = {item["key"]: (item["status"], item["reason"]) for item in document["settings"]}
    del shown["agent.boot"]

    requests = [door.request("one", kind, spec) for kind, spec in DECLARATION.items()]
    outcomes = engine.preview(due, requests, lambda plan: None)

    rows = [row for outcome in outcomes.outcomes for row in outcome.rows]
    assert shown == {row.setting.key: (str(row.status), row.reason) for row in rows}


def test_what_it_foresees_is_what_happens(due: Machine, run: Run) -> None:
    foreseen = json.loads(run("apply", "--dry-run", "--json")[1])
    schema("node").validate(foreseen)
    assert (foreseen["changed"], foreseen["compliant"]) == (True, False)

    done = json.loads(run("apply", "--json")[1])

    assert done["changed"] is True
    drifted = {item["key"] for item in foreseen["settings"] if item["status"] == "drifted"}
    assert {item["key"] for item in done["settings"] if item["status"] == "changed"} == drifted
    assert due.exists(DROP_IN)
    after = json.loads(run("apply", "--dry-run", "--json")[1])
    assert after["changed"] is False


def test_a_node_as_declared_ends_with_0(live: Machine, run: Run) -> None:
    declare(live, "one", thp={"enabled": "madvise"})
    live.enable_agent()
    assert run("apply")[0] == cli.OK

    assert run("apply", "--dry-run") == (
        cli.OK,
        "2 settings: 2 ok\nnothing would be changed\ndry run: nothing was changed\n",
        "",
    )


def test_a_file_that_no_value_shows_is_a_change_too(live: Machine, run: Run) -> None:
    declare(live, "one", sysctl={"settings": {"vm.swappiness": 1}})
    run("apply")
    live.put(DROP_IN, f"{live.text(DROP_IN)}# a line of another\n")

    status, out, err = run("apply", "--dry-run")

    assert (status, err) == (cli.DRIFT, "")
    assert out == f"1 setting: 1 ok\nwould write {DROP_IN}\ndry run: nothing was changed\n"


def test_a_file_that_would_go_is_named(live: Machine, run: Run) -> None:
    declare(live, "one", thp={"enabled": "madvise"}, sysctl={"settings": {"vm.swappiness": 1}})
    run("apply")
    declare(
        live, "one", thp={"enabled": "madvise"}, sysctl={"settings": {"vm.max_map_count": {"at_least": 1}}}
    )

    out = run("apply", "--dry-run")[1]

    assert f"would remove {DROP_IN}\n" in out
    assert live.exists(DROP_IN)


def test_what_is_wrong_is_said_as_by_the_run_itself(due: Machine, run: Run) -> None:
    due.put(f"{DECLARED}/broken.json", "{")
    declare(due, "bad", thp={"defrag": True})

    status, _out, err = run("apply", "--dry-run")

    assert status == cli.ERROR
    assert run("apply")[2] == err
    assert f"{DECLARED}/broken.json is damaged" in err
    assert "bad, thp: thp.defrag: must be a text" in err
