# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two results of nccl.yml: slower sizes, other algorithms, and SHARP that is gone."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import cli, nccl
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results.change import is_success
from ansible_collections.mlnode.tuning.tests.unit.nccl_machine import Faults
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.nccl_tests.test_judge import Fleet
from mlnode.model.errors import MlnodeError

ROOT = pathlib.Path(__file__).parents[5]
SCHEMA = json.loads((ROOT / "docs/schema/nccl_comparison.schema.json").read_text("utf-8"))
MIB = 1 << 20


def result(names: str = "abcd", faults: Faults = Faults(), **about: Any) -> dict[str, Any]:  # noqa: B008  # immutable
    document: dict[str, Any] = Fleet(names, **about).play(faults)["document"]
    return document


def compared(a: dict[str, Any], b: dict[str, Any]) -> nccl.Comparison:
    sides = (nccl.read(one, pathlib.Path(name)) for one, name in ((a, "a.json"), (b, "b.json")))
    found = nccl.compare(*sides)
    jsonschema.validate(nccl.document(found), SCHEMA)
    return found


def test_the_same_is_the_same() -> None:
    found = compared(result(), result())

    assert (found.verdict, is_success(found.verdict)) == ("same", True)
    assert len(found.changes) == 17
    assert nccl.lines(found, None)[-1] == "same: 17 sizes and runs: 17 same"


def test_a_slower_run_is_worse_and_a_smaller_group_is_no_loss() -> None:
    found = compared(result(), result(faults=Faults(slow={"b": 0.6})))

    assert (found.verdict, is_success(found.verdict)) == ("worse", False)
    assert {one.run for one in found.changes} == {"8 GPUs of a, b, c, d"}
    (large,) = [one for one in found.changes if one.size == 1 << 30]
    assert large.part == pytest.approx(-0.4, abs=0.01)
    back = compared(result(faults=Faults(slow={"b": 0.6})), result())
    assert back.verdict == "better"


def test_small_sizes_scatter_and_are_not_named() -> None:
    before, after = result(), result()
    for band in after["runs"][0]["bands"]:
        for size in band["sizes"]:
            if size["bytes"] < MIB:
                size["bus_gbits"] *= 0.7

    assert compared(before, after).verdict == "same"


def test_another_algorithm_at_the_same_speed_is_named() -> None:
    before, after = result(), result()
    size = after["runs"][0]["bands"][1]["sizes"][0]
    size["choices"] = [{"algorithm": "RING", "protocol": "LL128", "channels": 8}]

    found = compared(before, after)

    assert is_success(found.verdict)
    (line,) = [line for line in nccl.lines(found, None) if "another algorithm" in line]
    assert "TREE SIMPLE, 16 channels" in line
    assert "RING LL128, 8 channels" in line


def with_sharp() -> dict[str, Any]:
    """A result whose largest size was reduced by switches, with NVLS."""
    document = result(faults=Faults(said=["NVLS multicast support is available on dev 0"]))
    document["runs"][0]["bands"][2]["sizes"][-1]["choices"][0]["algorithm"] = "COLLNET_DIRECT"
    return document


def test_sharp_and_nvls_that_are_gone_are_worse() -> None:
    """Also if nothing declares SHARP any more, as after its line was lost."""
    found = compared(
        with_sharp(), result(faults=Faults(said=["NVLS multicast support is not available on dev 0"]))
    )

    assert [one.reason for one in found.changes if one.word == "worse"] == [
        "NVLS was available, and is not any more",
        "SHARP was used, and is not any more",
    ]
    assert not is_success(found.verdict)
    assert compared(with_sharp(), with_sharp()).verdict == "same"


def test_a_log_that_names_no_algorithm_leaves_it_unknown() -> None:
    found = compared(with_sharp(), result(faults=Faults(tuning=False)))

    assert [one.word for one in found.changes if not one.size] == ["unknown", "unknown"]
    assert (found.verdict, is_success(found.verdict)) == ("unknown", False)


def test_a_node_that_is_missing_is_named() -> None:
    found = compared(result(), result("abc"))

    assert found.verdict == "only in A"
    assert not is_success(found.verdict)


def test_rings_are_not_compared_with_trees() -> None:
    tree = Fleet("ab", ring="")

    assert compared(result("ab"), tree.play()["document"]).verdict == "only in A"


def test_what_nodes_were_measured_under_is_named() -> None:
    after = result()
    after["nodes"][1]["driver"] = "590.10"

    found = compared(result(), after)

    assert any("driver 580.65 -> 590.10: b" in line for line in nccl.lines(found, None))


@pytest.mark.parametrize(
    "content", [{"nccl": {}}, {"nccl": {}, "runs": [1], "nodes": [], "verdict": "pass"}, {}]
)
def test_what_is_no_result_is_named(content: dict[str, Any]) -> None:
    with pytest.raises(MlnodeError, match=r"x[.]json is not a result of nccl[.]yml"):
        nccl.read(content, pathlib.Path("x.json"))


def test_the_command_takes_both_kinds(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, slow in zip(paths, ({}, {"b": 0.6}), strict=True):
        path.write_text(json.dumps(result(faults=Faults(slow=slow))), "utf-8")

    assert cli.main(["compare", *map(str, paths)]) == 3
    assert "worse: " in capsys.readouterr().out
    assert cli.main(["compare", str(paths[0]), str(paths[0])]) == 0
    (tmp_path / "c.json").write_text('{"campaign": {}}', "utf-8")
    assert cli.main(["compare", str(paths[0]), str(tmp_path / "c.json")]) == 1
