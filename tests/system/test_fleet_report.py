# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the fleet report in a real browser, which comes from Debian's archive where there is none."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import model, page
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.names import few
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import fleet as of_results
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import result
from ansible_collections.mlnode.tuning.tests.system import browser
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results import campaigns

#: What stands in each row of the list
LIST = "[...document.querySelectorAll('#list tbody tr')].map((one) => one.innerText)"

#: Names of hosts that fold in different ways
NAMES = (
    *(f"gpu{at:03d}.hall2.example" for at in (1, 2, 3, 4, 6, 7, 9, 10, 11)),
    *(f"r{rack}n{at}" for rack in (1, 2) for at in (8, 9, 10, 11)),
    *("login", "10.0.0.1", "10.0.0.2", "10.0.0.3", "x12345678901", "x12345678902", "x12345678903"),
)

ROWS = "[...document.querySelectorAll('#rows .name')].map((one) => one.textContent)"


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
    """One file for each fleet, as a page of 2,000 hosts takes a second to be made."""
    found = tmp_path_factory.mktemp("pages")
    made = {"mixed": fleets.mixed(), "hostile": fleets.hostile(), "large": fleets.synthetic(2000)}
    made["link"] = fleets.link_and_governors()
    made["names"] = fleets.empty()
    for name in NAMES:
        made["names"].take(made["names"].host(name), {"settings": [fleets.drifted()]}, "node_drift")
    made["long"] = fleets.empty()
    for at in range(1, 4):
        name = f"gpu{at:03d}.rack07.hall2.cluster.training.example.com"
        made["long"].take(made["long"].host(name), {"settings": [fleets.setting()]}, "node_drift")
    more = [fleets.drifted("thp.enabled", kind="thp"), fleets.drifted("net.x", status="overridden")]
    made["long"].take(made["long"].hosts[name], {"settings": more}, "node_drift")
    made["long"].hosts[name].unreachable = "timed out"
    made["ten"] = fleets.synthetic(10, drift=0.02)
    slow = {"gpu007": 0.7, "gpu012": 0.9}
    made["pairs"] = measured(campaigns.campaign(16, slow=slow))
    made["all"] = measured(campaigns.campaign(16, slow=slow), fleets.mixed())
    milder = [fleets.drifted(f"vm.{severity}", severity=severity) for severity in ("medium", "low")]
    made["all"].take(made["all"].host("gpu008"), {"settings": milder}, "node_drift")
    made["leaves"] = measured(campaigns.campaign(130, slow=slow, leaves=13))
    made["leafless"] = measured(campaigns.campaign(130, slow=slow))
    for name, fleet in made.items():
        (found / f"{name}.html").write_text("".join(page.lines(fleet)), "utf-8", "backslashreplace")
    return found


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
    tab.ask("document.getElementById('search').value = ''")
    tab.key("Escape")
    tab.click("#search")
    tab.type(words)


def test_a_page_of_2000_hosts_shows_what_is_in_sight_and_finds_a_planted_outlier(
    tab: browser.Page, folder: pathlib.Path
) -> None:
    opened(tab, folder, "large")
    assert tab.ask("document.querySelectorAll('#rows .cell').length") > 1000
    # Only what is in sight exists, so that it opens as soon as the page of a small fleet.
    assert tab.ask("document.querySelectorAll('#rows .line').length") < 100

    search(tab, "planted")

    assert tab.ask(ROWS) == ["gpu1000"]
    assert tab.ask("document.getElementById('found').textContent") == "1 of 2,000 hosts, 1 finding"
    tab.click("#rows .cell.high")
    told = tab.ask("document.getElementById('details').innerText")
    for word in ("net.area0.knob_5", "gpu1000", "runtime is planted", "drifted", "1 of 2,000 hosts"):
        assert word in told
    assert tab.complaints() == []


