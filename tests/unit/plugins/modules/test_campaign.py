# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a simulated machine; tests/system runs iperf3 itself."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import campaign
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import CampaignMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.checks.campaign import part, store
from mlnode.checks.campaign.clock import Clock
from mlnode.checks.campaign.store import State

SLOT = {"round": 0, "peer": "b", "serves": False, "rails": [["10.9.0.1", "10.9.0.2"]]}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> CampaignMachine:
    return CampaignMachine.made(str(tmp_path / "node"))


@pytest.fixture
def run(running: Make, node: CampaignMachine, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(check_module, "Host", lambda **_mounts: node)
    return running(campaign)


def started(**more: Any) -> dict[str, Any]:
    now = Clock().wall()
    return {
        "state": "started", "id": "spring", "start": now + 60, "rounds": 1,
        "addresses": ["10.9.0.1"], "slots": [SLOT], **more,
    }  # fmt: skip


def test_check_mode_says_whether_it_could_begin_and_starts_nothing(
    run: Runner, node: CampaignMachine
) -> None:
    done = run.ok(check=True, **started())

    assert not done.changed
    assert done.result["interfaces"] == ["eth0"]
    assert store.read(node) is None


def test_what_is_collected_is_gone(run: Runner, node: CampaignMachine) -> None:
    store.write(node, State("spring", Clock().wall() + 60, True, {"slots": []}))

    looked = run.ok(check=True, state="collected", id="spring")
    done = run.ok(state="collected", id="spring")

    assert (looked.result["done"], looked.result["answer"]) == (True, "")
    assert (done.result["done"], done.result["answer"], done.result["problem"]) == (True, '{"slots":[]}', "")
    assert store.read(node) is None
    assert "no campaign was started here" in run.ok(state="collected", id="spring").result["problem"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"streams": 99}, "campaign: streams: 99 is not between 1 and 64"),
        ({"addresses": ["10.7.7.7"]}, "campaign: no interface of this node has the address 10.7.7.7"),
        ({"slots": [{**SLOT, "serves": "perhaps"}]}, "perhaps"),
    ],
)
def test_bad_input(run: Runner, wrong: dict[str, Any], said: str) -> None:
    assert said in run.msg(**started(**wrong))


@pytest.mark.parametrize(("state", "needs"), [("started", "rounds, addresses, slots"), ("begun", "start")])
def test_a_state_needs_more_options(run: Runner, state: str, needs: str) -> None:
    assert run.msg(state=state, id="spring") == f"campaign: state is {state}, which needs {needs} as well"


def test_a_node_that_waits_is_told_the_start(run: Runner, node: CampaignMachine) -> None:
    store.write(node, State("spring", Clock().wall() + 60, False, {}, None, 30.0))
    start = Clock().wall() + 5

    looked = run.ok(check=True, state="begun", id="spring", start=start)
    assert "ends" not in looked.result
    assert run.ok(state="begun", id="spring", start=start).result["ends"] == start + 30

    state = store.read(node)
    assert state is not None
    assert (state.start, state.until) == (start, start + 30)
    came, left = looked.result["clock"]
    # A clock that NTP corrects may go back a little.
    assert came - 1 < left < Clock().wall() + 1
    assert "does not wait here" in run.msg(state="begun", id="other", start=start)


def test_the_defaults_are_those_that_are_documented(run: Runner) -> None:
    options = yaml.safe_load(campaign.DOCUMENTATION)["options"]

    defaults = {name: options[name]["default"] for name in ("duration", "streams", "tcp_port")}
    assert defaults == {"duration": 4, "streams": 4, "tcp_port": 18600}
    assert options["allow"]["choices"] == [*part.GUARDS]
