# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters of the next deployment of ostree, and the tool that sets them.

Sources: bootc-loader-entries-set-options-for-source(8) and loader_entries.rs of bootc, rpm-ostree(1) and
rpmostreed-transaction-types.cxx of rpm-ostree, ostree-admin-instutil(1). `ostree admin kargs edit-in-place`
adds words only, and cannot take them away.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Container, Mapping, Sequence

from ..host import image_mode, places
from ..host.host import Host
from ..host.image_mode import OSTREE_STAGED
from ..linux import systemd_boot
from ..model import strict_json
from ..model.errors import HostError, StoreError, UnansweredError
from ..model.record import regex
from . import bls, cmdline, staged
from . import grub as menu_grub
from .grub import Entry

BOOTC, _RPM_OSTREE, _OSTREE = "bootc", "rpm-ostree", "ostree"
_SET_OPTIONS = ("bootc", "loader-entries", "set-options-for-source")
_SET_KARGS = ("ostree", "admin", "instutil", "set-kargs")
#: bootc refuses an older ostree, which loses the sources of a staged deployment
_BOOTC_NEEDS = (2026, 1)
_VERSION = regex(r"(?m)^ *Version: *'?([0-9]{4})\.([0-9]{1,4})")

#: mlnode's name as a source of bootc, and the lines of all sources in an entry
_SOURCE = "mlnode"
_SOURCE_LINE = regex(r"x-options-source-([A-Za-z0-9_-]+)[ \t]+(\S.*)")
#: Words that an image brings, and bootc keeps in the entry
IMAGE_WORDS = "/usr/lib/bootc/kargs.d/*.toml"

#: Name → words to give, for each declaration
FOLDER = "/etc/mlnode/kernel-arguments.d"
#: Name → the words before the first run, and those given since: two after a killed run
RECORD = "/var/lib/mlnode/kernel-arguments.json"

#: Services whose sandbox has no writable /sysroot and no further namespaces, which bootc and ostree need
_SANDBOXED = (*places.AGENT_UNITS[:2], places.PULL_SERVICE)
#: Words of rpm-ostree that another client's change goes on (rpmostreed-sysroot.cxx)
_BUSY = "Transaction in progress"
#: Seconds for a deployment: hard links of all files of the system, on a slow disk
_SECONDS = 300.0

Words = Sequence[str]


def path_of(name: str) -> str:
    """The file with the words of one declaration."""
    return f"{FOLDER}/{name}.json"


def content(changes: Mapping[str, Words]) -> bytes:
    return (json.dumps({name: [*words] for name, words in changes.items()}, indent=1) + "\n").encode("ascii")


def given(host: Host, name: str, parameter: str) -> tuple[str, ...] | None:
    """The words that a declaration's file gives to a parameter; None if it does not have it. Raises
    HostError."""
    words = _stored(host, path_of(name)).get(parameter)
    return None if words is None else tuple(words)


# -- reading -------------------------------------------------------------------------------


def tool(host: Host) -> str:
    """The tool that can give words; empty if there is none. Raises HostError."""
    return host.once("tool for kernel arguments", lambda: _tool(host), of_files=True)


def _tool(host: Host) -> str:
    other = next((name for name in (_RPM_OSTREE, _OSTREE) if host.exists(f"/usr/bin/{name}")), "")
    if other and host.exists(RECORD):  # words that bootc would not take away
        return other
    return BOOTC if host.exists(f"/usr/bin/{BOOTC}") and _has_sources(host) else other


def _has_sources(host: Host) -> bool:
    version = (
        _VERSION.search(host.run(("ostree", "--version")).out) if host.exists("/usr/bin/ostree") else None
    )
    if version and (int(version.group(1)), int(version.group(2))) < _BOOTC_NEEDS:
        return False
    return host.run((*_SET_OPTIONS, "--help")).rc == 0