def test_names_are_whole_where_there_is_room(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "long")

    names = "[...document.querySelectorAll('#rows .name')]"
    assert tab.ask(f"{names}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    assert len(tab.ask(ROWS)) == 3


def test_a_finding_has_the_command_that_repairs_it(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "long")
    host = "gpu003.rack07.hall2.cluster.training.example.com"
    site = f"ansible-playbook mlnode.tuning.site --limit {host} --tags thp"

    tab.click("#rows .cell.high")
    assert site in tab.ask("document.getElementById('details').innerText").replace("\n", " ")
    tab.key("Escape")
    tab.click("#view-list")

    repairs = tab.ask("[...document.querySelectorAll('#list td.repair')].map((one) => one.textContent)")
    assert site in repairs
    assert f"ansible {host} -b -a 'mlnode explain net.x'" in repairs
    # A node that is hostile is in no command of a shell.
    opened(tab, folder, "hostile")
    tab.click("#view-list")
    repairs = tab.ask("[...document.querySelectorAll('#list td.repair')].map((one) => one.textContent)")
    assert not [one for one in repairs if one and not re.fullmatch(r"[A-Za-z0-9_.,:@/*= '#-]+", one)], repairs


def test_a_large_map_is_scrolled_to_its_end(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "large")
    tab.choose("#order", "name")

    tab.ask("document.getElementById('map').scrollTop = 1e9")

    assert tab.ask(ROWS)[-1] == "gpu2000"
    assert tab.ask("document.querySelectorAll('#rows .line').length") < 100


@pytest.mark.parametrize(
    ("control", "value", "hosts"),
    [
        ("#severity", "0", ["gpu002", "gpu003"]),
        ("#status", "drifted", ["gpu002"]),
        ("#status", "bad", ["gpu004", "gpu005", "gpu002", "gpu003", "gpu006"]),
        ("#status", "ok", ["gpu002", "gpu001"]),
        ("#group", None, ["gpu003"]),
    ],
)
def test_filters_show_what_fits(
    tab: browser.Page, folder: pathlib.Path, control: str, value: str | None, hosts: list[str]
) -> None:
    opened(tab, folder, "mixed")
    assert tab.ask(ROWS) == ["gpu004", "gpu005", "gpu002", "gpu003", "gpu006", "gpu001"]

    if value is None:  # its number is not known here
        value = tab.ask(
            "[...document.querySelector('#group').options].find((one) => one.textContent === 'fabric').value"
        )
    tab.choose(control, value)

    assert tab.ask(ROWS) == hosts
    tab.click("#reset")
    assert len(tab.ask(ROWS)) == 6


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("gpu002", ["gpu002"]),
        ("GPU00", ["gpu004", "gpu005", "gpu002", "gpu003", "gpu006", "gpu001"]),
        ("timed out", ["gpu004"]),
        ("cable", ["gpu003"]),
        ("swappiness", ["gpu002", "gpu001"]),
        ("swappiness drifted", ["gpu002"]),
        ('"runtime is 60"', ["gpu002"]),
        ("nothing like this", []),
    ],
)
def test_a_search_looks_at_hosts_settings_values_and_reasons(
    tab: browser.Page, folder: pathlib.Path, words: str, hosts: list[str]
) -> None:
    opened(tab, folder, "mixed")

    search(tab, words)

    assert tab.ask(ROWS) == hosts
    if not hosts:
        assert "Nothing fits" in tab.ask("document.getElementById('rows').innerText")


def test_a_state_and_an_outlier_are_filters_by_a_click(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "mixed")

    tab.click("#states button:first-child")
    assert tab.ask(ROWS) == ["gpu004"]
    assert "unreachable: Connection timed out" in tab.ask("document.querySelector('#rows').innerText")
    tab.click("#states button:first-child")
    tab.click("#outliers button:first-child")

    assert tab.ask(ROWS) == ["gpu002"]


