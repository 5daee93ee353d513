# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/docs_pages.py: what the site has that the pages in docs/ have not."""

from __future__ import annotations

import fnmatch
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, declaration
from ansible_collections.mlnode.tuning.tools import docs_pages
from mlnode.agent.registry import KINDS, options
from mlnode.engine.kind import Kind
from mlnode.knobs.sysctl.info import INFO
from mlnode.linux import sysctl_table
from mlnode.linux.sysctl_reach import Reach, reach

FORGE = "https://forge.example/tuning"
#: First folders of all sysctls
SYSCTLS = ("vm.", "kernel.", "fs.", "net.")
#: In the files of profiles: the heading of a part, the line about containers, a sysctl
PART = re.compile(r"    # -- [^;]*(?:; containers: (.+))? --")
CONTAINERS = re.compile(r"    # Containers: (.+)\.")
KEY = re.compile(r"    ((?:vm|kernel|fs|net)\.[\w.-]+): ")
#: Every key of the table, for the interface names in the page as well
KNOWN = [
    f"{folder.replace('*', name)}/{re.split('[=+,@]', entry)[0]}"
    for folder, entries in sysctl_table.KEYS.items()
    for name in (("all", "default", "eth0") if folder.endswith("*") else ("",))
    for entry in entries.split()
]
VALUES = (ROOT / "docs/values.md").read_text(encoding="utf-8")


def test_values_has_a_row_for_every_setting_of_a_profile() -> None:
    page = docs_pages.of_site("values.md", VALUES, FORGE)

    shown = [re.findall(r"^\| `(\S+)` \|(?:[^|]+\|){6}$", part, re.MULTILINE) for part in page.split("\n## ")]
    for name in (*profile.known(), *profile.presets()):
        specs = declaration(name).items()
        assert [item.key for kind, spec in specs for item in door.parse(kind, spec)] in shown, name
    assert "has the values with reasons" not in page


def test_values_says_of_each_area_who_sets_it_at_boot() -> None:
    section = VALUES.partition("## Who sets a value at boot")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", section, re.MULTILINE)

    expected = [(area, docs_pages.CARRIERS.get(area, "agent")) for area in KINDS if area != "sysctl"]
    assert [row for row in rows if row[0] != "sysctl"] == expected
    assert [by for area, by in rows if area == "sysctl"] == ["file", "agent"]
    for area, kind in KINDS.items():
        if type(kind).boot_files is Kind.boot_files:
            assert docs_pages.CARRIERS.get(area, "agent") == "agent"


def test_the_table_has_the_value_of_each_sysctl_in_containers() -> None:
    for name in (*profile.known(), *profile.presets()):
        for key, cell in re.findall(
            r"^\| `(\S+)` \| [^|]+ \| ([^|]+) \|", docs_pages.table(name), re.MULTILINE
        ):
            kind = reach(key) if key.startswith(SYSCTLS) else None
            assert cell == (str(kind) if kind else "–"), key


def test_each_sysctl_of_a_profile_has_a_comment_on_containers() -> None:
    """In the comment above it, or in the heading of its part."""
    for name in ("training", "inference", "fabric"):
        heading, said, seen = "", "", set()
        for line in (ROOT / f"roles/node/profiles/{name}.yml").read_text(encoding="utf-8").splitlines():
            part, comment, key = PART.fullmatch(line), line.lstrip().startswith("#"), KEY.match(line)
            if part:
                heading, said = part[1] or "", ""
            elif comment:
                above = CONTAINERS.fullmatch(line)
                said = above[1] if above else ""
            elif key:
                kind = reach(key[1])
                assert kind, key[1]
                assert (said or heading) == str(kind), f"{name}: {key[1]}"
                seen.add(key[1])
        assert seen == {*docs_pages.declaration(name)["sysctl"]["settings"]}


def test_the_page_of_sysctl_has_each_key_with_a_reason_in_its_row() -> None:
    """Keys of vm, fs and kernel without a row of their own have the same value."""
    page = (ROOT / "docs/knobs/sysctl.md").read_text(encoding="utf-8")
    section = page.partition("## In containers")[2].partition("\n## ")[0]
    rows = {
        cell: re.findall(r"`([^`]+)`", keys)
        for cell, keys in re.findall(r"^\| (.+?) \| (.+) \|$", section, re.M)
    }
    assert {str(kind) for kind in Reach} <= {*rows}
    rest = rows.pop(str(Reach.GLOBAL))
    assert rest == ["vm", "fs", "kernel"]
    for key in INFO:
        found = [
            cell
            for cell, patterns in rows.items()
            if any(fnmatch.fnmatch(key, pattern) for pattern in patterns)
        ]
        kind = reach(key)
        assert kind, key
        assert found == ([] if kind is Reach.GLOBAL else [str(kind)]), key
    for cell, patterns in rows.items():
        for pattern in patterns:
            kinds = {
                reach(key.replace("/", "."))
                for key in KNOWN
                if fnmatch.fnmatch(key.replace("/", "."), pattern)
            }
            if cell in {str(kind) for kind in Reach}:
                assert {str(kind) for kind in kinds if kind} == {cell}, pattern


