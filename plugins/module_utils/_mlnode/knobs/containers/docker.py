# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's defaults in daemon.json, the one file of the operator: mlnode's members are added to it, and all
else stays as it is written.

dockerd reads default-ulimits when it starts, and default-shm-size also for a reload (moby,
daemon/reload_unix.go). It does not start if an option is both in the file and on its command line
(daemon/config/config.go: findConfigurationConflicts).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...engine import edited_file, origin_paths
from ...engine.origin import Origin
from ...host.host import Host
from ...model import json_members
from ...model.errors import HostError
from ...model.setting import BootFile
from .parse import SHM_SIZE, SIZE, SYSCTLS, ULIMITS, Values, shown
from .runtime import (
    ULIMIT_NAMES,
    Given,
    Runtime,
    amount_of,
    argument,
    arguments,
    in_units,
    is_amount,
    numbers_of,
    size_of,
)

#: Modules that are loaded by name to write a shared file; this area adds them to the agent
BRINGS = (edited_file,)

PATH = "/etc/docker/daemon.json"
_ULIMITS, _SHM = "default-ulimits", "default-shm-size"
_KEYS = {ULIMITS: _ULIMITS, SHM_SIZE: _SHM}
_FLAGS = {ULIMITS: "default-ulimit", SHM_SIZE: _SHM}


class Docker(Runtime):
    name = "docker"
    program = process = "dockerd"
    unit = "docker.service"
    #: containerd's shims start containers, and dockerd starts a containerd if there is no other
    parents = ("containerd.service", "docker.service")
    path = PATH
    restart = "systemctl restart docker"
    lacks: Mapping[str, str] = {
        SYSCTLS: "Docker has no default sysctls: pass --sysctl to docker run, or see mlnode render docker-run"
    }
    bundles: Mapping[str, str] = {
        "snap.docker.dockerd.service": "set the values in /var/snap/docker/current/config/daemon.json"
    }

    def obstacle(self, host: Host, topic: str) -> str:
        link = f"{PATH} is a link: set the values in its target" if host.is_link(PATH) else ""
        return self.unread(host, topic) or link

    def unread(self, host: Host, topic: str) -> str:
        lines = arguments(host, self.unit)
        path, where = argument(lines, "config-file")
        if path and path != PATH:
            return f"{where} makes dockerd read {path} instead of {PATH}: set the values there"
        where = argument(lines, _FLAGS[topic])[1]
        if where:
            return (
                f"{where} has --{_FLAGS[topic]}, and dockerd does not start if {PATH} has "
                f"{_KEYS[topic]}, too: remove the argument"
            )
        return ""

    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        text = host.text(PATH)
        member = _read(text).get(_KEYS[topic])
        if member is None:
            return Given({}, {})
        theirs = _read(_of_others(host, text)).get(_KEYS[topic])
        others = _values(topic, theirs.value) if theirs else {}
        return Given(_values(topic, member.value), others, f"{PATH}:{member.line}")

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        if host.is_link(PATH):  # the operator's: neither is its target mlnode's to write
            return []
        text = host.text(PATH)
        base = _of_others(host, text)
        changes: dict[str, Any] = {}
        if ULIMITS in wants:
            member = _read(base).get(_ULIMITS)
            now = member.value if member else {}
            own = {limit: _ulimit(limit, amount) for limit, amount in wants[ULIMITS].items()}
            changes[_ULIMITS] = {**now, **own}
        if SHM_SIZE in wants:
            changes[_SHM] = in_units(int(wants[SHM_SIZE][SIZE]))
        for topic in wants:  # keep the spelling of an equal value
            member = _read(base).get(_KEYS[topic])
            if member and _values(topic, member.value) == _values(topic, changes[_KEYS[topic]]):
                del changes[_KEYS[topic]]
        new = json_members.changed(base, changes)
        if new == text:
            return [BootFile(PATH, new.encode("utf-8", "surrogateescape"))] if wants else []
        gone = not wants and not _read(new) and _is_made(host)
        return [BootFile(PATH, None if gone else new.encode("utf-8", "surrogateescape"))]

    def read_files(self, host: Host) -> Sequence[str]:
        return [PATH] if host.exists(PATH) else []

    def sources(self, host: Host, topic: str) -> list[str]:
        member = _read(host.text(PATH)).get(_KEYS.get(topic, ""))
        if member is None:
            return []
        values = shown(_values(topic, member.value))
        return [f"{PATH}:{member.line}: {_KEYS[topic]} = {values}"]


