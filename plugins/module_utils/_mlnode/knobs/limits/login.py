# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes that keep the limits of /etc/security from logins or lower them after: an sshd that does not use
PAM, a service whose session stack skips pam_limits(8), and `ulimit` in the files that shells read when they
start (bash(1), FILES)."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...linux import pam_stack
from ...linux.pam_stack import Stacks, Step
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from .pam import MODULE, Limits, Line
from .parse import UNLIMITED, Amount, Limit, is_within

#: The first that exists counts; the second is where SUSE has what its packages bring
_CONFIGS = ("/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config")
#: The service that sshd asks for, if no PAMServiceName says otherwise
_SSHD = "sshd"
#: SERVCONF_MAX_DEPTH of OpenSSH's servconf.c
_DEPTH = 16

_KEYWORD = regex(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*?)\s*\Z", re.DOTALL)
_MEND = f"move {MODULE} before that line"
#: What packages and editors leave beside a service's file; no program asks for such a service
_LEFT_OVER = regex(r"~\Z|\.(?:bak|dpkg-[a-z]+|old|orig|rpm(?:new|save|orig)|save|swp|ucf-[a-z]+)\Z")

#: Read by each shell that a login starts, or by each interactive one. Not those of users, which may be on a
#: server that does not answer. SUSE has what its packages bring in /usr/etc, if no file of /etc hides it.
_PROFILES = ("profile", "profile.d/*.sh", "bash.bashrc", "bashrc", "bash/bashrc")
_TOPS = ("/etc", "/usr/etc")
#: Option of ulimit → limit. Memory is in units of 1024 bytes (bash: builtins/ulimit.def).
_OPTIONS = {"n": "nofile", "l": "memlock", "s": "stack", "c": "core", "u": "nproc"}
_ULIMIT_UNIT = 1024
_NUMBER = regex(r"[0-9]{1,19}\Z", re.ASCII)
#: The hard limit, as people ask for it; any other output of a command is known to the shell alone
_ASKED = regex(r"""["']?(?:\$\(|`)\s*ulimit\s+-H[A-Za-z]\s*[)`]["']?""")
_OUTPUT = regex(r"\$\([^()]*\)|`[^`]*`")
#: What may stand before a command (bash(1), RESERVED WORDS)
_BEFORE = frozenset({"!", "builtin", "command", "do", "elif", "else", "if", "then", "time", "until", "while"})


class Overridden(NamedTuple):
    """Reason why some logins get less than declared. whom: those, in a word. unknown: it is not certain."""

    whom: str
    words: str
    where: str
    unknown: bool = False


class Ulimit(NamedTuple):
    """One limit that a shell sets: soft, hard or both. value: as it stands there."""

    name: str
    soft: bool
    hard: bool
    value: str
    where: str
    text: str


class Logins(NamedTuple):
    """sshd: why logins over SSH get none of these limits. services: the same of all services of PAM. other:
    services whose sessions read another file instead."""

    sshd: Overridden | None
    services: tuple[Overridden, ...]
    other: tuple[str, ...]
    ulimits: tuple[Ulimit, ...]


def load(host: Host) -> Logins:
    """Raises HostError."""
    ulimits = tuple(one for path in _profiles(host) for one in _ulimits(host.text(path), path))
    services: list[Overridden] = []
    other = []
    stacks = pam_stack.Stacks(host)
    for name, steps in _services(host, stacks):
        whom = f"sessions of {name}"
        if isinstance(steps, HostError):
            services.append(Overridden(whom, str(steps), steps.path, unknown=True))
            continue
        skipped = _skipped(steps, whom, f"{whom} get less")
        services += [skipped] if skipped else []
        other += [name] if _elsewhere(steps) else []
    return Logins(sshd(host, stacks), tuple(services), tuple(other), ulimits)


def overridden(pam: Limits, logins: Logins, domain: str, limit: Limit, want: Amount) -> Overridden | None:
    """The cause of less than is wanted for some of the logins of a domain; a certain one comes first."""
    causes = [
        *(_by_line(line, want) for line in pam.closer(domain, limit.name)),
        logins.sshd,
        *logins.services,
        *(_by_ulimit(one, limit, want) for one in logins.ulimits if one.name == limit.name),
    ]
    known = [one for one in causes if one is not None]
    return next((one for one in known if not one.unknown), next(iter(known), None))


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
    """True if a number in the place of the soft or the hard limit is less than wanted. A lower hard limit
    takes the soft one down with it."""
    return (soft and not is_within(want.soft, number)) or (hard and not is_within(want.hard, number))


# -- shells --------------------------------------------------------------------------------


def _profiles(host: Host) -> list[str]:
    """Raises HostError."""
    paths: dict[str, str] = {}
    for pattern in _PROFILES:
        for top in _TOPS:
            for path in host.matching(f"{top}/{pattern}"):
                paths.setdefault(path[len(top) :], path)
    return [*paths.values()]


def _by_ulimit(one: Ulimit, limit: Limit, want: Amount) -> Overridden | None:
    reason = f"{one.where} has shells do `{one.text}`"
    if one.value == "hard" or (one.value == "soft" and not one.hard):
        return None
    if one.value == "soft":
        less = want.soft != want.hard
    elif one.value == UNLIMITED:
        less = False
    elif _NUMBER.match(one.value):
        number = int(one.value) * (_ULIMIT_UNIT if limit.in_bytes else 1)
        less = is_less(number, want, soft=one.soft, hard=one.hard)
    else:
        return Overridden("shells", f"{reason}, which only the shell can evaluate", one.where, True)
    return Overridden("shells", reason, one.where) if less else None


