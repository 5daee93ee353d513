# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of defaults in the TOML files of podman and CRI-O, which are read one after the other.

A list replaces the previous one. In containers.conf, an element {append=true} makes this and all following
lists additions, until one has {append=false} (containers.conf(5), APPENDING TO STRING ARRAYS; podman 4.8 and
later). Names of keys are in any case of letters, as Go's TOML reader has it.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ...host.host import Host
from ...linux import drop_ins, toml
from ...model.errors import HostError
from ...model.record import NamedTuple
from .parse import SHM_SIZE, SIZE, SYSCTLS, ULIMITS, Values, shown
from .runtime import FILE, Given, amount_of, numbers_of, size_of

#: Topic → key, for both
KEYS = {SYSCTLS: "default_sysctls", ULIMITS: "default_ulimits", SHM_SIZE: "shm_size"}


class Assigned(NamedTuple):
    """One list or value in a file. append: as its attribute; None without."""

    path: str
    line: int
    values: Values
    append: bool | None = None

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def ours(self) -> bool:
        return self.path.rpartition("/")[2].startswith(FILE)


def assigned(host: Host, paths: Iterable[str], table: Sequence[str], topic: str) -> list[Assigned]:
    """All lists of a topic, in the order of the files. Raises HostError, also for a file without the form of
    TOML: the engine does not start with it."""
    wanted = [*table, KEYS[topic]]
    return [
        Assigned(path, entry.line, _values(topic, path, entry), _append(entry.value))
        for path in paths
        for entry in entries(host, path)
        if [name.casefold() for name in entry.path] == wanted
    ]


def entries(host: Host, path: str) -> list[toml.Entry]:
    """Raises HostError."""
    text = drop_ins.text(host, path)
    try:
        text.encode("utf-8")
        return [*toml.entries(text)]
    except UnicodeEncodeError as error:
        raise _broken(path, f"line {text.count(chr(10), 0, error.start) + 1}: expected UTF-8") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error


def _broken(path: str, words: str) -> HostError:
    return HostError("understand", path, None, f"{words}; correct it first")


def _values(topic: str, path: str, entry: toml.Entry) -> dict[str, str]:
    """Raises HostError for a value of another type, with which the engine does not start."""
    raw = entry.value
    if topic == SHM_SIZE:
        if not _is_text(raw):
            raise _broken(path, f"line {entry.line}: expected a text in quotes")
        # Unlike --shm-size, this has factors of 1000 (libpod/runtime_ctr.go: FromHumanSize): 1GiB is 954 MiB.
        return {SIZE: size_of(raw, 1000)}
    if not isinstance(raw, list) or not all(_is_text(item) or isinstance(item, dict) for item in raw):
        raise _broken(path, f"line {entry.line}: expected a list of texts")
    pairs = [item.partition("=") for item in raw if item and isinstance(item, str)]
    if topic == ULIMITS:
        return {name: amount_of(value) for name, _equals, value in pairs}
    return {name.strip(): " ".join(value.split()) for name, _equals, value in pairs}


def _is_text(raw: Any) -> bool:
    return isinstance(raw, str) and not isinstance(raw, toml.Word)


def _append(raw: Any) -> bool | None:
    if not isinstance(raw, list):
        return None
    words = [
        str(value).casefold() == "true"
        for item in raw
        if isinstance(item, Mapping)
        for name, value in item.items()
        if name.casefold() == "append"
    ]
    return words[-1] if words else None


def folded(lists: Iterable[Assigned]) -> dict[str, str]:
    """Values after the last file. The last of several entries for a name counts."""
    values: dict[str, str] = {}
    append = False
    for item in lists:
        append = append if item.append is None else item.append
        values = {**values, **item.values} if append else {**item.values}
    return values


def given(
    host: Host,
    table: Sequence[str],
    topic: str,
    own: str,
    order: tuple[Sequence[str], Sequence[str]],
    want: Values,
) -> Given:
    """State of a topic. own: mlnode's file. order: the files before it and after it. Raises HostError."""
    before, after = (assigned(host, paths, table, topic) for paths in order)
    present = assigned(host, [own], table, topic)
    others = folded(item for item in before if not item.ours)
    written = Assigned(own, 0, {**others, **want})
    later = [item for item in after if not item.ours]
    beats = bool(later) and not want.items() <= folded([*before, written, *after]).items()
    all_of_them = [*before, *present, *after]
    return Given(
        folded(all_of_them),
        others,
        all_of_them[-1].where if all_of_them else "",
        later[-1].where if beats else "",
        present[-1].values if present else {},
    )


def sources(host: Host, paths: Iterable[str], table: Sequence[str], topic: str) -> list[str]:
    """`path:line: key = values` of each list. Raises HostError."""
    lists = assigned(host, paths, table, topic)
    return [f"{item.where}: {KEYS[topic]} = {shown(item.values, len(item.values))}" for item in lists]


def lines(table: str, wants: Mapping[str, Values], others: Mapping[str, Values]) -> list[str]:
    """Lines of mlnode's file. others: values of previous lists, which these replace."""
    body = []
    for topic, want in wants.items():
        values = {**others.get(topic, {}), **want}
        if topic == SHM_SIZE:
            body.append(f'{KEYS[topic]} = "{values[SIZE]}"')
            continue
        texts = [f"{name}={_spelled(topic, value)}" for name, value in values.items()]
        body += [f"{KEYS[topic]} = [", *(f"  {_quoted(text)}," for text in texts), "]"]
    return [f"[{table}]", *body] if body else []


def _spelled(topic: str, value: str) -> str:
    if topic != ULIMITS:
        return value
    try:
        soft, hard = numbers_of(value)
    except ValueError:  # a form of a newer version, repeated as it is
        return value
    return f"{soft}:{hard}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in escaped) + '"'
