# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime as dt
import json
import pathlib
import subprocess
import sys
import zlib
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.template import trust_as_template
from ansible_collections.mlnode.tuning.plugins.action import declare, node_drift
from ansible_collections.mlnode.tuning.plugins.plugin_utils import (
    agent_answer,
    agent_call,
    agent_source,
    profile,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import PADDING
from ansible_collections.mlnode.tuning.tests.unit import cases
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
from mlnode.agent import call
from mlnode.agent.registry import KINDS

FINE = answer(areas={}, reboot_required=False)
THP = {"enabled": "madvise"}
NIC = {"changed": True, "settings": [], "reboot_required": False}


def test_the_installed_agent_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, FINE, thp=THP, name="mine", fail_at="low")

    layers = ["runtime", "boot"]
    assert node.run() == {"changed": False, "areas": {}, "reboot_required": False, "layers": layers}
    [question] = node.questions
    options = question.pop("options")
    assert question == {**AGENT, "call": "declare"}
    assert options == {
        "name": "mine",
        "areas": {"thp": THP},
        "profile": {},
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
        "diff": False,
        "risky": False,
        "install": True,
    }


def test_a_difference_is_asked_for_where_the_play_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, FINE, thp=THP)
    node.task.diff = True
    node.run()

    assert node.questions[0]["options"]["diff"] is True


def test_the_agent_takes_what_it_is_asked(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    node = Node(monkeypatch, declare, FINE, sysctl={"settings": {"vm.swappiness": 1}})
    node.task.check_mode = True
    node.run()

    found = call.CALLS["declare"](machine, node.questions[0]["options"])

    assert (found["failed"], found["msg"]) == (False, "")
    assert found["areas"]["sysctl"]["changed"] is True
    assert {*found} == {*agent_answer.ANSWERS["declare"]}
    assert found["diff"] == []


def test_a_profile_is_merged_with_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"cpu": {"max_latency_us": None}, "nic": None, "thp": {"enabled": "always"}}
    node = Node(monkeypatch, declare, FINE, profile="inference", **given)
    node.run()

    areas = node.questions[0]["options"]["areas"]
    assert areas["cpu"] == {"governor": "performance", "energy_perf_bias": "0"}
    assert areas["thp"] == {"enabled": "always", "defrag": "madvise"}
    assert "nic" not in areas
    assert "irq" in areas


def test_variables_are_overrides_and_an_option_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"profile": "inference", "variables": "node", "cpu": {"governor": "powersave"}}
    node = Node(monkeypatch, declare, FINE, **given)
    node.run(
        node_swap=trust_as_template("{{ 5 + 5 }}"),
        node_sysctl={"vm.swappiness": trust_as_template("{{ node_swap }}"), "kernel.nmi_watchdog": None},
        node_sizing={"rtt_us": 7},
        node_cpu={"governor": "schedutil"},
        node_thp=None,
        node_irq={},
        node_labels={"rack": 7},
    )

    areas = node.questions[0]["options"]["areas"]
    assert areas["sysctl"]["settings"]["vm.swappiness"] in (10, "10")
    assert "kernel.nmi_watchdog" not in areas["sysctl"]["settings"]
    assert areas["sysctl"]["sizing"]["rtt_us"] == 7
    assert areas["cpu"]["governor"] == "powersave"
    assert "thp" not in areas
    assert areas["irq"] == profile.load("inference")["irq"]
    assert "labels" not in str(areas)


