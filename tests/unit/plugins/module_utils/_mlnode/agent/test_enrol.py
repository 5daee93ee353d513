# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode enrol`, on a node in a folder."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import cases, door, nodes, pull_site
from mlnode.agent import enrol, pull
from mlnode.agent.arguments import DRIFT, ERROR, OK, parser
from mlnode.engine.engine import Request
from mlnode.host import places
from mlnode.knobs.sysctl.kind import kind as sysctl

URL = "https://config.example/mlnode"
KEY, OTHER = nodes.PULL["signers"][0], "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGotherotherother"
ROOT = pathlib.Path(__file__).parents[6]
USER_DATA = ROOT / "scripts/cloud-init/user-data"
FILE = "/etc/mlnode/declared.d/node.json"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> nodes.Node:
    made = nodes.made(nodes.CASES["pull"], tmp_path)
    nodes.install(made)
    made.put("/proc/sys/kernel/hostname", "gpu001\n")
    return made


def call(node: nodes.Node, *words: str, url: str = URL, signer: str = KEY) -> int:
    node.forget()
    return enrol.enrol(node, parser("enrol").parse_args(["enrol", "--url", url, "--signer", signer, *words]))


def declared(node: nodes.Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.text(FILE))["kinds"]
    return found


def test_a_new_machine_pulls_by_its_host_name(node: nodes.Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(node) == OK

    assert capsys.readouterr().out == f"gpu001 is enrolled; its document is {URL}/gpu001.signed\n"
    assert places.PULL_TIMER in node.active
    node.forget()
    spec = pull.enrolment(node)
    assert (spec["url"], spec["node"], spec["signers"]) == (URL, "gpu001", [" ".join(KEY.split()[:2])])
    assert call(node) == OK, "a second one changes nothing"


def test_what_an_image_declares_stays(node: nodes.Node) -> None:
    door.apply(node, Request("node", sysctl, {"settings": {"vm.swappiness": 1}}))
    before = declared(node)["sysctl"]

    assert call(node, "--node", "gpu002.example") == OK
    assert declared(node)["sysctl"] == before
    assert declared(node)["pull"]["node"] == "gpu002.example"
    assert call(node, "--node", "gpu002.example", "--signer", OTHER) == OK, "another key, for a new image"
    assert len(declared(node)["pull"]["signers"]) == 2


def test_a_dry_run_changes_nothing(node: nodes.Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(node, "--dry-run") == DRIFT
    assert "gpu001 would be enrolled" in capsys.readouterr().out
    assert not node.exists(FILE)
    assert places.PULL_TIMER not in node.active
    assert call(node) == OK
    assert call(node, "--dry-run") == OK


@cases.table
def test_bad_input_is_named_and_nothing_is_written(
    node: nodes.Node, capsys: pytest.CaptureFixture[str], given: dict[str, Any], named: str
) -> None:
    words = given.pop("words", ())
    assert call(node, *words, **given) == ERROR

    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert "\x1b" not in err
    assert not node.exists(FILE)


def test_a_machine_without_a_usable_host_name(node: nodes.Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/proc/sys/kernel/hostname", "(none)\n")
    assert call(node) == ERROR
    assert "pull.node" in capsys.readouterr().err


# -- the first boot ------------------------------------------------------------------------


def commands() -> list[list[str]]:
    found: list[list[str]] = yaml.safe_load(USER_DATA.read_text(encoding="utf-8"))["runcmd"]
    return found


def test_the_first_boot_of_an_image(node: nodes.Node, tmp_path: pathlib.Path) -> None:
    """With the words of the user data. The inventory's key is another one by then, and replaces the first."""
    keys = [pull_site.key(tmp_path / name) for name in ("first", "second")]
    [words, _start] = commands()
    with pull_site.serving() as site:
        given = {"https://config.example/mlnode": site.url, "ssh-ed25519 AAAA... mlnode": keys[0]}
        options = parser("enrol").parse_args([given.get(word, word) for word in words[1:]])
        assert enrol.enrol(node, options) == OK
        node.forget()
        assert pull.pull(node)[0]["verdict"] == pull.REFUSED, "nothing is published yet"

        spec = {"url": site.url, "node": "gpu001", "signers": [keys[1]]}
        areas = {"pull": spec, "sysctl": {"settings": {"vm.swappiness": 10}}}
        content = pull_site.document(1, pull_site.declaration(areas), node="gpu001")
        site.files["/mlnode/gpu001.signed"] = pull_site.signed(content, tmp_path / "first")
        node.forget()
        report = pull.pull(node)[0]

    assert report["verdict"] == pull.APPLIED, report["reason"]
    assert node.text("/proc/sys/vm/swappiness") == "10\n"
    node.forget()
    assert pull.enrolment(node)["signers"] == [" ".join(keys[1].split()[:2])]


def test_the_user_data_holds_no_secret_and_is_the_guide_s() -> None:
    text = USER_DATA.read_text(encoding="utf-8")
    assert text.startswith("#cloud-config\n")
    assert not re.search(r"token|password|PRIVATE KEY|secret_", text, re.IGNORECASE)
    guide = (ROOT / "docs/guide/cloud-init.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert yaml.safe_load(block)["runcmd"] == commands()
    [words, start] = commands()
    assert words[0] == places.AGENT_COMMAND
    assert start[-1] == places.PULL_SERVICE
