# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README as its reader follows it: its files and its commands, in their order, in a new project."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.system import browser

NODES = ("gpu001.example", "gpu002.example", "gpu003.example")
KEY = "net.core.somaxconn"


def value_of(node: str) -> str:
    """In the network namespace of the node."""
    command = ["podman", "exec", node, "sysctl", "-n", KEY]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def before() -> dict[str, str]:
    return {node: value_of(node) for node in NODES}


@pytest.fixture(scope="session")
def walk(before, walked, readme):
    del before  # checked first
    return walked(readme)


def test_every_command_ends_as_it_says(walk):
    for done in walk.done:
        # A drift was planted, and these nodes do not know each other's names, which is `unknown`.
        expected = 2 if "tuning.drift" in done.command or "tuning.preflight" in done.command else 0
        assert done.status == expected, f"{done.command}\n{done.output[-3000:]}"


def test_the_installation_warns_of_nothing_and_a_table_has_its_lines(walk):
    assert "WARNING" not in walk.of("collection install").output
    assert "\\n" not in walk.of("tuning.preflight").output


def test_the_first_shows_what_the_second_changes(walk):
    preview, site = walk.of("site --check"), walk.of("tuning.site  ")

    assert f"+{KEY} = 65535" in preview.output
    assert "site.yml (check mode): 3 hosts: 3 differ" in preview.output
    for node in NODES:
        assert preview.recap()[node]["changed"] == site.recap()[node]["changed"] == 1


def test_drift_names_the_one_value_on_the_one_node(walk):
    drift = walk.of("tuning.drift")

    assert {node: row["failed"] for node, row in drift.recap().items()} == {
        "gpu001.example": 0,
        "gpu002.example": 1,
        "gpu003.example": 0,
    }
    assert f"{KEY} (medium, drifted): gpu002.example" in drift.output


def test_a_browser_shows_the_report_of_drift(walk, tmp_path):
    (tmp_path / "fleet.html").write_text(walk.of("tuning.drift").page, "utf-8")
    program = browser.find()
    assert program, f"no Chromium here, and none could be installed (apt-get install {browser.PACKAGE})"
    with browser.browser(program) as tab:
        tab.size(1440, 900)
        tab.open(tmp_path / "fleet.html")
        assert tab.complaints() == []
        assert "3 hosts: 1 differs, 2 ok" in tab.ask("document.getElementById('headline').textContent")
        tab.click(".group summary")
        told = tab.ask("document.querySelector('.group[open]').innerText")
    assert all(word in told for word in (KEY, "drifted", "medium", "gpu002.example")), told


def test_everything_is_as_before(walk, before):
    assert {node: value_of(node) for node in NODES} == before


def test_nothing_is_left_on_a_node(walk, host):
    left = (
        "find / -xdev \\( -path '*/mlnode*' -o -name '*mlnode*' \\) -not -path '/proc/*' -not -path '/tmp/*'"
    )
    assert host.run(left).stdout == ""
