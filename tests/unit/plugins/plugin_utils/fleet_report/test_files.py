# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written: JSON, XML and a page. That the page works, tests/system/test_fleet_report.py sees."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import pathlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import (
    document,
    elements,
    finding,
    junit,
    model,
    page,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import Fleet
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import cluster, fleets
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies

SCHEMA = pathlib.Path(__file__).parents[5] / "docs/schema/fleet.schema.json"

FLEETS = {
    "empty": fleets.empty,
    "mixed": fleets.mixed,
    "hostile": fleets.hostile,
    "large": lambda: fleets.synthetic(30),
}


def written(pieces: Iterable[str]) -> str:
    """As the callback writes it, and as it is read."""
    return "".join(pieces).encode("utf-8", "backslashreplace").decode("utf-8")


@pytest.fixture(params=[*FLEETS])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    return FLEETS[request.param]()


# -- JSON ---------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return content


def test_the_json_is_what_its_schema_says(fleet: Fleet) -> None:
    told = json.loads(written(document.lines(fleet)))

    jsonschema.Draft202012Validator(schema()).validate(told)
    assert len(told["hosts"]) == len(fleet.hosts)


def test_the_schema_has_the_words_of_the_model() -> None:
    defined = schema()["$defs"]

    assert defined["status"]["enum"] == [*finding.STATUSES]
    assert defined["state"]["enum"] == [*model.STATES]
    assert [*defined["finding"]["properties"]] == [*finding.Finding._fields, "hosts"]
    assert [*schema()["properties"]["outliers"]["items"]["properties"]] == [*model.Outlier._fields]


def test_the_json_has_an_outlier_a_finding_and_a_host_to_a_line() -> None:
    lines = written(document.lines(fleets.mixed())).splitlines()

    assert sum('"name": "gpu' in line for line in lines) == 6
    assert sum('"of": ' in line for line in lines) == 2
    assert sum('"boot_source": ' in line for line in lines) == 2


def test_the_json_tells_everything_of_a_finding() -> None:
    told = json.loads(written(document.lines(fleets.mixed())))

    [found] = [finding for finding in told["findings"] if "gpu002" in finding["hosts"]]
    assert found == {**fleets.drifted(), "ignored": None, "hosts": ["gpu002"]}
    [host] = [host for host in told["hosts"] if host["name"] == "gpu002"]
    assert (host["worst"], host["counts"]) == ("high", {"drifted": {"high": 1}, "ok": {"medium": 1}})
    assert told["states"] == {"unreachable": 1, "failed": 1, "differs": 2, "not checked": 1, "ok": 1}
    assert told["counts"] == {"drifted": {"high": 1}, "fail": {"high": 1}, "ok": {"medium": 3}}


def test_the_json_leaves_out_nothing_that_is_not_fine(fleet: Fleet) -> None:
    told = json.loads(written(document.lines(fleet)))

    listed = {
        (host, finding["kind"], finding["key"], finding["status"])
        for finding in told["findings"]
        for host in finding["hosts"]
    }
    # A lone half of a surrogate pair is written as an escape, and read as the text of it.
    assert len(listed) == sum(
        finding.status not in ("ok", "pass", "skip")
        for host in fleet.hosts.values()
        for finding in host.findings.values()
    )
    counted = [sum(sum(by.values()) for by in host["counts"].values()) for host in told["hosts"]]
    assert counted == [len(host.findings) for host in fleet.ordered()]


@pytest.mark.parametrize("hosts", [64, 1000])
@pytest.mark.parametrize("untuned", [False, True])
def test_the_json_has_at_most_5_kb_for_a_node(hosts: int, untuned: bool) -> None:
    """With all checks of a node that has RoCE rails, and where no node is tuned yet."""
    size = len(written(document.lines(cluster.fleet(hosts, checks=hosts < 100, untuned=untuned))).encode())

    assert size / hosts < 5000


# -- JUnit --------------------------------------------------------------------------------------------


def suites(fleet: Fleet) -> dict[str, ET.Element]:
    root = ET.fromstring(written(junit.lines(fleet)).encode())
    assert root.tag == "testsuites"
    return {str(suite.get("name")): suite for suite in root}


