# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of values that NCCL misreads without a word at NCCL_DEBUG=WARN: of `4M` it reads 4, of `010` 8 and
of `yes` 0 (strtoll() with base 0 in its src/misc/param.cc), and it ignores most words that it does not know.
What it reports by itself, such as an unknown algorithm or a file that it cannot open, is any `text` here.

A check is a key of NAMED, or `LOW..HIGH` for a whole number, where either limit may be left out, or words
such as `A|B|C`.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Callable, Mapping, NamedTuple, Sequence

#: A leading 0 would make it octal to strtoll(), which nobody means
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19})\Z", re.ASCII)
#: What strtoll() holds
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

#: NCCL copies the value of a line into 1024 bytes, and drops what is longer without a word (setEnvFile)
LONGEST = 1023
#: One line of printable ASCII. Blanks at its ends would be part of the value.
PRINTABLE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?\Z", re.ASCII)

#: The most HCAs that NCCL takes (MAX_IB_DEVS in its src/transport/net_ib)
MAX_HCAS = 32
#: A name that a list can hold: a comma or colon would end it there. The kernel has 15 characters for an
#: interface (IFNAMSIZ) and 63 for an RDMA device (IB_DEVICE_NAME_MAX), as NCCL has for either.
NIC = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII)
HCA = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z", re.ASCII)
_DEVICE = re.compile(rf"{HCA.pattern[:-2]}(?::[0-9]{{1,3}})?\Z", re.ASCII)
#: name[:port[:rail[:plane]]], of which the port may be empty where a rail follows
_HCA = re.compile(rf"{HCA.pattern[:-2]}(?::[0-9]{{1,3}}|:[0-9]{{0,3}}(?::[0-9]{{1,3}}){{1,2}})?\Z", re.ASCII)

_LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE", "ALL")
_SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY",
    "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip


class Check(NamedTuple):
    """allowed: what it takes, in words. spell: a text as it is written to the file, or None for what is not
    allowed."""

    allowed: str
    spell: Callable[[str], str | None]


def check(name: str) -> Check:
    """The check of a variable, by its name in the table."""
    if name in NAMED:
        return NAMED[name]
    low, dots, high = name.partition("..")
    return _whole(low, high) if dots else _one_of(name.split("|"))


def number(text: str) -> int | None:
    """The integer that NCCL reads of all of a text; None where it would read something else."""
    return int(text, 0) if _NUMBER.match(text) else None


def _whole(low: str, high: str) -> Check:
    """Spelled as a decimal number, so that two declarations of 0x6a and 106 agree."""
    least, most = int(low or _INT64_MIN), int(high or _INT64_MAX)

    def spell(text: str) -> str | None:
        found = number(text)
        return str(found) if found is not None and least <= found <= most else None

    if high:
        return Check("0 or 1" if (low, high) == ("0", "1") else f"a whole number from {low} to {high}", spell)
    return Check(f"a whole number{f' of {low} or more' if low else ''}, without a unit", spell)


def _one_of(words: Sequence[str]) -> Check:
    """In any case of letters, and written as every version of NCCL takes it."""
    return Check(f"one of {', '.join(words)}", lambda text: text.upper() if text.upper() in words else None)


def _some_of(words: Sequence[str]) -> Check:
    def spell(text: str) -> str | None:
        return text.upper() if {*text.upper()[text.startswith("^") :].split(",")} <= {*words} else None

    return Check(f"one or more of {', '.join(words)} with commas, or ^ and those to leave out", spell)


def _listed(names: str, pattern: re.Pattern[str], most: int = LONGEST) -> Check:
    """A list of names, or beginnings of names, behind ^ for all but those and = for whole names."""

    def spell(text: str) -> str | None:
        found = re.sub(r"\A\^?=?", "", text).split(",")
        return text if len({*found}) == len(found) <= most and all(map(pattern.match, found)) else None

    return Check(f"{names} with commas; behind = whole names, behind ^ all but those", spell)


def _network(text: str) -> str | None:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


NAMED: Mapping[str, Check] = {
    "text": Check("a line of text", lambda text: text),
    "levels": _some_of(_LEVELS),
    "subsystems": _some_of(_SUBSYSTEMS),
    "nics": _listed("interfaces, or the beginnings of their names,", NIC),
    "devices": _listed("devices, each maybe with :port,", _DEVICE),
    "hcas": _listed(
        f"at most {MAX_HCAS} RDMA devices, each maybe with :port or :port:rail:plane,", _HCA, MAX_HCAS
    ),
    "network": Check("a network such as 192.0.2.0/24 or 2001:db8::/64", _network),
}
