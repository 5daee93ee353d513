# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole subnet, looked at again and again while things happen to it."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import TOOLS, SubnetMachine, captured
from mlnode.checks.model import Check, Verdict
from mlnode.checks.subnet import check as subnet_check
from mlnode.checks.subnet.check import Request
from mlnode.engine import revert
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

FILE = "/var/lib/mlnode/ib-subnet.cache"
WELL = {**dict.fromkeys(("manager", "links", "topology", "errors", "uplinks"), "pass"), "leaf_rails": "skip"}
FIRST = {**WELL, "topology": "skip"}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> SubnetMachine:
    return SubnetMachine(f"{tmp_path}/node")


def look(
    machine: SubnetMachine, state: str = "whole", port: str = "", reset: bool = False, write: bool = True
) -> list[Check]:
    machine.state = state
    machine.commands.clear()
    return subnet_check.look(machine, Request(port, reset, write)).checks


def verdicts(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.verdict.value for check in checks}


def changed(checks: list[Check]) -> list[str]:
    return [f"{check.verdict} {check.target}" for check in checks if check.name == "topology"]


def test_a_healthy_subnet(machine: SubnetMachine) -> None:
    assert verdicts(look(machine)) == FIRST
    assert machine.tree()[FILE] == ("whole", 0o644)
    assert verdicts(look(machine)) == WELL
    cache = machine.commands[1][3]
    assert machine.commands == [
        ["sminfo"],
        ["ibnetdiscover", "--list", "--cache", cache],
        ["iblinkinfo", "--line", "--load-cache", cache],
        ["iblinkinfo", "--line", "--load-cache", cache, "--diff", FILE, "--diffcheck", "port"],
        ["ibqueryerrors", "--suppress", "PortXmitWait,PortRcvSwitchRelayErrors", "--load-cache", cache],
    ]
    assert not pathlib.Path(cache).parent.exists()


def test_what_has_changed_stays_a_finding_until_it_is_accepted(machine: SubnetMachine) -> None:
    look(machine)
    for _again in range(2):
        assert changed(look(machine, "host")) == ["fail leaf2/1 - gpu003 mlx5_0/1"]
    assert changed(look(machine, "host", reset=True)) == ["skip subnet"]
    assert changed(look(machine, "host")) == ["pass subnet"]
    assert changed(look(machine, "whole")) == ["warn leaf2/1 - gpu003 mlx5_0/1"]


def test_a_look_that_may_not_write_keeps_nothing_and_compares(machine: SubnetMachine) -> None:
    before = machine.tree()
    assert verdicts(look(machine, write=False)) == FIRST
    assert verdicts(look(machine, write=False, reset=True)) == FIRST
    assert machine.tree() == before
    look(machine)
    kept = machine.tree()
    assert changed(look(machine, "swapped", write=False)) == [
        "fail leaf1/1 - gpu001 mlx5_0/1",
        "fail leaf1/2 - gpu002 mlx5_0/1",
    ]
    assert machine.tree() == kept


def test_slow_links_and_errors(machine: SubnetMachine) -> None:
    [slow] = [check for check in look(machine, "slow") if check.verdict is Verdict.FAIL]
    assert (slow.target, slow.expected) == ("gpu003 mlx5_0/1 - leaf2/1", "12X")
    assert verdicts(look(machine, "errors")) == {**WELL, "errors": "warn"}


def test_a_switch_that_does_not_answer(machine: SubnetMachine) -> None:
    """Nor does a subnet manager: ibqueryerrors gets no paths."""
    checks = look(machine, "silent")
    assert [(check.name, check.target) for check in checks if check.verdict is Verdict.UNKNOWN] == [
        ("links", "leaf2/4"), ("links", "leaf1/4"), ("uplinks", "leaf2"), ("uplinks", "leaf1"),
        ("topology", "subnet"), ("errors", "subnet"),
    ]  # fmt: skip
    assert verdicts(checks)["manager"] == "fail"
    assert FILE not in machine.tree()