def lacks(host: Host, entry: Entry | None) -> str:
    """Why no tool can give words to the next deployment; empty if one can. Raises HostError."""
    name, system = tool(host), image_mode.ostree(host)
    line = host.text(cmdline.COMMAND_LINE)
    if not name or (cmdline.parameter(line, "composefs") and not cmdline.parameter(line, "ostree")):
        return f"{system.name} makes the entries of the boot loader: {system.kernel_arguments}"
    if entry is None:
        return f"no entry of {bls.ENTRIES} starts a deployment; is /boot mounted?"
    if host.exists(OSTREE_STAGED) and (name == _OSTREE or entry.where != OSTREE_STAGED):
        # Without words in its record, bootc takes it for a deployment with no words at all, not even root=.
        fault = "would unlock the" if staged.is_locked(host) else "gives no words to this"
        return f"{name} {fault} staged deployment ({OSTREE_STAGED}): reboot first"
    if entry.where != OSTREE_STAGED and _is_other(name, line, entry):
        return f"{entry.where} starts a deployment that {name} does not change: reboot first"
    # Tools add words last: after two dashes, init gets them. ostree takes any dash for an option.
    astray = [word for word in entry.line.split() if word.startswith("-")]
    if astray and (name == _OSTREE or cmdline.FOR_INIT in astray):
        return f"{name} cannot add words to {entry.where} because of {astray[0]!r}"
    unit = host.text("/proc/self/cgroup").strip().rpartition("/")[2]
    if unit in _SANDBOXED:
        return f"{name} cannot deploy in the sandbox of {unit}: run the play, or mlnode apply"
    return ""


def _is_other(name: str, line: str, entry: Entry) -> bool:
    """True if a tool would change another deployment than the next one: after a rollback (bootc, which starts
    from the running one), or of another stateroot: ostree=/ostree/boot.N/STATEROOT/CHECKSUM/SERIAL."""
    present, following = cmdline.parameter(line, "ostree"), entry.parameter("ostree")[0]
    if name == _RPM_OSTREE:
        return [word.split("/")[3:4] for word in present] != [word.split("/")[3:4] for word in following]
    return name == BOOTC and present != following


def next_entry(host: Host) -> Entry | None:
    """The deployment that is booted next; the other one is kept for a rollback. Raises HostError."""
    quotes = cmdline.KERNEL_QUOTES if systemd_boot.is_started(host) else cmdline.LOADER_QUOTES
    waiting = staged.entry(host, quotes)
    path = "" if waiting else bls.of_ostree(host)
    return bls.entries(host, [path], quotes)[0] if path else waiting


def _own(host: Host, entry: Entry) -> list[str]:
    """The words of mlnode's source in the next deployment, as bootc knows them. Raises HostError."""
    texts = (words for _place, name, words in _sources(host, entry) if name == _SOURCE)
    return _split(next(texts, ""), entry.quotes)


def _left_by_bootc(host: Host, entry: Entry) -> list[str]:
    """Those that another tool has to take away, because bootc cannot any more; it leaves their source."""
    words = _split(entry.line, entry.quotes)
    return [word for word in _own(host, entry) if word in words] if words else []


def _sources(host: Host, entry: Entry) -> list[tuple[str, str, str]]:
    """Place, name and words of bootc's sources in the next deployment. Raises HostError."""
    if entry.where == OSTREE_STAGED:
        return [(OSTREE_STAGED, name, words) for name, words in staged.sources(host)]
    path = entry.where.rpartition(":")[0] or entry.where
    matches = ((at, _SOURCE_LINE.match(line)) for at, line in enumerate(host.text(path).splitlines(), 1))
    return [(f"{path}:{at}", match.group(1), match.group(2)) for at, match in matches if match]


def setter(host: Host, entry: Entry, name: str) -> tuple[str, bool]:
    """The place that sets another's words of a parameter, and True if the tool leaves them. Raises
    HostError."""
    words, hint, since = _raw(entry, name), "", ""
    if tool(host) == BOOTC:
        theirs = _without(words, _own(host, entry))
        hint = "; bootc leaves it: change it there, or with rpm-ostree kargs --delete"
        since = "set at the installation or by hand"
    else:
        known = _record(host).get(cmdline.key_of(name))
        theirs = [] if known and words in known["given"] else words
        since = f"set by another after mlnode gave {cmdline.shown(known['given'][-1])}" if known else ""
    if not theirs:
        return entry.where, False
    for path in host.matching(IMAGE_WORDS):
        for number, line in menu_grub.naming(host.text(path), name):
            if any(word in line for word in theirs):
                return f"{path}:{number} (of the image{hint})", bool(hint)
    for where, source, text in _sources(host, entry):
        if source != _SOURCE and {*theirs} & {*_split(text, entry.quotes)}:
            return f"{where} (of {source}{hint})", bool(hint)
    return f"{entry.where} ({since}{hint})" if since else entry.where, bool(hint)


