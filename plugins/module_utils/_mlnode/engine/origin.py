# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of every knob and file before mlnode first dealt with it: /var/lib/mlnode/origin.json.

A knob counts from its first declaration, even if it needed no change: a later run may change it. Entries are
on disk before the first change and are never overwritten. After a killed run the next one finds the true
origin, not a half-tuned one.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from typing import Any, Collection, Iterator, Mapping

from ..host import system, trust
from ..host.host import Host
from ..model import strict_json
from ..model.errors import DamagedError, HostError, LostOriginError, MlnodeError, StoreError
from ..model.setting import KnobFile
from . import lock, origin_paths

PATH = "/var/lib/mlnode/origin.json"
#: Usually on another file system, and part of backups of /etc
COPY = "/etc/mlnode/origin.json"
FORMAT = 1

#: One entry: id, key, value (for people), and one of writes | file | module, which restore() puts back.
Entry = Mapping[str, Any]


def kernel_entry(host: Host, key: str, file: KnobFile) -> Entry:
    """A kernel file's value, and the writes that bring it back. A device's entry is valid for this boot and
    until the device is gone: its number may then belong to another device."""
    writes = [[write.path, write.value] for write in file.undo]
    entry: dict[str, Any] = {"id": f"kernel:{file.path}", "key": key, "value": file.runtime, "writes": writes}
    entry.update({name: True for name in origin_paths.FORMS if getattr(file, name)})
    return {**entry, "boot": boot_id(host), "device": file.device} if file.device else entry


def boot_id(host: Host) -> str:
    """Random id of this boot: Documentation/admin-guide/sysctl/kernel.rst, random."""
    return host.once("boot id", lambda: host.value("/proc/sys/kernel/random/boot_id").text or "")


def is_obsolete(host: Host, entry: Entry) -> bool:
    """True if the entry's device is gone, which leaves nothing to put back."""
    if "device" not in entry:
        return False
    return entry["boot"] != boot_id(host) or not host.exists(entry["device"])


def file_entry(host: Host, path: str, notify: str = "") -> Entry:
    """A file as it is now, the missing folders above it, and its reader."""
    saved = host.snapshot(path)
    entry: dict[str, Any] = {"id": f"file:{path}", "key": path, "file": path, "saved": saved}
    entry["value"] = "absent" if saved is None else "present"
    entry["folders"] = list(host.missing_folders(path))
    if notify:
        entry["notify"] = notify
    return entry


def is_closed(saved: Mapping[str, Any] | None) -> bool:
    """True for a file, as Host.snapshot() gives it, whose mode keeps others from reading it."""
    return saved is not None and "mode" in saved and not int(saved["mode"]) & stat.S_IROTH


def module_entry(name: str, stays: bool = False) -> Entry:
    """A kernel module before it is loaded. stays: only a rollback unloads it."""
    entry = {"id": f"module:{name}", "key": f"module {name}", "value": "not loaded", "module": name}
    return {**entry, "stays": True} if stays else entry


#: Content and entries of the store as last read or written. Each area of a run reads the store, which seldom
#: changes meanwhile, and its checks were a third of the run at boot.
_known: list[tuple[bytes, tuple[Entry, ...]]] = []


class _Values(Mapping[str, str]):
    """See Origin.values(). Only requested files are tested for obsolete entries: a large node has a thousand
    interrupts and queues, an area needs a few of them, and each test reads its device."""

    def __init__(self, host: Host, entries: Mapping[str, Entry]) -> None:
        self._host = host
        self._entries = entries

    def __getitem__(self, path: str) -> str:
        entry = self._entries.get(f"kernel:{path}")
        if entry is None or is_obsolete(self._host, entry):
            raise KeyError(path)
        return str(entry["value"])

    def __iter__(self) -> Iterator[str]:
        paths = (name.partition(":")[2] for name, entry in self._entries.items() if "writes" in entry)
        return (path for path in paths if path in self)

    def __len__(self) -> int:
        return sum(1 for _path in self)


