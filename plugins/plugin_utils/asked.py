# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a run that ask for something which no play would look at: Ansible ignores a tag and a part of
--limit that match nothing, and ends with 0."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.playbook import Playbook
from ansible.playbook.block import Block
from ansible.utils.collection_loader._collection_finder import _get_collection_playbook_path
from ansible.utils.vars import load_extra_vars
from ansible.vars.manager import VariableManager

from ..module_utils._mlnode.model.schema import hint, meant, nearest
from . import areas
from .variables import near

#: Reserved tags (ansible.playbook.taggable)
SPECIAL = frozenset(("all", "tagged", "untagged", "always", "never"))

#: Suffixes of a file of variables (ansible.constants.YAML_FILENAME_EXTENSIONS)
_ENDINGS = (".yml", ".yaml", ".json")

_PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"


def own_playbook(names: Iterable[str]) -> str:
    """The first of the playbooks of a command line that is one of this collection, by its name. Empty if none
    is: another playbook imports it, whose tags may belong to its own plays."""
    for name in names:
        resource = _get_collection_playbook_path(name)
        path = pathlib.Path(resource[1] if resource else name).resolve()
        if path.parent == _PLAYBOOKS:
            return path.stem
    return ""


def wrong_tags(
    playbook: str, run: Sequence[str], skip: Sequence[str], tags: Collection[str], whole: str = ""
) -> list[str]:
    """Faults in the tags for a playbook of this collection. tags: those that it goes by. whole: what to do
    instead, for a playbook that does not go by areas."""
    known = [*tags]
    by_area = {*known} & {*areas.AREAS}
    wrong = [
        f"{option} {tag}: {_unknown_tag(playbook, tag, known, whole)}"
        for option, given in (("--tags", run), ("--skip-tags", skip))
        for tag in given
        if tag not in known and tag not in SPECIAL
    ]
    if wrong:
        return wrong
    others = ({*known} - by_area) & {*run} - {*skip}
    # Without areas, tasks have no tags.
    left = areas.selected(run, skip, ()) if by_area else {*run} <= {"all"} and {*skip} <= {"never"}
    if "always" in skip or not (left or others):
        options = [f"--tags {','.join(run)}", *([f"--skip-tags {','.join(skip)}"] if skip else [])]
        return [f"{' '.join(options)}: {playbook}.yml would have nothing to do{whole and f'; {whole}'}"]
    return []


def _unknown_tag(playbook: str, tag: str, known: Sequence[str], whole: str) -> str:
    if tag in areas.AREAS or not known:
        return f"{playbook}.yml has no areas or tags to choose from{whole and f'; {whole}'}"
    return f"neither an area nor a tag of {playbook}.yml; {hint(tag, known)}"


def misspelt_tags(
    run: Iterable[str], skip: Iterable[str], names: Iterable[str], loader: Any, also: Collection[str] = ()
) -> list[str]:
    """Tags that nearly have the name of an area, and that no task of the running playbooks has. names: of
    these playbooks, as on the command line. also: more tags that are known."""
    known = [*areas.AREAS, *also]
    likely = {
        tag: guess
        for tag in (*run, *skip)
        if tag not in known and tag not in SPECIAL and (guess := meant(tag, known))
    }
    # Only now, as it reads all of them again.
    there = _tags(names, loader) if likely else set()
    return [
        f"tag {tag}: neither an area nor a tag of this playbook{guess}"
        for tag, guess in likely.items()
        if tag not in there
    ]


def _tags(names: Iterable[str], loader: Any) -> set[str]:
    """Tags of all tasks that the playbooks import. Included tasks are unknown before they run."""
    manager = VariableManager(loader=loader, inventory=InventoryManager(loader, parse=False))
    tags: set[str] = set()
    for name in names:
        resource = _get_collection_playbook_path(name)
        playbook = Playbook.load(resource[1] if resource else name, variable_manager=manager, loader=loader)
        for play in playbook.get_plays():
            tags |= {*play.tags}.union(*map(_of_block, play.compile()))
    return tags


def _of_block(block: Any) -> set[str]:
    tasks = (*block.block, *block.rescue, *block.always)
    return {*block.tags}.union(
        *(_of_block(task) if isinstance(task, Block) else {*task.tags} for task in tasks)
    )


def wrong_limit(limit: str, groups: Mapping[str, Sequence[str]], loader: Any) -> list[str]:
    """Parts of --limit that no host of the inventory matches. Ansible goes on without them, and would also
    take a host that a misspelt `!name` was to leave out."""
    manager = InventoryManager(loader, parse=False)
    for group, hosts in groups.items():
        manager.add_group(group)
        for host in hosts:
            manager.add_host(host, group=group)
    known = [*groups, *groups.get("all", ())]
    parts = _parts(limit)
    if {"localhost", "127.0.0.1"} <= {*parts}:
        return []  # ansible-pull tries all names that this machine may have (ansible.cli.pull)
    return [
        f"--limit {part}: no host or group of the inventory matches{meant(part.lstrip('!&'), known)}"
        for part in parts
        if not _matched(manager, part.lstrip("!&"))
    ]


def _matched(manager: InventoryManager, pattern: str) -> bool:
    try:
        return bool(manager.list_hosts(pattern))
    except AnsibleError:  # a range that is not in the group
        return False


def _parts(limit: str) -> list[str]:
    """Patterns of a --limit, including those in files given with `@`."""
    parts: list[str] = []
    for part in split_host_pattern(limit):
        if not part.startswith("@"):
            parts.append(part)
            continue
        text = pathlib.Path(part[1:]).expanduser().read_text(encoding="utf-8")
        parts += [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return parts


def wrong_variables(loader: Any) -> list[str]:
    """Extra variables (-e) with the prefix of a playbook of this collection and nearly the name of a known
    variable. The roles check their own variables."""
    prefixes = [f"{name}_" for name in (*(path.stem for path in _PLAYBOOKS.glob("*.yml")), "mlnode")]
    given = [name for name in map(str, load_extra_vars(loader)) if name.startswith(tuple(prefixes))]
    if not given:
        return []
    texts = [path.read_text(encoding="utf-8") for path in _PLAYBOOKS.rglob("*.yml")]
    known = {word for text in texts for word in re.findall(r"[a-z0-9_]+", text)}
    return [
        f"-e {name}: no playbook knows it; did you mean {meant}?"
        for prefix in prefixes
        for name, meant in sorted(near(prefix, prefix, given, known).items())
    ]


def wrong_files(sources: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Files in the inventory's group_vars folder with nearly the name of a group. Ansible ignores any file
    without the exact name."""
    known = [*groups]
    wrong: dict[str, None] = {}
    for source in map(pathlib.Path, sources):
        folder = (source if source.is_dir() else source.parent) / "group_vars"
        names = {path.stem if path.suffix in _ENDINGS else path.name: path for path in folder.glob("*")}
        for name, path in sorted(names.items()):
            like = nearest(name, known)
            # A group with its own file, or rack2 next to rack1, may belong to another inventory.
            if name not in known and like not in ("", *names) and _letters(name) != _letters(like):
                wrong[f"{path}: the inventory has no group {name}; did you mean {like}?"] = None
    return [*wrong]


def _letters(name: str) -> str:
    return re.sub("[0-9]", "", name)
