# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What values NCCL's variables take. NCCL itself refuses next to nothing: of `4M` it reads 4, of `010` it
reads 8, and a word that it does not know is as good as none. Pure text functions."""

from __future__ import annotations

import ipaddress
import re
from typing import Callable, NamedTuple

#: An integer as strtoll() with base 0 reads all of it (NCCL's src/misc/param.cc). A leading 0 would make it
#: octal, which nobody means.
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19})\Z", re.ASCII)
#: What strtoll() holds, and strtoull()
INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

#: NCCL copies the value of a line into 1024 bytes, and cuts off what is longer without a word (setEnvFile)
LONGEST = 1023
#: One line of printable ASCII. Blanks at its ends would be part of the value.
PRINTABLE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?\Z", re.ASCII)

#: The most HCAs that NCCL takes (MAX_IB_DEVS in its src/transport/net_ib)
MAX_HCAS = 32
#: A name that a list can hold: a comma or colon would end it there. The kernel has 15 characters for an
#: interface (IFNAMSIZ) and 63 for an RDMA device (IB_DEVICE_NAME_MAX), as NCCL has for either.
NIC = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII)
HCA = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z", re.ASCII)
_PORT = re.compile(r"[0-9]{1,3}\Z", re.ASCII)
_PLACE = re.compile(r"[0-9]{1,3}\Z", re.ASCII)

#: The functions that NCCL_ALGO and NCCL_PROTO may name (src/graph/tuning.cc)
_FUNCTIONS = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")


class Type(NamedTuple):
    """allowed: what it takes, in words. spell: a text as it is written to the file, or None for what is not
    allowed. joins: a YAML list is written with commas."""

    allowed: str
    spell: Callable[[str], str | None]
    joins: bool = False


def number(text: str) -> int | None:
    """The integer that NCCL reads of all of a text; None where it would read something else."""
    return int(text, 0) if _NUMBER.match(text) else None


def whole(low: int, high: int, words: str = "") -> Type:
    """An integer. Spelled as a decimal one, so that two declarations of 0x6a and 106 agree."""

    def spell(text: str) -> str | None:
        found = number(text)
        return str(found) if found is not None and low <= found <= high else None

    return Type(words or f"a whole number from {low} to {high}", spell)


def one_of(*names: str) -> Type:
    """A word; in any case of letters, as it is written in the one that every version of NCCL takes."""
    by_case = {name.casefold(): name for name in names}
    return Type(_or(names), lambda text: by_case.get(text.casefold()))


def some_of(*names: str) -> Type:
    """Words with commas; a ^ before the first is all but those."""
    by_case = {name.casefold(): name for name in names}

    def spell(text: str) -> str | None:
        sign = "^" if text.startswith("^") else ""
        found = [by_case.get(word.casefold()) for word in text[len(sign) :].split(",")]
        return sign + ",".join(word for word in found if word) if all(found) else None

    return Type(f"one or more of {', '.join(names)} with commas, or ^ and those to leave out", spell, True)


def per_function(*names: str) -> Type:
    """As some_of(), and since 2.24 with lists of their own for single functions: `ring;allreduce:tree`."""
    plain = some_of(*names)

    def spell(text: str) -> str | None:
        found = []
        for place, clause in enumerate(text.split(";")):
            function, colon, words = clause.rpartition(":")
            wanted = plain.spell(words)
            if wanted is None or (colon and function.casefold() not in _FUNCTIONS) or (place and not colon):
                return None
            found.append(f"{function.casefold()}{colon}{wanted}")
        return ";".join(found)

    return Type(f"{plain.allowed}; since 2.24 also such as allreduce:{names[0]};broadcast:^{names[1]}", spell)


def flags(*names: str) -> Type:
    """Words with |. Before there were words, each had its place in this order as its number."""
    single = one_of(*names)

    def spell(text: str) -> str | None:
        if text in map(str, range(len(names))):
            return text
        found = [single.spell(word) for word in text.split("|")]
        return "|".join(word for word in found if word) if all(found) else None

    return Type(f"{_or(names)}, or several of them with |, or one as 0 to {len(names) - 1}", spell)


def matching(pattern: str, words: str, joins: bool = False) -> Type:
    compiled = re.compile(rf"(?:{pattern})\Z", re.ASCII)
    return Type(words, lambda text: text if compiled.match(text) else None, joins)


def _or(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _listed(text: str, is_name: Callable[[str], bool]) -> str | None:
    """A list of names, or beginnings of names, behind ^ for all but those and = for whole names."""
    names = re.sub(r"\A\^?=?", "", text).split(",")
    return text if all(map(is_name, names)) and len({*names}) == len(names) else None


def _is_hca(text: str) -> bool:
    """name[:port[:rail[:plane]]], of which the port may be empty where a rail follows."""
    name, *places = text.split(":")
    if not HCA.match(name) or len(places) > 3:
        return False
    if places and not _PORT.match(places[0]) and (places[0] or len(places) == 1):
        return False
    return all(_PLACE.match(place) for place in places[1:])


def _hcas(text: str) -> str | None:
    return _listed(text, _is_hca) if text.count(",") < MAX_HCAS else None


def _network(text: str) -> str | None:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


def _factor(text: str) -> str | None:
    return text if re.match(r"[0-9]{1,6}(?:\.[0-9]{1,6})?\Z", text, re.ASCII) and float(text) > 0 else None


SWITCH = whole(0, 1, "0 or 1")
ANY = whole(INT64_MIN, INT64_MAX, "a whole number")
COUNT = whole(1, INT64_MAX, "a whole number of 1 or more")
NATURAL = whole(0, INT64_MAX, "a whole number of 0 or more")
BYTES = whole(0, INT64_MAX, "a whole number of bytes, without a unit: of 4M NCCL reads 4")
TEXT = Type("a line of text", lambda text: text)
WORD = matching(r"[A-Za-z0-9_.+-]+", "a name of letters, digits and _.+-")
PLUGIN = matching(r"[A-Za-z0-9_.+/-]+", "the name of a library, what follows libnccl-net- in it, or none")
PLUGINS = matching(
    r"[A-Za-z0-9_.+/-]+(?:,[A-Za-z0-9_.+/-]+)*", "names of libraries with commas, or none", joins=True
)
PATH = matching(r"/[!-~]+", "an absolute path without blanks, without ~")
NICS = Type(
    "interfaces with commas, or the beginnings of their names; behind = whole names, behind ^ all but those",
    lambda text: _listed(text, lambda name: bool(NIC.match(name))),
    joins=True,
)
OUT_OF_BAND = Type(
    "devices with commas, each maybe with :port; behind = whole names, behind ^ all but those",
    lambda text: _listed(text, lambda name: _is_hca(name) and name.count(":") < 2),
    joins=True,
)
HCAS = Type(
    f"at most {MAX_HCAS} RDMA devices with commas, each maybe with :port or :port:rail:plane; behind = whole "
    "names, behind ^ all but those",
    _hcas,
    joins=True,
)
NETWORK = Type("a network such as 192.0.2.0/24 or 2001:db8::/64", _network)
FACTOR = Type("a number above 0, such as 1.5", _factor)
ADDRESS = matching(
    r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}", "host:port, such as localhost:28028 or [::1]:28028"
)
FAMILY = one_of("AF_INET", "AF_INET6")
