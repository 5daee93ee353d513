# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a play with --diff shows of files, and of which it shows nothing but that they change."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import declare
from mlnode.agent.declare import Order
from mlnode.agent.registry import KINDS
from mlnode.engine import origin, revert
from mlnode.report import reverted

NCCL = "/etc/nccl.conf"
SECRET = "NCCL_SOCKET_IFNAME=the-secret\n"
AREAS: dict[str, dict[str, Any]] = {"nccl": {"variables": {"NCCL_DEBUG": "WARN"}}}


def settle(
    machine: Machine, check: bool = False, diff: bool = True, **areas: Any
) -> dict[str, dict[str, str]]:
    order = Order("node", KINDS, areas or AREAS, ("nccl",), whole=True, check=check, diff=diff)
    found = declare.run(machine, order)
    assert not found.failed, found.msg
    assert found.changed
    return {pair["after_header"]: pair for pair in found.diff}


@pytest.fixture
def guarded(machine: Machine) -> Machine:
    machine.put(NCCL, SECRET)
    os.chmod(machine.real(NCCL), 0o600)
    return machine


@pytest.mark.parametrize("check", [True, False])
def test_without_diff_there_is_none(machine: Machine, check: bool) -> None:
    assert settle(machine, check, diff=False) == {}


@pytest.mark.parametrize("check", [True, False])
def test_a_file_that_others_may_not_read_is_not_shown(guarded: Machine, check: bool) -> None:
    found = settle(guarded, check)

    pair = found[NCCL]
    assert "the-secret" not in str(found)
    assert "NCCL_DEBUG" not in pair["after"]
    assert pair["before"].startswith("the content before is not shown, as the mode of the file keeps others")
    assert pair["before"] != pair["after"], "Ansible shows no pair of equals"


def test_a_file_that_all_may_read_is_shown(machine: Machine) -> None:
    machine.put(NCCL, SECRET)

    pair = settle(machine)[NCCL]

    assert pair["before"] == SECRET
    assert "NCCL_DEBUG=WARN" in pair["after"]


def test_what_others_could_not_read_before_the_first_run_stays_hidden(guarded: Machine) -> None:
    settle(guarded)
    os.chmod(guarded.real(NCCL), 0o644)

    assert "the-secret" not in str(settle(guarded, check=True, nccl={"variables": {"NCCL_DEBUG": "INFO"}}))


@pytest.mark.parametrize("done", [revert.pending, revert.revert])
def test_a_revert_does_not_show_it_either(guarded: Machine, done: Any) -> None:
    settle(guarded)

    found = {pair["after_header"]: pair for pair in reverted.diff(done(guarded))}

    assert "the-secret" not in str(found)
    assert found[NCCL]["after"].startswith("the content after is not shown")
    assert found[NCCL]["before"].startswith("the content before is not shown")


def test_the_mode_is_that_of_a_file(machine: Machine) -> None:
    assert not origin.is_closed(None)
    assert not origin.is_closed({"link": "/dev/null"})
    assert [origin.is_closed({"mode": mode}) for mode in (0o600, 0o640, 0o644)] == [True, True, False]