def test_no_change_of_a_part_is_unknown(machine: SubnetMachine) -> None:
    look(machine)
    checks = {check.name: check for check in look(machine, "silent")}
    assert checks["topology"].verdict is Verdict.UNKNOWN
    assert checks["topology"].found == "no change in the part that answers; 2 queries had no answer"


def test_one_host_that_does_not_answer_costs_its_own_port(machine: SubnetMachine) -> None:
    look(machine)
    checks = look(machine, "hung")
    assert {(check.name, check.target): check.verdict.value for check in checks} == {
        ("manager", "subnet"): "pass",
        ("links", "leaf2/1"): "unknown",
        ("leaf_rails", "subnet"): "skip",
        ("uplinks", "subnet"): "pass",
        ("topology", "leaf2/1 - gpu003 mlx5_0/1"): "unknown",
        ("errors", "subnet"): "pass",
    }
    assert machine.tree()[FILE][0] == "whole", "what was not seen whole is not kept"
    machine.state = "hung"
    machine.says["perfquery"] = Finished(255, "", "refused")
    [silent, *balance] = subnet_check.look(machine, Request(only_uplinks=True)).checks
    assert (silent.target, silent.verdict) == ("leaf2/1", Verdict.UNKNOWN)
    assert {check.name for check in balance} == {"balance"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "umad (DR path slid 0; dlid 0; 0,1,9 Attr 0x11:0) bad status 110; Connection timed out",
            "0,1,9",
        ),
        (
            "umad (DR path slid 0; dlid 0; 0,1 Attr 0x15:4) bad status 110; Connection timed out",
            "0x15:4",
        ),
        (
            "mad (DR path slid 0; dlid 0; 0,1,4 Attr 0x15:3) bad status 0x1c",
            "0x1c",
        ),
        ("umad (Lid 4 Attr 0x11:0) bad status 5; Input/output error", "Lid 4"),
    ],
)
def test_a_query_without_an_answer_that_no_port_explains(
    machine: SubnetMachine, line: str, words: str
) -> None:
    machine.says["ibnetdiscover"] = Finished(0, captured("whole.nodes"), f"src/query_smp.c:197; {line}\n")
    checks = look(machine)
    assert {check.name for check in checks if check.verdict is Verdict.PASS} == {
        "manager",
        "links",
        "uplinks",
        "errors",
    }
    unknown = [check for check in checks if check.verdict is Verdict.UNKNOWN]
    assert any(words in check.found for check in unknown)
    assert FILE not in machine.tree()


def test_a_port_without_counters_costs_itself(machine: SubnetMachine) -> None:
    warnings = [
        "ibwarn: [7] mad_rpc: _do_madrpc failed; dport (Lid 6)",
        "ibwarn: [7] query_cap_mask: classportinfo query failed on gpu002 mlx5_0, Lid 6 port 1",
        "ibwarn: [7] mad_rpc: _do_madrpc failed; dport (Lid 6)",
        "ibwarn: [7] print_errors: IB_GSI_PORT_COUNTERS query failed on gpu002 mlx5_0, Lid 6 port 1",
    ]
    report = captured("errors.errors") + "##          2 PMA query failures\n"
    machine.says["ibqueryerrors"] = Finished(1, report, "\n".join(warnings))
    checks = [check for check in look(machine) if check.name == "errors"]
    assert [(check.target, check.verdict.value) for check in checks] == [
        ("gpu003 mlx5_0/1", "warn"), ("leaf1/1", "warn"), ("gpu002 mlx5_0/1", "unknown"),
    ]  # fmt: skip
    machine.says["ibqueryerrors"] = Finished(1, report.replace("2 PMA", "3 PMA"), "\n".join(warnings))
    checks = [check for check in look(machine) if check.name == "errors"]
    assert [check.target for check in checks if check.verdict is Verdict.UNKNOWN] == [
        "gpu002 mlx5_0/1",
        "subnet",
    ]
    machine.says["ibqueryerrors"] = Finished(-11, captured("errors.errors").split("\n##")[0], "")
    checks = [check for check in look(machine) if check.name == "errors"]
    assert [check.verdict.value for check in checks] == ["warn", "warn", "unknown"]