@pytest.mark.parametrize(
    ("first", "wrong"),
    [
        (MISSING, ""),
        (OTHER, "/usr/local/bin/mlnode is not the agent of this collection: run site.yml"),
        (
            done("", 2, "usage: mlnode\nmlnode: no such command"),
            "the agent does not answer (exit status 2: mlnode: no such command)",
        ),
        (NO_PYTHON, "the agent does not answer (exit status 127: bash: line 1: exec: python3: not found)"),
    ],
    ids=["missing", "another", "older", "does not start"],
)
@pytest.mark.parametrize("piped", [True, False])
def test_a_node_without_the_right_agent_is_sent_it(
    monkeypatch: pytest.MonkeyPatch, first: Done, wrong: str, piped: bool
) -> None:
    node = Node(monkeypatch, declare, first, FINE, thp=THP, interpreter="/opt/python 3", piped=piped)

    assert node.run()["areas"] == {}

    assert node.ways == ["installed", "sent"]
    more = {"instead": wrong} if wrong else {}
    assert node.questions[1]["options"] == {**node.questions[0]["options"], **more}
    assert node.commands[1].startswith("/opt/python 3 ")
    if piped:
        assert node.files == {}
    else:
        assert node.files["/tmp/own/mlnode"] == ARCHIVE
        assert node.commands[1] == "/opt/python 3 -IS /tmp/own/mlnode call < /tmp/own/question"
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

    kept = {"kept": True} if pathlib.Path(agent_call.FOLDER).exists() else {}
    told = {"answer": {"told": "call asked"}} if there else kept
    assert (ran.returncode, json.loads(ran.stdout.partition(agent_call.MARK)[2])) == (0, told)