def test_the_list_has_what_hosts_say_alike_in_a_line(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "mixed")

    tab.click("#view-list")

    lines = tab.ask(LIST)
    assert len(lines) == 5
    assert all(word in lines[0] for word in ("unreachable", "Connection timed out", "1: gpu004"))
    assert all(word in lines[1] for word in ("failed", "Declare kernel settings: EINVAL", "1: gpu005"))
    assert all(word in lines[2] for word in ("vm.swappiness", "drifted", "high", "60", "1: gpu002"))
    assert all(word in lines[3] for word in ("rate mlx5_0/1", "fail", "look at the cable", "1: gpu003"))
    assert all(word in lines[4] for word in ("not checked", "no module reported anything", "1: gpu006"))
    tab.click("#list tbody tr:nth-child(3)")
    assert "1 of 6: gpu002" in tab.ask("document.getElementById('details').innerText")


@pytest.mark.parametrize(("row", "hosts"), [(1, ["gpu004"]), (3, ["gpu002"]), (4, ["gpu003"])])
def test_a_row_of_the_list_is_a_filter_of_the_map(
    tab: browser.Page, folder: pathlib.Path, row: int, hosts: list[str]
) -> None:
    opened(tab, folder, "mixed")
    tab.click("#view-list")

    tab.click(f"#list tbody tr:nth-child({row})")
    tab.click("#only")

    assert tab.ask(ROWS) == hosts
    assert tab.ask("document.getElementById('details').hidden") is True


def test_a_failed_link_stands_above_forty_governors(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "link")

    assert tab.ask(ROWS)[:2] == ["gpu045", "gpu001"]
    chips = tab.ask("[...document.querySelectorAll('#outliers button')].map((one) => one.innerText)")
    assert chips == ["1 of 50 differs in rate mlx5_0/1", "40 of 50 differ in cpu.governor"]
    labels = tab.ask("[...document.querySelectorAll('#head .label')].map((one) => one.title)")
    assert labels == ["rate mlx5_0/1", "cpu.governor"]
    tab.click("#view-list")
    lines = tab.ask(LIST)
    assert "rate mlx5_0/1" in lines[0]
    assert "40: gpu[001:040]" in lines[1]


@pytest.mark.parametrize("most", [6, 200])
def test_hosts_are_folded_as_in_the_table(tab: browser.Page, folder: pathlib.Path, most: int) -> None:
    opened(tab, folder, "names")
    tab.click("#view-list")
    tab.click("#list tbody tr")

    place = "#list td.hosts" if most == 6 else "#details-values dd:last-child"

    told = tab.ask(f"document.querySelector('{place}').textContent").partition(": ")[2]
    assert told == few(NAMES, most)


def test_what_has_one_cause_is_one_row(tab: browser.Page, tmp_path: pathlib.Path) -> None:
    fleet = fleets.empty()
    reason = "boot: no file in sysctl.d sets it"
    for host in ("n1", "n2", "n3"):
        settings = [
            fleets.drifted(f"vm.s{at}", runtime=str(at), reason=f"runtime is {at}; {reason}")
            for at in range(9)
        ]
        fleet.take(fleet.host(host), {"settings": [*settings, fleets.drifted("vm.own")]}, "node_drift")
    (tmp_path / "cause.html").write_text("".join(page.lines(fleet)), "utf-8")
    opened(tab, tmp_path, "cause")

    tab.click("#view-list")

    lines = tab.ask(LIST)
    assert len(lines) == 2
    [cause] = [line for line in lines if "vm.s0 and 8 more" in line]
    assert all(word in cause for word in (reason, "9 values", "3: n[1:3]"))
    tab.ask("[...document.querySelectorAll('#list tr')].find((one) => /8 more/.test(one.innerText)).click()")
    parts = tab.ask("[...document.querySelectorAll('#details-parts li')].map((one) => one.innerText)")
    assert len(parts) == 9
    assert parts[4] == "vm.s4 want 1, runtime 4, boot 1"
    tab.click("#only")
    assert "27 findings" in tab.ask("document.getElementById('found').textContent")