def test_every_host_is_a_suite_whose_numbers_are_right(fleet: Fleet) -> None:
    found = suites(fleet)

    assert len(found) == len(fleet.hosts)
    for suite in found.values():
        counts = {name: len(suite.findall(f"testcase/{name}")) for name in ("failure", "error", "skipped")}
        assert {
            "failure": int(suite.get("failures", -1)),
            "error": int(suite.get("errors", -1)),
            "skipped": int(suite.get("skipped", -1)),
        } == counts
        assert int(suite.get("tests", -1)) == len(suite.findall("testcase"))


def test_a_drifted_setting_is_a_failure_with_its_values() -> None:
    suite = suites(fleets.mixed())["gpu002"]

    [case] = [case for case in suite if case.find("failure") is not None]
    failure = case.find("failure")
    assert (case.get("classname"), case.get("name")) == ("sysctl", "vm.swappiness")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("drifted (high)", "runtime is 60")
    assert "want: 1\nruntime: 60\nboot: 1" in str(failure.text)


@pytest.mark.parametrize(("host", "errors"), [("gpu001", 0), ("gpu004", 1), ("gpu005", 1), ("gpu006", 1)])
def test_a_host_that_was_not_looked_at_is_an_error(host: str, errors: int) -> None:
    assert len(suites(fleets.mixed())[host].findall("testcase/error")) == errors


def test_what_is_ignored_or_not_there_is_skipped() -> None:
    fleet = fleets.empty()
    found = [fleets.drifted(ignored="until 2027-01-31: known"), fleets.setting("vm.b", status="unsupported")]
    fleet.take(fleet.host("a"), {"settings": found}, "node_drift")

    messages = [skipped.get("message") for skipped in suites(fleet)["a"].findall("testcase/skipped")]
    assert messages == ["ignored until 2027-01-31: known", "unsupported: "]


# -- HTML ---------------------------------------------------------------------------------------------


class Seen(html.parser.HTMLParser):
    """Every tag with its attributes, and what stands in scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)


def seen(fleet: Fleet) -> Seen:
    found = Seen()
    found.feed(written(page.lines(fleet)))
    found.close()
    return found


def test_the_page_has_its_own_tags_only_whatever_hosts_say() -> None:
    wild = seen(fleets.hostile())

    known = {tag for fleet in (fleets.mixed(), merged_fleet()) for tag, _attributes in seen(fleet).tags}
    assert {tag for tag, _attributes in wild.tags} <= known
    assert len(wild.scripts) == 2
    for tag, attributes in wild.tags:
        assert not {name for name in attributes if name.startswith("on")}, tag
        assert not {*attributes} & {"href", "src", "action", "style", "srcset"}, tag


def merged_fleet() -> Fleet:
    """Pairs, merged reports, and a cause with several settings."""
    fleet = fleets.empty()
    settings = [fleets.drifted(f"vm.s{at}", str(at), why="no agent") for at in range(9)]
    for host in ("n1", "n2", "n3"):
        fleet.take(fleet.host(host), {"settings": [*settings, fleets.drifted("vm.own")]}, "node_drift")
    pairs = [model.Pair("n1", "n2", 0, 0.73, "fail", "73 Gb/s", "slow")]
    pairs.append(model.Pair("n1", "n3", 0, 1.1, "pass", "110 Gb/s", ""))
    leaves = {"n1": "leaf1", "n2": "leaf2", "n3": ""}
    fleet.campaigns.append(model.Pairs("tcp", "c1", leaves, tuple(pairs)))
    fleet.merged.append(model.Part("a.json", "drift.yml", fleet.started, fleet.ended, 3))
    return fleet


def test_the_page_runs_its_own_script_only_and_fetches_nothing() -> None:
    found = seen(fleets.hostile())

    [policy] = [
        str(attributes["content"])
        for tag, attributes in found.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|url\(|@import|//cdn", found.scripts[1])


def test_the_script_only_filters() -> None:
    """Grouping, folding and words are Python's."""
    [script] = pathlib.Path(page.__file__).parent.glob("*.js")

    assert len(script.read_text(encoding="utf-8").splitlines()) <= 150
    assert not re.search(r"innerHTML|createElement|insertAdjacent|document\.write", script.read_text("utf-8"))


def groups(fleet: Fleet) -> list[str]:
    """Each group of the page as text."""
    parts = written(page.lines(fleet)).split('<details class="group"')[1:]
    texts = [re.sub("<[^>]*>", " ", one.partition("</details>")[0]) for one in parts]
    return [" ".join(html.unescape(one).split()) for one in texts]


