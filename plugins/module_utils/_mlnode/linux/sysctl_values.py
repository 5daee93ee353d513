# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effect of a text written to a file of /proc/sys: the file's text afterwards, a refusal by the kernel, or
unknown. Pure text functions; sysctl_handlers has the handlers of the keys.

Numbers: kernel/sysctl.c, proc_get_long() and its strtoul_lenient() with base 0 (lib/kstrtox.c:
_parse_integer_fixup_radix), which proc_dointvec and its variants share (minmax, douintvec, dou8vec,
doulongvec, dobool, do_static_key, jiffies). A leading 0 is octal, 0x hexadecimal. They read as many numbers
as the file has, and ignore the text after a blank behind the last one: `10 # ten` is 10. A vector takes the
numbers before a mistake although the write fails. The words of kstrtobool() are refused: these belong to
module parameters and files of sysfs. Texts: _proc_do_string(); lists of numbers: proc_do_large_bitmap(), in
the same file.

The rest of a text goes to the kernel in a second write, which it ignores while kernel.sysctl_writes_strict
is 1, the default.
"""

from __future__ import annotations

import re
from typing import Callable, Mapping, Sequence

from ..model import values
from ..model.errors import DeclarationError
from ..model.record import NamedTuple, regex
from . import sysctl_d, sysctl_handlers
from .sysctl_d import Effect
from .sysctl_handlers import Handler

#: isspace() of the kernel (lib/ctype.c), which includes the byte A0
_SPACES = " \t\n\v\f\r\udca0"
#: Signs that end a number (proc_wspace_sep)
_BLANKS = " \t\n"

#: TMPBUFLEN is 22: a number of 21 characters or more is refused, as more might follow
_LONGEST = 20
#: unsigned long of 64-bit machines, the only ones supported
_ULONG_MAX = (1 << 64) - 1
#: A page with an end: the kernel reads no more at once (4 KiB is the smallest page)
_PAGE = 4094

_NUMBER = regex(
    r"(?P<minus>-)?(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))", re.ASCII
)
#: `%08x-%08x-%08x-%08x`, once or twice (net/ipv4/sysctl_net_ipv4.c: proc_tcp_fastopen_key)
_KEY = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{8}){3}"
_FASTOPEN = regex(rf"{_KEY}(?:,{_KEY})?\Z", re.ASCII)

#: Names of modules that the kernel loads for a word; a blank makes it an unknown name
_NAMES = frozenset({"net/core/default_qdisc", "net/ipv4/tcp_congestion_control"})

#: Versions from which a number above ULONG_MAX is refused and no longer cut (7f2923c4f73f), and vectors
#: of unsigned long stop at a number below 0 (1622ed7d0743)
_OVERFLOW, _NEGATIVE = (5, 1), (6, 2)

#: Common spellings of a switch, which kstrtobool() takes and no parser of sysctls
_SWITCHES = {"y": 1, "yes": 1, "t": 1, "true": 1, "on": 1, "n": 0, "no": 0, "f": 0, "false": 0, "off": 0}
#: Numbers in a different spelling from the kernel's output
_ODD_NUMBER = regex(r"[+-]?0[0-9]+\Z|[+-]?0[xX][0-9a-fA-F]+\Z|\+[0-9]+\Z|-0\Z", re.ASCII)


_REFUSED = Effect(refused=True)


class _UnknownError(Exception):
    """The effect is unknown, with the reason."""


class _RefusedError(Exception):
    """EINVAL."""


class _Vector(NamedTuple):
    """Numbers of a text. mistake: the write fails after them."""

    numbers: list[int]
    mistake: bool


def effect(
    key: str, text: str, *, before: str | None = None, like: str | None = None, release: str = ""
) -> Effect:
    """Effect of writing a text, and the line end that systemd-sysctl adds, to the file of a key.

    before: the file's text before the write, if known. like: a value of this key that the kernel is known to
    take, such as the present one: the same text is taken again. release: of the kernel, empty if unknown.
    """
    path = sysctl_d.slashed(key)
    try:
        return Effect(_shown(path, sysctl_handlers.handler(path, release), text, before, release))
    except _RefusedError:
        return _REFUSED
    except _UnknownError as error:
        if like is not None and values.tokens(text) == values.tokens(like):
            return Effect(like)
        return Effect(unknown=str(error))


def writes(like: str | None = None, release: str = "") -> sysctl_d.Writes:
    """effect() as a function for the lines of sysctl.d."""
    return lambda key, text, before: effect(key, text, before=before, like=like, release=release)


def _shown(path: str, handler: Handler, text: str, before: str | None, release: str) -> str:
    if handler.form == "numbers":
        return _numbers(path, handler, text, before, release)
    if handler.form == "text":
        return _text(path, handler.size, text)
    if handler.form == "list":
        return _members(path, handler.size, text)
    if handler.form == "mask":
        raise _UnknownError("it depends on the CPUs of the machine")
    if handler.form == "word":
        return _word(path, text, release)
    raise _UnknownError("the rules of this key are not known")


# -- numbers -------------------------------------------------------------------------------


def number(word: str) -> int | None:
    """One number as proc_get_long() reads it; None if it is refused or uncertain: -0 is 0 to an int, and
    unsigned numbers refuse it."""
    try:
        value, rest = _first_number(word, "", "7.0")
    except (_RefusedError, _UnknownError):
        return None
    return None if rest or (value == 0 and word.startswith("-")) else value


def _first_number(text: str, ends: str, release: str) -> tuple[int, str]:
    """proc_get_long(): the number at the start of a text, and the remaining text."""
    match = _NUMBER.match(text)
    if match is None or match.end() > _LONGEST:
        raise _RefusedError
    if match.end() < len(text) and text[match.end()] not in ends:
        raise _RefusedError
    base = 16 if match.group("hex") else 8 if match.group("octal") else 10
    value = int(match.group("hex") or match.group("octal") or match.group("decimal"), base)
    if value > _ULONG_MAX:
        if not _is_from(_OVERFLOW, release):
            raise _UnknownError("kernels before 5.1 cut such a number")
        raise _RefusedError
    return (-value if match.group("minus") else value), text[match.end() :]


def _require_page(text: str) -> None:
    if len(text) > _PAGE:
        raise _UnknownError("the text is longer than a page")


def _is_from(version: tuple[int, int], release: str) -> bool:
    kernel = values.kernel_version(release)
    return kernel is not None and kernel >= version


def _numbers(path: str, handler: Handler, text: str, before: str | None, release: str) -> str:
    _require_page(text)
    vector = _vector(path, handler, text, release)
    if vector.mistake and (handler.whole or not vector.numbers):
        raise _RefusedError
    numbers = vector.numbers
    if len(numbers) < handler.size:
        numbers = _completed(numbers, handler.size, before)
    rule = _RULES.get(handler.rule)
    if rule is not None:
        numbers = rule(numbers, before)
    return " ".join(map(str, numbers))


def _vector(path: str, handler: Handler, text: str, release: str) -> _Vector:
    """__do_proc_dointvec() and its variants."""
    left = text + "\n"
    numbers: list[int] = []
    passes_over = path in sysctl_handlers.LONG_VECTORS and not _is_from(_NEGATIVE, release)
    while len(numbers) < handler.size:
        left = left.lstrip(_SPACES)
        if not left:
            break
        try:
            value, rest = _first_number(left, _BLANKS, release)
            _require_within(handler, value, negative=left.startswith("-"))
        except _RefusedError:
            if passes_over:
                raise _UnknownError("kernels before 6.2 pass over a number that they refuse") from None
            return _Vector(numbers, mistake=True)
        left = rest
        numbers.append(value)
    return _Vector(numbers, mistake=not numbers)


def _require_within(handler: Handler, value: int, *, negative: bool) -> None:
    least, most = handler.possible
    if not least <= value <= most:
        raise _RefusedError
    if handler.taken is None:
        raise _UnknownError("the kernel asks for more than a number in a range")
    least, most = handler.taken
    if not least <= value <= most or value % handler.step:
        raise _UnknownError("it depends on the version, the build or the machine of the kernel")
    if value == 0 and negative and least >= 0:
        raise _UnknownError("-0 is 0 to an int, and unsigned numbers refuse it")


def _completed(numbers: Sequence[int], count: int, before: str | None) -> list[int]:
    """The numbers of a vector after a write of the first ones."""
    old = values.integers(before or "")
    if old is None or len(old) != count:
        raise _UnknownError(f"it sets {len(numbers)} of {count} numbers, and the others stay as they were")
    return [*numbers, *old[len(numbers) :]]


def _ports(numbers: list[int], _before: str | None) -> list[int]:
    """ipv4_local_port_range(): above the ports of root, which another key moves (1024 at first)."""
    if numbers[0] > numbers[1]:
        raise _RefusedError
    if numbers[0] < 1024:
        raise _UnknownError("the ports must be above net.ipv4.ip_unprivileged_port_start")
    return numbers


def _groups(numbers: list[int], _before: str | None) -> list[int]:
    """ipv4_ping_group_range(): a range that ends before it begins has no group, and is shown as 1 0."""
    return numbers if numbers[0] <= numbers[1] else [1, 0]


def _rounded(numbers: list[int], _before: str | None) -> list[int]:
    """rps_sock_flow_sysctl(): roundup_pow_of_two()"""
    return [1 << (numbers[0] - 1).bit_length()] if numbers[0] else numbers


def _switch(numbers: list[int], _before: str | None) -> list[int]:
    """brnf_sysctl_call_tables()"""
    return [int(numbers[0] != 0)]


def _power(numbers: list[int], _before: str | None) -> list[int]:
    """flow_limit_table_len_sysctl(): is_power_of_2()"""
    if numbers[0] <= 0 or numbers[0] & (numbers[0] - 1):
        raise _RefusedError
    return numbers


def _semaphores(numbers: list[int], before: str | None) -> list[int]:
    """proc_ipc_sem_dointvec(): an error in the fourth number leaves it unchanged. Its maximum is 32768, or
    more with ipcmni_extend on the command line."""
    if numbers[3] > 32768:
        raise _UnknownError("the greatest number of sets depends on the kernel command line")
    if numbers[3] >= 0:
        return numbers
    return _completed(numbers[:3], 4, before)


_RULES: Mapping[str, Callable[[list[int], str | None], list[int]]] = {
    "groups": _groups,
    "ports": _ports,
    "power": _power,
    "rounded": _rounded,
    "semaphores": _semaphores,
    "switch": _switch,
}


# -- texts ---------------------------------------------------------------------------------


def _text(path: str, most: int, text: str) -> str:
    """_proc_do_string(): up to a line end, cut at the length of the buffer."""
    if path == "kernel/core_pattern" and text[:1] in ("|", "@"):
        # Pipes and sockets have rules that changed in 6.16 (fs/coredump.c)
        raise _UnknownError("the kernel asks for more than a text")
    kept = text.partition("\n")[0].partition("\0")[0].encode("utf-8", "surrogateescape")[:most]
    return kept.decode("utf-8", "surrogateescape")


def _members(path: str, end: int, text: str) -> str:
    shown = _list(text, end)
    if shown is None:
        raise _RefusedError
    _require_page(text)
    if path == "kernel/watchdog_cpumask":
        raise _UnknownError("CPUs that are not possible here are left out")
    return shown


def _list(text: str, end: int) -> str | None:
    """proc_do_large_bitmap(): an empty text clears the list; one comma may follow the last member. Blanks are
    refused. A line end separates members as well, and no text of sysctl.d continues after a NUL."""
    text = re.sub("\n+", ",", text.strip("\n"))
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
    spans = values.number_ranges(",".join(members)) or ()
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def _word(path: str, text: str, release: str) -> str:
    if path == "net/ipv4/tcp_fastopen_key":
        if _FASTOPEN.match(text) and ("," not in text or _is_from((5, 3), release)):
            return text.lower()
    elif path in _NAMES and len(text.split()) != 1:
        raise _RefusedError
    raise _UnknownError("it depends on the kernel and its modules")


# -- declarations --------------------------------------------------------------------------


def require(key: str, text: str | None, like: str | None = None, release: str = "") -> None:
    """Raises DeclarationError for a value that the kernel refuses, takes in part, or shows differently.

    like: the present value, which shows how many numbers a file has. release: of the kernel. Without both,
    the check is for any kernel."""
    if text is None:
        return
    path = sysctl_d.slashed(key)
    handler = sysctl_handlers.handler(path, release)
    if handler.form == "list":
        if _list(text, handler.size) is None:
            raise DeclarationError(f"must be numbers and ranges below {handler.size}, got {text!r}")
        return
    if handler.form in ("text", "word", "mask"):
        return
    like = like if like is None else " ".join(values.tokens(like))
    present = _integers(like) if like is not None else None
    if present is None and (like is not None or not handler.form):
        return  # words, or an unknown key
    _require_numbers(handler, text, like, present)
    outcome = effect(key, text, like=like, release=release)
    if outcome.refused:
        raise DeclarationError(f"the kernel refuses {text!r} (EINVAL){_RULE_WORDS.get(handler.rule, '')}")
    if outcome.text is not None and not values.same(outcome.text, text):
        raise DeclarationError(f"the kernel makes {outcome.text} of {text!r}: declare {outcome.text}")


#: Conditions of the kernel in addition to the range
_RULE_WORDS = {
    "ports": ": the first number must not be greater than the second",
    "power": ": it must be a power of two",
}


def _require_numbers(handler: Handler, text: str, like: str | None, present: list[int] | None) -> None:
    given = _integers(text)
    count = len(present) if present else handler.size
    shown = f", as the present {like!r}" if present else ""
    if given is None or (len(given) != count and (present or handler.form)):
        numbers = "a number" if count == 1 else f"{count} numbers"
        raise DeclarationError(f"must be {numbers}{shown}, got {text!r}")
    least, most = handler.possible
    for value in given:
        if not least <= value <= most:
            raise DeclarationError(f"must be from {least} to {most}, got {value}")


def _integers(text: str) -> list[int] | None:
    """The numbers of a text; None if it has another word, or no number at all."""
    words = re.split(f"[{_BLANKS}]+", text.strip(_BLANKS))
    numbers = [number(word) for word in words]
    integers = [integer for integer in numbers if integer is not None]
    return integers if len(integers) == len(words) else None


def is_list(key: str) -> bool:
    """True for a key that holds a list of numbers and ranges."""
    return sysctl_handlers.handler(sysctl_d.slashed(key)).form == "list"


def check(key: str, text: str) -> None:
    """Raises DeclarationError for a declared text that the kernel refuses or reads as another number."""
    if sysctl_handlers.handler(sysctl_d.slashed(key)).form in ("text", "word", "mask"):
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