# -- giving --------------------------------------------------------------------------------


def is_owed(host: Host) -> bool:
    """True if a run was killed between the files and the tool's work. Raises HostError."""
    entry, wanted = next_entry(host), _wanted(host)
    if entry is not None and tool(host) == BOOTC:
        return any(_key(word) not in wanted for word in _own(host, entry))
    if entry is not None and any(_key(word) not in wanted for word in _left_by_bootc(host, entry)):
        return True
    return any(key not in wanted or len(known["given"]) > 1 for key, known in _record(host).items())


def give(host: Host) -> None:
    """Give the next deployment the words of all declarations, and put back the words before those that have
    left. Raises HostError."""
    if not host.exists(image_mode.OSTREE_BOOTED):  # an image build
        return
    entry = next_entry(host)
    if entry is not None and tool(host) == BOOTC:
        _give_source(host, entry)
    else:
        _give_words(host, entry or Entry(bls.ENTRIES, ""))


def _give_source(host: Host, entry: Entry) -> None:
    """As a source of bootc, which adds words, and takes away only those it has added."""
    own, wanted = _own(host, entry), _wanted(host)
    options: list[str] = []
    after: dict[str, list[str]] = {}
    for key in dict.fromkeys([*map(_key, own), *wanted]):
        mine = [word for word in own if _key(word) == key]
        theirs = _without(_raw(entry, key), mine)
        if key not in wanted:
            after[key] = theirs
        elif theirs:  # ours would only be a second one
            options += mine
        else:
            after[key] = _quoted(wanted[key], entry)
            options += after[key]
    if options != own or _differing(entry, after):
        _refuse_shared(host, entry, own, options)
        more = ("--options", " ".join(options)) if options else ()
        _run(host, entry, (*_SET_OPTIONS, "--source", _SOURCE, *more), after)


def _refuse_shared(host: Host, entry: Entry, own: Words, options: Words) -> None:
    """bootc compares texts only: it would take the same word of a hand or another source away, too."""
    words = _split(entry.line, entry.quotes)
    others = [word for _at, name, text in _sources(host, entry) if name != _SOURCE for word in text.split()]
    for word in own:
        if words.count(word) > 1 or (word in others and word not in options):
            reason = f"it would take {word} of another away, too; remove that word there first"
            raise HostError("set kernel arguments with", BOOTC, None, reason)


def _give_words(host: Host, entry: Entry) -> None:
    """As words of the whole command line, with a record of those before."""
    record, wanted, mine = _record(host), _wanted(host), _left_by_bootc(host, entry)
    after: dict[str, list[str]] = {}
    for key in {**record, **dict.fromkeys(map(_key, mine)), **wanted}:
        now = _raw(entry, key)
        known = record.setdefault(key, {"before": _without(now, mine), "given": [now]})
        if now not in (known["before"], *known["given"]):  # set by another since
            known["before"] = now
        after[key] = _quoted(wanted[key], entry) if key in wanted else known["before"]
        known["given"] = [*(words for words in known["given"] if words != after[key]), after[key]]
    if _differing(entry, after):
        _store(host, record)
        try:
            _run(host, entry, _command(host, entry, after), after)
        except HostError:
            # Whatever the tool has left there is not another's word.
            left = next_entry(host) or entry
            for key in after:
                record[key]["given"].append(_raw(left, key))
            _store(host, record)
            raise
    _store(host, {key: {**record[key], "given": [after[key]]} for key in wanted})


def _command(host: Host, entry: Entry, after: Mapping[str, Words]) -> tuple[str, ...]:
    differing = _differing(entry, after)
    new = [word for key in differing for word in after[key]]
    if tool(host) == _RPM_OSTREE:
        away = [f"--delete={word}" for key in differing for word in _raw(entry, key)]
        return ("rpm-ostree", "kargs", *away, *(f"--append={word}" for word in new))
    return (*_SET_KARGS, *new, *_others(entry, differing))


