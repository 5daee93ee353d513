# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a broken or hostile node, mutated at every depth: reports about other nodes are complete, and
nothing commands a terminal or leaves a document that cannot be read.

The answers are those that nodes really give, or that the stand-ins of other tests give in the same form. They
pass the real filters, actions and callback.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.action import agent as agent_action
from ansible_collections.mlnode.tuning.plugins.action import declare, node_drift, node_preflight
from ansible_collections.mlnode.tuning.plugins.callback import fleet_report
from ansible_collections.mlnode.tuning.plugins.filter.fleet_verdict import fleet_verdict
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import document, junit, page, table
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import read as nccl_read
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import result as results
from ansible_collections.mlnode.tuning.tests.unit import questions
from ansible_collections.mlnode.tuning.tests.unit.effort import TRIED, examples
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import MISSING, Node, answer, done
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    Tree,
    rail,
    two_nodes,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import MODULES
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils import test_fabric_report
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign import fleets as campaigns
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.effect import test_report as effects
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers as jobs_answers
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs.test_report import (
    SCHEMA as JOBS_SCHEMA,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests import test_judge as nccl
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent import call, inspections
from mlnode.model import strict_json
from mlnode.report.topology import document as topology_document
from mlnode.topology import hardware

pytestmark = pytest.mark.robustness

#: Tried of each kind in every run
TRIES = 25

#: A list of lists, deeper than any document and less deep than Python's own limit for JSON
DEEP: Any = []
for _level in range(200):
    DEEP = [DEEP]

#: What a value becomes. GONE: it is missing.
GONE: Any = object()
VALUES: list[Any] = [
    *(GONE, None, True, False, 0, 1, -1, 7, 1.5, -0.5, 2**53, 2**63, 2**64, 10**400, 1e15, 1e308, 5e-324),
    *(math.nan, math.inf, -math.inf),
    *(
        "",
        "x",
        "0",
        "nan",
        "pass",
        "fail",
        "\x1b[2J\x1b]0;title\x07",
        "\u202e\u2066",
        "\x9b31m",
        "a\r\nb\tc",
        "\x00",
    ),
    *(
        "\udc80",
        "\ud800",
        "{{ 7 * 7 }}",
        "../../etc/passwd",
        "</script>",
        "9" * 5000,
        "y" * 20_000,
        "\x1b" * 5000,
    ),
    *([], {}, [None], [[]], [{}], {"": ""}, {"\x1b": {"\x1b": "\x1b"}}, [1, "a", None, {"b": []}], DEEP),
]
#: For a list: of other lengths
LENGTHS: list[Callable[[list[Any]], list[Any]]] = [
    lambda items: items[:-1],
    lambda items: items[1:],
    lambda items: [*items, *items],
    lambda items: [*items, None],
    lambda items: items * 50,
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*at, name))


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        value = value[name]
    return value


@st.composite
def mutated(draw: st.DrawFn, real: Any) -> Any:
    """A real answer with up to three wrong values, each anywhere: deep places as often as shallow ones."""
    found = copy.deepcopy(real)
    for _change in range(draw(st.integers(1, 3))):
        known = [*places(found)]
        depths = sorted({len(place) for place in known})
        depth = draw(st.sampled_from(depths))
        place = draw(st.sampled_from([one for one in known if len(one) == depth]))
        old = at(found, place)
        if isinstance(old, list) and old and draw(st.booleans()):
            new: Any = draw(st.sampled_from(LENGTHS))(old)
        else:
            new = draw(st.sampled_from(VALUES))
            # A later change may be inside of it.
            new = new if new is GONE else copy.deepcopy(new)
        if not place:
            return None if new is GONE else new
        inner = at(found, place[:-1])
        if new is GONE:
            del inner[place[-1]]
        else:
            inner[place[-1]] = new
    return found


def tries(real: Any, count: int = TRIES) -> Callable[[Callable[[Any], None]], None]:
    """Runs a function on so many mutations of an answer."""

    def run(check: Callable[[Any], None]) -> None:
        @examples(count)
        @given(mutated(real))
        def each(value: Any) -> None:
            TRIED["hostile answers"] += 1
            check(value)

        each()

    return run


def texts(value: Any) -> Iterator[str]:
    """All texts, names among them."""
    if isinstance(value, str):
        yield value
    items = value.items() if isinstance(value, dict) else ()
    for name, inner in items:
        yield from texts(name)
        yield from texts(inner)
    for inner in value if isinstance(value, (list, tuple)) else ():
        yield from texts(inner)


