# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Session stacks of PAM services, and the ways through them, by the rules of pam.d(5), read in the source of
Linux-PAM (libpam/pam_handlers.c, pam_dispatch.c and pam_misc.c).

The value that a module returns is not known here, so that each value it could return is a way. Lines whose
meaning differs between versions of Linux-PAM are a HostError with their place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple

#: The first that has a service's file counts; the third is SUSE's (_PAM_VENDORDIR)
FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d")
#: Used by services without any line of a type (PAM_DEFAULT_SERVICE)
OTHER = "other"
#: PAM_SUBSTACK_MAX_LEVEL of pam_private.h
_DEPTH = 16
#: Four times the longest stack seen (a desktop's, with its includes). Files that include each other twice at
#: each of 16 levels are millions of lines.
_MOST_STEPS = 256
#: Linux-PAM before 1.6 cuts longer lines at its buffer's end (BUF_SIZE)
_LONGEST = 1023

_BLANKS = " \n\t"
_SESSION, _ANY = "session", ""
_TYPES = ("auth", _SESSION, "account", "password")

#: Names of return values in the order in which a control is searched for them (pam_tokens.h). PAM_INCOMPLETE
#: ends the call instead.
_RETURNS = (
    "success", "open_err", "symbol_err", "service_err", "system_err", "buf_err", "perm_denied", "auth_err",
    "cred_insufficient", "authinfo_unavail", "user_unknown", "maxtries", "new_authtok_reqd", "acct_expired",
    "session_err", "cred_unavail", "cred_expired", "cred_err", "no_module_data", "conv_err", "authtok_err",
    "authtok_recover_err", "authtok_lock_busy", "authtok_disable_aging", "try_again", "ignore", "abort",
    "authtok_expired", "module_unknown", "bad_item", "conv_again", "incomplete",
)  # fmt: skip
_DEFAULT = "default"
_ACTIONS = ("ignore", "ok", "done", "bad", "die", "reset")
_GOOD = {"success": "ok", "new_authtok_reqd": "ok"}
_CONTROLS: Mapping[str, Mapping[str, str]] = {
    "required": {**_GOOD, "ignore": "ignore", _DEFAULT: "bad"},
    "requisite": {**_GOOD, "ignore": "ignore", _DEFAULT: "die"},
    "optional": {**_GOOD, _DEFAULT: "ignore"},
    "sufficient": {"success": "done", "new_authtok_reqd": "done", _DEFAULT: "ignore"},
}
#: Modules that return the same to every session, and what is returned for a line that PAM cannot use
_CONSTANT = {"pam_permit.so": "success", "pam_deny.so": "session_err"}
_UNUSABLE, _UNKNOWN = "perm_denied", "module_unknown"

#: Where modules are, by architecture and distribution (DEFAULT_MODULE_PATH)
_MODULES = ("/lib*/security", "/lib/*/security", "/usr/lib*/security", "/usr/lib/*/security")


def module_file(host: Host, name: str) -> str:
    """The file of a module; empty if there is none. Raises HostError."""
    return next((path for folder in _MODULES for path in host.matching(f"{folder}/{name}")), "")


class Outcome(NamedTuple):
    """Result of a step. good: it returned PAM_SUCCESS. action: one of _ACTIONS, or how many steps to jump."""

    good: bool
    action: str


class Step(NamedTuple):
    """A line of a stack. module: its file's name, empty for a line that PAM cannot use. missing: that file
    does not exist. level: how many substacks it is in. outcomes: none for the begin of a substack."""

    where: str
    module: str
    missing: bool
    arguments: tuple[str, ...]
    level: int
    outcomes: tuple[Outcome, ...]


class Call(NamedTuple):
    """How sessions that open have called a module last: a step, or none and the line that skipped it."""

    step: Step | None
    skipped_by: Step | None = None


