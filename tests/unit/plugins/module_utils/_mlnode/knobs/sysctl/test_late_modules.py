# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that come with a module, which a firewall or a mount loads after sysctl.d was read."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.engine import boot_run, engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import AGENT_UNIT, Row
from mlnode.knobs.sysctl import needed
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import Layer, Status

TRACKED = "net.netfilter.nf_conntrack_max"
PATH = "/proc/sys/net/netfilter/nf_conntrack_max"
DROP_IN, LIST = "/etc/sysctl.d/zz-mlnode-one.conf", "/etc/modules-load.d/mlnode-one.conf"
DEP = f"/lib/modules/{RELEASE}/modules.dep"


@pytest.fixture
def node(machine: Machine) -> Machine:
    """A node whose firewall has not been started yet."""
    machine.put(DEP, "a/nf_conntrack.ko.xz:\na/br_netfilter.ko:\na/sunrpc.ko:\n")
    machine.enable_agent()
    return machine


def request(key: str = TRACKED, value: Any = 4194304, **more: Any) -> Request:
    return Request("one", sysctl, {"settings": {key: value}}, **more)


def row(machine: Machine, key: str = TRACKED, value: Any = 4194304, **more: Any) -> Row:
    machine.forget()
    return engine.evaluate(machine, request(key, value, **more)).rows[0]


def test_a_number_of_a_profile_that_no_kernel_takes_loads_nothing(node: Machine) -> None:
    profile = frozenset({TRACKED})
    plan = engine.evaluate(node, request(value=99999999999, profile=profile))
    assert [str(one.status) for one in plan.rows] == ["unsupported"]
    assert plan.steps == ()


@cases.table
def test_one_run_loads_the_module_lists_it_and_sets_the_value(
    node: Machine, key: str, value: Any, module: str
) -> None:
    before = row(node, key, value)
    assert before.status is Status.DRIFTED
    assert module in before.reason
    outcome = door.apply(node, request(key, value))
    assert [one.status for one in outcome.rows] == [Status.CHANGED]
    want = str(value["at_least"] if isinstance(value, dict) else value)
    assert node.now(f"/proc/sys/{key.replace('.', '/')}") == want
    assert module in node.read(LIST).splitlines()
    after = row(node, key, value)
    assert (after.status, after.reading.boot.value.text) == (Status.OK, want)
    assert after.reading.boot.source == f"{DROP_IN}:3"
    assert not door.apply(node, request(key, value)).changed


def test_a_revert_leaves_the_module_to_those_who_use_it_by_now(node: Machine) -> None:
    door.apply(node, request())
    door.apply(node, Request("one", sysctl, {"settings": {}}))
    assert node.now(PATH) == "262144"  # its value when it was first seen
    assert node.exists("/sys/module/nf_conntrack")
    assert not node.exists(LIST)


def test_a_loaded_module_that_nothing_lists_comes_after_the_line(node: Machine) -> None:
    """As a firewall does: the line alone brings nothing, whatever the kernel shows now."""
    node.put(PATH, "4194304\n")
    node.put("/sys/module/nf_conntrack/initstate", "live\n")
    node.put(DROP_IN, f"{TRACKED} = 4194304\n")
    node.remove("/etc/systemd/system/multi-user.target.wants/mlnode-apply.service")
    found = row(node)
    assert found.status is Status.DRIFTED
    assert "no file in modules-load.d lists nf_conntrack" in found.reason
    node.put("/usr/lib/modules-load.d/firewall.conf", "nf_conntrack\n")
    assert row(node).status is Status.OK
    node.link("/etc/systemd/system/systemd-modules-load.service", "/dev/null")
    assert "masks systemd-modules-load.service" in row(node).reason


def test_where_no_list_is_read_the_agent_loads_it_and_says_so(node: Machine) -> None:
    door.apply(node, request())
    node.put("/etc/modprobe.d/cis.conf", "blacklist nf_conntrack\n")
    found = row(node)
    assert (found.status, found.reading.boot.source) == (Status.OK, AGENT_UNIT)


def test_the_boot_service_loads_it_and_sets_it_in_one_run(node: Machine) -> None:
    door.apply(node, request())
    for path in (PATH, "/proc/sys/net/nf_conntrack_max"):
        node.remove(path)
    node.forget()
    os.rmdir(f"{node.root}/sys/module/nf_conntrack")
    outcome, errors = boot_run.apply_each(node, request(alone=True))
    assert (errors, node.now(PATH)) == ([], "4194304")
    assert [one.status for one in outcome.rows] == [Status.CHANGED]


@cases.table
def test_what_cannot_be_loaded_here_is_unsupported(node: Machine, path: str, text: str, words: str) -> None:
    node.put(path, text)
    found = row(node)
    assert (found.status, found.reading.load) == (Status.UNSUPPORTED, ())
    assert words in found.reason
    door.apply(node, request())
    assert not node.exists("/sys/module/nf_conntrack") or path.startswith("/sys/")


def test_a_key_that_the_module_does_not_bring_is_unsupported_after_it(node: Machine) -> None:
    key = "net.netfilter.nf_conntrack_helper"  # gone since Linux 6.0
    outcome = door.apply(node, request(key, 0))
    assert [one.status for one in outcome.rows] == [Status.UNSUPPORTED]


def test_a_value_that_no_kernel_takes_is_refused_before_the_module_is_loaded(node: Machine) -> None:
    before = node.tree()
    with pytest.raises(MlnodeError, match="must be from"):
        door.apply(node, request(value=-5))
    assert node.tree() == before


def test_an_image_lists_it_for_its_kernels(node: Machine) -> None:
    found = row(node, layers=(Layer.BOOT,))
    assert found.reading.modules == ("nf_conntrack",)
    node.put(DEP, "a/other.ko:\n")
    assert row(node, layers=(Layer.BOOT,)).reading.modules == ()


def test_the_first_begin_that_fits_is_the_longest() -> None:
    begins = [*needed._OWNERS]
    for at, begin in enumerate(begins):
        assert not any(begin.startswith(earlier) for earlier in begins[:at]), begin