class Origin:
    """The store. Entries keep the order of their first change; undo goes backwards."""

    def __init__(self, host: Host, entries: list[Entry], note: str = "", kept: bool = True) -> None:
        """note: a fault of a store that could still be read. kept: False if it must never be written."""
        self._host = host
        self._entries = {str(entry["id"]): entry for entry in entries}
        self._followed: dict[str, Entry] = {}
        self.note = note
        self._kept = kept

    @classmethod
    def load(cls, host: Host) -> Origin:
        """The store. Raises LostOriginError if it is damaged, or missing on a tuned node: going on would make
        tuned values the new origin."""
        try:
            return cls._load(host)
        except LostOriginError:
            # The first run writes the store before any other file. A file that has appeared since the store
            # was looked for has a store by now.
            return cls._load(host)

    @classmethod
    def _load(cls, host: Host) -> Origin:
        entries, problem = _read(host, PATH)
        if entries is not None:
            return cls(host, entries)
        entries, copied = _read(host, COPY)
        if entries is not None:
            return cls(host, entries, f"{problem or f'{PATH} is missing'}: its copy {COPY} is used")
        trace = next(iter(origin_paths.present(host)), "")
        if not problem and not copied and not trace:
            return cls(host, [])
        lost = f"{problem or f'{PATH} is missing'}, {copied or f'and so is its copy {COPY}'}"
        raise LostOriginError(
            f"{lost}{f', though {trace} is there' if trace else ''}: the state before the first run "
            f"is unknown. Restore {PATH} from a backup, or give up undoing with `mlnode revert "
            "--without-origin`, which removes the files that mlnode owns"
        )

    @classmethod
    def for_look(cls, host: Host, alone: bool) -> Origin:
        """The store, or an empty one for a user who may look at the node but not at its origin.

        alone: as in engine.Request. A lost store is reported once for the node, and a boot tunes the node all
        the same. It records nothing, as tuned values would become the origin.
        """
        try:
            return cls.load(host)
        except LostOriginError:
            if not alone:
                raise
            return cls(host, [], kept=False)
        except HostError:
            if host.is_superuser():
                raise
            return cls(host, [])

    def entries(self) -> list[Entry]:
        return list(self._entries.values())

    def values(self) -> Mapping[str, str]:
        """Kernel file → its original value."""
        return _Values(self._host, self._entries)

    def value_of(self, path: str) -> str | None:
        """A kernel file's value before our first write; None if there was no write."""
        entry = self._entries.get(f"kernel:{path}")
        return None if entry is None else str(entry["value"])

    def begin(self) -> None:
        """Begin a part: take_back() undoes everything remembered from now on."""
        self._followed = {}

    def remember(self, entries: list[Entry], writes: Mapping[str, bytes | None] | None = None) -> list[Entry]:
        """Add unknown entries, put them on disk, and return the new ones.

        writes: path → content of the files that are about to be written.
        """
        # Checked now: an entry that cannot be read again could not be put back.
        fresh = [origin_paths.fit(checked, entry) for entry in entries if not self._knows(entry)]
        before = dict(self._entries)
        if fresh:
            for old in [entry for entry in self.entries() if is_obsolete(self._host, entry)]:
                del self._entries[str(old["id"])]
            self._entries.update({str(entry["id"]): entry for entry in fresh})
        self._follow(writes or {})
        if self._entries != before or not self._is_whole():
            try:
                self._save()
            except BaseException:
                # Nothing will be changed now, so a later first change must find a later origin.
                try:
                    self.take_back(fresh)
                except HostError:
                    pass
                raise
        return fresh

    def _is_whole(self) -> bool:
        """False if one of the two files was lost: a run without new entries restores it."""
        if not self._entries or is_read_only(self._host, COPY):
            return True
        return not self.note and self._host.exists(COPY)

    def take_back(self, fresh: list[Entry]) -> None:
        """Forget these entries: none of their changes was made, or all are undone."""
        followed, self._followed = self._followed, {}
        self._entries.update(followed)
        for entry in fresh:
            self._entries.pop(str(entry["id"]), None)
        if fresh or followed or not self._entries:
            self._save()

    def _follow(self, writes: Mapping[str, bytes | None]) -> None:
        """Record the future content with the file's origin."""
        for path, content in writes.items():
            entry = self._entries[f"file:{path}"]
            self._followed.setdefault(f"file:{path}", entry)
            self._entries[f"file:{path}"] = origin_paths.followed(self._host, entry, content)

    def _knows(self, entry: Entry) -> bool:
        known = self._entries.get(str(entry["id"]))
        return known is not None and not is_obsolete(self._host, known)

    def forget(self, entries: list[Entry]) -> None:
        """Remove entries that have been put back; the last one takes the file with it."""
        for entry in entries:
            self._entries.pop(str(entry["id"]), None)
        if entries or not self._entries:  # a killed run may have left a half-written file without entries
            self._save()

    def _save(self) -> None:
        """Write the copy first and remove it last: one of the two exists at any time."""
        if not self._kept:
            return
        if not self._entries:
            for path in (PATH, COPY):
                self._host.remove_file(path)
                self._host.remove_folder_if_empty(path.rsplit("/", 1)[0], may_stay=True)
            return
        entries = self.entries()
        content = (json.dumps({"format": FORMAT, "entries": entries}, indent=1) + "\n").encode("ascii")
        _known[:] = [(content, tuple(entries))]
        # 0600: it may hold content of files with limited access.
        # A system with a read-only /etc keeps one file only; nothing can be declared there either.
        for path in (PATH,) if is_read_only(self._host, COPY) else (COPY, PATH):
            self._host.write_file(path, content, mode=0o600)


