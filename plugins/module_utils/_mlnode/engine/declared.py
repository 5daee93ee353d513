# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations of a node, kept on the node: /etc/mlnode/declared.d/NAME.json.

`auto` is stored unresolved, and one image serves many machine types.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Callable, Collection, Dict, Iterator, Mapping, Sequence

from ..host import trust
from ..host.host import Host
from ..model import schema, strict_json
from ..model.errors import DeclarationError, HostError, MlnodeError, StoreError
from ..model.record import NamedTuple, regex
from ..model.schema import Checked, Table
from ..model.setting import Setting

FOLDER = "/etc/mlnode/declared.d"

#: Version of the document. Raised with every change that makes the file unreadable to an older agent. A new
#: kind, option or form of a value does not raise it: an older agent reports it and applies the rest
#: (partial.py).
FORMAT = 1

_NAME = regex(r"[a-z0-9][a-z0-9_-]{0,62}\Z", re.ASCII)

Spec = Mapping[str, Any]


class _Stored(Dict[str, Any]):
    """A specification as stored in a file. checked: its checked form, after the first request."""

    checked: Checked | None = None


class Declaration(NamedTuple):
    """Everything declared under one name: kind of knob → its specification, unchanged from the file.

    profile: kind of knob → keys of the settings that a profile asks for and the operator does not declare.
    """

    name: str
    kinds: Mapping[str, Spec]
    profile: Mapping[str, Sequence[str]] = MappingProxyType({})

    @property
    def path(self) -> str:
        return path_of(self.name)

    def checked_spec(self, kind: str, table: Table) -> Checked:
        """Checked specification of a kind, cached for each file, as its content is parsed once. Raises
        DeclarationError."""
        spec = self.kinds.get(kind, {})
        if isinstance(spec, Checked):
            return spec
        if not isinstance(spec, _Stored):
            return schema.checked(kind, spec, table)
        if spec.checked is None:
            spec.checked = schema.checked(kind, spec, table)
        return spec.checked


#: Path → content and its declaration. A run asks for all declarations a dozen times, as they may change
#: meanwhile: an unchanged file is parsed once, and a file that this run writes never. No reader modifies
#: them.
_known: dict[str, tuple[bytes, Declaration]] = {}


def check_name(name: str) -> str:
    """The name becomes a file name: raises DeclarationError for anything but a plain word."""
    if not _NAME.match(name):
        raise DeclarationError(
            f"name {name!r}: use 1 to 63 of a-z, 0-9, _ and -, starting with a letter or digit"
        )
    return name


def path_of(name: str) -> str:
    return f"{FOLDER}/{check_name(name)}.json"


