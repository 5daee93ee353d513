# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of each area as a table: the source of the argument specs, the reference and the validation.

The table of an area is OPTIONS in knobs/AREA/schema.py. Texts use the markup of Ansible's documentation, such
as V(value) and C(code). The parser of an area checks the rest, such as mutually exclusive options.
"""

from __future__ import annotations

import re
from collections import abc
from types import MappingProxyType
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, Mapping, Pattern, Sequence

from . import cpulist, scalars, strict_json
from .errors import DeclarationError
from .record import NamedTuple, regex
from .setting import Severity

#: Least similarity (difflib) of a mistyped name and the intended one: it accepts one wrong letter of four or
#: more, but not names with only a common beginning
_ALIKE = 0.75


class Form(NamedTuple):
    """Form of a text. words: its description after `must be`. read: returns the canonical spelling of a
    matching text; raises ValueError, perhaps without words, for a value that is still invalid."""

    pattern: Pattern[str]
    words: str
    read: Callable[[str], str] = str

    def spelled(self, text: str) -> str:
        """Raises ValueError."""
        if not self.pattern.match(text):
            raise ValueError
        return self.read(text)


class Option(NamedTuple):
    """One option, or each value of a dictionary with arbitrary names.

    type, elements: Ansible's terms. text: paragraphs, separated by empty lines. choices, least, most, form:
    for a list, they apply to each element. entries: least and greatest number of entries of a list or
    dictionary. suboptions: allowed names of a dictionary. fields: the same, but the argument spec has only
    the dictionary. keys, values: for a dictionary with arbitrary names. keyed: a list may also be given as a
    dictionary; its names become this field of the elements, and for a list of texts, the names with a true
    value are taken.

    declares: False if the option only modifies the meaning of others. joined: an option that this one
    requires. parts: each entry is a setting, so an unknown entry does not invalidate the others. empty: an
    empty list or dictionary differs from an omitted one. raw with a form: a text; YAML turns its words on and
    off into booleans.

    For options that make settings: file: the kernel's, in the folder of its area, with * for the name of an
    entry or for each device. key: the word of its settings, if it differs from the name. severity: the cost
    of a deviation. reason: for a value. source: of the reason. Suboptions without a reason inherit this one.
    """

    type: str
    text: str = ""
    elements: str = ""
    choices: Sequence[Any] = ()
    default: Any = None
    required: bool = False
    least: int | None = None
    most: int | None = None
    form: Form | None = None
    entries: tuple[int, int] | None = None
    suboptions: Mapping[str, Option] = {}
    fields: Mapping[str, Option] = {}
    keys: Form | None = None
    values: Option | None = None
    keyed: str = ""
    declares: bool = True
    joined: str = ""
    parts: bool = False
    empty: bool = False
    file: str = ""
    key: str = ""
    severity: Severity = Severity.LOW
    reason: str = ""
    source: str = ""

    @property
    def names(self) -> Mapping[str, Option]:
        """The names that a dictionary may have, if they are known."""
        return self.suboptions or self.fields

    @property
    def element(self) -> Option:
        """The option for each element of a list."""
        return self._replace(type=self.elements, elements="", entries=None, keyed="", default=None)


Table = Mapping[str, Option]

_ANY = regex("")


def guards(names: Collection[str], text: str) -> Option:
    """The option `allow`: guards that can be switched off."""
    return Option("list", text, "str", tuple(names), default=[], declares=False, parts=True)


def switch(text: str, **fields: Any) -> Option:
    """A kernel file that is 0 or 1."""
    return Option("int", text, choices=(0, 1), **fields)


def cpus(*words: str) -> Form:
    """A list of CPUs, or one of these words."""
    allowed = " or ".join(words)

    def read(text: str) -> str:
        if text in words:
            return text
        try:
            numbers = cpulist.parse(text)
        except ValueError as error:
            raise ValueError(f"{error}{allowed and f', nor {allowed}'}") from error
        if not numbers:
            raise ValueError("an empty list names no CPU")
        return cpulist.render(numbers)

    return Form(_ANY, f"a list of CPUs such as 0-3,8{allowed and f', or {allowed}'}", read)


def one_of(*words: str) -> Form:
    """One of these words, in any case of letters."""
    known = {word.casefold(): word for word in words}

    def read(text: str) -> str:
        if text.casefold() not in known:
            hint = meant(text, words)
            raise ValueError(f"must be one of {', '.join(words)}, got {strict_json.shown(text)}{hint}")
        return known[text.casefold()]

    return Form(_ANY, f"one of {', '.join(words)}", read)


def word_or_number(
    pattern: str, words: str, most: int, spelled: Mapping[str, str] = MappingProxyType({})
) -> Form:
    """A word with this pattern, or a number from 0. spelled: alternative words → the canonical one."""

    def read(text: str) -> str:
        if text.isdigit():
            if int(text) > most:
                raise ValueError
            text = str(int(text))
        return spelled.get(text, text)

    either = regex(rf"(?:{pattern}|[0-9]{{1,20}})\Z", re.ASCII)
    return Form(either, f"{words} or a number from 0 to {most}", read)


# -- declarations --------------------------------------------------------------------------


class Checked(Dict[str, Any]):
    """Specification of an area that has passed checked(). Only checked() makes one, so later code takes this
    type and validates nothing again."""


def checked(area: str, spec: Any, table: Table) -> Checked:
    """A plain copy of an area's declaration: each value has its type, and entries without effect are removed.
    Raises DeclarationError with place, value and allowed values."""
    try:
        strict_json.check(spec)
    except ValueError as error:
        raise DeclarationError(f"{area}: {error}") from error
    declared = _named(area, table, spec)
    return Checked(declared if any(table[name].declares for name in declared) else {})


def files(table: Table, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The kernel's file of each given option that has one, and its value, in the order of the table."""
    for name, option in table.items():
        if name not in given:
            continue
        if option.file:
            yield option.file, given[name]
        elif option.values is not None:
            for entry, inner in given[name].items():
                inner_files = files(option.values.names, inner)
                yield from ((file.replace("*", entry), value) for file, value in inner_files)
        elif option.type == "dict":
            yield from files(option.names, given[name])


