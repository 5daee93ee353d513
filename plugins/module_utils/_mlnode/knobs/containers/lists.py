# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of defaults in the TOML files of podman and CRI-O, which are read one after the other.

A list replaces the previous one. In containers.conf, an element {append=true} makes this and all following
lists additions, until one has {append=false} (containers.conf(5), APPENDING TO STRING ARRAYS; podman 4.8 and
later). Names of keys are in any case of letters, as Go's TOML reader has it.
"""

from __future__ import annotations

import errno
from typing import Any, Iterable, Mapping, Sequence

from ...host.host import Host
from ...linux import toml
from ...model.errors import HostError
from ...model.record import NamedTuple
from .parse import SHM_SIZE, SIZE, SYSCTLS, ULIMITS, Values, is_settable, shown
from .runtime import (
    FILE,
    ULIMIT_NAMES,
    Given,
    amount_of,
    is_amount,
    is_followed,
    numbers_of,
    size_of,
    text_of,
)

#: Topic → key, for both
KEYS = {SYSCTLS: "default_sysctls", ULIMITS: "default_ulimits", SHM_SIZE: "shm_size"}

_PODMAN = ("containers",)
_APPEND = "append"


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
        Assigned(path, entry.line, *_values(topic, path, entry, table))
        for path in paths
        for entry in _of_key(path, entries(host, path), wanted)
    ]


def _of_key(path: str, present: Iterable[toml.Entry], wanted: Sequence[str]) -> list[toml.Entry]:
    """Its entry, if there is one. Raises HostError for two with different letters: Go takes any of them."""
    named = [entry for entry in present if [name.casefold() for name in entry.path] == wanted]
    if len(named) > 1:
        raise _broken(path, f"line {named[1].line}: {wanted[-1]} is there twice")
    return named


def entries(host: Host, path: str) -> list[toml.Entry]:
    """Raises HostError."""
    text = text_of(host, path)
    try:
        return [*toml.entries(text)]
    except ValueError as error:
        raise _broken(path, str(error)) from error


def attribute(host: Host, paths: Iterable[str]) -> str:
    """The place of the first list with attributes; empty without one. Raises HostError."""
    for path in paths:
        for entry in entries(host, path):
            if isinstance(entry.value, list) and any(isinstance(item, dict) for item in entry.value):
                return f"{path}:{entry.line}"
    return ""


def _broken(path: str, words: str) -> HostError:
    return HostError("understand", path, None, f"{words}; correct it first")


def _values(
    topic: str, path: str, entry: toml.Entry, table: Sequence[str]
) -> tuple[dict[str, str], bool | None]:
    """Values, and the attribute append. Raises HostError for a value with which the engine, or a container,
    does not start."""
    raw, line = entry.value, f"line {entry.line}"
    if topic == SHM_SIZE:
        if not _is_text(raw):
            raise _broken(path, f"{line}: expected a text in quotes")
        # Unlike --shm-size, this has factors of 1000 (libpod/runtime_ctr.go: FromHumanSize): 1GiB is 954 MiB.
        return {SIZE: size_of(raw, 1000)}, None
    podman = tuple(table) == _PODMAN
    items = raw if isinstance(raw, list) else [None]
    attributes = [item for item in items if isinstance(item, dict)] if podman else []
    texts = [str(item) for item in items if _is_text(item)]
    if len(texts) + len(attributes) < len(items):
        raise _broken(path, f"{line}: expected a list of texts")
    pair_of = _limit if topic == ULIMITS else _podmans_sysctl if podman else _sysctl
    try:
        # CRI-O skips empty sysctls (pkg/config/sysctl.go).
        pairs = [pair_of(text) for text in texts if text or podman or topic == ULIMITS]
        return dict(pairs), _append(attributes)
    except ValueError as error:
        raise _broken(path, f"{line}: {error}") from error


def _append(attributes: Sequence[Mapping[str, Any]]) -> bool | None:
    """Raises ValueError for other attributes than this one (internal/attributedstring/slice.go)."""
    words = [[*item.items()] for item in attributes]
    for pairs in words:
        if pairs not in ([(_APPEND, "true")], [(_APPEND, "false")]) or _is_text(pairs[0][1]):
            raise ValueError("expected the attribute append=true or append=false")
    return words[-1][0][1] == "true" if words else None


def _is_text(raw: Any) -> bool:
    return isinstance(raw, str) and not isinstance(raw, toml.Word)


def _limit(text: str) -> tuple[str, str]:
    """As both engines read it, and refuse to start otherwise (go-units, ParseUlimit)."""
    name, _equals, amount = text.partition("=")
    if name in ULIMIT_NAMES and is_amount(amount):
        return name, amount_of(amount)
    raise ValueError(f"expected NAME=SOFT:HARD, with -1 for no limit, got {text!r}")


def _sysctl(text: str) -> tuple[str, str]:
    """As CRI-O reads it (pkg/config/sysctl.go)."""
    name, equals, value = text.partition("=")
    if not equals or name != name.strip() or value != value.strip():
        raise ValueError(f"expected KEY=VALUE without blanks around them, got {text!r}")
    return name, " ".join(value.split())


def _podmans_sysctl(text: str) -> tuple[str, str]:
    """As podman reads it, and creates no container otherwise (pkg/util/utils.go: ValidateSysctls)."""
    name, value = _sysctl(text)
    if "=" in value or not is_settable(name):
        raise ValueError(f"expected a sysctl of network or IPC, got {text!r}")
    return name, value


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
    """State of a topic. own: mlnode's file. order: the files before it and after it. Raises HostError, also
    for a fault in another topic: the engine, or a container, does not start with it."""
    for other in KEYS:
        _refuse_bad(host, table, other, own, order)
    before, after = (assigned(host, paths, table, topic) for paths in order)
    present = _written(host, own, table, topic)
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


def _refuse_bad(
    host: Host, table: Sequence[str], topic: str, own: str, order: tuple[Sequence[str], Sequence[str]]
) -> None:
    """Raises HostError for a value with which podman or CRI-O does not start. Of several sizes, podman looks
    at the last one (containers/common, pkg/config/config.go: Validate())."""
    before, after = (assigned(host, paths, table, topic) for paths in order)
    last = [*before, *_written(host, own, table, topic), *after][-1:]
    for item in last if topic == SHM_SIZE and tuple(table) == _PODMAN else ():
        if not item.values[SIZE].isdigit():
            text = item.values[SIZE]
            raise _broken(item.path, f"line {item.line}: expected a size such as 65536k, got {text!r}")


def _written(host: Host, own: str, table: Sequence[str], topic: str) -> list[Assigned]:
    """Lists of mlnode's file; none if it is damaged, as the next run writes it again. Raises HostError."""
    try:
        return assigned(host, [own] if is_followed(host, own) else [], table, topic)
    except HostError as error:
        if error.errno in (None, errno.ENOENT):
            return []
        raise


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
    soft, hard = numbers_of(value)
    return f"{soft}:{hard}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in escaped) + '"'