def test_everything_is_reached_with_keys(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "mixed")
    tab.key("/")
    assert tab.ask("document.activeElement.id") == "search"

    tab.ask("document.getElementById('map').focus()")
    tab.key("ArrowDown")
    tab.key("ArrowDown")
    tab.key("Enter")
    assert "gpu002" in tab.ask("document.getElementById('details').innerText")
    assert "runtime is 60" in tab.ask("document.getElementById('details').innerText")
    # What differs on any host is left of what does not.
    tab.key("ArrowRight")
    tab.key("ArrowRight")
    assert "vm.b" in tab.ask("document.getElementById('details-title').textContent")
    assert tab.ask("document.getElementById('map').getAttribute('aria-activedescendant')") == "active"
    tab.key("Escape")
    assert tab.ask("document.getElementById('details').hidden") is True
    assert tab.ask("document.activeElement.id") == "map"
    # Every control has its turn with Tab, and a name for who cannot see it.
    unnamed = tab.ask(
        "[...document.querySelectorAll('button, select, input')].filter((one) =>"
        " !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label'))).length"
    )
    assert unnamed == 0


CELLS = "[...document.querySelectorAll('#matrix td .cell')].map((one) => one.innerText)"

ROW_TITLES = "[...document.querySelectorAll('#matrix tbody th')].map((one) => one.innerText)"


def test_pairs_are_a_map_in_percent_of_their_limits(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "pairs")
    assert tab.ask("document.getElementById('view-pairs').hidden") is False

    tab.click("#view-pairs")

    # Eight rounds of sixteen nodes, each pair on both sides of the diagonal
    cells = tab.ask(CELLS)
    assert len(cells) == 2 * 8 * 8
    assert sum(bool(one) for one in cells) == 2 * (8 + 8 - 1 * (("gpu007", "gpu012") in ends(folder)))
    assert tab.ask(ROW_TITLES)[:2] == ["gpu007", "gpu012"]
    low = tab.ask("document.querySelector('#matrix .high').innerText")
    assert 70 <= int(low) <= 75
    tab.click("#matrix .high")
    details = tab.ask("document.getElementById('details').innerText")
    assert "gpu007" in tab.ask("document.getElementById('details-title').innerText")
    assert all(word in details for word in ("rail 0 fail: ", f"{low} % of the limit", "like pairs"))
    assert tab.complaints() == []


def ends(folder: pathlib.Path) -> set[tuple[str, ...]]:
    """Pairs of the small campaign."""
    found = campaigns.campaign(16)["pairs"]
    return {tuple(sorted(end["node"] for end in pair["ends"])) for pair in found}


def test_pairs_are_reached_with_keys(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "pairs")
    tab.click("#view-pairs")
    tab.ask("document.querySelector('#matrix td[tabindex=\"0\"]').focus()")
    before = tab.ask("document.activeElement.dataset.key.split(' ').map(Number)")

    tab.key("ArrowRight")
    after = tab.ask("document.activeElement.dataset.key.split(' ').map(Number)")

    assert (after[0], after[1] > before[1]) == (before[0], True)
    tab.key("ArrowDown")
    assert tab.ask("document.activeElement.dataset.key.split(' ').map(Number)")[1] == after[1]
    assert tab.ask("document.querySelectorAll('#matrix td[tabindex=\"0\"]').length") == 1
    tab.key("Enter")
    assert tab.ask("document.getElementById('details').hidden") is False
    tab.key("Escape")
    assert tab.ask("document.activeElement.dataset.key !== undefined") is True


def test_a_host_is_shown_with_its_partners(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "pairs")
    tab.click("#view-pairs")

    search(tab, "gpu007")

    assert len(tab.ask(ROW_TITLES)) == 9
    assert len(tab.ask(CELLS)) == 2 * 8
    search(tab, "nothing like this")
    assert "No pair" in tab.ask("document.getElementById('matrix').innerText")
    tab.click("#reset")


