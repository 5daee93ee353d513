# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.mlnode.tuning.plugins.action import declare
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import call
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.registry import KINDS
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_call
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    AGENT,
    ARCHIVE,
    MISSING,
    NO_PYTHON,
    OLD_PYTHON,
    OTHER,
    Done,
    Node,
    answer,
    done,
)

FINE = answer(areas={}, reboot_required=False)
THP = {"enabled": "madvise"}


def test_the_installed_agent_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, FINE, thp=THP, name="mine", fail_at="low")

    assert node.run() == {"changed": False, "areas": {}, "reboot_required": False}
    [question] = node.questions
    options = question.pop("options")
    assert question == {**AGENT, "call": "declare"}
    assert options == {
        "name": "mine",
        "areas": {"thp": THP},
        "selected": [*KINDS],
        "layers": ["runtime", "boot"],
        "on_unsupported": "warn",
        "leave": False,
        "fail_at": "low",
        "ignore": [],
        "fabric_type": "",
        "confirm_seconds": 60,
        "interpreter": "/usr/bin/env python3",
        "check": False,
        "risky": False,
    }


def test_the_agent_takes_what_it_is_asked(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    node = Node(monkeypatch, declare, FINE, sysctl={"settings": {"vm.swappiness": 1}})
    node.task.check_mode = True
    node.run()

    found = call.CALLS["declare"](machine, node.questions[0]["options"])

    assert (found["failed"], found["msg"]) == (False, "")
    assert found["areas"]["sysctl"]["changed"] is True
    assert {*found} - {"confirm"} <= {*declare.FIELDS}


def test_a_profile_is_merged_with_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"cpu": {"max_latency_us": None}, "nic": None, "thp": {"enabled": "always"}}
    node = Node(monkeypatch, declare, FINE, profile="inference", **given)
    node.run()

    areas = node.questions[0]["options"]["areas"]
    assert areas["cpu"] == {"governor": "performance"}
    assert areas["thp"] == {"enabled": "always", "defrag": "madvise"}
    assert "nic" not in areas
    assert "irq" in areas


@pytest.mark.parametrize(
    ("first", "wrong"),
    [
        (MISSING, ""),
        (OTHER, "/usr/local/bin/mlnode is not the agent of this collection: run site.yml"),
        (
            done("", 2, "usage: mlnode\nmlnode: no such command"),
            "the agent does not answer (exit status 2: mlnode: no such command)",
        ),
        (done('mlnode: {"answer": {', 137), "the agent does not answer (exit status 137: no message)"),
        (NO_PYTHON, "the agent does not answer (exit status 127: bash: line 1: exec: python3: not found)"),
    ],
    ids=["missing", "another", "older", "killed", "does not start"],
)
@pytest.mark.parametrize("piped", [True, False])
def test_a_node_without_the_right_agent_is_sent_it(
    monkeypatch: pytest.MonkeyPatch, first: Done, wrong: str, piped: bool
) -> None:
    node = Node(monkeypatch, declare, first, FINE, thp=THP, interpreter="/opt/python 3", piped=piped)

    assert node.run()["areas"] == {}

    assert node.ways == ["installed", "sent"]
    assert node.questions[1]["options"] == {**node.questions[0]["options"], "instead": wrong}
    assert node.commands[1].startswith("/opt/python 3 ")
    if piped:
        assert node.files == {}
    else:
        assert node.files["/tmp/own/mlnode"] == ARCHIVE
        assert node.commands[1] == "/opt/python 3 -I /tmp/own/mlnode call < /tmp/own/question"
        assert {*node.readable} == {
            ("/tmp/own", "/tmp/own/question", "False"),
            ("/tmp/own", "/tmp/own/mlnode", "False"),
        }


@pytest.mark.parametrize(("first", "second"), [(MISSING, OLD_PYTHON), (NO_PYTHON, NO_PYTHON)])
def test_a_python_that_is_too_old_or_missing_fails_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, first: Done, second: Done
) -> None:
    found = Node(monkeypatch, declare, first, second, thp=THP).run()

    assert found["failed"]
    assert second["stderr"].splitlines()[-1] in found["msg"]
    assert found["msg"].startswith("declare: the agent does not answer")
    assert "node_interpreter" in found["msg"]


def test_without_pipelining_nothing_of_it_is_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, FINE, thp=THP, piped=False)
    node.run()

    assert "madvise" not in node.commands[0]
    assert "< /tmp/own/question;" in node.commands[0]


def test_a_strategy_that_wants_nobody_to_ask_has_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def mitogen(_style: str) -> bool:
        raise AssertionError("_is_pipelining_enabled() should never be called.")

    node = Node(monkeypatch, declare, FINE, thp=THP)
    node.plugin._is_pipelining_enabled = mitogen

    assert node.run()["areas"] == {}


@pytest.mark.parametrize("piped", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_the_command_is_one_of_a_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, there: bool, piped: bool
) -> None:
    agent = tmp_path / "mlnode"
    if there:
        agent.write_text(
            '#!/bin/sh\nread line\necho "mlnode: {\\"answer\\": {\\"told\\": \\"$1 $line\\"}}"\n'
        )
        agent.chmod(0o755)
    node = Node(monkeypatch, declare, FINE, thp=THP, piped=piped)
    node.run()
    question = tmp_path / "question"
    question.write_text("asked\n")
    command = (
        node.commands[0].replace(agent_call.AGENT, str(agent)).replace("/tmp/own/question", str(question))
    )

    ran = subprocess.run(
        ["sh", "-c", f"{command} && sleep 0"], input="asked\n", capture_output=True, text=True, check=False
    )

    told = {"answer": {"told": "call asked"}} if there else {}
    assert (ran.returncode, json.loads(ran.stdout.partition(agent_call.MARK)[2])) == (0, told)


