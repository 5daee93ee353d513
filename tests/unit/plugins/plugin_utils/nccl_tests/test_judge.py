# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not pass: each way in which runs of nccl-tests can look better than they are."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import document, facts, judge, presets
from ansible_collections.mlnode.tuning.tests.unit import cases, nccl_machine
from ansible_collections.mlnode.tuning.tests.unit.nccl_machine import Faults, Run
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests.test_read import captured

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/nccl.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
#: One size of each band is enough: from 16 KiB to 1 GiB
LEAST, MOST = 16 * KIB, GIB

TIMES = {"started": "2026-11-25T00:00:00+00:00", "ended": "2026-11-25T00:20:00+00:00", "program": ""}

PROBE = """\
hostname={}.example
kernel=6.12.0
driver=580.65
program=/opt/nccl-tests/build/all_reduce_perf
options=--output_file --per_iter_timing
processes=0
declared=0123456789abcdef0123 /etc/mlnode/declared.d/node.json
"""


def nccl_report(ran: Any, asked: Any, about: dict[str, Any], earlier: dict[str, str]) -> dict[str, Any]:
    """As the action has it of runs, and the groups that they ask for."""
    judged = judge.judge(facts.fleet(asked), ran, judge.about(about), judge.past(earlier))
    whole = document.result(judged, {**TIMES, "id": about["id"]})
    return {
        "document": whole,
        "table": document.lines(whole),
        "success": not document.fails(whole, about["fail_on"]),
        "next": [[*group] for group in judged.wanted],
    }


class Fleet:
    """Nodes a, b, ... of two GPUs and two rails of 400 Gb/s, which the stand-in measures."""

    def __init__(self, names: str = "abcd", ring: str = "RING", **about: Any) -> None:
        self.asked: dict[str, dict[str, Any]] = {
            name: {"probe": {"stdout": PROBE.format(name)}, "gpus": 2, "rails_gbits": [1600, 1600]}
            for name in names
        }
        self.about = {"id": "spring", "begin": 1795564800.0, "launcher": "mpirun", "gpus": 2, "least": LEAST,
                      "most": MOST, "network": "IB", "runs": 20, "stragglers": True, "timeout": 600,
                      "fail_on": "unknown", **about}  # fmt: skip
        self.earlier: dict[str, str] = {}
        self.ran: list[dict[str, Any]] = []
        #: As the playbook asks small groups for
        self.ring = ring

    def run(self, group: list[str], faults: Faults) -> dict[str, Any]:
        number = len(self.ran) + 1
        forced = self.ring if 1 < len(group) < 4 else ""
        run = Run(group, 2, LEAST, MOST, f"/tmp/{number}/a.json", faults, number == 1, forced)
        text = base64.b64encode(nccl_machine.document(run).encode()).decode() if faults.json else None
        return {"number": number, "nodes": group, "rc": faults.status, "cmd": [f"/tmp/{number}/x.log"],
                "path": run.path, "stdout": nccl_machine.table(run), "stderr": "", "json": text,
                "logs": {name: nccl_machine.log(run, name) for name in run.there}}  # fmt: skip

    def add(self, nodes: str, stdout: str, log: str, document: Any = None) -> None:
        """A run of these nodes, whoever has measured it."""
        path = document["args"][-1] if document else "/tmp/1/a.json"
        text = base64.b64encode(json.dumps(document).encode()).decode() if document else None
        self.ran.append({"number": len(self.ran) + 1, "nodes": [*nodes], "rc": 0, "cmd": [path], "path": path,
                         "stdout": stdout, "stderr": "", "logs": dict.fromkeys(nodes, log),
                         "json": text})  # fmt: skip

    def add_alone(self, name: str, rate: float = 1.0) -> None:
        """A run of a node by itself: one process with two GPUs, which reach this part of the usual rate."""
        own = Run([name], 2, LEAST, MOST, f"/tmp/{name}/a.json", Faults(slow={name: rate}), times=False)
        document = json.loads(nccl_machine.document(own))
        document["config"].update(ngpus=2, devices=document["config"]["devices"][:1])
        self.add(name, nccl_machine.table(own), "8 via P2P\n", document)

    def play(self, faults: Faults = Faults(), **change: Any) -> dict[str, Any]:  # noqa: B008  # it is frozen
        """All runs. change: fields of the first one."""
        groups = [[name for name, node in facts.fleet(self.asked).items() if not node.problem]]
        while groups:
            for group in groups:
                self.ran.append({**self.run(group, faults), **({} if self.ran else change)})
            report = self.report()
            groups = report["next"]
        return report

    def report(self) -> dict[str, Any]:
        report = nccl_report(self.ran, self.asked, self.about, self.earlier)
        VALIDATOR.validate(report["document"])
        return report

    def seen_before(self, times: int = 5) -> Fleet:
        """With so many earlier results."""
        past = Fleet("".join(self.asked), self.ring, **self.about)
        text = json.dumps(past.play()["document"])
        self.earlier = {f"nccl/{number}.json": text for number in range(times)}
        return self


