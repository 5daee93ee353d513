# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the fleet report in a real browser, which comes from Debian's archive where there is none."""

from __future__ import annotations

import importlib.metadata
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import model, page
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import in_fleet
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import fleet as of_results
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import result
from ansible_collections.mlnode.tuning.tests.system import browser
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results import campaigns

#: Groups in sight, each as its title and its hosts
GROUPS = (
    "[...document.querySelectorAll('.group')].filter((one) => one.checkVisibility())"
    ".map((one) => `${one.querySelector('.title').textContent}: ${one.querySelector('.hosts').textContent}`)"
)

LOST = ["the whole host: gpu004", "the whole host: gpu005"]
NOT_CHECKED = "the whole host: gpu006"
DRIFTED, FAILED = "vm.swappiness: gpu002", "rate mlx5_0/1: gpu003"
ALL = [*LOST, DRIFTED, FAILED, NOT_CHECKED]


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    program = browser.find()
    if program is None:
        pytest.skip(f"no Chromium here, and none could be installed (apt-get install {browser.PACKAGE})")
    with browser.browser(program) as found:
        found.size(1440, 900)
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """One file for each fleet."""
    found = tmp_path_factory.mktemp("pages")
    made = {"mixed": fleets.mixed(), "hostile": fleets.hostile(), "large": fleets.synthetic(2000)}
    slow = {"gpu007": 0.7, "gpu012": 0.9}
    made["all"] = measured(campaigns.campaign(16, slow=slow), fleets.mixed())
    milder = [fleets.drifted(f"vm.{severity}", severity=severity) for severity in ("medium", "low")]
    made["all"].take(made["all"].host("gpu008"), {"settings": milder}, "node_drift")
    in_fleet.add(made["all"], job())
    made["jobs"] = fleets.empty()
    in_fleet.add(made["jobs"], job())
    made["leaves"] = measured(campaigns.campaign(130, slow=slow, leaves=13))
    for name, fleet in made.items():
        (found / f"{name}.html").write_text("".join(page.lines(fleet)), "utf-8", "backslashreplace")
    return found


def job() -> dict[str, Any]:
    """Four nodes of a job with two odd ranks."""
    results = answers.fleet(32)
    for number in (9, 30):
        answers.of_rank(results, number)["values"]["limit memlock hard"] = str(number)
    return results


def measured(campaign: dict[str, Any], known: model.Fleet | None = None) -> model.Fleet:
    """A fleet, about which nothing else may be known, and a campaign."""
    fleet = known or fleets.empty()
    for node in campaign["nodes"]:
        fleet.host(node["name"], ["training"])
    of_results.add(fleet, result.read(campaign, "campaign.json"))
    return fleet


def opened(tab: browser.Page, folder: pathlib.Path, name: str) -> browser.Page:
    tab.open(folder / f"{name}.html")
    assert tab.complaints() == []
    return tab


def search(tab: browser.Page, words: str) -> None:
    tab.click("#search")
    tab.type(words)


def found(tab: browser.Page) -> Any:
    return tab.ask("document.getElementById('found').textContent")


def test_a_planted_outlier_is_found_among_2000_hosts(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "large")

    search(tab, "planted")

    [group] = tab.ask(GROUPS)
    assert group.startswith("net.area0.knob_5: ")
    search(tab, " gpu1000")
    assert found(tab) == "1 of 2,000 hosts"
    tab.click(".group:not([hidden]) summary")
    told = tab.ask("document.querySelector('.group[open]').innerText")
    assert "runtime planted" in told
    assert tab.complaints() == []


@pytest.mark.parametrize(
    ("control", "value", "groups"),
    [
        ("#severity", "0", [DRIFTED, FAILED]),
        ("#status", "drifted", [DRIFTED]),
        ("#status", "unreachable", LOST[:1]),
        ("#status", "bad", ALL),
        ("#status", "ok", ["vm.swappiness: gpu001", "vm.b: gpu001, gpu002"]),
        ("#group", "2", [FAILED]),  # the place of the only host of this group
    ],
)
def test_filters_show_what_fits(
    tab: browser.Page, folder: pathlib.Path, control: str, value: str, groups: list[str]
) -> None:
    opened(tab, folder, "mixed")
    assert tab.ask(GROUPS) == ALL

    tab.choose(control, value)

    assert tab.ask(GROUPS) == groups
    tab.click("button[type=reset]")
    assert tab.ask(GROUPS) == ALL


@pytest.mark.parametrize(
    ("words", "groups", "hosts"),
    [
        ("gpu002", [DRIFTED, "vm.b: gpu001, gpu002"], "1 of 6 hosts"),
        ("timed out", LOST[:1], "1 of 6 hosts"),
        ("cable", [FAILED], "1 of 6 hosts"),
        ("SWAPPINESS", [DRIFTED, "vm.swappiness: gpu001"], "2 of 6 hosts"),
        ("swappiness drifted", [DRIFTED], "1 of 6 hosts"),
        ('"runtime 60"', [DRIFTED], "1 of 6 hosts"),
        ('"60 runtime"', [], "0 of 6 hosts"),
    ],
)
def test_a_search_looks_at_hosts_settings_values_and_reasons(
    tab: browser.Page, folder: pathlib.Path, words: str, groups: list[str], hosts: str
) -> None:
    opened(tab, folder, "mixed")

    search(tab, words)

    assert tab.ask(GROUPS) == groups
    assert found(tab) == hosts
    assert tab.ask("document.getElementById('nothing').hidden") is bool(groups)
    rows = "[...document.querySelectorAll('tr.alike')].filter((one) => one.checkVisibility()).length"
    assert f"{tab.ask(rows)} of 6 hosts" == hosts


