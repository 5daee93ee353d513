# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the pages of the documentation site into a folder: the pages of docs/ and the generated ones.

`make docs` runs it, with the folder in which antsibull-docs has put the reference. The pages in docs/ are for
readers of the repository as well, so they are plain Markdown, and their links are paths in the repository.
"""

from __future__ import annotations

import os.path
import pathlib
import re
import shutil
import sys
from typing import Any, Iterator

import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent.registry import KINDS, options
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux.sysctl_reach import reach
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.schema import Option, Table
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.setting import Setting, Value
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tools import docs_support

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: The text between the two marks is for a reader of the repository.
TABLE = re.compile(r"<!-- table of (\w+) -->\n.*?<!-- end of table -->\n", re.DOTALL)
HEAD = (
    "| setting | default | in containers | at boot by | severity | reason | source |\n"
    "|---|---|---|---|---|---|---|\n"
)

#: The same of the options of an area
OPTIONS = re.compile(r"<!-- options -->\n.*?<!-- end of options -->\n", re.DOTALL)
OPTIONS_HEAD = "| option | values | severity | reason | source |\n|---|---|---|---|---|\n"

#: The same of the drivers
DRIVERS = re.compile(r"<!-- drivers -->\n.*?<!-- end of drivers -->\n", re.DOTALL)

#: Areas whose values are in files of the system or on the command line; the agent sets all others at boot
CARRIERS = {
    **dict.fromkeys(("services", "modules", "limits", "nccl", "containers", "metrics", "pull"), "file"),
    "boot": "command line",
}

#: Before the address of a link or an image, or of the definition of a reference
_ADDRESS = r"(?:(?<=\]\()|(?<=\]: ))"
#: The path and the anchor of an address that is not a URL
LINK = re.compile(rf"{_ADDRESS}(?![a-z]+:)([^()#\s]*)(#[^()\s]*)?(?=\)|$)", re.MULTILINE)
#: The beginning of a link into the repository's own site, behind its address
OWN = r"/(?:blob|raw|tree)/main/"
#: The documentation of these is in their own files.
PLUGIN = re.compile(r"plugins/(module|callback|filter|lookup)s?/(\w+)\.py")
#: A section of the index, and the page that an item of its list begins with
SECTION = re.compile(r"^## (.+)\n(?:(?!## ).*\n)*", re.MULTILINE)
#: An item of a list, or the first cell of a row
ITEM = re.compile(r"^[*|] \[(.+?)\]\((.+?)\)", re.MULTILINE)


def declaration(name: str) -> dict[str, Any]:
    """Area and its specification, in the order in which they are applied, of a profile without overrides."""
    areas = profile.combined(name, {}).areas
    return {area: areas[area] for area in KINDS if area in areas}


def carrier(setting: Setting) -> str:
    """The file, agent or command line that sets a value at boot."""
    if setting.kind == "sysctl":
        return "agent" if setting.derived or not setting.path.startswith("/proc/sys/") else "file"
    return CARRIERS.get(setting.kind, "agent")


def in_containers(setting: Setting) -> str:
    """The value of a sysctl in a new container; a dash for other settings."""
    if setting.kind != "sysctl":
        return "–"
    kind = reach(setting.key)
    return str(kind) if kind else "unknown"


def table(name: str) -> str:
    """One row for each setting, in the order in which they are applied."""
    settings = [
        item
        for area, spec in declaration(name).items()
        for item in KINDS[area].parse(KINDS[area].checked(spec), None)
    ]
    rows = []
    for setting in settings:
        info = KINDS[setting.kind].info(setting.key, Value())
        first = (f"`{setting.key}`", f"`{setting.claim}`", in_containers(setting), carrier(setting))
        cells = (*first, str(info.severity), info.reason, info.source)
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def with_tables(page: str) -> str:
    """The page with the table of each profile and preset. Raises ValueError if one has no place in it."""
    tables = {match[1] for match in TABLE.finditer(page)}
    missing = tables.symmetric_difference([*profile.known(), *profile.presets()])
    if missing:
        raise ValueError(f"values.md: profile or table is missing: {', '.join(sorted(missing))}")
    return TABLE.sub(lambda match: table(match[1]), page)


def option_rows(table: Table, prefix: str = "", parent: Option | None = None) -> Iterator[tuple[str, Option]]:
    """Every option that makes settings with its name, and the reason of the one around it if it has none."""
    for name, option in table.items():
        if not option.declares:
            continue
        above = table[option.joined] if option.joined else parent or Option("")
        if not option.reason:
            grounds = {"severity": above.severity, "reason": above.reason, "source": above.source}
            option = option._replace(**grounds)
        if option.names:
            mark = "[]" if option.type == "list" else ""
            yield from option_rows(option.names, f"{prefix}{name}{mark}.", option)
        elif option.values is not None and option.values.names:
            yield from option_rows(option.values.names, f"{prefix}{name}.NAME.", option)
        else:
            yield f"{prefix}{name}", option


_OF_TYPE = {
    "raw": "see its text",
    "str": "a text",
    "list": "a list",
    "dict": "a dictionary",
    "bool": "`true`, `false`",
}


def values_of(option: Option) -> str:
    """The values that an option takes, for people."""
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.form is not None and option.form.words:
        return option.form.words
    if option.type == "int" and option.most is not None:
        return f"{option.least or 0} to {option.most}"
    return _OF_TYPE.get(option.type, option.type)


def options_table(area: str) -> str:
    """One row for each option of an area that makes settings."""
    rows = [
        (f"`{name}`", values_of(option), str(option.severity), option.reason, option.source)
        for name, option in option_rows(options(area))
    ]
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return OPTIONS_HEAD + "".join(f"| {line} |\n" for line in lines)


def with_options(page: str, area: str) -> str:
    """The page of an area with the table of its options. Raises ValueError if they have no place in it."""
    if not OPTIONS.search(page):
        raise ValueError(f"knobs/{area}.md: the place of its options is missing")
    return OPTIONS.sub(lambda _match: options_table(area), page)


def with_drivers(page: str) -> str:
    """The page with the tables of the drivers. Raises ValueError if they have no place in it."""
    if not DRIVERS.search(page):
        raise ValueError("support.md: the place of the drivers is missing")
    return DRIVERS.sub(lambda _match: docs_support.tables(), page)


def with_contents(page: str) -> str:
    """The index with a table of contents for each of its lists and tables, for the sidebar."""

    def contents(section: re.Match[str]) -> str:
        entries = "".join(f"{title} <{target}>\n" for title, target in ITEM.findall(section[0]))
        return f"{section[0]}\n```{{toctree}}\n:hidden:\n:caption: {section[1]}\n\n{entries}```\n\n"

    return SECTION.sub(contents, page)


def in_site(page: str, path: str, repository: str) -> str:
    """Target of a link of a page in docs/: in the site, or in the reference or the repository for a link out
    of docs/."""
    target = os.path.normpath(os.path.join("docs", os.path.dirname(page), path))
    if not path or target.startswith("docs/"):
        return path
    plugin = PLUGIN.fullmatch(target)
    if plugin:
        return f"/reference/{plugin[2]}_{plugin[1]}.rst"
    return "/reference/index.rst" if target == "plugins/modules" else f"{repository}/blob/main/{target}"


def with_paths(text: str, folder: str, repository: str) -> str:
    """The text of a page in a folder of the repository, with a path for each link into this site.

    Absolute links are for readers elsewhere: Galaxy shows a README without other files, and the archive of
    the collection does not have every page.
    """

    def path(link: re.Match[str]) -> str:
        return os.path.relpath(link[1], folder)

    return re.sub(rf"{_ADDRESS}{re.escape(repository)}{OWN}([^()#\s]+)", path, text)


def of_site(page: str, text: str, repository: str) -> str:
    """The text of a page in docs/ as the site has it."""
    text = with_paths(text, os.path.join("docs", os.path.dirname(page)), repository)
    text = LINK.sub(lambda match: in_site(page, match[1], repository) + (match[2] or ""), text)
    if page.startswith("knobs/"):
        return with_options(text, pathlib.PurePath(page).stem)
    if page == "guide/support.md":
        return with_drivers(text)
    if page == "values.md":
        return with_tables(text)
    return with_contents(text) if page == "index.md" else text


def list_reference(index: pathlib.Path) -> None:
    """Add the reference pages to the contents of the site by their short names."""
    names = sorted(path.stem for path in index.parent.glob("*.rst") if path != index)
    entries = [f"   {' '.join(name.rsplit('_', 1))} <{name}>\n" for name in names]
    with index.open("a", encoding="utf-8") as file:
        file.write("\n.. toctree::\n   :hidden:\n\n" + "".join(entries))


def main(folder: str) -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    pages = pathlib.Path(folder)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site"), dirs_exist_ok=True)
    for path in pages.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(of_site(str(path.relative_to(pages)), text, galaxy["repository"]), encoding="utf-8")
    list_reference(pages / "reference/index.rst")


if __name__ == "__main__":
    main(sys.argv[1])