def test_of_many_hosts_a_row_is_a_leaf_and_one_cell_opens_it(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "leaves")
    tab.click("#view-pairs")
    assert sorted(tab.ask(ROW_TITLES)) == [f"leaf{number:02}" for number in range(13)]

    # The worst pair of two leaves, however many of them are right
    tab.click("#matrix .high")
    assert "leaf06" in tab.ask("document.getElementById('details-title').innerText")
    tab.click("#only")

    rows = tab.ask(ROW_TITLES)
    assert "gpu007" in rows
    assert len(rows) in (10, 20)
    tab.click("#pairs-all")
    assert len(tab.ask(ROW_TITLES)) == 13


def test_of_many_hosts_without_leaves_a_row_is_a_run(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "leafless")
    tab.choose("#order", "name")
    tab.click("#view-pairs")

    rows = tab.ask(ROW_TITLES)
    assert len(rows) == 44
    assert (rows[0], rows[-1]) == ("gpu[001:003]", "gpu130")
    tab.choose("#order", "worst")


@pytest.mark.parametrize("name", ["pairs", "leaves"])
@pytest.mark.parametrize("width", [400, 1440])
def test_pairs_never_scroll_the_page_sideways(
    tab: browser.Page, folder: pathlib.Path, width: int, name: str
) -> None:
    tab.size(width, 900)
    try:
        opened(tab, folder, name)
        tab.click("#view-pairs")
        assert tab.ask("document.documentElement.scrollWidth") <= width
        assert len(tab.ask(CELLS)) > 100
    finally:
        tab.size(1440, 900)


def test_hostile_names_and_values_are_words_and_nothing_else(tab: browser.Page, folder: pathlib.Path) -> None:
    opened(tab, folder, "hostile")
    title = tab.ask("document.title")

    tab.choose("#order", "name")
    tab.click("#view-list")
    tab.ask("[...document.querySelectorAll('#list tbody tr')].forEach((one) => one.click())")
    tab.click("#view-pairs")
    tab.ask("[...document.querySelectorAll('#matrix td[data-key]')].forEach((one) => one.click())")
    tab.click("#view-map")
    tab.ask("[...document.querySelectorAll('#rows .name, #rows .cell')].forEach((one) => one.click())")

    assert tab.ask("document.title") == title
    assert tab.ask("document.querySelectorAll('img, iframe, object, embed, a, svg').length") == 0
    assert tab.ask("document.scripts.length") == 2
    # A character that turns the direction is told, and does not act.
    assert tab.ask("document.body.innerText.includes('\\u202e')") is False
    assert tab.ask("document.getElementById('app').innerText.includes('\\\\u202e')") is True
    assert tab.complaints() == []


