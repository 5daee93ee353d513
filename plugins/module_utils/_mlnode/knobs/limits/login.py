# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons why logins do not get the limits of /etc/security: an sshd that does not use PAM, a session stack
of sshd or login without pam_limits(8), or `ulimit` in a start file of a shell (bash(1), FILES).

Stacks are searched, not evaluated: the answer of a module, and with it the lines that are skipped, is
unknown.
"""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from .pam import MODULE, SERVICES, Limits, Line
from .parse import UNLIMITED, Amount, Limit, is_within

#: The first that exists counts; SUSE's packages install the second
_CONFIGS = ("/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config")
#: The service that sshd asks for, if no PAMServiceName says otherwise
_SSHD = "sshd"
#: SERVCONF_MAX_DEPTH of OpenSSH's servconf.c
_DEPTH = 16

_KEYWORD = regex(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*?)\s*\Z", re.DOTALL)
#: The logins with inspected stacks, and the source of limits without pam_limits
_LOGINS = {
    _SSHD: ("SSH", "logins over SSH get what sshd has"),
    "login": ("consoles", "logins get what init has"),
}
#: The file of services without their own (PAM_DEFAULT_SERVICE)
_OTHER = "other"
#: A control ends the stack here if the module succeeds (pam.d(5))
_ENDS = regex(r"sufficient\Z|\[.*=\s*done\b", re.IGNORECASE)
#: The number of lines that a control may jump over (pam.d(5))
_JUMP = regex(r"=\s*([0-9]{1,4})(?![0-9])", re.ASCII)
_BRACKETS = regex(r"\[[^\]]*\]")

#: Read by each login shell, or by each interactive one. Users' own files are not read, as they may be on a
#: server that does not answer. SUSE's packages use /usr/etc, unless a file in /etc hides theirs.
_PROFILES = ("profile", "profile.d/*.sh", "bash.bashrc", "bashrc", "bash/bashrc")
_TOPS = ("/etc", "/usr/etc")
#: Option of ulimit → limit. Memory is in units of 1024 bytes (bash: builtins/ulimit.def).
_OPTIONS = {"n": "nofile", "l": "memlock", "s": "stack", "c": "core", "u": "nproc"}
_ULIMIT_UNIT = 1024
_NUMBER = regex(r"[0-9]{1,19}\Z", re.ASCII)
#: The hard limit, as people query it; only the shell knows the output of other commands
_ASKED = regex(r"""["']?(?:\$\(|`)\s*ulimit\s+-H[A-Za-z]\s*[)`]["']?""")
_OUTPUT = regex(r"\$\([^()]*\)|`[^`]*`")
#: Words that may precede a command (bash(1), RESERVED WORDS)
_BEFORE = frozenset({"!", "builtin", "command", "do", "elif", "else", "if", "then", "time", "until", "while"})


class Overridden(NamedTuple):
    """Reason why some logins get less than declared. whom: these logins, in a word. unknown: it is not
    certain.
    """

    whom: str
    words: str
    where: str
    unknown: bool = False


class Ulimit(NamedTuple):
    """One limit that a shell sets: soft, hard or both. value: as written there."""

    name: str
    soft: bool
    hard: bool
    value: str
    where: str
    text: str


class Logins(NamedTuple):
    """causes: why logins over SSH, or at a console, get none of these limits."""

    causes: tuple[Overridden, ...]
    ulimits: tuple[Ulimit, ...]


def load(host: Host) -> Logins:
    """The files that decide the limits of logins. Raises HostError."""
    ulimits = tuple(ulimit for path in _profiles(host) for ulimit in _ulimits(host.text(path), path))
    causes = (sshd(host), _in_stack(host, "login", path_of(host, "login")))
    return Logins(tuple(cause for cause in causes if cause), ulimits)


def overridden(pam: Limits, logins: Logins, domain: str, limit: Limit, want: Amount) -> Overridden | None:
    """Reason why some logins of a domain get less than wanted; a certain reason comes first."""
    causes = [
        *(_by_line(line, want) for line in pam.closer(domain, limit.name)),
        *logins.causes,
        *(_by_ulimit(ulimit, limit, want) for ulimit in logins.ulimits if ulimit.name == limit.name),
    ]
    known = [cause for cause in causes if cause is not None]
    return next((cause for cause in known if not cause.unknown), next(iter(known), None))


def _by_line(line: Line, want: Amount) -> Overridden | None:
    if not line.item:
        return Overridden(line.domain, f"{line.where} takes all limits from {line.domain}", line.where)
    if line.amount is None:
        return None
    number = None if line.amount == UNLIMITED else int(line.amount)
    if not is_less(number, want, soft=line.type in ("soft", "-"), hard=line.type in ("hard", "-")):
        return None
    return Overridden(line.domain, f"{line.where} gives less to {line.domain}: {line.text}", line.where)


def is_less(number: int | None, want: Amount, *, soft: bool, hard: bool) -> bool:
    """True if a number is less than the wanted soft or hard limit. A lower hard limit also lowers the soft
    one.
    """
    return (soft and not is_within(want.soft, number)) or (hard and not is_within(want.hard, number))


# -- shells --------------------------------------------------------------------------------


def _profiles(host: Host) -> list[str]:
    """Start files of shells. Raises HostError."""
    paths: dict[str, str] = {}
    for pattern in _PROFILES:
        for top in _TOPS:
            for path in host.matching(f"{top}/{pattern}"):
                paths.setdefault(path[len(top) :], path)
    return [*paths.values()]


def _by_ulimit(ulimit: Ulimit, limit: Limit, want: Amount) -> Overridden | None:
    reason = f"{ulimit.where} has shells do `{ulimit.text}`"
    if ulimit.value == "hard" or (ulimit.value == "soft" and not ulimit.hard):
        return None
    if ulimit.value == "soft":
        less = want.soft != want.hard
    elif ulimit.value == UNLIMITED:
        less = False
    elif _NUMBER.match(ulimit.value):
        number = int(ulimit.value) * (_ULIMIT_UNIT if limit.in_bytes else 1)
        less = is_less(number, want, soft=ulimit.soft, hard=ulimit.hard)
    else:
        return Overridden("shells", f"{reason}, which only the shell can evaluate", ulimit.where, True)
    return Overridden("shells", reason, ulimit.where) if less else None


def _ulimits(text: str, path: str) -> Iterator[Ulimit]:
    for number, line in enumerate(text.split("\n"), start=1):
        code = re.sub(r"(?:\A|(?<=\s))#.*", "", line)
        code = _OUTPUT.sub("$(...)", _ASKED.sub("hard", code))
        for piece in re.split(r"[;&|{}]|(?<!\$)\(|(?<!\.)\)", code):
            words = piece.split()
            if "ulimit" in words and _BEFORE.issuperset(words[: words.index("ulimit")]):
                yield from _given(words[words.index("ulimit") + 1 :], f"{path}:{number}")


def _given(words: Sequence[str], where: str) -> Iterator[Ulimit]:
    """Limits of the words of a ulimit command.

    Examples: `-Sn 1024`, `-S -n 1024`, `-n1024 -u 4096`. Without S and H it sets both limits.
    """
    end = next((at for at, word in enumerate(words) if "<" in word or ">" in word), len(words))
    arguments = [word.strip("\"'") for word in words[:end]]
    text = " ".join(["ulimit", *arguments])
    letters = "".join(word[1:] for word in arguments if re.match(r"-[A-Za-z]", word))
    soft, hard = "S" in letters or "H" not in letters, "H" in letters or "S" not in letters
    option = ""
    for word in arguments:
        match = re.match(r"-([A-Za-z]+)(.*)", word, re.DOTALL)
        value = match.group(2) if match else word
        if match:
            option = next((letter for letter in match.group(1) if letter not in "SH"), "")
        if value and option in _OPTIONS:
            yield Ulimit(_OPTIONS[option], soft, hard, value, where, text)


# -- sshd ----------------------------------------------------------------------------------


def sshd(host: Host) -> Overridden | None:
    """Reason why logins over SSH get none of these limits; None if there is none, or no sshd. Raises
    HostError.
    """
    config = next((path for path in _CONFIGS if host.exists(path)), "")
    service = _SSHD
    if config:
        keywords = list(_keywords(host, (config,)))
        uses = next((item for item in keywords if item[0] == "usepam"), None)
        if uses is None:
            return _without(_SSHD, f"{config} does not say UsePAM yes, and sshd's own default is no", config)
        if uses[1].lower() != "yes":
            return _without(_SSHD, f"{uses[2]} says UsePAM {uses[1]}", uses[2])
        service = next((value for name, value, _where in keywords if name == "pamservicename"), service)
    return _in_stack(host, _SSHD, path_of(host, service) or (path_of(host, _OTHER) if config else ""))


def _without(login: str, reason: str, where: str) -> Overridden:
    whom, result = _LOGINS[login]
    return Overridden(whom, f"{reason}: {result}", where)


def _keywords(host: Host, files: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Keyword, value and place of each line before the first Match.

    UsePAM and PAMServiceName are not allowed after it, and the first value counts (sshd_config(5)). A Match
    block ends with its file. files: the file, preceded by the files that include it.
    """
    path = files[-1]
    for number, line in enumerate(host.text(path).split("\n"), start=1):
        match = _KEYWORD.match(line)
        if match is None:
            continue
        name, value = match.group(1).lower(), match.group(2).partition(" #")[0].strip().strip('"')
        if name == "match":
            return
        if name != "include":
            yield name, value, f"{path}:{number}"
            continue
        for pattern in value.split():
            whole = pattern.strip('"') if pattern.startswith(("/", '"/')) else f"/etc/ssh/{pattern}"
            for included in host.matching(whole):
                if included not in files and len(files) < _DEPTH:
                    yield from _keywords(host, (*files, included))


# -- stacks of PAM -------------------------------------------------------------------------


def path_of(host: Host, service: str) -> str:
    """The file of a service; empty if it has none. Raises HostError."""
    paths = [service] if service.startswith("/") else [f"{folder}/{service}" for folder in SERVICES]
    return next((path for path in paths if host.exists(path)), "")


def _in_stack(host: Host, login: str, path: str) -> Overridden | None:
    """Reason why sessions of this file get none of these limits; None without a file."""
    if not path:
        return None
    whom, result = _LOGINS[login]
    try:
        lines = list(_session_lines(host, path, ()))
    except HostError as error:
        return Overridden(whom, str(error), error.path, unknown=True)
    positions = [at for at, line in enumerate(lines) if line.module == MODULE]
    if not positions:
        return _without(login, f"{path} and its includes do not use {MODULE} for sessions", path)
    plain = [at for at in positions if "conf=" not in lines[at].text]
    if not plain:
        other = lines[positions[0]]
        return _without(login, f"{other.file} has {MODULE} read another file: {other.text}", other.file)
    passes = [_passing(lines, at) for at in plain]
    if None in passes:
        return None
    (line, verb) = next(filter(None, passes))
    words = f"{line.file} can {verb} {MODULE}, by the line {line.text}: {result}; move {MODULE} before it"
    return Overridden(whom, words, line.file, unknown=True)


def _passing(lines: Sequence[_SessionLine], at: int) -> tuple[_SessionLine, str] | None:
    """A line that may keep PAM from reaching this one, and how; None if there is none."""
    for before, line in enumerate(lines[:at]):
        if _ENDS.match(line.control):
            return line, "end before"
        if _last_skipped(lines, before) >= at:
            return line, "jump over"
    return None


def _last_skipped(lines: Sequence[_SessionLine], at: int) -> int:
    """The last line that this one may jump over, or itself if it jumps over none. A substack counts as one
    line, and no jump leaves it (libpam/pam_dispatch.c).
    """
    level, last = lines[at].level, at
    for _line in range(max(map(int, _JUMP.findall(lines[at].control)), default=0)):
        if last + 1 >= len(lines) or lines[last + 1].level < level:
            break
        last += 1
        while last + 1 < len(lines) and lines[last + 1].level > level:
            last += 1
    return last


class _SessionLine(NamedTuple):
    """A line of a stack that opens sessions. module: its file name; empty for a substack, whose lines follow.
    level: number of enclosing substacks.
    """

    file: str
    text: str
    control: str
    module: str
    level: int = 0


def _session_lines(host: Host, path: str, files: tuple[str, ...], level: int = 0) -> Iterator[_SessionLine]:
    """Lines of a file, with the lines of included files in their places.

    files: the files that include it. Raises HostError.
    """
    if path in files or len(files) > _DEPTH:
        raise HostError("follow", path, None, "it includes itself")
    for line in host.text(path).replace("\\\n", " ").split("\n"):
        text = " ".join(line.partition("#")[0].split())
        words = _BRACKETS.sub("[]", text).split()
        kind, control, name = [*words, "", "", ""][:3]
        if kind.lower() == "@include":
            name = control
        elif kind.lower().lstrip("-") != "session":
            continue
        elif control.lower() not in ("include", "substack"):
            brackets = _BRACKETS.search(text)
            control = brackets.group() if brackets and control == "[]" else control
            yield _SessionLine(path, text, control, name.rpartition("/")[2], level)
            continue
        below = level
        if control.lower() == "substack":
            yield _SessionLine(path, text, control, "", level)
            below += 1
        included = path_of(host, name)
        if not included:
            raise HostError("follow", path, None, f"it includes {name or 'nothing'}, which does not exist")
        yield from _session_lines(host, included, (*files, path), below)
