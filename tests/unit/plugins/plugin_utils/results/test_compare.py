# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two results: what has changed is named, and what only scatters is not."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import compare, result
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results.change import is_success
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results.campaigns import campaign
from mlnode.model.errors import MlnodeError

SCHEMAS = pathlib.Path(__file__).parents[5] / "docs/schema"
SCHEMA = json.loads((SCHEMAS / "comparison.schema.json").read_text("utf-8"))


def compared(a: dict[str, Any], b: dict[str, Any]) -> compare.Comparison:
    found = compare.compare(result.read(a, "a.json"), result.read(b, "b.json"))
    jsonschema.validate(compare.document(found), SCHEMA)
    return found


def words(found: compare.Comparison, word: str) -> list[str]:
    return [name for name, one in found.nodes.items() if one.word == word]


def test_a_node_that_has_lost_a_twentieth_is_named_and_no_other() -> None:
    found = compared(campaign(64, 1, noise=0.015), campaign(64, 2, noise=0.015, slow={"gpu007": 0.95}))

    assert words(found, "worse") == ["gpu007"]
    assert len(words(found, "same")) == 63
    change = found.nodes["gpu007"]
    assert change.part == pytest.approx(-0.05, abs=0.015)
    assert not is_success(found.verdict)
    # The other way round, it is a gain.
    back = compare.compare(found.after, found.before)
    assert words(back, "better") == ["gpu007"]
    assert is_success(back.verdict)


def test_a_change_within_the_noise_is_not_named() -> None:
    found = compared(campaign(64, 1, noise=0.03), campaign(64, 2, noise=0.03, slow={"gpu007": 0.98}))

    assert words(found, "same") == [*found.nodes]
    assert {one.word for one in found.pairs.values()} == {"same"}
    assert is_success(found.verdict)


def test_noise_is_that_of_both_runs() -> None:
    quiet, loud = campaign(64, 1, noise=0.001), campaign(64, 2, noise=0.02, slow={"gpu007": 0.99})

    found = compared(quiet, loud)

    for pair in found.pairs.values():
        assert pair.noise is not None
        assert pair.noise > 4 * 0.015
    assert "gpu007" in words(found, "same")


def test_a_whole_fleet_that_is_slower_is_named() -> None:
    found = compared(campaign(16, 1), campaign(16, 2, level=0.9))

    assert words(found, "worse") == [*found.nodes]
    assert found.verdict == "worse"


def test_what_only_one_has_measured_is_named() -> None:
    found = compared(campaign(16, 1, silent=("gpu003",)), campaign(16, 2, more="gpu999"))

    assert words(found, "only in B") == ["gpu999"]
    back = compare.compare(found.after, found.before)
    assert words(back, "only in A") == ["gpu999"]
    assert not is_success(back.verdict)
    assert compare.document(back)["counts"]["pairs"]["only in A"] > 0


def test_without_a_common_pair_all_pairs_of_a_node_count_if_they_are_alike() -> None:
    # A node more, and the circle method has other pairs.
    a, b = campaign(32, 1, rounds=1), campaign(32, 2, rounds=1, seed=3, slow={"gpu002": 0.9})
    common = {*result.read(a, "a").pairs} & {*result.read(b, "b").pairs}
    assert not common

    assert "gpu002" in words(compared(a, b), "worse")

    for node in b["nodes"]:
        node["rails"][0]["rate_gbits"] = 400
    assert words(compared(a, b), "unknown") == [node["name"] for node in b["nodes"]]


def test_two_nodes_have_no_noise_and_so_no_verdict() -> None:
    found = compared(campaign(2, 1), campaign(2, 2, level=0.5))

    assert found.verdict == "unknown"
    assert found.nodes["gpu001"].part == pytest.approx(-0.5, abs=0.05)
    assert not is_success(found.verdict)