def test_an_agent_that_is_sent_runs_from_a_folder_that_is_gone_after_it(tmp_path: pathlib.Path) -> None:
    shown = f"sys.argv[1:], sys.stdin.read(), os.listdir({str(tmp_path)!r})"
    packed = zlib.compress(f"import os, sys; print({shown}); sys.exit(3)".encode())
    ran = subprocess.run(
        [sys.executable, "-c", agent_call._RECEIVE],
        input=b"%d\n%sthe question" % (len(packed), packed),
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert ran.stdout.startswith(b"['call'] the question ['mlnode-"), ran.stderr
    assert ran.returncode == 3
    assert [*tmp_path.iterdir()] == []


def test_a_greeting_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    greeted = done(f"Welcome to {{gpu001}}!\n{FINE['stdout']}Good bye\n")

    assert Node(monkeypatch, declare, greeted, thp=THP).run()["areas"] == {}


def test_a_node_tells_what_it_is_asked_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible adds hosts for whatever result says so."""
    evil = {"add_host": {"host_name": "x"}, "ansible_facts": {"a": 1}, "_ansible_delegated_vars": {}}

    found = Node(monkeypatch, declare, answer(areas={}, **evil), thp=THP).run()

    assert found == {"changed": False, "areas": {}}


# -- a change that may cut off the node ------------------------------------------------------------


def test_a_risk_is_asked_for_a_second_time_and_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    risks = answer(risks="it interrupts eth0")
    waits = answer(areas={"nic": {}}, confirm={"id": "abc", "seconds": 7})
    node = Node(monkeypatch, declare, risks, waits, nic={"rules": {"all": {"mtu": 9000}}}, confirm_seconds=7)
    proved: list[Any] = []
    monkeypatch.setattr(
        node.plugin, "_prove", lambda *told: proved.append(told[1:]) or {**told[0], "confirmed": True}
    )
    node.connection.get_option = lambda name: {"timeout": 10, "ssh_common_args": ""}[name]
    node.connection.set_option = lambda name, value: None

    found = node.run()

    assert [question["options"]["risky"] for question in node.questions] == [False, True]
    assert proved == [("abc", 7.0)]
    assert found["confirmed"] is True
    assert "risks" not in found


def test_without_a_risk_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(
        monkeypatch, declare, answer(areas={"nic": {}}, risks=""), nic={"rules": {"all": {"mtu": 9000}}}
    )

    assert "confirmed" not in node.run()
    assert len(node.questions) == 1


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "fails"), [(False, True), (True, False)])
def test_what_is_not_in_force_fails_it_unless_that_is_judged_later(
    monkeypatch: pytest.MonkeyPatch, later: bool, fails: bool
) -> None:
    found = Node(
        monkeypatch, declare, answer(not_in_force=["vm.swappiness: overridden"]), judged_later=later
    ).run()

    assert bool(found.get("failed")) is fails
    assert found["not_in_force"] == ["vm.swappiness: overridden"]
    if fails:
        assert found["msg"] == "not in force although all was applied:\nvm.swappiness: overridden"


def test_a_failure_keeps_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    told = answer(
        failed=True, msg="node: refused: vm.nr_hugepages", not_in_force=["vm.swappiness: overridden"]
    )

    assert Node(monkeypatch, declare, told).run()["msg"] == "node: refused: vm.nr_hugepages"


def test_tags_choose_areas_in_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, FINE, thp=THP)
    node.run(ansible_run_tags=["sysctl", "thp", "nic"], ansible_skip_tags=["nic"])

    assert node.questions[0]["options"]["selected"] == ["thp", "sysctl"]


def test_tags_of_nothing_here_skip_it_without_a_remote_call(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Node(monkeypatch, declare, thp=THP).run(ansible_run_tags=["web"])

    assert found["skipped"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fail_at": "worst"}, "declare: value of fail_at must be one of"),
        ({"surprise": 1}, "surprise"),
        ({"sysctls": {}}, "sysctls"),
        ({"thp": "madvise"}, "thp"),
        ({"layers": ["disk"]}, "layers"),
        ({"layers": []}, "layers: name runtime, boot or both; none would do nothing"),
    ],
)
def test_wrong_options_fail_without_a_remote_call(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], words: str
) -> None:
    found = Node(monkeypatch, declare, **arguments).run()

    assert found["failed"]
    assert words in found["msg"]


def test_a_mistaken_variable_of_its_role_fails_without_a_remote_call(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, thp=THP)
    node.task._role = SimpleNamespace(
        _role_collection="mlnode.tuning",
        get_name=lambda include_role_fqcn: "node",
        get_default_vars=lambda: {"node_sysctl": {}},
    )

    found = node.run(node_sysctll={}, node_exporter_port=9100, ansible_run_tags=["web"])

    assert found["failed"]
    assert found["msg"] == "node_sysctll: unknown variable; did you mean node_sysctl?"


def test_an_unknown_profile_is_an_error_without_a_remote_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleError, match=r"'trainig' is not a profile .* did you mean training\?"):
        Node(monkeypatch, declare, profile="trainig").run()