def _run(host: Host, entry: Entry, command: Sequence[str], after: Mapping[str, Words]) -> None:
    """Run the tool, and read back its work. Raises HostError with its words."""
    reason, said = lacks(host, entry), ""
    if not reason:
        reason, said = _failure(host, command)
    if not reason:
        left = next_entry(host) or entry
        wrong = _differing(left, after)
        lost = _without(_others(entry, {*after, "ostree"}), _others(left, {*after, "ostree"}))
        if wrong:
            reason = f"it did not give the words of {wrong[0]}, and said: {said or 'nothing'}"
        elif lost:
            reason = f"it took {lost[0]} away, too: give the next boot this word again before you reboot"
    if reason:
        raise HostError("set kernel arguments with", command[0], None, reason)


def _failure(host: Host, command: Sequence[str]) -> tuple[str, str]:
    """Why the tool failed, empty if it did not; and its last words. Raises HostError."""
    try:
        done = host.run(command, _SECONDS)
    except UnansweredError as error:
        if command[0] == _RPM_OSTREE:  # its daemon goes on without the client
            with suppress(HostError):
                host.run((_RPM_OSTREE, "cancel"))
        return f"{error.kernel}: another program may hold the lock of /sysroot; wait, and run it again", ""
    lines = [line.strip() for line in (done.err.strip() or done.out).splitlines() if line.strip()]
    said = "; ".join(lines[-2:])
    if not done.rc:
        return "", said
    advice = "; wait until rpm-ostree status says idle, and run it again" if _BUSY in said else ""
    return f"{said or f'exit status {done.rc}'}{advice}", said


# -- words ---------------------------------------------------------------------------------


def _key(word: str) -> str:
    return cmdline.Word(word, 0).key


def _split(line: str, quotes: str) -> list[str]:
    return [word.text for word in cmdline.split(line, quotes)]


def _raw(entry: Entry, name: str) -> list[str]:
    return [word.text for word in cmdline.split(entry.line, entry.quotes) if word.key == cmdline.key_of(name)]


def _quoted(words: Words, entry: Entry) -> list[str]:
    """Words as they stand in the entry."""
    (line,) = cmdline.merged([""], {_key(word): [word] for word in words}, entry.quotes)
    return _split(line, entry.quotes)


def _others(entry: Entry, keys: Container[str]) -> list[str]:
    """The words of all other parameters."""
    return [word for word in _split(entry.line, entry.quotes) if _key(word) not in keys]


def _without(words: Words, others: Words) -> list[str]:
    left = [*words]
    for word in others:
        if word in left:
            left.remove(word)
    return left


def _differing(entry: Entry, after: Mapping[str, Words]) -> list[str]:
    """The keys whose words a kernel would not get so."""
    lines = {key: " ".join(words) for key, words in after.items()}
    return [
        key
        for key, line in lines.items()
        if entry.parameter(key)[0] != cmdline.parameter(line, key, entry.quotes)
    ]


# -- files ---------------------------------------------------------------------------------


def _wanted(host: Host) -> dict[str, list[str]]:
    """Key → words of all declarations. Raises HostError."""
    files = (_stored(host, path) for path in host.matching(path_of("*")))
    return {cmdline.key_of(name): words for stored in files for name, words in stored.items()}


def _stored(host: Host, path: str) -> dict[str, Any]:
    stored = _loaded(host, path)
    return _checked(path, stored, [*stored.values()])


def _record(host: Host) -> dict[str, Any]:
    record = _loaded(host, RECORD)
    try:
        lists = [words for known in record.values() for words in (known["before"], *known["given"])]
    except (KeyError, TypeError) as error:
        raise _damaged(RECORD) from error
    if not all(known["given"] for known in record.values()):
        raise _damaged(RECORD)
    return _checked(RECORD, record, lists)


def _checked(path: str, stored: dict[str, Any], lists: Sequence[Any]) -> dict[str, Any]:
    if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists):
        raise _damaged(path)
    return stored


def _loaded(host: Host, path: str) -> dict[str, Any]:
    data = host.content(path)
    try:
        loaded = {} if data is None else strict_json.loads(data, path)
    except StoreError as error:
        raise _damaged(path) from error
    if not isinstance(loaded, dict):
        raise _damaged(path)
    return loaded


def _damaged(path: str) -> HostError:
    return HostError("read", path, None, "it is damaged: remove it, and declare the parameters again")


def _store(host: Host, record: Mapping[str, Any]) -> None:
    if record:
        host.write_file(RECORD, (json.dumps(record) + "\n").encode("ascii"))
    else:
        host.remove_file(RECORD)
