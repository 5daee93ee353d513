# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported versions of ansible-core: promised, installed, tested and put into an image are the same."""

from __future__ import annotations

import re

import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, debian, load


def wanted(lock: str) -> list[str]:
    """The requirements of ansible-core in an .in file, oldest first."""
    text = (ROOT / f"requirements/{lock}.in").read_text(encoding="utf-8")
    return re.findall(r"^ansible-core([~=]=[0-9.]+)", text, re.MULTILINE)


def test_the_oldest_version_is_the_one_that_is_promised_and_tested() -> None:
    promised = load("meta/runtime.yml")["requires_ansible"]
    metas = [load(str(path.relative_to(ROOT))) for path in ROOT.glob("roles/*/meta/main.yml")]

    assert wanted("oldest") == [promised.replace(">=", "==")]
    assert wanted("runtime")[0] == promised.replace(">=", "~=")
    assert metas
    for meta in metas:
        assert promised == f">={meta['galaxy_info']['min_ansible_version']}"


def test_an_image_has_the_newest_version_and_this_collection() -> None:
    image = load("execution-environment.yml")
    galaxy = load("galaxy.yml")
    artifact = f"{galaxy['namespace']}-{galaxy['name']}-{galaxy['version']}.tar.gz"

    assert image["dependencies"]["ansible_core"]["package_pip"] == f"ansible-core{wanted('runtime')[-1]}"
    assert image["additional_build_files"] == [{"src": artifact, "dest": "collections"}]


def test_the_readme_leads_to_an_execution_environment_with_this_version() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guide/operations.md")]
    section = pages[1].partition("\n## An execution environment\n")[2].partition("\n## ")[0]
    (image,) = re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)

    (wanted,) = yaml.safe_load(image)["dependencies"]["galaxy"]["collections"]
    assert wanted["name"] == "mlnode.tuning"
    assert f">={load('galaxy.yml')['version']}," in wanted["version"]
    assert "#an-execution-environment" in pages[0]


def test_every_supported_version_is_named() -> None:
    page = (ROOT / "docs/guide/support.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (2\.\d+) \|", page, re.MULTILINE)
    oldest, newest = (int(one.split(".")[1]) for one in wanted("runtime"))

    assert rows == [f"2.{minor}" for minor in range(newest, oldest - 1, -1)]
    assert f"ansible-core 2.{oldest} to 2.{newest}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_collection_has_its_row_with_what_it_supports() -> None:
    page = (ROOT / "docs/guide/support.md").read_text(encoding="utf-8")
    table = page.partition("\n## Versions of the collection\n")[2].partition("\n\nOnly")[0]
    *_head, newest = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    major, minor, *_fixes = load("galaxy.yml")["version"].split(".")
    last = wanted("runtime")[-1].removeprefix("~=").rpartition(".")[0]
    least = load("meta/runtime.yml")["requires_ansible"].removeprefix(">=")
    (node,) = re.findall(r"vermin --target=([\d.]+)- ", (ROOT / "Makefile").read_text(encoding="utf-8"))

    assert newest == [f"{major}.{minor}", f"{least} to {last}", f"{node} and newer", "yes, as the newest"]


def test_the_scenarios_are_named_with_the_versions_of_debian_that_they_run() -> None:
    page = (ROOT / "docs/guide/support.md").read_text(encoding="utf-8")
    table = page.partition("| scenarios | Debian |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    found = {name: text.split(" and ") for names, text in rows for name in re.findall(r"`(\w+)`", names)}

    scenarios = [path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")]
    assert found == {name: debian(name) for name in scenarios}