def test_no_port_to_look_from(machine: SubnetMachine) -> None:
    found = look(machine, "noport", "mlx5_77/1")
    assert verdicts(found) == {"manager": "unknown", "topology": "unknown"}
    assert all("can't open" in check.found for check in found)


def test_a_subnet_manager_without_paths(machine: SubnetMachine) -> None:
    machine.says["ibqueryerrors"] = Finished(0, "", captured("silent.errors.err"))
    assert verdicts(look(machine)) == {**FIRST, "errors": "unknown"}
    machine.says["ibqueryerrors"] = Finished(0, "", "")
    assert verdicts(look(machine)) == {**WELL, "errors": "unknown"}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("happens", ["missing", "hangs", "crashes", "complains", "else"])
def test_a_tool_that_did_not_do_its_work_is_never_a_pass(
    machine: SubnetMachine, tool: str, happens: str
) -> None:
    look(machine)
    kept = machine.tree()
    if happens in ("missing", "hangs"):
        getattr(machine, happens).add(tool)
    else:
        machine.says[tool] = {
            "crashes": Finished(-11, "", ""),
            "complains": Finished(0, "", "ibwarn: [7] _do_madrpc: recv failed: Connection timed out"),
            "else": Finished(0, "<html>\x00\u2028\n", ""),
        }[happens]

    found = look(machine, "host")

    names = {"sminfo": {"manager"}, "ibnetdiscover": {"topology"}, "ibqueryerrors": {"errors"}}
    unknown = [check for check in found if check.verdict is Verdict.UNKNOWN]
    assert {check.name for check in unknown} == names.get(tool, {"links", "baseline"})
    assert all(check.advice for check in unknown)
    assert ("install infiniband-diags" in unknown[0].advice) == (happens == "missing")
    assert not {check.name for check in unknown} & {
        check.name for check in found if check.verdict is Verdict.PASS
    }
    assert machine.tree() == kept


def test_a_cache_that_is_damaged_is_kept_until_it_is_reset(machine: SubnetMachine) -> None:
    machine.put(FILE, "damaged")
    found = look(machine)
    assert verdicts(found)["baseline"] == "unknown"
    assert "loading cached fabric for diff failed" in str(found)
    assert "baseline: reset" in str(found)
    assert machine.tree()[FILE][0] == "damaged"
    assert verdicts(look(machine, reset=True)) == FIRST
    assert verdicts(look(machine)) == WELL


def test_a_fifo_in_its_place_is_not_opened(machine: SubnetMachine) -> None:
    look(machine)
    machine.remove(FILE)
    os.mkfifo(machine.root + FILE)
    assert verdicts(look(machine))["baseline"] == "unknown"
    assert not any("--diff" in command for command in machine.commands)


def test_a_disk_that_is_full(machine: SubnetMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_file(path: str, *_args: object, **_more: object) -> None:
        raise HostError("write", path, errno.ENOSPC)

    monkeypatch.setattr(machine, "write_file", write_file)
    assert verdicts(look(machine)) == {
        **{name: verdict for name, verdict in WELL.items() if name != "topology"},
        "baseline": "unknown",
    }


def test_no_room_for_a_look(
    machine: SubnetMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(subnet_check.tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(HostError, match="a temporary folder: ENOENT"):
        look(machine)


def test_a_port_that_is_named_has_a_cache_of_its_own_and_a_revert_forgets(machine: SubnetMachine) -> None:
    look(machine)
    assert verdicts(look(machine, port="mlx5_4/1")) == FIRST
    assert all(command[-4:] == ["-C", "mlx5_4", "-P", "1"] for command in machine.commands)
    assert "/var/lib/mlnode/ib-subnet-mlx5_4-1.cache" in machine.tree()
    look(machine, port="mlx5_4")
    assert machine.commands[0] == ["sminfo", "-C", "mlx5_4"]
    revert.revert(machine)
    assert not [path for path in machine.tree() if "ib-subnet" in path]