def render(declaration: Declaration) -> bytes:
    """The file's bytes, in the order of the declaration, which is the order of the writes.

    Raises DeclarationError for a file larger than parse() accepts.
    """
    document = {
        "format": FORMAT,
        "name": declaration.name,
        "kinds": {kind: dict(spec) for kind, spec in declaration.kinds.items()},
        **({"profile": {**declaration.profile}} if declaration.profile else {}),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if len(text) > strict_json.MOST:
        raise DeclarationError(
            f"{declaration.path}: {len(text)} characters, and a declaration may have {strict_json.MOST}: "
            "declare less under one name"
        )
    return text.encode("utf-8")


def to_write(declaration: Declaration) -> bytes:
    """As render(), for a file that this run writes: it is not parsed again in this run."""
    content = render(declaration)
    _known[declaration.path] = content, declaration
    return content


def parse(content: bytes, path: str) -> Declaration:
    """Raises StoreError, naming the file, for anything that render() would not have written."""
    known = _known.get(path)
    if known is None or known[0] != content:
        known = _known[path] = content, _parsed(content, path)
    return known[1]


def _parsed(content: bytes, path: str) -> Declaration:
    advice = "restore it, or remove it and run the playbook again"
    document = strict_json.document(content, path, FORMAT, advice=advice)
    name, kinds = document.get("name"), document.get("kinds")
    if (
        not isinstance(name, str)
        or not _NAME.match(name)
        or path != path_of(name)
        or not isinstance(kinds, dict)
    ):
        raise StoreError(f"{path}: not a declaration of this name written by mlnode")
    for kind, spec in kinds.items():
        if not isinstance(spec, dict):
            raise StoreError(f"{path}: {kind} holds {strict_json.shown(spec)}, which is not a declaration")
    stored = {kind: _Stored(spec) for kind, spec in kinds.items()}
    return Declaration(name, stored, _of_profile(document.get("profile", {}), path))


def _of_profile(raw: Any, path: str) -> Mapping[str, Sequence[str]]:
    """Raises StoreError."""
    sound = isinstance(raw, dict) and all(
        isinstance(keys, list) and all(isinstance(key, str) for key in keys) for keys in raw.values()
    )
    if not sound:
        raise StoreError(f"{path}: profile holds {strict_json.shown(raw)}, expected lists of keys by area")
    of_kinds: Mapping[str, Sequence[str]] = raw
    return of_kinds


def load(host: Host, name: str) -> Declaration | None:
    """The declaration of a name, or None if there is none."""
    path = path_of(name)
    try:
        return parse(trust.read(host, path), path)
    except HostError as error:
        if error.absent:
            return None
        raise


def load_all(host: Host, errors: list[str] | None = None) -> list[Declaration]:
    """All declarations, in the order of their names. Raises MlnodeError, never skips in silence.

    errors: takes the messages about unusable files, and the others still count.
    """
    declarations = []
    for file in host.names(FOLDER):
        if file.endswith(".json"):
            path = f"{FOLDER}/{file}"
            try:
                declarations.append(parse(trust.read(host, path), path))
            except MlnodeError as error:
                if isinstance(error, HostError) and error.absent:  # removed by a run meanwhile
                    continue
                if errors is None:
                    raise
                # The folder may be the one cause for all its files.
                errors += [str(error)] if str(error) not in errors else []
    return declarations


def expected(host: Host) -> list[Declaration]:
    """Usable declarations as they will be after the present run: the effect of one area on another must not
    depend on their order of writing. Raises HostError."""
    new: Declaration | None = host.under_way.get(FOLDER)
    declarations = [item for item in load_all(host, []) if new is None or item.name != new.name]
    if new is not None and new.kinds:
        declarations.append(new)
    return sorted(declarations, key=lambda item: item.name)


def settings(
    host: Host, kind: str, table: Table, parse: Callable[[Checked], Sequence[Setting]], but: str = ""
) -> Iterator[tuple[Declaration, Any]]:
    """Each setting of a kind with its declaration, from expected(). Faulty ones are skipped, as their own run
    reports them. but: name of a declaration to leave out. Raises HostError."""
    for declaration in expected(host):
        if declaration.name == but:
            continue
        try:
            parsed = parse(declaration.checked_spec(kind, table))
        except MlnodeError:
            continue
        yield from ((declaration, setting) for setting in parsed)


@contextmanager
def expecting(host: Host, new: Declaration | None) -> Iterator[None]:
    """Expect this declaration while a run plans and writes it; None if it writes none."""
    if new is not None:
        host.under_way[FOLDER] = new
    try:
        yield
    finally:
        host.under_way.pop(FOLDER, None)


def declares(spec: Spec) -> bool:
    """False if nothing is declared. A 0 counts, and so does a null, which leaves a setting alone."""
    return any(value not in (None, {}, []) for value in spec.values())


def updated(
    old: Declaration | None, name: str, kind: str, spec: Spec, profile: Collection[str] = ()
) -> Declaration:
    """The declaration with one kind replaced and the others kept. An empty specification removes the kind.
    profile: keys of the kind that a profile asks for."""
    kinds: dict[str, Spec] = dict(old.kinds) if old else {}
    keys: dict[str, Sequence[str]] = dict(old.profile) if old else {}
    keys.pop(kind, None)
    if declares(spec):
        kinds[kind] = spec
        keys.update({kind: sorted(profile)} if profile else {})
    else:
        kinds.pop(kind, None)
    return Declaration(name, kinds, {kind: keys[kind] for kind in kinds if kind in keys})
