# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What commands of a shell would set: ethtool(8), `ip link set` of ip-link(8), and ifconfig(8).

Nothing is expanded but the names of the interface that whoever runs them has a variable for.
"""

from __future__ import annotations

import re
import shlex
from typing import Iterator, Mapping, NamedTuple, Sequence

from ..ethtool import words as ethtool_words
from . import nic_owner

#: Options of ethtool(8) that set something → the group of our files
_GROUPS = {
    "-G": "ring", "--set-ring": "ring",
    "-L": "channels", "--set-channels": "channels",
    "-C": "coalesce", "--coalesce": "coalesce",
    "-A": "pause", "--pause": "pause",
    "-K": "feature", "--features": "feature", "--offload": "feature",
    "--set-fec": "fec", "--set-priv-flags": "private-flag",
}  # fmt: skip

#: Words of ip-link(8) and ifconfig(8) → our files
_LINK = {"mtu": "mtu", "txqueuelen": "tx_queue_len", "txqlen": "tx_queue_len"}

#: Names of fields and features; those of private flags are the driver's own, and may hold more
_NAME = re.compile(r"[A-Za-z0-9_.:+-]+\Z", re.ASCII)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_ENDS = set(";&|()<>\n")

#: What may stand before a command, and VARIABLE=value
_BEFORE = re.compile(r"(?:[{!]|if|then|elif|else|do|while|until|time|exec|command|sudo|\w+=.*)\Z", re.ASCII)


class Said(NamedTuple):
    """A value for a file of an interface."""

    interface: str
    file: str
    value: str


def said(line: str, variables: Mapping[str, str]) -> list[Said]:
    """What one line of a shell script sets."""
    found: list[Said] = []
    for command in _commands(line):
        words = [_expanded(word, variables) for word in command]
        while words and _BEFORE.match(words[0]):
            words.pop(0)
        program = words[0].rpartition("/")[2] if words else ""
        if program == "ethtool":
            found += ethtool(words[1:])
        elif program == "ip":
            found += _ip(words[1:])
        elif program == "ifconfig" and len(words) > 1:
            found += _link(words[1], words[2:])
    return found


def ethtool(words: Sequence[str]) -> list[Said]:
    """What ethtool would set with these arguments."""
    for place, word in enumerate(words):
        group = _GROUPS.get(word)
        if group and place + 1 < len(words):
            return [Said(words[place + 1], *pair) for pair in fields(group, words[place + 2 :])]
    return []


def fields(group: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """File and value of the arguments behind the interface's name."""
    if group == "fec":
        try:
            if words and words[0] == "encoding":
                yield "fec/encoding", ethtool_words.fec(ethtool_words.fec_mask(" ".join(words[1:]).lower()))
        except ValueError:
            return
        return
    for name, text in zip(words[::2], words[1::2]):
        value = nic_owner.value(f"{group}/{name}", text)
        if value and _NAME.match(name):
            yield f"{group}/{name}", value


def _ip(words: Sequence[str]) -> list[Said]:
    rest = list(words)
    while rest and rest[0].startswith("-"):  # such as -force, before the object
        rest.pop(0)
    # Any beginning of a word will do for ip, these are what people write.
    if len(rest) < 3 or rest[0] not in ("l", "li", "link") or rest[1] not in ("s", "set"):
        return []
    rest = rest[2:]
    if "dev" in rest[:-1]:
        place = rest.index("dev")
        return _link(rest[place + 1], rest[:place] + rest[place + 2 :])
    return _link(rest[0], rest[1:])


def _link(interface: str, words: Sequence[str]) -> list[Said]:
    pairs = ((_LINK[word], nic_owner.number(text)) for word, text in zip(words, words[1:]) if word in _LINK)
    return [Said(interface, file, text) for file, text in pairs if text]


def _commands(line: str) -> Iterator[list[str]]:
    """The words of each simple command; of a line that ends inside a quote, none."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    command: list[str] = []
    try:
        for word in reader:
            if not set(word) <= _ENDS:
                command.append(word)
                continue
            if command:
                yield command
            command = []
    except ValueError:
        return
    if command:
        yield command


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), word)