def _read(text: str) -> dict[str, json_members.Member]:
    """Raises HostError for a text that dockerd does not start with, as far as this area knows its members."""
    try:
        members = json_members.read(text)
    except ValueError as error:
        raise _broken(str(error)) from error
    ulimits, size = members.get(_ULIMITS), members.get(_SHM)
    if size and not isinstance(size.value, (str, type(None))):
        raise _broken(f"line {size.line}: expected {_SHM} as a text in quotes")
    if size and size.value is not None and not size_of(size.value, 1024).isdigit():
        raise _broken(f"line {size.line}: expected {_SHM} as a size such as 64m, got {size.value!r}")
    if ulimits and not isinstance(ulimits.value, (dict, type(None))):
        raise _broken(f"line {ulimits.line}: expected {_ULIMITS} as an object")
    for name, entry in (ulimits.value or {}).items() if ulimits else ():
        if not _is_limit(name, entry):
            place = f"line {ulimits.line}: {_ULIMITS}.{name}" if ulimits else name
            if name.lower() not in ULIMIT_NAMES:
                raise _broken(f"{place}: expected a limit, such as nofile")
            raise _broken(f'{place}: expected {{"Name": "{name}", "Hard": NUMBER, "Soft": NUMBER}}')
    return {name: member for name, member in members.items() if member.value is not None}


def _broken(words: str) -> HostError:
    return HostError("understand", PATH, None, f"{words}; correct it first")


def _is_limit(name: str, entry: Any) -> bool:
    """True if containers start with it. The name inside counts (moby, daemon/daemon_unix.go and
    oci_linux.go: WithRlimits)."""
    if not isinstance(entry, dict):
        return False
    fields = _fields(entry)
    if name.lower() not in ULIMIT_NAMES:
        return False
    numbers = [fields.get(key, 0) for key in ("soft", "hard")]
    if fields.get("name") != name or any(type(number) is not int for number in numbers):
        return False
    return is_amount(":".join(map(str, numbers)))


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Names of fields are in any case of letters (encoding/json)."""
    return {key.casefold(): value for key, value in entry.items()}


def _values(topic: str, raw: Any) -> dict[str, str]:
    """As they are declared. A size of Docker is a text with a unit."""
    if topic == SHM_SIZE:
        return {SIZE: size_of(raw, 1024)}
    limits = {name: _fields(entry) for name, entry in raw.items()}
    return {name: amount_of(f"{item.get('soft', 0)}:{item.get('hard', 0)}") for name, item in limits.items()}


def _ulimit(name: str, amount: str) -> dict[str, Any]:
    soft, hard = numbers_of(amount)
    return {"Name": name, "Hard": hard, "Soft": soft}


def _entry(host: Host) -> Mapping[str, Any] | None:
    entries = Origin.for_look(host, alone=True).entries()
    return next((entry for entry in entries if entry.get("file") == PATH), None)


def _is_made(host: Host) -> bool:
    """True if mlnode has made the file."""
    entry = _entry(host)
    return entry is not None and entry["saved"] is None


def _of_others(host: Host, text: str) -> str:
    """The file without mlnode's part. Raises HostError."""
    entry = _entry(host)
    if entry is None or not entry.get("wrote"):
        return text
    saved, *wrote = (
        (origin_paths.content_of(record) or b"").decode("utf-8", "surrogateescape")
        for record in (
            entry["saved"],
            *(version for version in entry["wrote"] if version and "content" in version),
        )
    )
    if text in wrote:
        return saved
    try:
        return json_members.undone(saved, wrote, text)
    except ValueError:  # was edited into something else, or is that now
        _read(text)
        return text