@pytest.mark.parametrize("name", ["training", "inference", "fabric"])
def test_the_table_has_who_a_run_leaves_a_sysctl_to(name: str, tmp_path: pathlib.Path) -> None:
    spec = docs_pages.declaration(name)["sysctl"]
    settings = door.parse("sysctl", spec)
    # Each of them is less than declared, so that at_least has a line, too.
    kernel = {setting.path: "" if "ports" in setting.key else "0" for setting in settings}
    kernel.update({path: "0 0 0" for path in kernel if path.endswith(("mem", "port_range"))})
    kernel.update({path: "0 0" for path in kernel if path.endswith("port_range")})
    machine = Machine.debian(str(tmp_path), kernel)
    door.apply(machine, door.request("t", "sysctl", {**spec, "allow": ["min_free"]}))
    lines = {line.partition(" = ")[0] for line in machine.now("/etc/sysctl.d/zz-mlnode-t.conf").splitlines()}

    by_file = {setting.key for setting in settings if docs_pages.carrier(setting) == "file"}
    assert {setting.key for setting in settings} & lines == by_file


@pytest.mark.parametrize("area", KINDS)
def test_every_option_is_on_the_page_of_its_area_with_a_reason_and_a_source(area: str) -> None:
    text = (ROOT / f"docs/knobs/{area}.md").read_text(encoding="utf-8")

    page = docs_pages.of_site(f"knobs/{area}.md", text, FORGE)

    cells = {row[0]: row for row in (line.strip("| ").split(" | ") for line in page.splitlines())}
    found = {name: cells[f"`{name}`"] for name, _option in docs_pages.option_rows(options(area))}
    assert {name for name, row in found.items() if len(row) != 5 or not all(row)} == set()
    assert "describes all options" not in page
    with pytest.raises(ValueError, match=f"knobs/{area}.md: the place of its options is missing"):
        docs_pages.with_options(docs_pages.OPTIONS.sub("", text), area)


@cases.table
def test_a_profile_without_a_table_and_a_table_without_a_profile_are_errors(
    was: str, becomes: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        docs_pages.with_tables(VALUES.replace(was, becomes))


@cases.table
def test_links_out_of_docs_lead_to_the_reference_or_the_repository(page: str, link: str, found: str) -> None:
    text = "[a]({0}), ![b]({0}), [c]\n\n[c]: {0}\n"
    assert docs_pages.of_site(page, text.format(link), FORGE) == text.format(found)


def test_the_lists_and_tables_of_the_index_are_the_sidebar() -> None:
    items = "* [A b](a.md): [c](c.md)\n* [D](../D.md)\n\n| a | b |\n|---|---|\n| [F](f.md) | [g](g.md) |\n"
    text = f"# Site\n\n## One\n\n{items}\n## Two\n\n* [E](e.md)\n"

    page = docs_pages.of_site("index.md", text, FORGE)

    first, second = re.findall(r"```\{toctree\}\n:hidden:\n:caption: (.+)\n\n([^`]*)```\n", page)
    assert first == ("One", f"A b <a.md>\nD <{FORGE}/blob/main/D.md>\nF <f.md>\n")
    assert second == ("Two", "E <e.md>\n")
    assert page.index("[D]") < page.index(":caption: One") < page.index("## Two")


def test_the_reference_lists_its_pages_by_their_short_names(tmp_path: pathlib.Path) -> None:
    for name in ("index", "roce_qos_module", "fabric_role"):
        (tmp_path / f"{name}.rst").write_text("text\n")

    docs_pages.list_reference(tmp_path / "index.rst")

    contents = "   :hidden:\n\n   fabric role <fabric_role>\n   roce_qos module <roce_qos_module>\n"
    assert (tmp_path / "index.rst").read_text() == "text\n\n.. toctree::\n" + contents
    assert (tmp_path / "fabric_role.rst").read_text() == "text\n"