def value(where: str, option: Option, raw: Any) -> Any:
    """A plain copy of one value of JSON. Raises DeclarationError."""
    plain = _READERS[option.type](where, option, raw)
    if option.choices and option.type != "list" and plain not in option.choices:
        known = [str(choice) for choice in option.choices]
        raise scalars.wrong(where, f"one of {', '.join(known)}", raw, meant(raw, known))
    if option.entries and not option.entries[0] <= len(plain) <= option.entries[1]:
        low, high = option.entries
        count = f"{low} entries" if low == high else f"from {low} to {high} entries"
        raise DeclarationError(f"{where}: must have {count}, got {strict_json.shown(raw)}")
    return plain


def reader(option: Option) -> Callable[[str, Any], Any]:
    """value() of one option."""
    return lambda where, raw: value(where, option, raw)


def _given(where: str, option: Option, raw: Any) -> Any:
    """Like value(), but None if the value is empty or equals the default."""
    plain = None if raw is None else value(where, option, raw)
    nothing = plain in ([], {}) and not option.empty
    return None if nothing or plain == option.default else plain


def _named(where: str, table: Table, raw: Any) -> dict[str, Any]:
    """The given part of a dictionary with known names."""
    given = _entries(where, raw)
    refuse_unknown(where, given, tuple(table))
    pairs = {name: _given(f"{where}.{name}", table[name], item) for name, item in given.items()}
    return {name: item for name, item in pairs.items() if item is not None}


def _entries(where: str, raw: Any) -> dict[str, Any]:
    """A dictionary with texts for names, as JSON has them."""
    if not isinstance(raw, abc.Mapping):
        raise scalars.wrong(where, "a dictionary", raw)
    entries: dict[str, Any] = {}
    for name, item in raw.items():
        if isinstance(name, bool):
            raise DeclarationError(f"{where}: the name {name} is a YAML boolean: put it in quotes")
        key = scalars.line(where, str(name))
        if key in entries:
            raise DeclarationError(f"{where}.{key}: is there twice, as a number and as a text")
        entries[key] = item
    return entries


def _dictionary(where: str, option: Option, raw: Any) -> dict[str, Any]:
    if option.names:
        entries = _named(where, option.names, raw)
        _refuse_incomplete(where, option.names, entries)
        return entries
    if option.values is None:
        return {name: _plain(f"{where}.{name}", item) for name, item in _entries(where, raw).items()}
    entries = {}
    for name, item in _entries(where, raw).items():
        if option.keys:
            _check_name(where, option.keys, name)
        inner = _given(f"{where}.{name}", option.values, item)
        if inner is not None:
            entries[name] = inner
    return entries


def _check_name(where: str, form: Form, name: str) -> None:
    try:
        form.spelled(name)
    except ValueError as error:
        problem = str(error) or f"must be {form.words}"
        raise DeclarationError(f"{where}: the name {strict_json.shown(name)} {problem}") from error