def bands(report: dict[str, Any], run: int = 0) -> dict[str, str]:
    return {band["name"]: band["verdict"] for band in report["document"]["runs"][run]["bands"]}


def nodes(report: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["verdict"] for node in report["document"]["nodes"]}


def test_a_fleet_in_good_order_passes() -> None:
    report = Fleet().seen_before().play()

    assert report["success"]
    assert report["table"][-1] == "pass: 4 nodes: 4 pass"
    assert bands(report) == {"latency": "pass", "middle": "pass", "bandwidth": "pass", "between": "pass"}
    (run,) = report["document"]["runs"]
    assert (run["state"], run["read_from"], run["ranks"], run["nccl_version"]) == ("good", "json", 8, 23007)
    assert run["stragglers"]["verdict"] == run["transport"]["verdict"] == "pass"
    assert report["document"]["nodes"][0]["declarations"] == {"node": "0123456789abcdef"}


def test_what_was_in_the_environment_is_not_kept() -> None:
    assert "do not keep" not in json.dumps(Fleet().play()["document"])


def test_without_other_results_small_sizes_are_unknown() -> None:
    report = Fleet().seen_before(4).play()

    assert bands(report) == {
        "latency": "unknown",
        "middle": "unknown",
        "bandwidth": "pass",
        "between": "pass",
    }
    assert report["document"]["verdict"] == "unknown"
    assert not report["success"]
    assert nodes(report) == dict.fromkeys("abcd", "pass")


def test_what_is_unknown_may_be_no_failure_and_stays_unknown() -> None:
    fleet = Fleet(fail_on="fail")

    assert fleet.play()["success"]
    assert fleet.report()["document"]["verdict"] == "unknown"
    assert not Fleet(fail_on="fail").play(Faults(wrong=MIB))["success"]


# -- no result ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(cut=10), "damaged"),
        (Faults(rows=False), "results is missing"),
        (Faults(nan=MIB), "'nan'"),
        (Faults(missing=["b"]), "b did not take part"),
        (Faults(json=False, alone=True), "built with MPI=1"),
        (Faults(status=1), "it ended with 1"),
    ],
)
@pytest.mark.parametrize("fleet", ["ab", "abcd"])
def test_what_is_not_a_whole_result_is_unknown(faults: Faults, words: str, fleet: str) -> None:
    report = Fleet(fleet).seen_before().play(faults)

    assert report["document"]["verdict"] == "unknown"
    assert not report["success"]
    assert words in report["document"]["runs"][0]["reason"]
    assert nodes(report) == dict.fromkeys(fleet, "unknown")
    assert report["document"]["coverage"]["nodes_never_measured"] == [*fleet]
    # Without a result it is not known which half to take.
    assert len(report["document"]["runs"]) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stdout": "", "json": None}, "no table"),
        ({"stdout": captured("gpus_busy.txt"), "json": None, "rc": 3}, "busy or unavailable"),
        ({"json": None}, "which is not there"),
        ({"json": "&&"}, "damaged"),
        ({"rc": 124}, "ran past 600 s"),
        ({"rc": None, "stdout": "", "json": None, "msg": "unreachable"}, "unreachable"),
        ({"path": "/tmp/1/b.json"}, "to write /tmp/1/b.json, got '/tmp/1/a.json'"),
        ({"cmd": ["/tmp/0/x.log"], "json": None, "stdout": captured("two_nodes.txt")}, "from another run"),
    ],
)
def test_a_run_without_its_own_result_is_unknown(change: dict[str, Any], words: str) -> None:
    report = Fleet().seen_before().play(**change)

    assert report["document"]["verdict"] == "unknown"
    assert words in report["document"]["runs"][0]["reason"]


