# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import functools
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, service_machine
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, made
from mlnode.agent import cli, drift, node
from mlnode.engine import declared, leftovers, revert
from mlnode.engine.declared import Declaration
from mlnode.model.errors import RefusedError
from mlnode.model.setting import Layer, Status
from mlnode.topology import management

from ..knobs.irq.node import IrqNode
from ..knobs.nic.node import NicNode
from ..knobs.qos.node import ROCE, QosNode
from ..knobs.rail.node import RailNode

RULE: dict[str, Any] = {"name": "two", "nics": {"names": ["eth2"]}}


def _plain(folder: pathlib.Path) -> Machine:
    machine = Machine.debian(str(folder))
    machine.enable_agent()
    return machine


def _limits(folder: pathlib.Path) -> Machine:
    machine = LimitsMachine.node(str(folder))
    machine.unit("slurmd")
    return machine


def _services(folder: pathlib.Path) -> Machine:
    machine = service_machine.made(str(folder))
    machine.tuned()
    return machine


def _irq(folder: pathlib.Path) -> Machine:
    machine = IrqNode.made(str(folder))
    machine.enable_agent()
    machine.put(
        "/usr/lib/systemd/system/irqbalance.service",
        "[Service]\nEnvironmentFile=-/etc/default/irqbalance\n"
        "ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS\n",
    )
    for folder_ in ("/run", "/var/lib"):
        os.makedirs(machine.root + folder_, exist_ok=True)
    return machine


#: Kind → a machine, what is declared on it, and how many files and blocks carry that in the name of mlnode:
#: those that write some
WRITTEN: dict[str, tuple[Callable[[pathlib.Path], Machine], dict[str, Any], int]] = {
    **{kind: (functools.partial(made, case), case.spec, 0) for kind, case in CASES.items()},
    "sysctl": (_plain, {"settings": {"vm.swappiness": 10, "net.ipv4.tcp_congestion_control": "bbr"}}, 2),
    "modules": (_plain, {"modules": ["tcp_bbr"]}, 1),
    "limits": (_limits, {"memlock": "unlimited"}, 3),
    "services": (_services, {"services": {"tuned": "stop"}}, 1),
    "boot": (
        lambda folder: GrubMachine.debian_with_grub(str(folder)),
        {"parameters": {"mitigations": "auto"}},
        1,
    ),
    "irq": (_irq, {"rules": [{**RULE, "strategy": "spread"}], "irqbalance": "agree"}, 3),
    "nccl": (_plain, {"variables": {"NCCL_DEBUG": "WARN"}}, 1),
    "containers": (functools.partial(made, CASES["containers"]), CASES["containers"].spec, 1),
    "nic": (NicNode.made, {"rules": [{**RULE, "mtu": 9000}]}, 1),
    "rail": (RailNode.made, {"rules": [{**RULE, "arp_ignore": 1}]}, 1),
    "qos": (QosNode.made, {"rules": [{**ROCE, **RULE}]}, 1),
    "metrics": (functools.partial(made, CASES["metrics"]), CASES["metrics"].spec, 1),
    "pull": (functools.partial(made, CASES["pull"]), CASES["pull"].spec, 1),
}
#: All others, which leave what they declare to the agent
WRITTEN.update({kind: (case.make, case.spec, 0) for kind, case in CASES.items() if kind not in WRITTEN})


def changed(machine: Machine, before: dict[str, tuple[str, int]]) -> list[str]:
    """Files below /etc that are new or other than before, but declarations."""
    return [
        path
        for path, now in machine.tree().items()
        if now != before.get(path) and path.startswith("/etc/") and not path.startswith(declared.FOLDER)
        and now[0] != "/"
    ]  # fmt: skip


def declare(machine: Machine, name: str, kinds: dict[str, Any]) -> None:
    machine.put(declared.path_of(name), declared.render(Declaration(name, kinds)))


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_a_kind_has_written_is_an_error_once_nothing_declares_it(
    kind: str, tmp_path: pathlib.Path
) -> None:
    make, spec, carried = WRITTEN[kind]
    machine = make(tmp_path / "node")
    before = machine.tree()
    door.apply(machine, door.request("probe", kind, spec))
    files = changed(machine, before)
    assert len(files) == carried
    declarations = declared.load_all(machine)
    assert leftovers.orphans(machine, declarations) == []

    declare(machine, "other", {"thp" if kind != "thp" else "cpu": {"enabled": "madvise"}})
    machine.remove(declared.path_of("probe"))
    machine.forget()
    errors = node.survey(machine).errors
    told = [words for words in errors if "was written by mlnode" in words]
    assert len(told) == carried
    for path in files:
        [words] = [words for words in told if path in words]
        assert kind in words
        assert words.endswith("`mlnode revert` to undo all that mlnode has changed")

    revert.revert(machine)
    assert not [words for words in node.survey(machine).errors if "was written by mlnode" in words]


@pytest.mark.parametrize("kind", [kind for kind, (_make, _spec, carried) in WRITTEN.items() if carried])
def test_the_files_of_a_declaration_that_cannot_be_read_are_no_orphans(
    kind: str, tmp_path: pathlib.Path
) -> None:
    make, spec, _carried = WRITTEN[kind]
    machine = make(tmp_path / "node")
    door.apply(machine, door.request("probe", kind, spec))
    machine.put(declared.path_of("probe"), "{")
    [error] = node.survey(machine).errors
    assert error.startswith(f"{declared.path_of('probe')} is damaged")