def _read(host: Host, path: str) -> tuple[list[Entry] | None, str]:
    """The entries, or None with the fault; no fault if the file is absent. Raises HostError, or StoreError
    for a valid file that must not be used: another user's file, or a newer version's."""
    try:
        content = trust.read(host, path)
    except HostError as error:
        if error.absent:
            return None, ""
        raise
    for known, entries in _known:
        if known == content:
            return [*entries], ""
    try:
        document = strict_json.document(content, path, FORMAT, most=system.LIMIT, kernel_bytes=True)
    except DamagedError as error:
        return None, str(error)
    except StoreError as error:
        raise StoreError(f"{error}; nothing was changed; {origin_paths.WITH_ITS_AGENT}") from error
    try:
        checked_entries = [checked(dict(entry)) for entry in document["entries"]]
    except origin_paths.DAMAGE as error:
        return None, f"{path} is damaged ({type(error).__name__}: {error})"
    _known[:] = [(content, tuple(checked_entries))]
    return checked_entries, ""


def is_read_only(host: Host, path: str) -> bool:
    """True if the file system of this path, present or future, is read-only."""
    folder = path
    while not host.exists(folder):
        folder = os.path.dirname(folder)
    try:
        return bool(os.statvfs(host.real(folder)).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def note(host: Host) -> str:
    """Fault of a store that can still be read; empty if none. Raises nothing."""
    try:
        return Origin.load(host).note
    except MlnodeError:
        return ""


def checked(entry: Entry) -> Entry:
    """The entry. Raises ValueError, KeyError or TypeError if restore() would: an entry is whole or the store
    is damaged."""
    texts = [entry["id"], entry["key"], entry["value"]]
    origin_paths.refuse_unknown(entry)
    if "writes" in entry:
        for path, value in map(_list, _list(entry["writes"])):
            texts += [path, value]
        if "device" in entry:
            texts += [entry["device"], entry["boot"]]
        if not all(entry.get(name, True) is True for name in origin_paths.FORMS):
            raise TypeError(f"entry {entry['id']!r}: expected true, got another value")
    elif "file" in entry:
        texts += [entry["file"], *_list(entry["folders"]), entry.get("notify", "")]
        _list(entry.get("wrote", []))
        origin_paths.check_records(entry)
        saved = entry["saved"]
        if saved is not None and "link" in saved:
            texts.append(saved["link"])
        elif saved is not None:
            base64.b64decode(saved["content"], validate=True)
            origin_paths.check_attributes(saved)
    else:
        texts.append(entry["module"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"entry {entry['id']!r}: expected text, got another type")
    origin_paths.check(entry, texts)
    return entry


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def forget_left(host: Host, ids: Collection[str]) -> None:
    """Forget the origin of settings that have left their declaration and are back: a later first change must
    record a new one. If two knobs move each other, one's origin is kept as long as the other's exists. Raises
    MlnodeError."""
    if not ids:
        return
    store = Origin.load(host)
    others = {path for entry in store.entries() if entry["id"] not in ids for path in _moved(entry)}
    store.forget([entry for entry in store.entries() if entry["id"] in ids and not _moved(entry) & others])


def _moved(entry: Entry) -> set[str]:
    """Kernel files of an entry."""
    if "writes" not in entry:
        return set()
    return {str(entry["id"]).partition(":")[2], *(str(path) for path, _value in entry["writes"])}


def complete(host: Host) -> None:
    """Finish the files that a killed run was writing, before anything reads them. Raises HostError.

    Its half-written store is removed: the next run may have no entries to add, and would leave it.
    """
    for path in (PATH, COPY):
        host.tidy(path)
    try:
        entries = Origin.load(host).entries()
    except MlnodeError:  # reported by the first reader that needs it
        return
    files = [entry["file"] for entry in entries if "file" in entry]
    lock.completed(host, [path for path in files if host.complete(path)])