class Stacks:
    """The services of a machine. Each file is read once, as many include the same."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: dict[str, tuple[tuple[str, list[str]], ...]] = {}
        self._outcomes: dict[tuple[str, str], tuple[Outcome, ...]] = {}

    def path_of(self, service: str) -> str:
        """The file of a service; empty if it has none. Raises HostError."""
        host = self._host
        if service.startswith("/"):
            return service if host.exists(service) else ""
        paths = (f"{folder}/{service}" for folder in FOLDERS)
        return next((path for path in paths if path in self._files or host.exists(path)), "")

    def sessions(self, service: str) -> tuple[Step, ...]:
        """Steps that open a session of a service, or of all services that say nothing. Raises HostError."""
        for name in (service, OTHER):
            path = self.path_of(name)
            found: list[Step] = []
            if path:
                self._read((path,), _ANY, 0, found)
            if found:
                return tuple(found)
        return ()

    def includes(self, path: str) -> set[str]:
        """The files that a file includes. Raises HostError."""
        names = set()
        for _where, words in self._lines(path):
            first, second, third = [*words, "", ""][:3]
            if first.lower() == "@include":
                names.add(second)
            elif second.lower() in ("include", "substack"):
                names.add(third)
        return {self.path_of(name) for name in names if name} - {""}

    def _lines(self, path: str) -> tuple[tuple[str, list[str]], ...]:
        """Place and words of each line. Raises HostError."""
        if path not in self._files:
            lines = _lines(self._host.text(path), path)
            self._files[path] = tuple((f"{path}:{number}", _tokens(line)) for number, line in lines)
        return self._files[path]

    def _read(self, files: tuple[str, ...], asked: str, level: int, found: list[Step]) -> None:
        """asked: the only type that counts, whose lines beside it are mistakes."""
        for where, words in self._lines(files[-1]):
            kind = words[0].lower()
            control = words[1].lower() if len(words) > 1 else ""
            if kind == "@include":
                self._read(self._included(files, where, words[1:]), asked, level, found)
                continue
            kind = kind[1:] if kind.startswith("-") else kind
            if kind not in _TYPES and asked:
                raise _unusual(where, f"begins with {words[0]!r}, which PAM does not know")
            if kind != _SESSION:
                continue
            if control == "substack":
                found.append(Step(where, "", False, (), level, ()))
            if control in ("include", "substack"):
                inside = level + (control == "substack")
                self._read(self._included(files, where, words[2:]), _SESSION, inside, found)
            else:
                found.append(self._step(where, words[1:], level))
            if len(found) > _MOST_STEPS:
                raise _unusual(where, f"more than {_MOST_STEPS} lines, with all that is included")

    def _step(self, where: str, words: Sequence[str], level: int) -> Step:
        """words: control, module and arguments."""
        if len(words) < 2:
            return Step(where, "", False, (), level, self._results("".join(words), _UNUSABLE))
        module = words[1].rpartition("/")[2]
        missing = not self._exists(words[1])
        returned = _UNKNOWN if missing else _CONSTANT.get(module, "")
        return Step(where, module, missing, tuple(words[2:]), level, self._results(words[0], returned))

    def _results(self, control: str, returned: str) -> tuple[Outcome, ...]:
        key = (control, returned)
        if key not in self._outcomes:
            self._outcomes[key] = _outcomes(_actions(control), returned)
        return self._outcomes[key]

    def _included(self, files: tuple[str, ...], where: str, words: Sequence[str]) -> tuple[str, ...]:
        """The file that a line includes, behind those that it is included by."""
        path = self.path_of(words[0]) if words else ""
        if not path:
            raise _unusual(where, f"includes {words[0] if words else 'a file'}, which does not exist")
        if path in files:
            raise _unusual(where, f"includes {path}, which includes this line")
        if len(files) >= _DEPTH:
            raise _unusual(where, f"is included by {_DEPTH} files in each other")
        return (*files, path)

    def _exists(self, module: str) -> bool:
        """True if the module's file is there. Of a tree without any folder of modules nothing is known."""
        if "$ISA" in module:
            return True
        if module.startswith("/"):
            return self._host.exists(module)
        return not self._folders or any(module in names for names in self._folders)

    @cached_property
    def _folders(self) -> list[frozenset[str]]:
        """The modules of each folder."""
        host = self._host
        return [frozenset(host.names(path)) for one in _MODULES for path in host.matching(one)]


def _unusual(where: str, words: str) -> HostError:
    return HostError("follow", where, None, f"{words}: how PAM goes on here is not known")


