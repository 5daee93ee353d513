# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The links of every Markdown file, as a forge follows them: to a file of the repository, to a heading.

An absolute link into the repository's own site is one as well. What the pages of the archive name has to be
there where the collection is installed.

`make docs` checks those between the guides once more, as the site has them.
"""

from __future__ import annotations

import fnmatch
import functools
import os.path
import pathlib
import re
import subprocess
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load
from ansible_collections.mlnode.tuning.tools import docs_pages

CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Path and anchor of a link, or of the definition of a reference, that is not a URL
LINK = re.compile(r"\](?:\(|: )(?![a-z]+:)([^()#\s]*)(?:#([^()\s]+))?(?:\)|$)", re.MULTILINE)
REPOSITORY: str = load("galaxy.yml")["repository"]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: A target of the Makefile, as a command in the text has it
TARGET = re.compile(r"`make [a-z]")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@functools.lru_cache(maxsize=None)
def tracked() -> frozenset[str]:
    """The files of the repository, also those that are not committed yet, and their folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = {path for path in done.stdout.split("\0") if path and (ROOT / path).exists()}
    folders = {str(folder) for path in files for folder in pathlib.PurePath(path).parents}
    return frozenset(files | folders)


def packed(path: str) -> bool:
    """Is this file in the archive, by the patterns of galaxy.yml?"""
    names = [path, *(str(folder) for folder in pathlib.PurePath(path).parents)]
    patterns = load("galaxy.yml")["build_ignore"]
    return not any(fnmatch.fnmatch(name, pattern) for name in names[:-1] for pattern in patterns)


#: The pages in the archive
PACKED = sorted(path for path in tracked() if path.endswith(".md") and packed(path))

#: What the archive has nothing of
FOLDERS = tuple(
    f"{path}/" for path in tracked() if (ROOT / path).is_dir() and path != "." and not packed(path)
)


def anchors(text: str) -> frozenset[str]:
    """The names that GitHub gives to the headings: no punctuation, and a number for the second of a kind."""
    found: set[str] = set()
    for heading in HEADING.findall(CODE.sub("", text)):
        words = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = (f"{name}-{number}" for number in range(1, len(found) + 1))
        found.add(name if name not in found else next(other for other in again if other not in found))
    return frozenset(found)


def broken(folder: pathlib.Path, text: str) -> Iterator[str]:
    """The links that lead nowhere, of a page in the folder."""
    text = docs_pages.with_paths(text, os.path.relpath(folder, ROOT), REPOSITORY)
    for link, anchor in LINK.findall(CODE.sub("", text)):
        target = pathlib.Path(os.path.normpath(folder / link))
        if link and not (target.is_relative_to(ROOT) and str(target.relative_to(ROOT)) in tracked()):
            yield link
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8") if link else text):
            yield f"{link}#{anchor}"


@pytest.mark.parametrize("name", sorted(path for path in tracked() if path.endswith(".md")))
def test_every_link_leads_somewhere(name: str) -> None:
    path = ROOT / name
    assert [*broken(path.parent, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", [".", *(f"roles/{path.name}" for path in sorted(ROOT.glob("roles/*")))])
def test_what_galaxy_shows_has_absolute_links(name: str) -> None:
    # Galaxy shows it beside no other file: a path would be looked for on its own server.
    text = (ROOT / name / "README.md").read_text(encoding="utf-8")
    assert [link for link, _anchor in LINK.findall(CODE.sub("", text)) if link] == []


def for_a_checkout_only(text: str) -> Iterator[str]:
    """Commands of a page that an installed collection does not have: paths of playbooks, targets of make.

    A section may name a target if it says that this is for a checkout, and ansible-pull plays one.
    """
    # A command of several lines as one, and without its comment
    blocks = CONSOLE.findall(text.replace("\\\n", " "))
    prompts = re.findall(r"^[$#] (.*?)(?:  +# .*)?$", "".join(blocks), re.MULTILINE)
    prose = CODE.sub("", text)
    for command in [*prompts, *re.findall(r"`(ansible-playbook [^`\n]+)`", prose)]:
        if re.match(r"make |(?!ansible-pull ).*\bplaybooks/", command):
            yield command
    for section in re.split(r"^(?=#+ )", prose, flags=re.MULTILINE):
        if "checkout" not in section:
            yield from TARGET.findall(section)


def left_out(text: str) -> Iterator[str]:
    """The paths in the text of a page that are no links, and of files that the archive does not have."""
    words = re.findall(r"[\w./-]+", re.sub(r"\]\([^)]*\)", "]", text))
    for word in words:
        if "/" in word and (word.startswith(FOLDERS) or (word in tracked() and not packed(word))):
            yield word


@pytest.mark.parametrize("name", PACKED)
def test_a_page_of_the_archive_names_no_file_that_it_lacks(name: str) -> None:
    assert [*left_out((ROOT / name).read_text(encoding="utf-8"))] == []


def test_a_file_that_is_not_packed_is_found() -> None:
    text = "`tests/unit/*.py`, docs/guide/lab.md, [a](../tests/unit/work.py), `plugins/modules/thp.py`, a/b\n"
    assert [*left_out(text)] == ["tests/unit/", "docs/guide/lab.md"]


@pytest.mark.parametrize("name", PACKED)
def test_a_page_of_the_archive_has_commands_of_an_installed_collection(name: str) -> None:
    assert [*for_a_checkout_only((ROOT / name).read_text(encoding="utf-8"))] == []


@cases.table
def test_a_command_of_a_checkout_is_found(text: str, found: list[str]) -> None:
    assert [*for_a_checkout_only(text)] == found


PAGE = """# One `thing`, and another

## Twice

## [Twice](https://example.org)

[here](#one-thing-and-another), [again](#twice-1), [there](../README.md#support), [a folder](../roles),
[elsewhere](https://example.org/x.md), ![image](images/fleet-report.png)
[own](https://github.com/mlnode/tuning/blob/main/README.md#support), [issues](https://github.com/mlnode/tuning/issues)

```text
[in a block](nowhere.md)
## No heading
```
"""


def test_a_reference_to_nowhere_is_found() -> None:
    text = f"[a], [b][c]\n\n[a]: {REPOSITORY}/blob/main/README.md#support\n[c]: nowhere.md\n"
    assert [*broken(ROOT / "docs", text)] == ["nowhere.md"]


@pytest.mark.parametrize(
    "link",
    [
        *("#twice-2", "#no-heading", "nowhere.md", "../README.md#nowhere"),
        *("../.ansible/collections", "../../README.md", "/etc/passwd"),
    ],
)
def test_a_link_to_nowhere_is_found(link: str) -> None:
    assert [*broken(ROOT / "docs", PAGE)] == []
    assert [*broken(ROOT / "docs", f"{PAGE}[x]({link})\n")] == [link]


@pytest.mark.parametrize("path", ["nowhere.md", "README.md#nowhere"])
def test_an_absolute_link_to_nowhere_is_found(path: str) -> None:
    assert [*broken(ROOT / "docs", f"[x]({REPOSITORY}/blob/main/{path})\n")] == [f"../{path}"]