def harmless(value: Any) -> None:
    """No character of any text commands a terminal or turns what follows."""
    for text in texts(value):
        assert all(part.isprintable() for line in text.split("\n") for part in line.split("\t")), ascii(text)[
            :200
        ]


def sound(value: Any) -> str:
    """A document for a file: JSON that is read back."""
    text = value if isinstance(value, str) else json.dumps(value)
    strict_json.loads(text, "it", most=1 << 26)
    return text


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine.debian(str(tmp_path / "node"))


def look(machine: Machine, module: str) -> dict[str, Any]:
    [arguments] = [given for one, given in MODULES.items() if one.__name__.rpartition(".")[2] == module]
    found = call.CALLS["look"](machine, {"module": module, "given": arguments, "check": True})
    return dict(json.loads(json.dumps(found)))


def topology(folder: pathlib.Path) -> dict[str, Any]:
    node = two_nodes(Tree(folder))
    rail(node, 0x15, 0, 0)
    return {
        "changed": False,
        "topology": json.loads(json.dumps(topology_document(hardware.read(node.host)))),
    }


# -- filters ------------------------------------------------------------------------------------------------


def test_a_preflight_has_the_verdicts_of_all_other_nodes(machine: Machine) -> None:
    good = look(machine, "node_preflight")
    assert good["checks"]
    others = fleet_verdict({"a": good, "c": good}, "node_preflight")

    def check(value: Any) -> None:
        found = fleet_verdict({"a": good, "b": value, "c": good}, "node_preflight")
        assert {name: found["nodes"][name] for name in "ac"} == others["nodes"]
        assert found["nodes"]["b"] in ("fail", "unknown", "warn", "pass")
        harmless(found)

    tries(good)(check)


def test_jobs_have_the_odd_ranks_of_all_other_nodes() -> None:
    given_nodes = jobs_answers.fleet(32)
    jobs_answers.of_rank(given_nodes, 9)["values"]["cpu quota"] = "1"

    def check(value: Any) -> None:
        found = fleet_verdict({**given_nodes, "gpu004": value}, "node_job")
        jsonschema.validate(found["document"], JOBS_SCHEMA)
        assert any("rank 9 on gpu002" in line for line in found["table"]), found["table"]
        assert found["verdict"] == "fail"
        harmless(found)

    tries(given_nodes["gpu004"])(check)