def test_the_page_has_all_that_is_known_of_a_setting_and_its_repair() -> None:
    [found] = [one for one in groups(fleets.mixed()) if "drifted" in one]

    for words in (
        "vm.swappiness 1 of 6 gpu002 want 1, runtime 60",
        "declared 1 want 1 runtime 60 boot 1 boot from /etc/sysctl.d/zz-mlnode-node.conf:3 before us 60",
        "path /proc/sys/vm/swappiness",
        "repair ansible-playbook mlnode.tuning.site --limit gpu002 --tags sysctl",
    ):
        assert words in found


def test_what_has_one_cause_is_one_group_of_the_page() -> None:
    cause, own = groups(merged_fleet())

    assert "vm.own 3 of 3 n[1:3]" in own
    assert "vm.s0 and 8 more 3 of 3 n[1:3] no agent why no agent repair" in cause
    assert "vm.s4 want 1, runtime 4 vm.s5" in cause


def test_lost_hosts_are_first_and_what_is_right_is_last() -> None:
    ranks = [attributes.get("data-rank") for tag, attributes in seen(fleets.mixed()).tags if tag == "details"]

    assert ranks == ["-3", "-2", "0", "0", "3", None, "6", "6"]


def test_hosts_are_numbers_in_the_data_of_a_group() -> None:
    fleet = fleets.empty()
    for at in (1, 2, 3, 5, 10, 11):
        fleet.take(fleet.host(f"n{at}"), {"settings": [fleets.drifted()]}, "node_drift")
    fleet.take(fleet.host("n4"), {"settings": [fleets.setting()]}, "node_drift")

    data = [attributes["data-hosts"] for tag, attributes in seen(fleet).tags if "data-status" in attributes]
    assert data == ["0-2,4-6", "3"]
    assert json.loads(seen(fleet).scripts[0])[4:] == ["n5", "n10", "n11"]


def test_pairs_are_a_matrix_in_percent_of_their_limits() -> None:
    matrix = written(page.lines(merged_fleet())).partition('class="matrix"')[2].partition("</table>")[0]

    assert matrix.count('class="high" title="n1 – n2, rail 0: fail, 73 Gb/s">73<') == 2
    assert matrix.count('class="ok"') == 2


@pytest.mark.parametrize(("leaves", "rows"), [(13, 13), (0, 44)])
def test_of_many_hosts_a_row_is_a_leaf_or_a_run(leaves: int, rows: int) -> None:
    names = [f"gpu{at:03d}" for at in range(1, 131)]
    fleet = fleets.empty()
    for name in names:
        fleet.host(name)
    of = {name: f"leaf{at % leaves}" if leaves else "" for at, name in enumerate(names)}
    pairs = [model.Pair(*ends, 0, 1.2, "pass", "", "") for ends in zip(names, names[1:])]
    fleet.campaigns.append(model.Pairs("tcp", "c", of, tuple(pairs)))

    matrix = written(page.lines(fleet)).partition('class="matrix"')[2].partition("</table>")[0]
    titles = re.findall('<th scope="row">([^<]*)<', matrix)
    assert len(titles) == rows
    assert titles[0] == ("leaf0" if leaves else "gpu[001:003]")


def test_a_page_of_5000_hosts_is_small() -> None:
    """It opens as fast as its elements are few; `make bench` measures that."""
    text = written(page.lines(fleets.synthetic(5000)))

    assert len(text) < 500_000
    assert text.count("<") < 15_000


@quick
@given(strategies.recursive(strategies.text(), lambda inner: strategies.lists(inner, max_size=3)))
def test_embedded_data_hold_nothing_that_a_parser_of_html_looks_for(value: Any) -> None:
    text = elements.embedded(value)

    assert not {*text} & {*"<>&\u2028\u2029"}
    assert json.loads(written([text])) == value


@quick
@given(strategies.text(alphabet=strategies.characters(), max_size=20))
def test_any_text_is_told_in_every_file(text: str) -> None:
    fleet = fleets.empty()
    host = fleet.host(text or "x", [text])
    fleet.take(host, {"settings": [fleets.drifted(text, text, why=text)]}, "node_drift")
    fleet.host("gone").unreachable = text

    assert json.loads(written(document.lines(fleet)))["hosts"]
    assert len(suites(fleet)) == len(fleet.hosts)
    assert len(seen(fleet).scripts) == 2