def test_everything_is_reached_with_keys(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "mixed")
    tab.key("/")
    assert tab.ask("document.activeElement.id") == "search"

    tab.ask("document.querySelector('.group summary').focus()")
    tab.key("ArrowDown")
    tab.key("ArrowDown")
    tab.key("Enter")
    assert "vm.swappiness" in tab.ask("document.querySelector('.group[open]').innerText")
    tab.key("Escape")
    assert tab.ask("document.querySelectorAll('.group[open]').length") == 0
    assert "vm.swappiness" in tab.ask("document.activeElement.innerText")
    tab.key("End")
    assert "As expected" in tab.ask("document.activeElement.innerText")
    tab.key("Home")
    assert "Connection timed out" in tab.ask("document.activeElement.innerText")


def test_pairs_are_found_by_their_hosts_and_leaves(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "leaves")
    pairs = "[...document.querySelectorAll('tr[data-rank]')].filter((one) => one.checkVisibility()).length"
    assert tab.ask(pairs) == 0, "folded up"

    search(tab, "gpu007")
    assert tab.ask(pairs) == 8
    search(tab, " leaf06 fail")
    assert 1 <= tab.ask(pairs) <= 8
    assert tab.complaints() == []


def test_a_search_finds_the_odd_ranks_of_a_node(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "jobs")
    ranks = (
        "[...document.querySelectorAll('.group li')].filter((one) => one.checkVisibility())"
        ".map((one) => one.querySelector('strong').textContent.trim())"
    )
    tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert {"rank 9 on gpu002", "rank 30 on gpu004"} <= {*tab.ask(ranks)}

    search(tab, "gpu004")

    assert "rank 30 on gpu004" in tab.ask(ranks)
    assert "rank 9 on gpu002" not in tab.ask(ranks)
    tab.choose("#status", "pass")
    assert [one for one in tab.ask(ranks) if "rank" in one] == []
    assert tab.complaints() == []


def test_hostile_names_and_values_are_words_and_nothing_else(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "hostile")
    title = tab.ask("document.title")

    tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    search(tab, "script")

    assert tab.ask("document.title") == title
    assert tab.ask("document.querySelectorAll('img, iframe, object, embed, a, svg').length") == 0
    assert tab.ask("document.scripts.length") == 2
    # A character that turns the direction is told, and does not act.
    assert tab.ask("document.querySelector('main').textContent.includes('\\u202e')") is False
    assert tab.ask("document.querySelector('main').textContent.includes('\\\\u202e')") is True
    assert tab.complaints() == []


def test_without_script_all_is_there_but_the_filter(tab: browser.Page, folder: pathlib.Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened(tab, folder, "mixed")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)

    expected = ("Connection timed out", "vm.swappiness", "As expected")
    end, words = time.monotonic() + 60, ""
    # The text is there once the page is laid out, which a busy machine does later.
    while not all(word in words for word in expected) and time.monotonic() < end:
        told = tab.call("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)
        words = told["result"]["value"]
    assert all(word in words for word in expected), words
    assert "Search" not in words


#: axe-core, https://github.com/dequelabs/axe-core
AXE = importlib.metadata.distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js")

#: Of the page as it stands: what it refuses, and the names of what it has found in order
AUDIT = (
    "axe.run({resultTypes: ['violations']}).then((found) => ({passes: found.passes.map((one) => one.id),"
    " violations: found.violations.map((one) => [one.id, ...one.nodes.map((node) => node.html)])}))"
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_that_keeps_a_reader_out(
    tab: browser.Page, folder: pathlib.Path, width: int, scheme: str
) -> None:
    tab.scheme(scheme)
    tab.size(width, 900)
    try:
        opened(tab, folder, "all")
        tab.call("Runtime.evaluate", expression=pathlib.Path(AXE).read_text(encoding="utf-8"))
        for is_open in ("false", "true"):
            tab.ask(f"document.querySelectorAll('details').forEach((one) => {{ one.open = {is_open}; }})")
            audit = tab.ask(AUDIT)
            assert audit["violations"] == []
            assert {"color-contrast", "button-name", "label", "summary-name"} <= {*audit["passes"]}
    finally:
        tab.size(1440, 900)
        tab.scheme("light")


def test_it_is_light_or_dark_as_the_reader_likes(tab: browser.Page, folder: pathlib.Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        opened(tab, folder, "large")
        colours.append(
            sum(tab.ask("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"))
        )
    tab.scheme("light")

    assert colours[0] > 3 * 128 > colours[1]


@pytest.mark.parametrize("name", ["all", "hostile", "leaves"])
@pytest.mark.parametrize("width", [390, 800, 1440, 2560])
def test_the_page_itself_never_scrolls_sideways(
    tab: browser.Page, folder: pathlib.Path, width: int, name: str
) -> None:
    tab.size(width, 900)
    try:
        opened(tab, folder, name)
        tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert tab.ask("document.documentElement.scrollWidth") <= width
    finally:
        tab.size(1440, 900)


def test_on_a_phone_every_filter_and_a_group_are_reached(tab: browser.Page, folder: pathlib.Path) -> None:
    tab.size(390, 844)
    try:
        opened(tab, folder, "mixed")
        seen = tab.ask(
            "[...document.querySelectorAll('#filter :is(input, select, button), .group:nth-child(3) *')]"
            ".filter((one) => one.checkVisibility()).map((one) => { one.scrollIntoView();"
            " const box = one.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; })"
        )
        assert len(seen) > 10
        assert all(seen)
        tab.click(".group:nth-child(3) summary")
        assert "runtime" in tab.ask("document.querySelector('.group[open] dl').innerText")
    finally:
        tab.size(1440, 900)
