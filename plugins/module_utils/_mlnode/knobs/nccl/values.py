# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of values that NCCL misreads silently at NCCL_DEBUG=WARN.

It reads `4M` as 4, `010` as 8 and `yes` as 0 (strtoll() with base 0 in its src/misc/param.cc), and ignores
most unknown words. Values whose mistakes NCCL itself reports, such as unknown algorithms, are any `text`
here.

A check is a key of NAMED, words such as `A|B|C`, or `LOW..HIGH` for a whole number. Either limit may be left
out.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Mapping, Sequence

from ...model import schema
from ...model.record import regex
from ...model.schema import Form

#: A leading 0 would make it octal to strtoll(), which is never meant
_NUMBER = regex(r"-?(?:0x[0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19})\Z", re.ASCII)
_ANY = regex("")
#: The range of strtoll()
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

#: NCCL copies a value into 1024 bytes and silently truncates a longer one (setEnvFile)
LONGEST = 1023
#: One line of printable ASCII. Blanks at its ends would be part of the value.
PRINTABLE = regex(r"(?:[!-~](?:[ -~]*[!-~])?)?\Z", re.ASCII)

#: The most HCAs that NCCL uses (MAX_IB_DEVS in its src/transport/net_ib)
MAX_HCAS = 32
#: Names without comma and colon, which would end them in a list. The kernel has 15 characters for an
#: interface (IFNAMSIZ) and 63 for an RDMA device (IB_DEVICE_NAME_MAX), as has NCCL.
_NIC, _HCA = r"[A-Za-z0-9_.@-]{1,15}", r"[A-Za-z0-9_.-]{1,63}"
NIC, HCA = regex(rf"{_NIC}\Z", re.ASCII), regex(rf"{_HCA}\Z", re.ASCII)
#: In :port[:rail[:plane]] the port may be empty if a rail follows
_PLACE = "[0-9]{1,3}"
_PLACES = f"(?::{_PLACE}|:(?:{_PLACE})?(?::{_PLACE}){{1,2}})?"

_LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE", "ALL")
_SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY",
    "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip


def check(name: str) -> Form:
    """The check of a variable, by its name in the table."""
    if name in NAMED:
        return NAMED[name]
    low, dots, high = name.partition("..")
    return _whole(low, high) if dots else schema.one_of(*name.split("|"))


def _whole(low: str, high: str) -> Form:
    """A whole number in decimal, so that two declarations of 0x6a and 106 can agree."""
    description = f"a whole number{f' of {low} or more' if low else ''}, without a unit"
    if high:
        description = "0 or 1" if (low, high) == ("0", "1") else f"a whole number from {low} to {high}"

    def read(text: str) -> str:
        if not int(low or _INT64_MIN) <= int(text, 0) <= int(high or _INT64_MAX):
            raise ValueError
        return str(int(text, 0))

    return Form(_NUMBER, description, read)


def _some_of(words: Sequence[str]) -> Form:
    word = "|".join(words)
    return Form(
        regex(rf"\^?(?:{word})(?:,(?:{word}))*\Z", re.ASCII | re.IGNORECASE),
        f"one or more of {', '.join(words)} with commas, or ^ and those to leave out",
        str.upper,
    )


def _listed(description: str, name: str, most: int = LONGEST) -> Form:
    """A list of names or prefixes; ^ before it means all others, = means whole names."""

    def read(text: str) -> str:
        entries = text.lstrip("^=").split(",")
        if not len({*entries}) == len(entries) <= most:
            raise ValueError
        return text

    return Form(
        regex(rf"\^?=?{name}(?:,{name})*\Z", re.ASCII),
        f"{description} with commas; behind = whole names, behind ^ all but those",
        read,
    )


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


NAMED: Mapping[str, Form] = {
    "text": Form(_ANY, "a line of text"),
    "levels": _some_of(_LEVELS),
    "subsystems": _some_of(_SUBSYSTEMS),
    "nics": _listed("interfaces, or the beginnings of their names,", _NIC),
    "devices": _listed("devices, each maybe with :port,", f"{_HCA}(?::{_PLACE})?"),
    "hcas": _listed(
        f"at most {MAX_HCAS} RDMA devices, each maybe with :port or :port:rail:plane,",
        f"{_HCA}{_PLACES}",
        MAX_HCAS,
    ),
    "network": Form(_ANY, "a network such as 192.0.2.0/24 or 2001:db8::/64", _network),
}