def test_a_fabric_has_the_checks_of_all_other_nodes() -> None:
    given_nodes = test_fabric_report.nodes(4)
    test_fabric_report.change(given_nodes["gpu004"], "state", "mlx5_0/1", "1: DOWN", verdict="fail")
    subnet = {
        "checks": [fleets.check("links", "subnet"), fleets.check("cable", "mlx5_0/1 to leaf1")],
        "changed": False,
    }
    bad = given_nodes["gpu002"]

    def check(value: Any) -> None:
        found = fleet_verdict({**given_nodes, "gpu002": value}, "rdma_check", subnet={"gpu001": subnet})
        assert any(line.startswith("gpu004 mlx5_0/1") for line in found["failures"])
        assert any("leaf1" in line for line in found["failures"])
        harmless(found)

    def check_subnet(value: Any) -> None:
        found = fleet_verdict(given_nodes, "rdma_check", subnet={"gpu001": value})
        assert any(line.startswith("gpu004 mlx5_0/1") for line in found["failures"])
        harmless(found)

    tries(bad)(check)
    tries(subnet, TRIES // 2)(check_subnet)


def dumped(value: Any) -> Any:
    """As a node writes JSON, which may be wrong."""
    try:
        return json.dumps(value, allow_nan=True)
    except (ValueError, RecursionError):
        return value


@pytest.mark.parametrize("kind", ["tcp", "rdma_lat", "gpudirect"])
def test_a_campaign_has_the_verdicts_of_all_other_nodes(kind: str) -> None:
    fleet = campaigns.Fleet(kind=kind)
    good = {
        name: {"answer": json.dumps(own), "done": True, "problem": ""} for name, own in fleet.answers.items()
    }

    def judged(started: Any, collected: Any) -> None:
        found = campaigns.report(
            fleet.plan, {**fleet.started, "b": started}, {**good, "b": collected}, campaigns.ABOUT
        )
        whole = json.loads(sound(found["document"]))
        verdicts = {node["name"]: node["verdict"] for node in whole["nodes"]}
        assert {*verdicts} == {*fleet.answers}
        assert {name: one for name, one in verdicts.items() if name != "b"} == dict.fromkeys(
            "acdefgh", "pass"
        )
        of_others = [pair for pair in whole["pairs"] if all(end["node"] != "b" for end in pair["ends"])]
        assert {pair["verdict"] for pair in of_others} == {"pass"}
        assert len(of_others) == 21
        harmless(found["table"])
        # What is read back for the fleet report, and compared with the next one
        results.read(whole, "it")

    def check_answer(value: Any) -> None:
        judged({"ends": 1.0, "changed": True}, {"answer": dumped(value), "done": True, "problem": ""})

    tries(fleet.answers["b"], 2 * TRIES)(check_answer)
    tries(good["b"], TRIES // 2)(lambda value: judged({"ends": 1.0}, value))
    tries({"ends": 1.0, "interfaces": ["eth0"], "changed": True}, TRIES // 2)(
        lambda value: judged(value, good["b"])
    )


def test_an_effect_has_the_pairs_of_all_other_nodes() -> None:
    tcp = [effects.tcp(state) for state in effects.ORDER]
    [measuring] = [name for name in "ab" if json.loads(tcp[0]["collected"][name]["answer"])["slots"]][:1] or [
        "a"
    ]
    node = {name: {"value": 11.0, "tool": "mbw", "reason": ""} for name in ("copied", "read")}
    memory = {"changed": True, "nodes": [{"node": 0, **node}, {"node": 1, **node}]}

    def judged(answer: Any, of_memory: Any) -> None:
        phases = []
        for number, state in enumerate(effects.ORDER):
            collected = copy.deepcopy(tcp[number])
            if number == 1:
                collected["collected"][measuring] = answer
            own = dict.fromkeys("abcd", memory)
            phases.append(
                {"state": state, "tcp": collected, "memory": {**own, "b": of_memory} if number else own}
            )
        found = effects.effect_report(phases, effects.PLAN, effects.ABOUT)
        sound(found["document"])
        harmless(found["table"])
        bandwidth, *of_nodes = found["document"]["results"]
        others = [pair for pair in bandwidth["pairs"] if measuring not in pair["name"].split(" - ")]
        assert others
        assert all(None not in pair["values"] for pair in others)
        for figure in of_nodes:
            there = {pair["name"] for pair in figure["pairs"] if None not in pair["values"]}
            assert {f"{name} node {place}" for name in "acd" for place in (0, 1)} <= there

    good = tcp[1]["collected"][measuring]
    inner = json.loads(good["answer"])
    tries(inner)(lambda value: judged({**good, "answer": dumped(value)}, memory))
    tries(good, TRIES // 2)(lambda value: judged(value, memory))
    tries(memory)(lambda value: judged(good, value))


def test_runs_of_nccl_have_the_verdicts_of_all_other_nodes(tmp_path: pathlib.Path) -> None:
    fleet = nccl.Fleet("abc", launcher="ssh")
    real = topology(tmp_path / "tree")
    for own in fleet.asked.values():
        own["topology"] = real
    fleet.ran = [fleet.run([name], nccl.Faults()) for name in "abc"]
    for number, run in enumerate(fleet.ran, 1):
        run["number"] = number

    def judged(probe: Any, found_topology: Any, ran: Any) -> None:
        asked = {**fleet.asked, "b": {**fleet.asked["b"], "probe": probe, "topology": found_topology}}
        runs = [fleet.ran[0], {**fleet.ran[1], **ran}, fleet.ran[2]]
        found = nccl.nccl_report(runs, asked, fleet.about, {})
        text = sound(found["document"])
        harmless(found["table"])
        verdicts = {node["name"]: node["verdict"] for node in found["document"]["nodes"]}
        assert {*verdicts} == {*"abc"}
        states = {tuple(run["nodes"]): run["state"] for run in found["document"]["runs"]}
        assert (states[("a",)], states[("c",)]) == (expected[("a",)], expected[("c",)])
        # Of the next campaign it is one of the earlier results.
        nccl.nccl_report(fleet.ran, fleet.asked, fleet.about, {f"{at}.json": text for at in range(6)})

    document_of = nccl.nccl_report(fleet.ran, fleet.asked, fleet.about, {})["document"]
    expected = {tuple(run["nodes"]): run["state"] for run in document_of["runs"]}
    probe = {"changed": True, "rc": 0, "stderr": "", **fleet.asked["b"]["probe"]}
    run = {name: fleet.ran[1][name] for name in ("rc", "cmd", "stdout", "stderr")}
    written = json.loads(base64.b64decode(fleet.ran[1]["json"]))

    def check_written(value: Any) -> None:
        text = dumped(value)
        encoded = (
            base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            if isinstance(text, str)
            else text
        )
        judged(probe, real, {"json": encoded})

    tries(probe)(lambda value: judged(value, real, {}))
    tries(real)(lambda value: judged(probe, value, {}))
    tries(run)(lambda value: judged(probe, real, value if isinstance(value, dict) else {}))
    tries(written)(check_written)


@pytest.mark.parametrize("cell", ["1e999", "1e400", "9" * 400, "9" * 5000, "0", "nan", "-1", "\x1b"])
def test_a_number_of_the_table_of_nccl_tests_is_one_or_is_named(cell: str) -> None:
    """Columns that are not read hold anything."""
    fleet = nccl.Fleet("ab")
    table_of = fleet.run(["a", "b"], nccl.Faults(json=False))["stdout"]
    rows = [line for line in table_of.splitlines() if line.strip()[:1].isdigit()]
    words = rows[-1].split()
    for at_column in range(len(words)):
        if words[at_column].replace(".", "").isdigit():
            changed = " ".join([*words[:at_column], cell, *words[at_column + 1 :]])
            try:
                found = nccl_read.read(table_of.replace(rows[-1], changed), None, "/tmp/1/a.json")
            except ValueError:
                continue
            sound([[*one] for row in found.rows for one in (row.out_of_place, row.in_place)])
            sound([row.size for row in found.rows])


# -- actions -------------------------------------------------------------------------------------------------


def raw(real: dict[str, Any]) -> dict[str, Any]:
    """As Ansible has parsed a module's output, with what modules may say besides."""
    return {**real, "warnings": ["a warning"], "invocation": {"module_args": {}}, "ansible_facts": {"a": 1}}


def door(
    monkeypatch: pytest.MonkeyPatch, action: Any, module: str, value: Any, arguments: Any
) -> dict[str, Any]:
    """What an action makes of the answer of a module, which Ansible refuses unless it is a dictionary."""
    node = Node(monkeypatch, action, MISSING, module=module, **arguments)
    node.plugin._execute_module = lambda **_words: (
        value if isinstance(value, dict) else {"failed": True, "msg": "no"}
    )
    return node.run(inventory_hostname="n1")


def assert_clean(found: dict[str, Any]) -> None:
    harmless(found)
    sound(found)
    assert found.get("failed") in (None, True, False)
    assert not {"ansible_facts", "add_host", "add_group", "ansible_stats", "invocation", "exception"} & {
        *found
    }


@pytest.mark.parametrize("module", inspections.MODULES)
def test_a_look_of_a_module_passes_the_door(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, module: str
) -> None:
    required = {"campaign": {"state": "collected", "id": "spring"},
                "path_mtu": {"peers": ["127.0.0.1"]}}.get(module, {})  # fmt: skip
    real = topology(tmp_path / "tree") if module == "node_topology" else look(machine, module)
    assert agent_answer.of_task("look", real) == real

    tries(raw(real), TRIES // 2)(
        lambda value: assert_clean(door(monkeypatch, node_preflight, module, value, required))
    )


def test_a_revert_of_a_module_passes_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    real = {
        "changed": True,
        "reverted": [{"key": "a", "value": "1"}],
        "stays": ["b"],
        "reboot_required": False,
    }
    assert agent_answer.of_task("revert", real) == real

    tries(raw(real), TRIES // 2)(
        lambda value: assert_clean(door(monkeypatch, agent_action, "node_revert", value, {}))
    )


def test_a_module_of_one_area_passes_the_door(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = declared(machine)["areas"]["sysctl"]
    assert agent_answer.of_task("view", real) == real

    tries(raw(real), TRIES // 2)(
        lambda value: assert_clean(
            door(monkeypatch, declare, "sysctl_ml", value, {"settings": {"vm.swappiness": 1}})
        )
    )


def declared(machine: Machine) -> dict[str, Any]:
    areas = {"thp": {"enabled": "madvise"}, "sysctl": {"settings": {"vm.swappiness": 1}}}
    options = questions.declare(areas, fail_at="low", interpreter="/usr/bin/python3")
    found = call.CALLS["declare"](machine, options)
    return dict(json.loads(json.dumps(found)))


@pytest.mark.parametrize("kind", ["declare", "drift"])
def test_an_answer_of_an_agent_passes_the_door(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real = declared(machine)
    if kind == "drift":
        machine.forget()
        real = json.loads(
            json.dumps(call.CALLS["drift"](machine, {"fail_at": "low", "ignore": [], "declarations": {}}))
        )
    action = {"declare": declare, "drift": node_drift}[kind]

    def check(value: Any) -> None:
        reply = (
            answer(**value) if isinstance(value, dict) else done(f"mlnode: {json.dumps({'answer': DEEP})}\n")
        )
        node = Node(monkeypatch, action, reply, reply)
        found = node.plugin.run(task_vars={})
        found.pop("layers", None)
        assert_clean(found)

    def encodable(value: Any) -> None:
        try:
            json.dumps(value)
        except (ValueError, RecursionError):
            return
        check(value)

    tries(real)(encodable)


# -- the callback -------------------------------------------------------------------------------------------


class Shown:
    """A terminal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, line: str, *_more: Any, **_words: Any) -> None:
        self.lines.append(line)

    banner = warning = display


class Stats:
    def summarize(self, _host: str) -> dict[str, int]:
        return {"failures": 1, "unreachable": 1}


def reported(answers: dict[str, tuple[str, Any]]) -> tuple[Any, Shown]:
    """The report about hosts. answers: host → event of the callback, and the result of the task."""
    plugin = fleet_report.CallbackModule()
    plugin._display = shown = Shown()
    plugin._plugin_options = {"table": True, **dict.fromkeys(("json", "junit", "html"), "")}
    plugin.v2_playbook_on_start(SimpleNamespace(_file_name="play.yml"))
    task = SimpleNamespace(
        action="mlnode.tuning.node_drift", resolved_action="mlnode.tuning.node_drift", run_once=False,
        _role=None, get_name=lambda: "Look",
    )  # fmt: skip
    plugin.v2_playbook_on_task_start(task, False)
    for name, (event, value) in answers.items():
        host = SimpleNamespace(get_name=lambda name=name: name, get_groups=list)
        getattr(plugin, event)(
            SimpleNamespace(host=host, task=task, result=value if isinstance(value, dict) else {})
        )
    plugin.v2_playbook_on_stats(Stats())
    return plugin._fleet, shown


EVENTS = ("v2_runner_on_ok", "v2_runner_on_failed", "v2_runner_on_unreachable")


@pytest.mark.parametrize("event", EVENTS)
def test_the_report_has_every_other_host(machine: Machine, event: str) -> None:
    drift = {
        "compliant": False, "verdict": "drift", "settings": [fleets.setting(), fleets.drifted("vm.b")],
        "errors": ["one"],
        "exceptions": [{"key": "vm.*", "reason": "r", "until": "2027-01-01", "state": "used"}],
    }  # fmt: skip
    loop = {
        "results": [{"checks": [fleets.check()], "failed": True, "msg": "m"}],
        "areas": declared(machine)["areas"],
    }
    real = {
        **drift,
        **loop,
        "msg": ["a", "b"],
        "stderr": "e",
        "ansible_stats": {"data": {"mlnode_results": ["/x"]}},
    }
    good = {"settings": [fleets.setting(), fleets.drifted("vm.c")]}

    def check(value: Any) -> None:
        fleet, shown = reported({"a": (EVENTS[0], good), "b": (event, value), "c": (EVENTS[0], good)})
        assert {name: fleet.hosts[name].state for name in "ac"} == dict.fromkeys("ac", "differs")
        assert [finding.key for finding in fleet.hosts["c"].bad] == ["vm.c"]
        harmless(shown.lines)
        assert any("vm.c" in line for line in shown.lines)
        sound("".join(document.lines(fleet)))
        # Line ends are those of the files themselves.
        harmless(["".join(junit.lines(fleet)), "".join(page.lines(fleet)), *table.lines(fleet, 80)])

    tries(real, 2 * TRIES)(check)