@pytest.mark.parametrize("packer", agent_call._PACKERS)
def test_an_agent_that_is_sent_runs_from_a_folder_that_is_gone_after_it(
    tmp_path: pathlib.Path, packer: ModuleType
) -> None:
    shown = f"sys.argv[1:], sys.stdin.read(), os.listdir({str(tmp_path)!r})"
    code = f"import os, sys; print({shown}); sys.exit(3)"
    words = "0pri\t3nt"  # "pri", and "print" with its three letters
    short = code.replace("print", "\x02")
    packed = packer.compress(f"#!python3\0{words}\0__main__.py\n{short}"[::-1].encode())
    ran = subprocess.run(
        [sys.executable, "-c", agent_call._RECEIVE, packer.__name__],
        input=b"%d\n%sthe question" % (len(packed), packed),
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert ran.stdout.startswith(b"['call'] the question ['mlnode-"), ran.stderr
    assert ran.returncode == 3
    assert [*tmp_path.iterdir()] == []


def test_a_node_makes_the_archive_that_the_controller_has(tmp_path: pathlib.Path) -> None:
    packed = zlib.compress(agent_source.unzipped(), 1)
    keep = f"import shutil; shutil.rmtree = lambda folder: print(folder)\n{agent_call._RECEIVE}"
    ran = subprocess.run(
        [sys.executable, "-c", keep, "zlib"],
        input=b"%d\n%s{}" % (len(packed), packed),
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    [folder] = tmp_path.iterdir()
    assert (folder / "mlnode").read_bytes() == agent_source.archive(), ran.stderr


def test_a_python_without_a_library_says_so_once_it_has_read_all() -> None:
    command = [sys.executable, "-c", agent_call._RECEIVE, "no_such_library"]
    ran = subprocess.run(command, input=b"3\nabcthe question", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (agent_call._LACKING, b"", b"")


def test_a_python_without_a_library_gets_what_every_python_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, MISSING, done("", agent_call._LACKING), FINE, thp=THP)
    assert node.run()["changed"] is False
    assert [command.rpartition(" ")[2] for command in node.commands[1:]] == ["bz2", "zlib"]


def test_a_greeting_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    greeted = done(f"Welcome to {{gpu001}}!\n{FINE['stdout']}Good bye\n")

    assert Node(monkeypatch, declare, greeted, thp=THP).run()["areas"] == {}


def test_a_node_tells_what_it_is_asked_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible adds hosts for whatever result says so."""
    evil = {"add_host": {"host_name": "x"}, "ansible_facts": {"a": 1}, "_ansible_delegated_vars": {}}

    found = Node(monkeypatch, declare, answer(areas={}, **evil), thp=THP).run()

    assert found == {"changed": False, "areas": {}, "layers": ["runtime", "boot"]}


CUT = 'mlnode: begun\nmlnode: {"answer": {"changed": tr'
BROKEN_OFF = "It had begun, so it was not asked again."


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (done("", 137, "Killed"), "exit status 137: Killed"),
        (done("mlnode: begun\n", 1, "Traceback:\nMemoryError"), "exit status 1: MemoryError"),
        (done("mlnode: begun\r\nmlnode: no space\r\n", 1), "exit status 1: mlnode: no space"),
        (done(CUT, 137), "exit status 137: no message"),
        (done("mlnode: begun\n", 143, "a \x1b[2Jterminal"), "143: a \\x1b[2Jterminal"),
    ],
)
@pytest.mark.parametrize("first", [[], [MISSING]], ids=["installed", "sent"])
def test_an_agent_that_ended_in_the_middle_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, first: list[Done], ended: Done, words: str
) -> None:
    node = Node(monkeypatch, declare, *first, ended, thp=THP)

    found = node.run()

    assert found["failed"]
    assert words in found["msg"]
    assert BROKEN_OFF in found["msg"]
    assert "node_interpreter" not in found["msg"]


@pytest.mark.parametrize("ended", [done("", 137, "Killed"), done(CUT, 0)])
def test_in_check_mode_it_is_asked_again(monkeypatch: pytest.MonkeyPatch, ended: Done) -> None:
    node = Node(monkeypatch, declare, ended, FINE, thp=THP)
    node.task.check_mode = True

    assert node.run()["areas"] == {}
    assert node.ways == ["installed", "sent"]

    found = Node(monkeypatch, declare, ended, ended, thp=THP)
    found.task.check_mode = True
    assert "nothing was changed: run it again" in found.run()["msg"]


@pytest.mark.parametrize(
    "interpreter",
    [
        *("/usr/bin/python3\nimport evil", "/usr/bin/python3 '", '/opt/"py"/python3', "/opt/$HOME/python3"),
        *("", " ", "/opt/caf\u00e9/python3", "/usr/bin/python3\\", f"/opt/{'p' * 240}"),
    ],
)
@pytest.mark.parametrize("action", [declare, node_drift])
def test_an_interpreter_that_is_no_first_line_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, action: Any, interpreter: str
) -> None:
    found = Node(monkeypatch, action, interpreter=interpreter).run()

    assert found["failed"]
    assert "interpreter: must be the path of a Python" in found["msg"]


# -- a change that may cut off the node ------------------------------------------------------------


def test_a_risk_is_asked_for_a_second_time_and_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    risks = answer(risks="it interrupts eth0")
    waits = answer(areas={"nic": NIC}, confirm={"id": "abc", "seconds": 37})
    node = Node(monkeypatch, declare, risks, waits, nic={"rules": {"all": {"mtu": 9000}}}, confirm_seconds=37)
    proved: list[Any] = []
    monkeypatch.setattr(
        node.plugin, "_prove", lambda *told: proved.append(told[1:]) or {**told[0], "confirmed": True}
    )
    node.connection.get_option = lambda name: {"timeout": 10, "ssh_common_args": ""}[name]
    node.connection.set_option = lambda name, value: None

    found = node.run()

    assert [question["options"]["risky"] for question in node.questions] == [False, True]
    assert proved == [("abc", 37.0)]
    assert found["confirmed"] is True
    assert "risks" not in found


@pytest.mark.parametrize("piped", [True, False])
@pytest.mark.parametrize("first", [[], [MISSING], [OTHER]], ids=["installed", "missing", "another"])
def test_the_agent_confirms_whatever_python_ansible_would_use(
    monkeypatch: pytest.MonkeyPatch, first: list[Done], piped: bool
) -> None:
    """No module is run for it, as the node may have no Python that this ansible-core can use. first: what the
    node answers before the agent is sent along."""
    proof = answer(pending={"id": "abc", "left": 37, "words": "eth0"}, undone={}, padding="x" * PADDING)
    kept = answer(pending={}, undone={}, padding="")
    made = [
        answer(risks="it interrupts eth0"),
        answer(areas={"nic": NIC}, confirm={"id": "abc", "seconds": 37}),
    ]
    node = Node(
        monkeypatch, declare, *made, *first, proof, *first, kept, nic={"rules": {"all": {"mtu": 9000}}},
        interpreter="/opt/python", confirm_seconds=37, piped=piped,
    )  # fmt: skip
    resets: list[int] = []
    monkeypatch.setattr(node.plugin, "_execute_module", lambda **_told: pytest.fail("a module was run"))
    node.connection.reset = lambda: resets.append(len(node.questions))
    node.connection.get_option = {"timeout": 10, "ssh_common_args": ""}.__getitem__
    node.connection.set_option = lambda name, value: None

    assert node.run()["confirmed"] is True

    assert resets == [2, 2 + len(first) + 1], "each over a connection of its own"
    asked = [question for question in node.questions[2:] if question["call"] == "confirm"]
    assert len(asked) == 2 * (len(first) + 1)
    options = [{name: question["options"][name] for name in ("id", "padding")} for question in asked]
    half = len(first) + 1
    assert options == [{"id": "", "padding": PADDING}] * half + [{"id": "abc", "padding": 0}] * half
    assert node.ways[2:] == [*["installed", "sent"][:half], *["installed", "sent"][:half]]
    assert all(command.startswith("/opt/python -I") for command in node.commands[3::2][: 2 * len(first)])


def test_without_a_risk_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(
        monkeypatch, declare, answer(areas={"nic": NIC}, risks=""), nic={"rules": {"all": {"mtu": 9000}}}
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


@cases.table
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


def test_a_terminal_that_never_ends_holds_up_no_bare_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ssh -tt has one, without pipelining."""
    # This machine may have an agent and declarations: the system tests run beside this one.
    monkeypatch.setattr(agent_call, "AGENT", "/nonexistent/mlnode")
    monkeypatch.setattr(agent_call, "FOLDER", "/nonexistent/declared.d")
    node = Node(monkeypatch, declare, MISSING, FINE, piped=False, thp=THP)
    node.run()

    with subprocess.Popen(
        ["sh", "-c", node.commands[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.wait(timeout=20) == 0
        assert shell.stdout is not None
        assert shell.stdout.read() == f"{agent_call.MARK}{agent_call.BARE}\n"


def test_the_day_of_an_exception_may_be_a_date_of_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"key": "vm.*", "reason": "OPS-1", "until": dt.date(2027, 1, 31)}
    node = Node(monkeypatch, declare, FINE, thp=THP, ignore=[known])
    node.run()

    assert node.questions[0]["options"]["ignore"] == [{**known, "until": "2027-01-31"}]


def test_what_json_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, declare, nccl={"variables": {"NCCL_X": dt.date(2027, 1, 31)}})
    found = node.run()

    assert found["failed"]
    assert "date" in found["msg"]
    assert "write dates in quotes" in found["msg"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_fleet_report_has_what_is_unsupported_in_place_of_warnings(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    monkeypatch.setattr(
        declare.constants, "CALLBACKS_ENABLED", ["mlnode.tuning.fleet_report"] if enabled else []
    )
    told = ["cpu.governor is unsupported: no driver", "vm.swappiness is overridden: by a file"]

    found = Node(monkeypatch, declare, answer(warnings=told, unsupported=told[:1])).run()

    assert found["warnings"] == (told[1:] if enabled else told)
    assert found.get("unsupported") == (told[:1] if enabled else None)


@pytest.mark.parametrize("verbosity", [0, 2])
def test_files_that_only_carry_values_are_one_line_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, verbosity: int
) -> None:
    pairs = [
        {"before_header": name, "after_header": name, "before": "", "after": "x\n"}
        for name in ("/usr/local/bin/mlnode", "/etc/mlnode/declared.d/node.json", "sysctl runtime")
    ]
    node = Node(monkeypatch, declare, answer(diff=pairs))
    monkeypatch.setattr(node.plugin._display, "verbosity", verbosity)

    found = [pair["after_header"] for pair in node.run()["diff"]]

    of_files = [pair["after_header"] for pair in pairs]
    assert found == (of_files if verbosity else ["sysctl runtime", "files of the agent"])


def test_a_tag_that_is_nearly_an_area_fails_without_a_remote_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declare.asked, "_tags", lambda _names, _loader: {"service"})

    found = Node(monkeypatch, declare).run(ansible_run_tags=["thp", "sysct", "service"])

    assert found["msg"] == "tag sysct: neither an area nor a tag of this playbook; did you mean sysctl?"
