# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations that declare nothing, and files of this collection whose declaration is gone.

In both cases the node looks right: nothing is compared, so nothing differs.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Sequence

from ..host import places
from ..host.host import Host
from ..model.errors import HostError, MlnodeError
from ..model.record import NamedTuple, regex
from . import declared
from .declared import Declaration
from .origin import Origin
from .steps import FileWrite, Step

#: Effects of a missing file
_HOLDS = {
    places.MANAGEMENT: "without it a boot that has no routes yet does not know over which interfaces this "
    "node is managed, and leaves all NICs alone; "
}

_ADVICE = "run the playbook that declares it, or `mlnode revert` to undo all that mlnode has changed"


class _Found(NamedTuple):
    """An existing file, or a block in one. name: its declaration; "" if shared by all."""

    what: str
    kinds: Sequence[str]
    name: str = ""


def report(host: Host) -> list[str]:
    """The messages about both. A declaration that cannot be used is reported elsewhere."""
    try:
        declarations = declared.load_all(host, [])
    except MlnodeError:
        return []
    return [*emptied(declarations), *orphans(host, declarations)]


def emptied(declarations: Sequence[Declaration]) -> list[str]:
    """A message for each declaration or area that declares nothing, as no run of a playbook leaves it."""
    errors = []
    for item in declarations:
        if not item.kinds:
            errors.append(
                f"{item.path} declares nothing: run the playbook that declares it, or remove the file if "
                "nothing is to be declared under this name"
            )
        errors += [
            f"{item.path}: {kind} declares nothing: run the playbook that declares it"
            for kind, spec in item.kinds.items()
            if not declared.declares(spec)
        ]
    return errors


def orphans(host: Host, declarations: Sequence[Declaration]) -> list[str]:
    """A message for each file that no declaration on this node would write."""
    wanted = {
        (item.name, kind)
        for item in declarations
        for kind in item.kinds
        if declared.declares(item.kinds[kind])
    }
    errors = []
    try:
        unread = _unread(host, declarations)
        for file in _present(host):
            names = [file.name] if file.name else {name for name, _kind in wanted} | unread
            if not any(name in unread or (name, kind) in wanted for name in names for kind in file.kinds):
                errors.append(_words(file))
    except HostError as error:
        errors.append(f"whether files are left over from other declarations is not known: {error}")
    return errors


def outlived(steps: Sequence[Step], in_image: Callable[[], Sequence[Step]], name: str) -> list[str]:
    """A message for each file of a declaration that a run would remove, as its settings are no longer
    declared.

    in_image: the steps for an image of the node, called only if a file would be removed. A file that these
    steps keep is declared, and unused on this machine: it came with the image, and is not drift.
    """
    removed = _removed(steps, name)
    if removed:
        stale = _removed(in_image(), name)
        removed = [path for path in removed if path in stale]
    return [
        f"{path} is left over from what {name} declared before: `mlnode apply` removes it" for path in removed
    ]


def lost(host: Host, steps: Sequence[Step]) -> list[str]:
    """A message for each missing file that a run has written for all declarations. No row shows the loss, as
    it changes no value of a setting."""
    missing = [
        step.path
        for step in steps
        if isinstance(step, FileWrite) and step.content is not None and step.before is None
        if any(own.path == step.path and own.kinds for own in places.OWN)
    ]
    if not missing:
        return []
    known = {entry.get("file") for entry in Origin.for_look(host, alone=True).entries()}
    return [
        f"{path} was written by mlnode and is gone: {_HOLDS.get(path, '')}`mlnode apply` writes it again"
        for path in missing
        if path in known
    ]


def _removed(steps: Sequence[Step], name: str) -> list[str]:
    return [
        step.path
        for step in steps
        if isinstance(step, FileWrite) and step.content is None and _is_named(step.path, name)
    ]


def _is_named(path: str, name: str) -> bool:
    matches = (regex(f"{own.exact}\\Z").match(path) for own in places.OWN if own.kinds)
    return any(match and match.groups() == (name,) for match in matches)


def _words(file: _Found) -> str:
    if not file.name:
        kinds = " or ".join(file.kinds)
        return f"{file.what} was written by mlnode, and no declaration here has the kind {kinds}: {_ADVICE}"
    return (
        f"{file.what} was written by mlnode for the declaration {file.name}, which does not declare "
        f"{' or '.join(file.kinds)}: {_ADVICE}"
    )


def _unread(host: Host, declarations: Sequence[Declaration]) -> set[str]:
    """Names of declarations with an unusable file: their content is unknown."""
    files = {file[: -len(".json")] for file in host.names(declared.FOLDER) if file.endswith(".json")}
    return files - {item.name for item in declarations}


def _present(host: Host) -> Iterator[_Found]:
    """Raises HostError."""
    for own in places.OWN:
        for path in host.matching(own.pattern) if own.kinds else ():
            match = regex(f"{own.exact}\\Z").match(path)
            if match:
                yield _Found(path, own.kinds, "".join(match.groups()))
    for path, (kind, begin) in places.BLOCKS.items():
        for match in re.finditer(f"^{begin}", host.text(path), re.MULTILINE | re.ASCII):
            yield _Found(f"the block of mlnode in {path}", (kind,), match.group(1))