@cases.table
def test_an_emptied_declaration_is_an_error_and_takes_nothing_away(
    machine: Machine, kinds: dict[str, Any], words: str
) -> None:
    machine.enable_agent()
    door.apply(machine, door.request("a", "sysctl", {"settings": {"vm.swappiness": 10}}))
    declare(machine, "a", kinds)
    drop_in = "/etc/sysctl.d/zz-mlnode-a.conf"
    for look in (node.survey, node.apply_all, node.survey):
        found = look(machine)
        assert not found.compliant
        assert [error for error in found.errors if error.startswith(words)]
        assert [error for error in found.errors if error.startswith(f"{drop_in} was written by mlnode for")]
    assert machine.exists(drop_in)


def test_an_emptied_declaration_is_no_success_of_any_command(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(machine, "a", {})
    for command in ("status", "check"):
        assert cli.main([command, "--root", machine.root]) == cli.ERROR
        assert "a.json declares nothing" in capsys.readouterr().err
    options = {"fail_at": "high", "ignore": [], "declarations": {}}
    answer = drift.answer(machine, options)
    assert answer["failed"]
    assert "a.json declares nothing" in answer["msg"]


def test_what_is_left_alone_by_null_is_declared(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    declare(machine, "a", {"sysctl": {"settings": {"vm.swappiness": None}}})
    assert node.survey(machine).errors == ()
    assert cli.main(["check", "--root", machine.root]) == cli.OK
    assert capsys.readouterr().out == "0 settings: all that is declared here is left alone (null)\n"


def test_a_file_that_its_declaration_needs_no_longer_is_told(machine: Machine) -> None:
    machine.enable_agent()
    spec = {"settings": {"vm.swappiness": 10, "net.ipv4.tcp_congestion_control": "bbr"}}
    door.apply(machine, door.request("a", "sysctl", spec))
    declare(machine, "a", {"sysctl": {"settings": {"vm.swappiness": 10}}})
    [error] = node.survey(machine).errors
    assert error.startswith("a, sysctl: /etc/modules-load.d/mlnode-a.conf is left over from what a declared")
    assert node.apply_all(machine).errors == ()
    assert node.survey(machine).errors == ()


def test_a_file_of_the_image_that_is_of_no_use_here_is_not_left_over(tmp_path: pathlib.Path) -> None:
    machine = LimitsMachine.node(str(tmp_path / "node"))
    machine.unit("slurmd")
    machine.enable_agent()
    door.apply(machine, door.request("a", "limits", {"nofile": 1048576}, (Layer.BOOT,)))
    machine.process(1, "systemd", parent=0, caps="00000000a80425fb", nofile="20000")
    machine.forget()
    found = node.survey(machine)
    limits = {item.row.status for item in found.rows if "nofile" in item.row.setting.key}
    assert limits == {Status.UNSUPPORTED}
    assert found.errors == ()


def test_what_has_nearly_our_name_is_not_ours(machine: Machine) -> None:
    declare(machine, "a", {"thp": {"enabled": "always"}})
    for path in ("/etc/sysctl.d/99-mlnode-b.conf", "/etc/modules-load.d/mlnode.conf", "/etc/nccl.conf"):
        machine.put(path, "# mlnode.tuning\n")
    assert leftovers.orphans(machine, declared.load_all(machine)) == []


def test_a_folder_that_cannot_be_read_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(machine, "a", {"thp": {"enabled": "always"}})
    machine.put("/etc/nccl.conf", "")
    machine.unreadable["/etc/nccl.conf"] = errno.EACCES
    [words] = leftovers.orphans(machine, declared.load_all(machine))
    assert re.match(r"whether files are left over .* not known: .*/etc/nccl\.conf: EACCES", words)


# -- files that no row is about ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nic", "rail", "qos"])
def test_a_record_of_the_management_path_that_is_gone_is_a_finding(tmp_path: pathlib.Path, kind: str) -> None:
    make, spec, _number = WRITTEN[kind]
    machine = make(tmp_path)
    door.apply(machine, door.request("training", kind, spec))
    assert machine.exists(management.RECORD)
    machine.forget()
    assert not [words for words in node.survey(machine).errors if management.RECORD in words]
    machine.remove(management.RECORD)
    machine.forget()
    (words,) = [words for words in node.survey(machine).errors if management.RECORD in words]
    assert "is gone" in words
    assert "`mlnode apply` writes it again" in words
    answer = drift.answer(machine, {"fail_at": "high", "ignore": [], "declarations": {}})
    assert words in answer["errors"]
    node.apply_all(machine)
    machine.forget()
    assert machine.exists(management.RECORD)
    assert not [words for words in node.survey(machine).errors if management.RECORD in words]


def test_a_record_that_was_never_written_is_not_missed(tmp_path: pathlib.Path) -> None:
    """A boot before the network was up knows none."""
    make, spec, _number = WRITTEN["nic"]
    machine = make(tmp_path)
    routes = "/proc/net/route"
    before = machine.read(routes)
    machine.put(routes, before.splitlines()[0] + "\n")
    with pytest.raises(RefusedError, match="the management path, which is unknown"):
        door.apply(machine, door.request("training", "nic", spec))
    assert not machine.exists(management.RECORD)
    machine.put(routes, before)
    machine.forget()
    assert not [words for words in node.survey(machine).errors if management.RECORD in words]
