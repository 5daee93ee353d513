# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command as it is called. That an installed collection has it, test_tarball sees."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import document
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import cli, inventory
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results.campaigns import campaign
from mlnode.model.errors import MlnodeError

ROOT = pathlib.Path(__file__).parents[5]

#: As ansible-inventory --graph prints it
GRAPH = """\
@all:
  |--@ungrouped:
  |  |--login
  |--@training:
  |  |--@rack1:
  |  |  |--gpu001
  |  |--gpu002
  |--@fabric:
  |  |--gpu002
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Results of a week, and a report."""
    (tmp_path / "campaigns").mkdir()
    for day in range(1, 5):
        content = campaign(16, day, slow={"gpu007": 1 - day / 25})
        (tmp_path / f"campaigns/{day}.json").write_text(json.dumps(content))
    (tmp_path / "fleet.json").write_text("".join(document.lines(fleets.mixed())))
    return tmp_path


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The inventory that Ansible would read."""
    found = {f"gpu{number:03}": ["training"] for number in range(1, 9)}
    monkeypatch.setattr(inventory, "hosts", lambda sources, groups: found)
    return found


def schema(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / f"docs/schema/{name}.schema.json").read_text())
    return content


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = cli.main([str(word) for word in words])
    return status, *capsys.readouterr()


def test_compare(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", folder / "campaigns/1.json", folder / "campaigns/4.json")

    status, out, _err = call(capsys, *words)
    assert status == 3
    assert out.splitlines()[-1] == "worse: 16 nodes: 1 worse, 15 same"

    status, out, _err = call(capsys, *words, "--json")
    assert status == 3
    jsonschema.validate(json.loads(out), schema("comparison"))
    # What is better is no failure.
    assert call(capsys, "compare", *words[:0:-1])[0] == 0


def test_trend(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _err = call(capsys, "trend", folder / "campaigns")
    assert status == 3
    assert "worse: 16 nodes: 1 worse, 15 same" in out

    status, out, _err = call(capsys, "trend", folder / "campaigns", "--json")
    found = json.loads(out)
    jsonschema.validate(found, schema("trend"))
    assert (status, found["trends"][0]["verdict"], found["unread"]) == (3, "worse", [])


def test_a_file_that_is_no_result_does_not_hide_the_others(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "campaigns/x.json").write_text("{")

    status, out, err = call(capsys, "trend", folder / "campaigns")

    assert status == 1
    assert "worse: 16 nodes" in out
    assert "x.json is damaged" in err
    found = json.loads(call(capsys, "trend", folder / "campaigns", "--json")[1])
    jsonschema.validate(found, schema("trend"))
    assert len(found["unread"]) == 1


def test_merge_writes_report_and_page(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, page = folder / "out/all.json", folder / "out/all.html"
    reports = (folder / "fleet.json", folder / "campaigns/1.json", folder / "campaigns/2.json")

    status, out, _err = call(capsys, "merge", *reports, "-o", written, "--html", page)

    assert status == 3
    found = json.loads(written.read_text())
    jsonschema.validate(found, schema("fleet"))
    states = {host["name"]: host["state"] for host in found["hosts"]}
    # Measured by a campaign, and still not looked at by the report that was to do it
    assert (states["gpu006"], states["gpu007"], states["gpu008"]) == (
        "not checked",
        "never answered",
        "never answered",
    )
    assert states["gpu001"] == "ok"
    assert [part["hosts"] for part in found["merged"]] == [6, 8, 0]
    assert len(found["merged"][2]["superseded"]) == 8
    assert found["merged"][1]["foreign"] == [f"gpu{number:03}" for number in range(9, 17)]
    assert "Never answered\n  gpu007, gpu008" in out
    assert "campaign 20261102-030000" in page.read_text()
    assert call(capsys, "merge", *reports, "--json")[1] == written.read_text()


def test_of_campaigns_alone_a_node_that_was_measured_has_answered(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], hosts: dict[str, list[str]]
) -> None:
    hosts["gpu999"] = ["training"]

    status, out, _err = call(capsys, "merge", folder / "campaigns/1.json", "--json")

    found = json.loads(out)
    jsonschema.validate(found, schema("fleet"))
    # gpu007 is slower by 4 %.
    assert (status, found["states"]) == (3, {"never answered": 1, "differs": 1, "ok": 7})


@cases.table
def test_a_wrong_call_is_named(
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
    status: int,
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir()
    (folder / "empty.json").write_text("{}")
    try:
        found = cli.main(words)
    except SystemExit as error:
        found = int(str(error.code))

    assert found == status
    assert said in capsys.readouterr().err


def test_nothing_is_written_where_one_of_the_files_is_damaged(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.json").write_text('{"format": 1, "hosts": ')

    status, _out, err = call(
        capsys, "merge", folder / "fleet.json", folder / "x.json", "-o", folder / "y.json"
    )

    assert (status, (folder / "y.json").exists()) == (1, False)
    assert "x.json is damaged" in err


# -- the inventory ---------------------------------------------------------------------------------


@cases.table
def test_hosts_and_groups_of_a_graph(groups: tuple[str, ...], names: list[str]) -> None:
    found = inventory.parsed(GRAPH, groups)

    assert sorted(found) == names
    if "gpu002" in found:
        assert found["gpu002"] == ["fabric", "training"]


@pytest.mark.parametrize(
    ("graph", "groups", "said"),
    [
        (GRAPH, ("rack2",), "the inventory has no group rack2"),
        ("@all:\n  |--@ungrouped:\n", (), "the inventory has no host"),
        ("something else", (), "has the line 'something else'"),
    ],
)
def test_an_inventory_without_hosts_is_refused(graph: str, groups: tuple[str, ...], said: str) -> None:
    with pytest.raises(MlnodeError, match=said):
        inventory.parsed(graph, groups)


def test_the_command_starts_anywhere(tmp_path: pathlib.Path) -> None:
    # A folder of the same name as that of the collection must not be in the way.
    (tmp_path / "plugins/plugin_utils").mkdir(parents=True)
    (tmp_path / "plugins/__init__.py").write_text("raise SystemExit('a stranger')")

    done = subprocess.run(
        [ROOT / "scripts/mlnode-results", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: mlnode-results")