def test_a_node_measured_in_neither_is_unknown() -> None:
    a, b = (campaign(4, day) for day in (1, 2))
    for document in (a, b):
        for pair in document["pairs"]:
            if "gpu001" in {end["node"] for end in pair["ends"]}:
                pair.update(gbits=None, verdict="unknown")

    found = compared(a, b)

    assert (found.nodes["gpu001"].word, found.nodes["gpu001"].reason) == ("unknown", "measured in neither")


def test_nothing_is_a_change_from_nothing() -> None:
    a = campaign(16, 1)
    for pair in a["pairs"]:
        pair["gbits"] = 0

    assert {*compared(a, campaign(16, 2)).nodes} == {*words(compared(a, campaign(16, 2)), "unknown")}


def test_what_they_were_measured_under_is_said() -> None:
    a, b = campaign(16, 1), campaign(16, 2, kernel="6.12.9", silent=("gpu011",))
    b["campaign"]["duration_seconds"] = 8
    b["nodes"][4]["declarations"] = {"node": "fedcba9876543210", "fabric": "00"}
    b["nodes"][5]["rails"][0].update(firmware="28.2", driver="mlx5", mtu_bytes=1500)

    found = compared(a, b)

    under = {(one.what, one.before, one.after): one.nodes for one in found.under}
    assert len(under.pop(("kernel", "6.12.0", "6.12.9"))) == 15
    assert under == {
        ("declaration node", "0123456789abcdef", "fedcba9876543210"): ("gpu005",),
        ("declaration fabric", "", "00"): ("gpu005",),
        ("driver of rail 0", "mlx5_core", "mlx5"): ("gpu006",),
        ("firmware of rail 0", "28.1", "28.2"): ("gpu006",),
        ("MTU of rail 0", "9000", "1500"): ("gpu006",),
        ("kernel, declarations and rails", "known", "unknown"): ("gpu011",),
    }
    assert [(one.what, one.before, one.after) for one in found.about] == [("duration_seconds", "4", "8")]
    text = "\n".join(compare.lines(found, 80))
    assert "kernel 6.12.0 -> 6.12.9: gpu[001:010], gpu[012:016]" in text
    assert "firmware of rail 0 28.1 -> 28.2: gpu006" in text


def test_the_table_fits_a_terminal_and_has_the_worst_first() -> None:
    slow = {"gpu007": 0.8, "gpu003": 0.5}

    lines = compare.lines(compared(campaign(16, 1), campaign(16, 2, slow=slow)), 80)

    assert all(len(line) <= 80 for line in lines), lines
    rows = [line.split() for line in lines if line.startswith("gpu") and " - " not in line]
    assert [(row[0], row[-1]) for row in rows] == [("gpu003", "worse"), ("gpu007", "worse")]
    assert lines[-1] == "worse: 16 nodes: 2 worse, 14 same"


def test_a_path_is_named_where_its_nodes_are_the_same() -> None:
    b = campaign(16, 2, slow={"gpu007": 0.8})
    path = next(pair for pair in b["pairs"] if "gpu007" not in {end["node"] for end in pair["ends"]})
    path["gbits"] *= 0.6
    ends = " - ".join(sorted(end["node"] for end in path["ends"]))

    found = compared(campaign(16, 1), b)

    assert sum(one.word == "worse" for one in found.pairs.values()) == 9
    [named] = [line for line in compare.lines(found, 80) if " - " in line]
    assert named.startswith(ends)


def latencies(document: dict[str, Any]) -> dict[str, Any]:
    """The same in microseconds, of which fewer are better."""
    made = copy.deepcopy(document)
    made["campaign"].update(kind="rdma_lat", unit="usec")
    for one in made["classes"]:
        one["median_usec"] = one["median_gbits"]
        one["mad_usec"] = one["mad_gbits"]
        one["median_gbits"] = one["mad_gbits"] = None
    for one in (*made["pairs"], *(limit for pair in made["pairs"] for limit in pair["limits"])):
        one["usec"], one["gbits"] = one["gbits"], None
    return made


def test_of_a_latency_less_is_better() -> None:
    found = compared(latencies(campaign(16, 1)), latencies(campaign(16, 2, level=0.9)))

    assert found.verdict == "better"
    assert compare.document(found)["unit"] == "usec"