def test_the_file_of_an_earlier_run_is_not_read_as_the_new_one() -> None:
    fleet = Fleet()
    old = Run(["a", "b", "c", "d"], 2, LEAST, MOST, "/tmp/0/a.json")
    new = base64.b64encode(nccl_machine.document(old).encode()).decode()

    assert "not among its own args" in fleet.play(json=new)["document"]["runs"][0]["reason"]


# -- a result that is not good -----------------------------------------------------------------------


@pytest.mark.parametrize("json_too", [True, False])
def test_wrong_elements_never_pass(json_too: bool) -> None:
    report = Fleet().seen_before().play(Faults(wrong=MIB, status=1, json=json_too))

    assert report["document"]["verdict"] == "fail"
    assert bands(report)["middle"] == "fail"
    assert any("fail" in line and "elements are wrong" in line for line in report["table"])
    assert "pass" not in nodes(report).values()


def test_elements_that_were_not_checked_never_pass() -> None:
    report = Fleet().seen_before().play(Faults(unchecked=True))

    assert {*bands(report).values()} == {"unknown"}
    assert not report["success"]


def test_sockets_where_infiniband_was_expected_fail_and_no_half_is_taken() -> None:
    report = Fleet().seen_before().play(Faults(socket=["b"]))

    assert report["document"]["verdict"] == "fail"
    assert "NET/Socket on b" in report["document"]["runs"][0]["reason"]
    assert len(report["document"]["runs"]) == 1


def test_without_a_log_the_transport_is_unknown() -> None:
    report = Fleet().seen_before().play(Faults(silent=["b"]))

    assert report["document"]["runs"][0]["transport"]["verdict"] == "unknown"
    assert not report["success"]


def test_a_lost_rail_that_nccl_refuses_is_said() -> None:
    mixed = "Detected mixed local Net device counts across ranks (min 7, max 8)"
    report = Fleet().play(rc=3, json=None, stdout="", logs={"a": mixed})

    assert report["document"]["verdict"] == "fail"
    assert mixed in json.dumps(report["document"]["runs"][0]["transport"])


def test_an_average_does_not_hide_one_slow_size() -> None:
    report = Fleet().seen_before().play(Faults(hole=8 * MIB))

    assert bands(report)["middle"] == "fail"
    (size,) = [
        size for band in report["document"]["runs"][0]["bands"] for size in band["sizes"] if size["broke"]
    ]
    assert (size["bytes"], size["broke"]) == (8 * MIB, ["fleet", "hole"])


