# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.agent import cli
from mlnode.agent.explain import explain
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import MlnodeError

SWAPPINESS = "/proc/sys/vm/swappiness"
VLAN = "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"


@pytest.fixture
def node(machine: Machine) -> Machine:
    machine.enable_agent()
    settings: dict[str, Any] = {
        "vm.swappiness": 1,
        "net.core.rmem_max": "auto",
        "net.ipv4.conf.eth0/100.rp_filter": 2,
        "kernel.no_such_knob": 1,
    }
    door.apply(machine, Request("training", thp, {"enabled": "madvise"}))
    door.apply(machine, Request("training", sysctl, {"settings": settings}))
    return machine


def test_every_fact_about_one_setting_in_reading_order(node: Machine) -> None:
    node.put(SWAPPINESS, "60\n")
    node.put("/etc/sysctl.d/10-early.conf", "vm.swappiness = 30\n")

    facts = explain(node, "vm.swappiness")

    drop_in = "/etc/sysctl.d/zz-mlnode-training.conf"
    ours = f"{drop_in}:{node.read(drop_in).splitlines().index('vm.swappiness = 1') + 1}"
    assert list(facts.items()) == [
        ("key", "vm.swappiness"),
        ("status", "drifted"),
        ("drift", "yes"),
        ("why", "runtime is 60"),
        ("declared", "1"),
        ("declared_by", ["training (/etc/mlnode/declared.d/training.json)"]),
        ("want", "1"),
        ("offered", []),
        ("formula", "none: the declared value itself"),
        ("runtime", "60"),
        ("boot", f"1 ({ours})"),
        ("origin", "60"),
        ("put_back", "never"),
        ("path", SWAPPINESS),
        ("severity", "high"),
        ("containers", "same value"),
        ("purpose", facts["purpose"]),
        ("source", "vm.rst"),
        ("boot_lines", ["/etc/sysctl.d/10-early.conf:1: vm.swappiness = 30", f"{ours}: vm.swappiness = 1"]),
    ]


def test_only_a_sysctl_has_a_value_in_containers(node: Machine) -> None:
    assert explain(node, "net.core.rmem_max")["containers"].startswith("same value, ")
    assert explain(node, "net.ipv4.conf.eth0/100.rp_filter")["containers"] == "no such interface"
    assert explain(node, "thp.enabled")["containers"] is None


@pytest.mark.parametrize(
    "asked, key",
    [
        ("vm.swappiness", "vm.swappiness"),
        ("vm/swappiness", "vm.swappiness"),
        (SWAPPINESS, "vm.swappiness"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net.ipv4.conf.eth0/100.rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net.ipv4.conf.eth0/100.rp_filter"),
        (VLAN, "net.ipv4.conf.eth0/100.rp_filter"),
        ("thp.enabled", "thp.enabled"),
        (f"{THP}/enabled", "thp.enabled"),
    ],
)
def test_a_setting_is_found_in_every_spelling(node: Machine, asked: str, key: str) -> None:
    assert explain(node, asked)["key"] == key


def test_the_formula_of_an_automatic_value_is_told(node: Machine) -> None:
    facts = explain(node, "net.core.rmem_max")

    assert (facts["declared"], facts["want"]) == ("auto", "16777216")
    assert facts["formula"].startswith("100 Gb/s, RTT 100 us: ")
    assert (facts["drift"], facts["why"]) == ("no", "as declared")


def test_the_kernel_command_line_is_named_where_it_rules_the_boot(node: Machine) -> None:
    node.put("/proc/cmdline", "root=/dev/vda1 transparent_hugepage=always\n")

    facts = explain(node, "thp.enabled")

    assert facts["status"] == "overridden"
    assert facts["boot"] == "always (kernel command line (transparent_hugepage=always))"
    assert facts["boot_lines"] == ["/proc/cmdline: transparent_hugepage=always"]


def test_words_stand_where_there_is_no_value(node: Machine) -> None:
    absent = explain(node, "kernel.no_such_knob")
    node.unreadable[SWAPPINESS] = errno.EACCES
    unreadable = explain(node, "vm.swappiness")

    words = "/proc/sys/kernel/no_such_knob does not exist: this kernel has no such setting"
    assert (absent["status"], absent["runtime"], absent["boot"]) == ("unsupported", words, words)
    assert absent["origin"] == "not known"
    assert unreadable["status"] == "unknown"
    assert unreadable["runtime"].startswith(f"cannot read {SWAPPINESS}: EACCES (Permission denied")


def test_all_names_that_declare_a_setting_are_told(node: Machine) -> None:
    door.apply(node, Request("inference", sysctl, {"settings": {"vm.swappiness": 1}}))

    assert explain(node, "vm.swappiness")["declared_by"] == [
        "inference (/etc/mlnode/declared.d/inference.json)",
        "training (/etc/mlnode/declared.d/training.json)",
    ]


@cases.table
def test_a_key_that_is_not_declared_is_said_so_with_what_comes_close(
    node: Machine, asked: str, words: str
) -> None:
    with pytest.raises(MlnodeError) as error:
        explain(node, asked)

    assert str(error.value) == words


def test_an_error_of_the_node_comes_before_a_key_that_was_not_found(node: Machine) -> None:
    node.put("/etc/mlnode/declared.d/broken.json", "{")

    with pytest.raises(MlnodeError, match=r"broken\.json is damaged"):
        explain(node, "vm.swapiness")


def test_a_declaration_without_sysctl_frees_nothing(machine: Machine) -> None:
    door.apply(machine, Request("one", thp, {"enabled": "madvise"}))

    with pytest.raises(MlnodeError, match="is not declared on this node"):
        explain(machine, "vm.swappiness")


def test_text_and_json_tell_the_same(node: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/etc/sysctl.d/10-early.conf", "vm.swappiness = 30\n")
    cli.main(["explain", "vm.swappiness", "--root", node.root, "--json"])
    facts = json.loads(capsys.readouterr().out)
    cli.main(["explain", "vm.swappiness", "--root", node.root])
    lines = capsys.readouterr().out.splitlines()

    told = [(line[:12].strip(), line[13:]) for line in lines]
    expected = []
    for name, value in facts.items():
        values = (value or ["-"]) if isinstance(value, list) else [value]
        expected += [(name.replace("_", " ") if at == 0 else "", text) for at, text in enumerate(values)]
    assert told == expected
    assert sum(name == "" for name, _text in told) == 1


def test_text_shows_an_empty_list_and_an_empty_value(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    machine.put(
        "/etc/mlnode/declared.d/one.json",
        json.dumps({"format": 1, "name": "one", "kinds": {"sysctl": {"settings": {key: ""}}}}),
    )

    status = cli.main(["explain", key, "--root", machine.root])

    out = capsys.readouterr().out.splitlines()
    assert status == cli.DRIFT
    assert 'declared     ""' in out
    assert 'runtime      ""' in out
    assert "boot lines   -" in out