def test_kinds_are_not_mixed() -> None:
    with pytest.raises(MlnodeError, match=r"a\.json has the kind tcp, and b\.json rdma_lat"):
        compared(campaign(4, 1), latencies(campaign(4, 2)))


# -- what is no result --------------------------------------------------------------------------


@cases.table
def test_a_document_of_another_form_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MlnodeError, match=words) as caught:
        result.read({**campaign(4, 1), **change}, "x.json")
    assert str(caught.value).startswith("x.json is not the result of a campaign: ")


def _twice(document: dict[str, Any]) -> None:
    document["nodes"].append(document["nodes"][0])


def _pair_twice(document: dict[str, Any]) -> None:
    document["pairs"].append({**document["pairs"][0], "ends": document["pairs"][0]["ends"][::-1]})


def _stranger(document: dict[str, Any]) -> None:
    document["pairs"][0]["ends"][0]["node"] = "gpu9"


def _alone(document: dict[str, Any]) -> None:
    document["pairs"][0]["ends"][0] = document["pairs"][0]["ends"][1]


def _text(document: dict[str, Any]) -> None:
    document["pairs"][0]["gbits"] = "97"


def _unit(document: dict[str, Any]) -> None:
    document["campaign"]["unit"] = "parsecs"


def _no_limits(document: dict[str, Any]) -> None:
    document["pairs"][0]["limits"] = [3]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_twice, "the node 'gpu001' is there twice"),
        (_pair_twice, "the pair gpu00. - gpu00. is there twice"),
        (_stranger, "a pair is of rail 0 of 'gpu9', which is missing"),
        (_alone, "not two nodes"),
        (_text, "gbits is '97', and not an amount"),
        (_unit, "its unit is 'parsecs', and known are gbits, usec"),
        (_no_limits, "gbits is missing in 3"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(spoil: Any, words: str) -> None:
    document = campaign(4, 1)
    spoil(document)

    with pytest.raises(MlnodeError, match=words):
        result.read(document, "x.json")


@cases.table
def test_a_file_that_holds_no_document_is_refused(tmp_path: pathlib.Path, content: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(MlnodeError, match=words):
        result.load(path)


def test_a_file_without_end_is_not_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(result.MOST + 1)

    with pytest.raises(MlnodeError, match=f"it has more than {result.MOST} bytes"):
        result.load(path)


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_file_that_cannot_be_read_is_named(path: str) -> None:
    with pytest.raises(MlnodeError, match=f"cannot read {path}: "):
        result.load(pathlib.Path(path))


def test_what_these_tests_read_is_what_a_campaign_writes() -> None:
    written = campaign(16, 1, slow={"gpu002": 0.8}, silent=("gpu005",), leaves=4)

    jsonschema.validate(written, json.loads((SCHEMAS / "campaign.schema.json").read_text("utf-8")))


def test_a_second_look_counts_where_the_first_has_nothing() -> None:
    document = campaign(4, 1)
    first = document["pairs"][0]
    second = copy.deepcopy({**first, "second_look": True})
    first.update(gbits=None, verdict="unknown")
    document["pairs"] += [second, {**second, "gbits": None, "verdict": "unknown"}]

    found = result.read(document, "x.json")

    [pair] = [
        one for one in found.pairs.values() if {*one.key} == {(end["node"], 0) for end in first["ends"]}
    ]
    assert pair.value == second["gbits"]


def test_where_the_cores_were_the_limit_that_of_the_hardware_does_not_count() -> None:
    document = campaign(16, 1)
    pair = document["pairs"][0]
    by = {limit["name"]: limit["gbits"] for limit in pair["limits"]}
    one, other = sorted((end["node"], end["rail"]) for end in pair["ends"])
    pair["limits"][0]["gbits"] = by["fleet"] + 1

    assert result.read(document, "x").pairs[one, other].limit == by["fleet"] + 1
    pair["cpu_bound"] = True
    assert result.read(document, "x").pairs[one, other].limit == by["fleet"]