def _ulimits(text: str, path: str) -> Iterator[Ulimit]:
    for number, line in enumerate(text.split("\n"), start=1):
        code = re.sub(r"(?:\A|(?<=\s))#.*", "", line)
        code = _OUTPUT.sub("$(...)", _ASKED.sub("hard", code))
        for piece in re.split(r"[;&|{}]|(?<!\$)\(|(?<!\.)\)", code):
            words = piece.split()
            if "ulimit" in words and _BEFORE.issuperset(words[: words.index("ulimit")]):
                yield from _given(words[words.index("ulimit") + 1 :], f"{path}:{number}")


def _given(words: Sequence[str], where: str) -> Iterator[Ulimit]:
    """`-Sn 1024`, `-S -n 1024`, `-n1024 -u 4096`: without S and H it is both."""
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


def sshd(host: Host, stacks: Stacks) -> Overridden | None:
    """Why logins over SSH get none of these limits; nothing where no sshd is installed. Raises HostError."""
    config = next((path for path in _CONFIGS if host.exists(path)), "")
    service = _SSHD
    if config:
        keywords = list(_keywords(host, (config,)))
        uses = next((item for item in keywords if item[0] == "usepam"), None)
        if uses is None:
            return _over_ssh(f"{config} does not say UsePAM yes, and sshd's own default is no", config)
        if uses[1].lower() != "yes":
            return _over_ssh(f"{uses[2]} says UsePAM {uses[1]}", uses[2])
        service = next((value for name, value, _where in keywords if name == "pamservicename"), service)
    path = stacks.path_of(service) or (stacks.path_of(pam_stack.OTHER) if config else "")
    if not path:
        return None
    try:
        steps = stacks.sessions(service)
    except HostError as error:
        return Overridden("SSH", str(error), error.path, unknown=True)
    if not _uses(steps):
        return _over_ssh(f"{path} and what it includes do not use {MODULE} for sessions", path)
    elsewhere = _elsewhere(steps)
    if elsewhere is not None:
        where, file = elsewhere
        return _over_ssh(f"{where} has {MODULE} read another file ({file})", where)
    return _skipped(steps, "SSH", "logins over SSH get what sshd has")


def _over_ssh(reason: str, where: str) -> Overridden:
    return Overridden("SSH", f"{reason}: logins over SSH get what sshd has", where)


def _keywords(host: Host, files: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Keyword, value and place, of what stands before the first Match: UsePAM and PAMServiceName are allowed
    nowhere else, and the first value counts (sshd_config(5)). Match ends with the file in which it stands.

    files: the file, behind those that include it.
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


# -- services of PAM -------------------------------------------------------------------------


def _services(host: Host, stacks: Stacks) -> Iterator[tuple[str, tuple[Step, ...] | HostError]]:
    """Name and stack of each service that uses pam_limits, or why its stack is not known. A file that others
    include is a part of theirs. Raises HostError."""
    names = {name for folder in pam_stack.FOLDERS for name in host.names(folder)}
    paths = {name: stacks.path_of(name) for name in sorted(names) if not _LEFT_OVER.search(name)}
    included: set[str] = set()
    for path in paths.values():
        try:
            included |= stacks.includes(path) - {path}
        except HostError:
            continue  # named with its service below
    for name, path in paths.items():
        if path in included:
            continue
        try:
            steps = stacks.sessions(name)
        except HostError as error:
            if any(word in host.text(path) for word in (MODULE, "include", "substack")):
                yield name, error
            continue
        if _uses(steps):
            yield name, steps


def _uses(steps: Sequence[Step]) -> bool:
    return any(step.module == MODULE for step in steps)


def _elsewhere(steps: Sequence[Step]) -> tuple[str, str] | None:
    """Line and argument by which sessions of a stack read another file than limits.conf and limits.d."""
    called = (call.step for call in pam_stack.ways(steps, MODULE))
    found = (
        (step.where, argument)
        for step in called
        if step is not None
        for argument in step.arguments
        if argument.startswith("conf=")
    )
    return min(found, default=None)


def _skipped(steps: Sequence[Step], whom: str, result: str) -> Overridden | None:
    """The line by which sessions of a stack do without pam_limits; unknown, where some do not."""
    calls = pam_stack.ways(steps, MODULE)
    if not calls:
        where = steps[0].where
        return Overridden(
            whom, f"the session stack that begins at {where} refuses every session", where, unknown=True
        )
    lines = [(call.skipped_by.where, call.skipped_by.module) for call in calls if call.skipped_by]
    if lines:
        where, module = min(lines)
        if all(call.step is None for call in calls):
            return Overridden(whom, f"{where} skips {MODULE}: {result}; {_MEND}", where)
        words = f"{where} can skip {MODULE}, depending on what {module} returns: {result}; {_MEND}"
        return Overridden(whom, words, where, unknown=True)
    if all(call.step is not None for call in calls):
        return None
    where = next(step.where for step in steps if step.module == MODULE)
    return Overridden(whom, f"{where} names {MODULE}, whose file does not exist: {result}", where)