def _refuse_incomplete(where: str, table: Table, entries: Mapping[str, Any]) -> None:
    for name, option in table.items():
        if option.required and name not in entries:
            raise DeclarationError(f"{where}.{name}: is required")
    if not all(option.declares for option in table.values()):
        declaring = [name for name, option in table.items() if option.declares]
        if not any(name in entries for name in declaring):
            raise DeclarationError(f"{where}: give it at least one of {', '.join(declaring)}")


def _list(where: str, option: Option, raw: Any) -> list[Any]:
    element = option.element
    if option.keyed and isinstance(raw, abc.Mapping):
        items = _of_names(where, option, raw)
    elif isinstance(raw, (list, tuple)):
        items = {f"[{place}]": item for place, item in enumerate(raw)}
    else:
        raise scalars.wrong(where, "a list", raw)
    return [value(f"{where}{place}", element, item) for place, item in items.items() if item is not None]


def _of_names(where: str, option: Option, raw: Mapping[Any, Any]) -> dict[str, Any]:
    """Place → element of a list that was given as a dictionary."""
    elements: dict[str, Any] = {}
    for name, item in _entries(where, raw).items():
        if item is None:
            continue
        place = f"{where}.{name}"
        if option.elements != "dict":
            elements[f".{name}"] = name if scalars.boolean(place, option, item) else None
            continue
        inner = _entries(place, item)
        if inner.get(option.keyed) not in (None, name):
            raise scalars.wrong(f"{place}.{option.keyed}", f"{name}, or left out", inner[option.keyed])
        elements[f".{name}"] = {**inner, option.keyed: name}
    return elements


def _raw(where: str, option: Option, raw: Any) -> Any:
    if option.form is None:
        return _plain(where, raw)
    return scalars.text_of(where, option, {True: "on", False: "off"}[raw] if isinstance(raw, bool) else raw)


def _plain(where: str, raw: Any) -> Any:
    """A plain copy of a value of any type."""
    if isinstance(raw, abc.Mapping):
        entries = _entries(where, raw)
        return {name: _plain(f"{where}.{name}", item) for name, item in entries.items() if item is not None}
    if isinstance(raw, (list, tuple)):
        return [_element(f"{where}[{place}]", item) for place, item in enumerate(raw) if item is not None]
    return scalars.number_or(scalars.line(where, raw)) if isinstance(raw, str) else raw


def _element(where: str, raw: Any) -> Any:
    """One element of a list. A kind may join its texts, so each must be a single line."""
    return scalars.line(where, raw) if isinstance(raw, str) else _plain(where, raw)


_READERS = {
    "str": scalars.text_of,
    "int": scalars.integer,
    "float": scalars.decimal,
    "bool": scalars.boolean,
    "list": _list,
    "dict": _dictionary,
    "raw": _raw,
}


# -- unknown names with a suggestion, and guards that stop a change -------------------------------------


def refuse_unknown(where: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Raises DeclarationError for the first unknown name."""
    for name in given:
        if name not in known:
            problem = f"unknown; known are {', '.join(known)}{meant(name, known)}"
            raise DeclarationError(f"{where}.{name}: {problem}")


def meant(name: Any, known: Collection[str]) -> str:
    """`; did you mean X?` for the known name that is most like a mistaken one; empty if none is."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def nearest(name: Any, known: Collection[str]) -> str:
    """The known name that is most like a mistaken one; empty if none is."""
    # Only here: most names are right.
    import difflib

    return "".join(difflib.get_close_matches(str(name), known, 1, _ALIKE))


def refuse_others(where: str, given: Iterable[Any], what: str, known: Collection[str]) -> None:
    """Raises DeclarationError for the first unknown name of a list. what: the kind of thing it should be."""
    for name in given:
        if name not in known:
            raise DeclarationError(f"{where}: {name!r} is not a {what}; {hint(name, known)}")


def hint(name: Any, known: Collection[str]) -> str:
    """`did you mean X?`, or the list of known names if no name is similar."""
    near = meant(name, known)
    return near[len("; ") :] if near else f"known are {', '.join(known)}"


def unless_allowed(guard: str, reason: str, allow: Collection[str]) -> str:
    """Reason of a guard and how to switch it off; empty if there is no reason, or the guard is off."""
    if not reason or guard in allow:
        return ""
    return f"{reason}; to do it all the same: allow: [{guard}]"