def test_captured_sizes_that_an_average_hid_are_found() -> None:
    fleet = Fleet("ab", gpus=8, least=KIB, most=8 * GIB, stragglers=False)
    for node in fleet.asked.values():
        node.update(gpus=8, rails_gbits=[50] * 8)
    log = "8 via NET/IB/0/GDRDMA\nNCCL_ALGO set by environment to RING\n"
    fleet.add("ab", captured("slow_middle.txt"), log)

    report = fleet.report()

    assert bands(report)["bandwidth"] == "pass"
    assert bands(report)["middle"] == "fail"
    sizes = [size for band in report["document"]["runs"][0]["bands"] for size in band["sizes"]]
    assert [size["bytes"] // MIB for size in sizes if "hole" in size["broke"]] == [2, 16]


def test_a_size_that_was_not_measured_is_unknown() -> None:
    report = Fleet(most=4 * GIB).seen_before().play()

    assert bands(report)["bandwidth"] == "unknown"
    assert not report["success"]


def test_a_band_that_was_not_asked_for_is_unknown() -> None:
    fleet = Fleet("ab", gpus=1, least=MIB, most=128 * MIB, stragglers=False)
    for node in fleet.asked.values():
        node.update(gpus=1)
    report = fleet.play(stdout=captured("two_nodes.txt"), json=None)

    assert bands(report) == {
        "latency": "unknown",
        "middle": "unknown",
        "bandwidth": "unknown",
        "between": "pass",
    }
    assert "no size of this band was asked for" in report["document"]["runs"][0]["bands"][0]["reason"]


def test_ranks_that_others_wait_for_are_named() -> None:
    report = Fleet().seen_before().play(Faults(late=3))

    stragglers = report["document"]["runs"][0]["stragglers"]
    assert stragglers["verdict"] == "fail"
    assert "rank 0 on a takes" in stragglers["reason"]
    assert "rank 3 on b" in stragglers["reason"]


@pytest.mark.parametrize(("asked", "verdict"), [(True, "unknown"), (False, "pass")])
def test_without_times_stragglers_are_unknown_unless_they_are_not_asked_for(
    asked: bool, verdict: str
) -> None:
    report = Fleet(stragglers=asked).seen_before().play(Faults(json=False))

    assert report["document"]["verdict"] == verdict


# -- which node, which path ----------------------------------------------------------------------------


def test_a_slow_node_is_named() -> None:
    report = Fleet("abcdefgh").play(Faults(slow={"f": 0.6}))

    assert {name for name, verdict in nodes(report).items() if verdict == "fail"} == {"f"}
    assert report["document"]["nodes"][5]["certainty"] == "certain"
    assert not report["document"]["paths"]


def test_a_slow_path_is_named_and_no_node() -> None:
    report = Fleet("abcdefgh").play(Faults(paths=(("b", "g", 0.6),)))

    assert report["document"]["paths"] == [{"nodes": ["b", "g"], "verdict": "fail", "certainty": "certain"}]
    assert {*nodes(report).values()} == {"pass"}
    assert report["document"]["verdict"] == "fail"


def test_the_number_of_runs_is_bounded() -> None:
    report = Fleet("abcdefgh", runs=4).play(Faults(slow={"f": 0.6}))

    assert len(report["document"]["runs"]) == 4
    assert report["document"]["coverage"]["runs_left_out"] > 0
    assert "runs were left out" in "\n".join(report["table"])


def test_a_node_that_was_good_is_not_accused_where_runs_have_ended() -> None:
    report = Fleet("abc", runs=3).play(Faults(slow={"b": 0.6}))

    assert [run["nodes"] for run in report["document"]["runs"]] == [["a", "b", "c"], ["a", "b"], ["a", "c"]]
    assert nodes(report) == {"a": "warn", "b": "unknown", "c": "pass"}
    assert report["document"]["verdict"] == "fail"


def test_nodes_by_themselves_are_compared_with_each_other() -> None:
    fleet = Fleet("abcdefgh", launcher="ssh", stragglers=False)
    for name in fleet.asked:
        fleet.add_alone(name, 0.6 if name == "f" else 1.0)
    report = fleet.report()

    verdicts = [run["verdict"] for run in report["document"]["runs"]]
    assert verdicts == ["pass"] * 5 + ["fail"] + ["pass"] * 2
    assert not report["document"]["coverage"]["links_between_nodes"]
    assert any("between nodes were not measured" in line for line in report["table"])
    assert not report["next"]


# -- what nodes say of themselves ------------------------------------------------------------------------


@cases.table
def test_a_node_that_cannot_take_part_is_unknown(old: str, new: str, words: str) -> None:
    fleet = Fleet("abc").seen_before()
    fleet.asked["b"]["probe"]["stdout"] = PROBE.format("b").replace(old, new)

    report = fleet.play()

    assert report["document"]["runs"][0]["nodes"] == ["a", "c"]
    assert nodes(report)["b"] == "unknown"
    assert words in report["document"]["nodes"][1]["reason"]
    assert report["document"]["coverage"]["nodes_never_measured"] == ["b"]
    assert not report["success"]


def test_a_node_that_was_not_reached_is_unknown() -> None:
    fleet = Fleet("abc").seen_before()
    fleet.asked["b"] = {"probe": {"msg": "Failed to connect"}}

    assert "Failed to connect" in fleet.play()["document"]["nodes"][1]["reason"]


def test_a_rail_that_is_not_active_fails_its_node() -> None:
    fleet = Fleet().seen_before()
    ports = [{"number": 1, "state": "DOWN", "rate": "400 Gb/sec (4X NDR)"}]
    rdma = [{"name": "mlx5_0", "address": "0000:18:00.0", "rail": 0, "ports": ports}]
    fleet.asked["b"].update(rails_gbits=[], topology={"topology": {"rdma": rdma, "pci": [], "gpus": []}})

    report = fleet.play()

    assert nodes(report)["b"] == "fail"
    assert "mlx5_0" in report["document"]["nodes"][1]["reason"]


def test_the_narrowest_link_is_the_limit() -> None:
    fleet = Fleet("ab")
    link = {"speed": "16.0 GT/s PCIe", "width": 8}
    pci = [{"address": "0000:18:00.0", "path": ["0000:17:00.0", "0000:18:00.0"], "link": link},
           {"address": "0000:17:00.0", "path": ["0000:17:00.0"], "link": None}]  # fmt: skip
    ports = [{"number": 1, "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)"}]
    rdma = [{"name": "mlx5_0", "address": "0000:18:00.0", "rail": 0, "ports": ports}]
    fleet.asked["b"].update(rails_gbits=[], topology={"topology": {"rdma": rdma, "pci": pci, "gpus": []}})

    size = fleet.play()["document"]["runs"][0]["bands"][2]["sizes"][0]

    # 128 Gb/s on the wire, of which 128 of 130 bits and 128 of 152 bytes are data
    assert size["limits"][0]["gbits"] == pytest.approx(0.8 * 128 * 128 / 130 * 128 / 152, rel=1e-4)
    assert "1 rails of b" in size["limits"][0]["source"]


# -- what was asked for ------------------------------------------------------------------------------------


@cases.table
def test_what_makes_no_sense_is_refused(about: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Fleet(**about).report()


@cases.table
def test_what_is_given_of_a_node_is_checked(node: dict[str, Any], words: str) -> None:
    fleet = Fleet()
    fleet.asked["a"].update(node)

    with pytest.raises(ValueError, match=words):
        facts.fleet(fleet.asked)


@pytest.mark.parametrize("content", ['{"nccl": 1', '{"nccl": {}, "runs": [1]}', '{"nccl": {}}', "[]"])
def test_a_damaged_earlier_result_is_named(content: str) -> None:
    fleet = Fleet()
    fleet.earlier = {"nccl/x.json": content}

    with pytest.raises(ValueError, match=r"nccl/x[.]json"):
        fleet.report()


def test_results_of_another_kind_are_left_out() -> None:
    fleet = Fleet()
    fleet.earlier = {"nccl/x.json": '{"campaign": {}}'}

    assert fleet.play()["document"]["verdict"] == "unknown"


# -- two nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("times", [0, 1, 4, 5])
@pytest.mark.parametrize("ring", ["RING", ""])
def test_a_slow_pair_is_never_good(part: float, times: int, ring: str) -> None:
    """However few results there are, and whichever algorithm NCCL takes."""
    fleet = Fleet("ab")
    fleet.ring = ring
    past = Fleet("ab")
    past.ring = ring
    text = json.dumps(past.play()["document"])
    fleet.earlier = {f"nccl/{number}.json": text for number in range(times)}

    report = fleet.play(Faults(slow={"b": part}))

    assert report["document"]["runs"][0]["state"] != "good"
    assert not report["success"]
    assert "pass" not in nodes(report).values()
    if ring or times == 5:
        assert report["document"]["verdict"] == "fail"


def test_a_pair_of_rings_is_judged_by_its_rails() -> None:
    report = Fleet("ab").play()

    (run,) = report["document"]["runs"]
    assert (run["state"], run["algorithms"]["forced"]) == ("good", "RING")
    assert bands(report)["bandwidth"] == "pass"
    assert "RING SIMPLE, 16 channels" in "\n".join(report["table"])


def test_a_tree_of_two_nodes_is_unknown_and_says_what_it_takes() -> None:
    fleet = Fleet("ab")
    fleet.ring = ""

    report = fleet.play()

    assert report["document"]["runs"][0]["state"] == "unknown"
    reason = report["document"]["runs"][0]["bands"][2]["reason"]
    assert "rings (NCCL_ALGO=RING): TREE may send more than the rails of 2 nodes carry" in reason
    assert "5 more results like it (0 of 5)" in reason


def test_rings_are_not_compared_with_trees() -> None:
    past = Fleet("ab")
    past.ring = ""
    text = json.dumps(past.play()["document"])
    fleet = Fleet("ab")
    fleet.earlier = {f"nccl/{number}.json": text for number in range(5)}

    assert bands(fleet.play())["bandwidth"] == "pass"


@pytest.mark.parametrize("part", [5 / 8, 1.0])
def test_a_tree_is_not_compared_with_rings_that_nccl_chose(part: float) -> None:
    """Five eighths of the tree of a pair are as much as its rings reach."""
    rings = Fleet("ab").play()["document"]
    rings["runs"][0]["algorithms"]["forced"] = ""
    fleet = Fleet("ab", ring="")
    fleet.earlier = {f"nccl/{number}.json": json.dumps(rings) for number in range(5)}

    report = fleet.play(Faults(slow={"b": part}))

    (run,) = report["document"]["runs"]
    assert run["state"] == ("unknown" if part == 1 else "low")
    assert part < 1 or "5 more results like it (0 of 5)" in run["bands"][2]["reason"]


def test_more_than_the_rails_carry_proves_nothing() -> None:
    fleet = Fleet("ab")
    for node in fleet.asked.values():
        node["rails_gbits"] = [800, 800]

    report = fleet.play()

    assert bands(report)["bandwidth"] == "unknown"
    assert "rates of the rails that are right" in report["document"]["runs"][0]["bands"][2]["reason"]


def test_results_that_scatter_prove_nothing() -> None:
    fleet = Fleet("ab", ring="")
    for node in fleet.asked.values():
        node.update(rails_gbits=[])
    for part in (1.0, 0.9, 0.75, 0.5, 0.3, 0.95):
        past = Fleet("ab", ring="").play(Faults(slow={"b": part}))["document"]
        fleet.earlier[f"nccl/{part}.json"] = json.dumps(past)

    assert fleet.play(Faults(slow={"b": 0.6}))["document"]["runs"][0]["state"] != "good"


def test_nvlink_between_nodes_is_not_judged_by_the_rails() -> None:
    logs = dict.fromkeys("ab", "8 via P2P/MNNVL\nNCCL_ALGO set by environment to RING\n")

    report = Fleet("ab").play(logs=logs)

    assert report["document"]["runs"][0]["state"] == "unknown"


# -- what nccl-tests says beside its numbers ---------------------------------------------------------------


@pytest.mark.parametrize("json_too", [True, False])
def test_an_error_of_nccl_is_a_warning_at_least(json_too: bool) -> None:
    words = "NET/IB: Got completion from peer with status=12"

    report = Fleet().seen_before().play(Faults(errors=words, json=json_too))

    run = report["document"]["runs"][0]
    assert run["nccl_errors"] == [words]
    assert {"name": "errors", "verdict": "warn", "reason": f"NCCL reported: {words}"} in run["parts"]
    assert report["document"]["verdict"] != "pass"
    assert any(line.startswith("warn") and words in line for line in report["table"])


@pytest.mark.parametrize("number", ["0.5", "0.001", "1e-05", "96"])
@pytest.mark.parametrize("form", ["json", "table"])
def test_a_part_of_a_wrong_element_is_not_none(number: str, form: str) -> None:
    fleet = Fleet(stragglers=False).seen_before()
    run = fleet.run([*"abcd"], Faults(json=form == "json"))
    if form == "json":
        text = base64.b64decode(run["json"]).decode().replace('"nwrong":0.000000', f'"nwrong":{number}', 1)
        run["json"] = base64.b64encode(text.encode()).decode()
    else:
        run["stdout"] = run["stdout"].replace("     0  ", f"  {number:>6}  ", 1)
    fleet.ran = [run]

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert report["document"]["runs"][0]["state"] != "good"


def test_na_in_json_was_not_checked() -> None:
    fleet = Fleet().seen_before()
    run = fleet.run([*"abcd"], Faults())
    text = base64.b64decode(run["json"]).decode().replace('"nwrong":0.000000', '"nwrong":"N/A"')
    fleet.ran = [{**run, "json": base64.b64encode(text.encode()).decode()}]

    report = fleet.report()

    assert {*bands(report).values()} == {"unknown"}
    assert "not checked (N/A)" in report["document"]["runs"][0]["reason"]


# -- SHARP -------------------------------------------------------------------------------------------------


def test_sharp_that_is_expected_and_not_used_fails_with_the_line() -> None:
    line = "NET/IB : SHARP coll init error: Cannot connect to SHArPD(-8)"

    report = Fleet(sharp=True).seen_before().play(Faults(said=[line]))

    run = report["document"]["runs"][0]
    assert report["document"]["verdict"] == "fail"
    assert run["algorithms"]["sharp"] == {"verdict": "fail", "sizes": 0}
    assert any(row.startswith("fail") and "Cannot connect to SHArPD" in row for row in report["table"])


def test_sharp_that_is_declared_is_expected() -> None:
    report = Fleet().seen_before().play(Faults(said=["NCCL_COLLNET_ENABLE set by environment to 1."]))

    assert report["document"]["verdict"] == "fail"
    assert Fleet().seen_before().play()["document"]["runs"][0]["algorithms"]["sharp"] is None


def test_sharp_that_is_expected_of_nodes_by_themselves_is_unknown() -> None:
    document = alone(0.95, sharp=True)["document"]

    assert document["coverage"]["limits_not_applied"] == {"sharp": "it takes runs of several nodes"}
    assert document["coverage"]["verdict"] == "unknown"


# -- limits that a site declares -------------------------------------------------------------------------


@cases.table
def test_the_limit_of_the_rails_may_be_another_one(limits: dict[str, Any], slow: float, verdict: str) -> None:
    report = Fleet("ab", limits=limits).play(Faults(slow={"b": slow}))

    assert bands(report)["bandwidth"] == verdict


def test_the_latency_of_two_ranks_has_a_limit() -> None:
    asked = {"gpus": 1, "least": 8, "most": KIB, "stragglers": False, "limits": {"latency": True}}
    fleet = Fleet("ab", **asked)
    stdout = captured("wrong_results.txt").split("        2048  ")[0] + "# Out of bounds values : 0 OK\n"
    fleet.add("ab", stdout, "2 via NET/IB/0/GDRDMA\n")

    assert bands(fleet.report())["latency"] == "pass"  # 18.94 µs at most

    fleet.about["limits"] = {"latency": 18}
    report = fleet.report()

    assert bands(report)["latency"] == "fail"
    reason = report["document"]["runs"][0]["bands"][0]["reason"]
    assert "128 bytes: 0.05611 Gb/s: 18.25 µs, over 18 µs for two ranks on two nodes" in reason


def alone(rate: float, **about: Any) -> dict[str, Any]:
    """A node of two GPUs by itself, whose bus bandwidth is this part of the stand-in's 2944 Gb/s."""
    fleet = Fleet("a", launcher="ssh", stragglers=False, **about)
    fleet.asked["a"]["nvlink_gbits"] = 2944
    fleet.add_alone("a", rate)
    return fleet.report()


@pytest.mark.parametrize(("rate", "verdict"), [(0.95, "pass"), (0.87, "warn"), (0.8, "fail")])
def test_nvlink_has_two_limits(rate: float, verdict: str) -> None:
    report = alone(rate, limits={"nvlink": True})

    assert bands(report)["bandwidth"] == verdict


def test_the_rails_have_a_limit_for_each_class_of_sizes() -> None:
    found = presets.bounds({"infiniband": None}, presets.Shape(2, 16, 1000, None))

    assert [(one.least, one.gbits) for one in found] == [(GIB // 4, 700), (GIB, 800), (4 * GIB, 850)]
    assert [one.least for one in found[1:]] == [one.most + 1 for one in found[:-1]]


@pytest.mark.parametrize(("nodes", "usec"), [(1, 5), (2, 20)])
def test_two_ranks_have_a_limit_by_where_they_are(nodes: int, usec: float) -> None:
    (found,) = presets.bounds({"latency": None}, presets.Shape(nodes, 2, None, None))

    assert (found.usec, found.most) == (usec, KIB)
    assert found.limit(1000).value == pytest.approx(8 / usec)  # Gb/s: with two ranks all is sent once


def test_one_gpu_by_itself_sends_nothing_over_nvlink() -> None:
    assert presets.bounds({"nvlink": None}, presets.Shape(1, 1, None, 3600)) == []
    assert len(presets.bounds({"nvlink": None}, presets.Shape(1, 2, None, 3600))) == 2


def test_a_limit_that_was_applied_to_nothing_is_unknown() -> None:
    report = Fleet(limits={"nvlink": True, "connect": 5}).seen_before().play()

    assert report["document"]["verdict"] == "unknown"
    assert [*report["document"]["coverage"]["limits_not_applied"]] == ["nvlink", "connect"]
    assert any("nvlink was applied to nothing" in line for line in report["table"])


@pytest.mark.parametrize(("seconds", "verdict"), [("4.99", "pass"), ("5.01", "fail")])
def test_the_time_to_connect_has_a_limit(seconds: str, verdict: str) -> None:
    line = f"Init timings - ncclCommInitRank: rank 3 nranks 8 total {seconds} (kernels 0.13, bootstrap 4.00)"

    report = Fleet(limits={"connect": 5}).seen_before().play(Faults(said=[line]))

    assert report["document"]["verdict"] == verdict
    assert report["document"]["runs"][0]["algorithms"]["connect_seconds"] == float(seconds)


@cases.table
def test_a_limit_that_makes_no_sense_is_refused_before_a_run(limits: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        presets.declared(limits)
