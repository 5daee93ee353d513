# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's reading of values that it does not define, and the values to write instead.

Numbers go through strtoll() with base 0 (src/misc/param.cc: ncclLoadParam), which stops without an error at
the first other character. Levels are words since 2.4, and numbers of older versions are still translated
(src/graph/paths.cc: ncclGetLevel).
"""

from __future__ import annotations

from ...model.record import regex
from . import names, values

#: Distances of versions before 2.4, by number; larger numbers mean the last (levelsOldToNew)
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
LEVELS = ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL")
#: Distances that NCCL accepts, the nearest first (src/graph/topo.cc: topoPathTypeStr); the guide lacks some
DISTANCES = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
#: Compared with strcmp(): NCCL does not accept lower case (src/misc/socket.cc,
#: src/transport/net_ib/connect.cc)
_EXACT = ("NCCL_SOCKET_FAMILY", "NCCL_IB_ADDR_FAMILY")

SHARP_LEVEL = "SHARP_COLL_LOG_LEVEL"
#: Words by number; libsharp reads only numbers (sharp_coll_log_level in its sharp_coll.conf)
_SHARP_WORDS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")

_DIGITS = regex(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_INT64 = 2**63
#: A size as people write it, which NCCL cannot read
_SIZE = regex(r"([0-9]{1,9})\s*([kKmMgG])(?:i?[bB])?\Z")
_SHIFT = {"k": 10, "m": 20, "g": 30}
_OCTAL = regex(r"0+([1-9][0-9]*)\Z")
_YES, _NO = (
    ("yes", "true", "on", "y", "enable", "enabled"),
    ("no", "false", "off", "n", "disable", "disabled"),
)


def strtoll(text: str) -> int | None:
    """Value of strtoll(text, NULL, 0); 0 for a text without a number, None for one out of its range."""
    match = _DIGITS.match(text)
    if match is None:
        return 0
    sign, digits = match.groups()
    octal = digits[0] == "0" and digits[1:2] not in ("x", "X")
    number = int(digits, 8) if octal else int(digits, 0)
    number = -number if sign == "-" else number
    return number if -_INT64 <= number < _INT64 else None


def is_number(name: str) -> bool:
    """True for a variable that NCCL reads with strtoll()."""
    known = names.KNOWN.get(name)
    return known is not None and ".." in known.check and name != SHARP_LEVEL


def misread(name: str, text: str) -> str:
    """NCCL's reading of a value; empty if it is taken as written, or if NCCL itself reports a mistake."""
    known = names.KNOWN.get(name)
    if known is None or not text or _is_taken(name, text):
        return ""
    if name in LEVELS:
        old = _old_level(text)
        return (
            f"NCCL takes it for the old number of {old}" if old else "NCCL ignores it: no word that it knows"
        )
    if name == SHARP_LEVEL:
        return "libsharp takes a number"
    if not is_number(name):
        return "NCCL ignores it, or takes it for something else"
    number = strtoll(text)
    if number is None:
        return "NCCL takes its default: it is out of range"
    return f"NCCL reads {number}"


def instead(name: str, text: str) -> str:
    """The intended value; empty if it is not clear."""
    if name not in names.KNOWN or _is_taken(name, text):
        return ""
    # Quotes and comments belong to a shell; for NCCL they are part of the value.
    word = text.partition("#")[0].strip().strip("\"'")
    if name in (*LEVELS, *_EXACT):
        intended_value = _old_level(word) or word.upper()
    elif name == SHARP_LEVEL:
        intended_value = str(_SHARP_WORDS.index(word.upper())) if word.upper() in _SHARP_WORDS else ""
    else:
        intended_value = _number(word) if is_number(name) else word
    return intended_value if intended_value and _is_taken(name, intended_value) else ""


def hint(name: str, text: str) -> str:
    """Reason and remedy for a rejected value, for error messages; empty if there is none."""
    why, better = misread(name, text), instead(name, text)
    return "; ".join([*([why] if why else []), *([f"write {better}"] if better else [])])


def expected(name: str) -> str:
    """Values of a known variable, for error messages."""
    return values.check(names.KNOWN[name].check).words


def _is_taken(name: str, text: str) -> bool:
    """True if NCCL reads a value as it is written."""
    if name in LEVELS:
        return text in DISTANCES
    try:
        spelled = values.check(names.KNOWN[name].check).spelled(text)
    except ValueError:
        return False
    return name not in _EXACT or spelled == text


def level(text: str) -> str:
    """Word of a level, which may be written as an old number."""
    return _old_level(text) or text


def _old_level(text: str) -> str:
    """Word for a number of the versions before 2.4; empty for anything else."""
    if not "0" <= text[:1] <= "9":
        return ""
    number = strtoll(text)
    return OLD_LEVELS[min(number, len(OLD_LEVELS) - 1)] if number is not None else OLD_LEVELS[-1]


def _number(word: str) -> str:
    size, octal = _SIZE.match(word), _OCTAL.match(word)
    if size:
        return str(int(size[1]) << _SHIFT[size[2].lower()])
    if octal:
        return octal[1]
    if word.lower() in _YES:
        return "1"
    return "0" if word.lower() in _NO else word