def test_without_script_there_is_a_table(tab: browser.Page, folder: pathlib.Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened(tab, folder, "mixed")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)

    told = tab.call("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)
    words = told["result"]["value"]
    assert "Hosts that are not ok" in words
    assert "Connection timed out" in words
    assert "Search" not in words


#: axe-core, https://github.com/dequelabs/axe-core
AXE = importlib.metadata.distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js")

#: Of the page as it stands: what it refuses, and the names of what it has found in order
AUDIT = (
    "axe.run({resultTypes: ['violations']}).then((found) => ({passes: found.passes.map((one) => one.id),"
    " violations: found.violations.map((one) => [one.id, ...one.nodes.map((node) => node.html)])}))"
)

#: The first of a view that has details
WORST = {"map": "#rows .cell.high", "list": "#list tbody tr", "pairs": "#matrix .high"}


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
        for view, worst in WORST.items():
            tab.click(f"#view-{view}")
            if width == 1440:  # beside the view, and not over it
                tab.click(worst)
                assert tab.ask("document.getElementById('details').hidden") is False
            found = tab.ask(AUDIT)
            assert found["violations"] == [], view
            assert {"color-contrast", "button-name", "label"} <= {*found["passes"]}
    finally:
        tab.size(1440, 900)
        tab.scheme("light")


def test_a_page_of_5000_hosts_is_small_and_draws_what_is_in_sight(
    tab: browser.Page, tmp_path: pathlib.Path
) -> None:
    """It has 2.1 MB, and opens at once as it draws no more than a screen: see docs/guide/fleet_report.md."""
    drawn = {}
    for hosts in (2000, 5000):
        path = tmp_path / f"{hosts}.html"
        path.write_text("".join(page.lines(fleets.synthetic(hosts))), "utf-8", "backslashreplace")
        tab.open(path)
        assert tab.ask("document.querySelectorAll('#rows .cell').length") > 1000
        drawn[hosts] = tab.ask("document.querySelectorAll('*').length")
    assert path.stat().st_size < 2_500_000
    assert drawn[5000] < 1.1 * drawn[2000]


def colour(tab: browser.Page) -> list[int]:
    found = tab.ask("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", ["ten", "large"])
def test_it_is_light_or_dark_as_the_reader_likes(
    tab: browser.Page, folder: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    pictures = []
    for scheme, light in (("light", True), ("dark", False)):
        tab.scheme(scheme)
        opened(tab, folder, name)
        assert (sum(colour(tab)) > 3 * 128) == light
        pictures.append(tab.picture(tmp_path / f"{scheme}.png"))
    tab.scheme("light")

    assert pictures[0] != pictures[1]
    assert all(len(picture) > 10_000 for picture in pictures)


@pytest.mark.parametrize("width", [400, 800, 1440, 2560])
def test_the_page_itself_never_scrolls_sideways(tab: browser.Page, folder: pathlib.Path, width: int) -> None:
    tab.size(width, 900)
    try:
        opened(tab, folder, "large")
        assert tab.ask("document.documentElement.scrollWidth") <= width
    finally:
        tab.size(1440, 900)


INSIDE = (
    "(() => {{ const box = document.querySelector('{}').getBoundingClientRect();"
    " return box.width > 0 && box.left >= 0 && box.top >= 0"
    " && box.right <= innerWidth && box.bottom <= innerHeight; }})()"
)


@pytest.fixture
def phone(tab: browser.Page) -> Iterator[browser.Page]:
    tab.size(390, 844)
    yield tab
    tab.size(1440, 900)


def test_on_a_phone_a_row_and_its_details_are_on_the_screen(
    phone: browser.Page, folder: pathlib.Path
) -> None:
    opened(phone, folder, "link")

    assert phone.ask("document.getElementById('list').hidden") is False
    assert phone.ask(INSIDE.format("#list tbody tr:nth-child(2) td.hosts")) is True
    phone.click("#list tbody tr:nth-child(2)")
    assert phone.ask(INSIDE.format("#details")) is True
    assert phone.ask(INSIDE.format("#close")) is True
    phone.click("#close")
    assert phone.ask("document.getElementById('details').hidden") is True


def test_on_a_phone_every_filter_is_reached(phone: browser.Page, folder: pathlib.Path) -> None:
    opened(phone, folder, "large")
    phone.click("#view-map")
    assert phone.ask("document.querySelectorAll('#outliers button').length") == 7

    phone.ask("document.querySelector('#outliers .more').click()")

    shown = phone.ask(
        "[...document.querySelectorAll('#outliers button, #states button, #filter select')].map((one) => {"
        " one.scrollIntoView(); const box = one.getBoundingClientRect();"
        " const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);"
        " return box.left >= 0 && box.right <= innerWidth && one.contains(seen); })"
    )
    assert len(shown) == len(model.causes(fleets.synthetic(2000).outliers())) + 2 + 4
    assert all(shown)
    phone.ask("document.querySelector('#outliers button:last-child').click()")
    assert phone.ask("document.querySelectorAll('#rows .line').length") >= 1
