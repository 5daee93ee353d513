# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a sysctl.d line as the kernel's own parsers read it: what a file of /proc/sys shows after it
was written there, or that the write is refused. Pure text functions.

Numbers: kernel/sysctl.c, proc_get_long() and its strtoul_lenient() with base 0 (lib/kstrtox.c:
_parse_integer_fixup_radix), which proc_dointvec and its sisters share (minmax, douintvec, doulongvec,
dobool, do_static_key, jiffies). A leading 0 is octal, 0x hexadecimal, and the words of kstrtobool() are
refused: those belong to module parameters and files of sysfs. Lists of numbers: proc_do_large_bitmap() in
the same file.
"""

from __future__ import annotations

import re

from ..model.errors import DeclarationError
from ..model.record import regex
from ..model.values import number_ranges, tokens
from . import sysctl_d, sysctl_keys

#: proc_dostring() and parsers of their own: a text that looks like a number is none
STRINGS = frozenset(
    {
        "kernel.core_pattern",
        "kernel.domainname",
        "kernel.hostname",
        "kernel.hotplug",
        "kernel.modprobe",
        "kernel.poweroff_cmd",
        "net.core.default_qdisc",
        "net.ipv4.tcp_congestion_control",
        "net.ipv4.tcp_fastopen_key",
    }
)

#: proc_do_large_bitmap(): lists such as 1,5-9, with the number below which all members are. Ports have 16
#: bits (net/ipv4/sysctl_net_ipv4.c); CPUs are at most 8192 (arch/x86/Kconfig: NR_CPUS_RANGE_END).
LISTS = {"net.ipv4.ip_local_reserved_ports": 1 << 16, "kernel.watchdog_cpumask": 1 << 13}

#: bitmap_parse(): hexadecimal masks (net/core/sysctl_net_core.c)
MASKS = frozenset({"net.core.flow_limit_cpu_bitmap", "net.core.rps_default_mask"})
_MASK = regex(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{1,8})*\Z", re.ASCII)

#: Least and greatest of a range (net/ipv4/sysctl_net_ipv4.c: ipv4_local_port_range)
_ASCENDING = frozenset({"net.ipv4.ip_local_port_range"})

#: What ends a number (proc_wspace_sep). str.split() would also split at blanks that the kernel refuses.
_BLANKS = " \t\n"
_SEPARATOR = regex(f"[{_BLANKS}]+")

#: Without -0, which proc_dointvec takes for 0 and proc_doulongvec_minmax passes over: no certain number
_NUMBER = regex(
    r"(-(?!0+\Z)(?!0[xX]0+\Z))?(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))\Z",
    re.ASCII,
)
#: TMPBUFLEN is 22: a number of 21 characters or more is refused, as more might follow
_LONGEST = 20
#: unsigned long of the 64-bit machines this is for
_ULONG_MAX = (1 << 64) - 1

#: Spellings of a switch that people write and kstrtobool() takes, and no parser of sysctls
_SWITCHES = {"y": 1, "yes": 1, "t": 1, "true": 1, "on": 1, "n": 0, "no": 0, "f": 0, "false": 0, "off": 0}
#: What looks like a number and is not spelled as the kernel prints it
_ODD_NUMBER = regex(r"[+-]?0[0-9]+\Z|[+-]?0[xX][0-9a-fA-F]+\Z|\+[0-9]+\Z|-0\Z", re.ASCII)


def number(word: str) -> int | None:
    """One number as proc_get_long() reads it; None where it is refused."""
    match = _NUMBER.match(word) if len(word) <= _LONGEST else None
    if match is None:
        return None
    if match.group("hex"):
        value = int(match.group("hex"), 16)
    else:
        value = int(match.group("octal") or match.group("decimal"), 8 if match.group("octal") else 10)
    if value > _ULONG_MAX:
        return None
    return -value if word.startswith("-") else value


def shown(key: str, text: str, like: str | None = None) -> str | None:
    """Text that the kernel shows of one written to the file of a key; None where it refuses the text.

    like: a value of this key that the kernel takes, which shows whether it holds numbers or words; None for
    numbers.
    """
    if key in LISTS:
        return _list(text, LISTS[key])
    if key in MASKS:
        return text.strip(_BLANKS) if _MASK.match(text.strip(_BLANKS)) else None
    if key in STRINGS or (like is not None and _numbers(like) is None):
        return " ".join(tokens(text))
    return _numbers(text)


def _numbers(text: str) -> str | None:
    numbers = [number(word) for word in _SEPARATOR.split(text.strip(_BLANKS))]
    return None if None in numbers else " ".join(str(one) for one in numbers)


def _list(text: str, end: int) -> str | None:
    """An empty text clears the list; one comma may follow the last member."""
    text = text.strip(_BLANKS)
    if not text:
        return ""
    members = []
    for part in (text[:-1] if text.endswith(",") else text).split(","):
        first, dash, last = part.partition("-")
        low = number(first)
        high = number(last) if dash else low
        if low is None or high is None or not 0 <= low <= high < end:
            return None
        members.append(f"{low}-{high}" if dash else f"{low}")
    spans = number_ranges(",".join(members)) or ()
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def require(key: str, text: str | None, like: str | None = None, release: str = "") -> None:
    """Raises DeclarationError for a value that the kernel refuses, or takes a part of. like: the present
    value, which shows how many numbers a file has. release: of the kernel. Without both, none was asked."""
    if text is None or key in STRINGS or key in MASKS:
        return
    if key in LISTS:
        if _list(text, LISTS[key]) is None:
            raise DeclarationError(f"must be numbers and ranges below {LISTS[key]}, got {text!r}")
        return
    range_ = sysctl_keys.span(sysctl_d.slashed(key), release)
    like = like if like is None else " ".join(tokens(like))
    present = _integers(like) if like is not None else None
    if present is None and (like is not None or range_ is None):
        return  # words, or nothing is known
    given = _integers(text)
    if given is None:
        shown = f", as the present {like!r}" if present else ""
        raise DeclarationError(f"must be {_count(present)}{shown}, got {text!r}")
    if present and len(given) != len(present):
        raise DeclarationError(f"must be {_count(present)}, as the present {like!r}, got {text!r}")
    if key in _ASCENDING and given != sorted(given):
        raise DeclarationError(f"the first number must not be greater than the second, got {text!r}")
    least, most = range_ or (-_ULONG_MAX, _ULONG_MAX)
    for one in given:
        if not least <= one <= most:
            raise DeclarationError(f"must be from {least} to {most}, got {one}")


def _count(present: list[int] | None) -> str:
    return "a number" if not present or len(present) == 1 else f"{len(present)} numbers"


def _integers(text: str) -> list[int] | None:
    """The numbers of a text that is nothing else; None if there is another word, or none at all."""
    words = _SEPARATOR.split(text.strip(_BLANKS))
    numbers = [number(word) for word in words]
    found = [one for one in numbers if one is not None]
    return found if len(found) == len(words) else None


def check(key: str, text: str) -> None:
    """Raises DeclarationError for a declared text that the kernel refuses or reads as another number."""
    if key in STRINGS or key in MASKS:
        return
    if text.lower() in _SWITCHES:
        raise DeclarationError(
            f"{key}: {text!r} is refused by the kernel (EINVAL), which takes numbers for switches here: "
            f"write {_SWITCHES[text.lower()]}"
        )
    for word in re.split(r"[ \t,]|(?<=[0-9a-fA-F])-", text):
        if _ODD_NUMBER.match(word):
            meant = number(word)
            read = (
                "refuses it (EINVAL)"
                if meant is None
                else f"reads it as {meant} (0 is octal, 0x hexadecimal)"
            )
            raise DeclarationError(
                f"{key}: {word!r} is not a plain decimal number, and the kernel {read}: write it in decimal "
                "digits without a plus sign or 0 before them"
            )