def _lines(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Each line with its number, in one piece with those that continue it. Raises HostError."""
    first, begun = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        code, comment, _rest = line.partition("#")
        if not code and not begun:
            continue
        where = f"{path}:{number}"
        if not (code.isprintable() or code.replace("\t", " ").isprintable()):
            raise _unusual(where, "has a control character")
        if begun and not code.strip(_BLANKS):
            raise _unusual(where, "ends a line that was to be continued here")
        if not comment and code.rstrip(_BLANKS).endswith("\\"):
            if not code.endswith("\\"):
                raise _unusual(where, "has blanks behind a backslash at its end")
            first, begun = first or number, f"{begun}{code[:-1]} "
            continue
        whole = f"{begun}{code}"
        if len(whole.encode("utf-8", "surrogateescape")) > _LONGEST:
            raise _unusual(where, f"is longer than {_LONGEST} characters")
        if whole.strip(_BLANKS):
            yield first or number, whole
        first, begun = 0, ""
    if begun:
        raise _unusual(f"{path}:{first}", "is to be continued, and is the last line")


def _tokens(line: str) -> list[str]:
    """Words; all between brackets is one, without them."""
    words = []
    rest = line.lstrip(_BLANKS)
    while rest:
        if rest.startswith("["):
            end, word = 1, ""
            while end < len(rest) and rest[end] != "]":
                end += rest.startswith("\\]", end)
                word += rest[end]
                end += 1
        else:
            end = next((at for at, sign in enumerate(rest) if sign in _BLANKS), len(rest))
            word = rest[:end]
        words.append(word)
        rest = rest[end + 1 :].lstrip(_BLANKS)
    return words


def _actions(control: str) -> Mapping[str, str]:
    """Action for each return value. A control that PAM cannot read makes each one bad."""
    usual = _CONTROLS.get(control.lower())
    if usual is not None:
        return {name: usual.get(name, usual[_DEFAULT]) for name in _RETURNS}
    actions: dict[str, str] = {}
    rest = control.lstrip()
    while rest:
        name = next((one for one in (*_RETURNS, _DEFAULT) if rest.startswith(one)), "")
        rest = rest[len(name) :].lstrip()
        action = _action(rest[1:].lstrip()) if name and rest.startswith("=") else ""
        if not action:
            return dict.fromkeys(_RETURNS, "bad")
        rest = rest[1:].lstrip()[len(action) :].lstrip()
        if name == _DEFAULT:
            actions = {one: actions.get(one, action) for one in _RETURNS}
        else:
            actions[name] = action
    return {name: actions.get(name, "bad") for name in _RETURNS}


def _action(text: str) -> str:
    """The action that a text begins with; empty if it is none, as a jump over nothing."""
    name = next((one for one in _ACTIONS if text.startswith(one)), "")
    if name:
        return name
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return digits if digits.strip("0") else ""


def _outcomes(actions: Mapping[str, str], returned: str) -> tuple[Outcome, ...]:
    names = (returned,) if returned else _RETURNS[:-1]
    return tuple(dict.fromkeys(Outcome(name == _RETURNS[0], actions[name]) for name in names))


# -- the ways through a stack ----------------------------------------------------------------


class _State(NamedTuple):
    """impression: 0 at the beginning, 1 once a step was good, -1 once one was bad. good: the value to return
    is PAM_SUCCESS. saved: both, as they were at the begin of each level. last: index of the step that called
    the module; -1 if none did."""

    impression: int
    good: bool
    saved: tuple[tuple[int, bool], ...]
    last: int


def ways(steps: Sequence[Step], module: str) -> set[Call]:
    """How the sessions that can open have called a module last; empty if none can open."""
    states: list[dict[_State, Step | None]] = [{} for _step in (*steps, None)]
    states[0][_State(0, False, ((0, False),), -1)] = None
    calls = [step.module == module and not step.missing for step in steps]
    for index, step in enumerate(steps):
        for state, skipped_by in states[index].items():
            state = _entered(state, step.level)
            if calls[index]:
                state, skipped_by = state._replace(last=index), None
            if not step.outcomes:
                states[index + 1].setdefault(state, skipped_by)
            for outcome in step.outcomes:
                after, target = _followed(steps, index, state, outcome)
                passed = state.last < 0 and any(calls[index + 1 : target])
                states[target].setdefault(after, step if passed else skipped_by)
    ends = [(state, by) for state, by in states[-1].items() if state.good and state.impression > 0]
    return {Call(steps[state.last]) if state.last >= 0 else Call(None, by) for state, by in ends}


def _entered(state: _State, level: int) -> _State:
    """The state in a level, whose begin is kept."""
    if level < len(state.saved):
        return state._replace(saved=state.saved[: level + 1])
    return state._replace(saved=(*state.saved, (state.impression, state.good)))


def _followed(steps: Sequence[Step], index: int, state: _State, outcome: Outcome) -> tuple[_State, int]:
    """The state after an outcome, and the index of the step that follows."""
    good, action = outcome
    if action == "reset":
        impression, well = state.saved[-1]
        return state._replace(impression=impression, good=well), index + 1
    if action in ("ok", "done"):
        if state.impression == 0 or (state.impression > 0 and state.good):
            state = state._replace(impression=1, good=good)
        return state, _end(steps, index) if action == "done" and state.impression > 0 else index + 1
    if action in ("bad", "die"):
        bad = state._replace(impression=-1, good=False)
        return bad, _end(steps, index) if action == "die" else index + 1
    if action == "ignore":
        return state, index + 1
    target, whole = _jumped(steps, index, int(action))
    return state if whole else state._replace(impression=-1, good=False), target


def _end(steps: Sequence[Step], index: int) -> int:
    """The step behind the stack, or behind the substack."""
    level = steps[index].level
    return next((at for at in range(index + 1, len(steps)) if steps[at].level < level), len(steps))


def _jumped(steps: Sequence[Step], index: int, number: int) -> tuple[int, bool]:
    """The step behind a jump, and whether there were as many to jump over. A substack is one."""
    level, at = steps[index].level, index
    while number and at + 1 < len(steps) and steps[at + 1].level >= level:
        at += 1
        while at + 1 < len(steps) and steps[at + 1].level > level:
            at += 1
        number -= 1
    return at + 1, not number
