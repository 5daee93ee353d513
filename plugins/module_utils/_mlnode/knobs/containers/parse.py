# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Defaults for new containers as they are declared, and as texts."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...linux import sysctl_reach
from ...linux.sysctl_reach import NEWEST, Reach
from ...model import schema, strict_json
from ...model.errors import DeclarationError
from ...model.schema import Checked, Option
from ...model.setting import Setting
from ..limits import parse as limits_parse
from ..limits.parse import LIMITS
from ..sysctl import parse as sysctl_parse
from ..sysctl import schema as sysctl_schema
from .schema import AUTO, RUNTIMES

KIND = "containers"

SYSCTLS, ULIMITS, SHM_SIZE = "sysctls", "ulimits", "shm_size"
TOPICS = (SYSCTLS, ULIMITS, SHM_SIZE)
#: The one name of a topic that is a single value
SIZE = ""

#: Names and values of a topic: sysctls; ulimits as SOFT:HARD or one word; SIZE → bytes
Values = Mapping[str, str]

UNSET = "not set"
#: More values make the tables of all settings unreadable
MOST = 5

#: Keys of an IPC namespace, and the prefix of network ones. runc refuses others (libcontainer,
#: configs/validate: sysctl), and so does CRI-O (pkg/config/sysctl.go).
_IPC = (
    *("kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"),
    *("kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"),
)
PREFIXES = ("net.", "fs.mqueue.")

_WHY = {
    Reach.GLOBAL: "the machine has one value, which containers share: declare it in sysctl",
    Reach.READ_ONLY: "a container shows the node's value and cannot change it: declare it in sysctl",
    Reach.ABSENT: "a container has no such file: declare it in sysctl",
    Reach.INTERFACE: "a container has other interfaces: declare the key of `default`",
}


def parse(given: Checked) -> list[Setting]:
    """One setting for each runtime and topic. Raises DeclarationError."""
    claims = {
        SYSCTLS: _claim(SYSCTLS, given, sysctls),
        ULIMITS: _claim(ULIMITS, given, ulimits),
        SHM_SIZE: given.get(SHM_SIZE, ""),
    }
    chosen = given.get("runtimes", RUNTIMES)
    return [
        Setting(KIND, f"{KIND}.{runtime}.{topic}", "", None, claim)
        for runtime in RUNTIMES
        for topic, claim in claims.items()
        if runtime in chosen and claim
    ]


def _claim(topic: str, given: Checked, values_of: Any) -> str:
    raw = given.get(topic)
    if raw is None or raw == AUTO:
        return raw or ""
    return shown(values_of(given), len(LIMITS) + len(raw))


def taken_apart(key: str) -> tuple[str, str]:
    """Runtime and topic of a setting."""
    _kind, runtime, topic = key.split(".")
    return runtime, topic


def shown(values: Values, most: int = MOST) -> str:
    """Values of a topic as one text; empty without values. most: values that are shown one by one."""
    if SIZE in values:
        return values[SIZE]
    return _short([f"{name}={value}" for name, value in values.items()], most)


def _short(texts: Sequence[str], most: int = MOST) -> str:
    return ", ".join([*texts[:2], f"and {len(texts) - 2} more"] if len(texts) > most else texts)


def compared(now: Values, want: Values) -> str:
    """The wanted values as they are now: as shown() if all are right, otherwise those that are not."""
    if want.items() <= now.items():
        return shown(want)
    if SIZE in now or not any(name in now for name in want):
        return now.get(SIZE, UNSET)
    wrong = [name for name, value in want.items() if now.get(name) != value]
    return _short([f"{name}={now[name]}" if name in now else f"{name} {UNSET}" for name in wrong])


def sysctls(given: Checked) -> dict[str, str]:
    """Declared sysctls, in the order of their names. Raises DeclarationError."""
    where, raw = f"{KIND}.{SYSCTLS}", given[SYSCTLS]
    if not isinstance(raw, Mapping):
        raise DeclarationError(
            f"{where}: must be {AUTO} or a dictionary of names and values, got {strict_json.shown(raw)}"
        )
    try:
        entries = schema.value(where, sysctl_schema.OPTIONS["settings"], raw)
        settings = sysctl_parse.parse(Checked({"settings": entries}), None)
    except DeclarationError as error:
        raise DeclarationError(f"{where}: {error}") from error
    for setting in settings:
        if setting.raise_only or setting.want is None:
            raise DeclarationError(f"{where}: {setting.key}: must be a number or a text, got {setting.claim}")
        _refuse_shared(f"{where}: {setting.key}", setting.key, "unknown" in given.get("allow", ()))
    return {setting.key: setting.want or "" for setting in sorted(settings, key=lambda item: item.key)}


def shared(key: str, release: str = NEWEST) -> str:
    """Why a container cannot have a different value; empty if it can, or if this is unknown. release: as for
    sysctl_reach.reach()."""
    known = sysctl_reach.reach(key, release)
    return _WHY.get(known, "") if known else ""


def is_settable(key: str) -> bool:
    """True if runtimes set such a key in a container. With another one, no container starts."""
    return key.startswith(PREFIXES) or key in _IPC


def _refuse_shared(where: str, key: str, allowed: bool) -> None:
    """Raises DeclarationError for a key with which no container would start."""
    problem = shared(key)
    if problem:
        raise DeclarationError(f"{where}: {problem}")
    if not is_settable(key):
        raise DeclarationError(
            f"{where}: runtimes take only net.*, fs.mqueue.* and the keys of System V IPC: "
            "declare it in sysctl"
        )
    if sysctl_reach.reach(key) is None and not allowed:
        reason = "it is not known that a container has its own value, and with a wrong key none starts"
        raise DeclarationError(f"{where}: {schema.unless_allowed('unknown', reason, ())}")


def ulimits(given: Checked) -> dict[str, str]:
    """Declared limits, in the order of LIMITS. Raises DeclarationError."""
    where, raw = f"{KIND}.{ULIMITS}", given[ULIMITS]
    if not isinstance(raw, Mapping):
        raise DeclarationError(
            f"{where}: must be {AUTO} or a dictionary of limits, got {strict_json.shown(raw)}"
        )
    schema.refuse_unknown(where, raw, tuple(LIMITS))
    texts = {
        name: schema.value(f"{where}.{name}", Option("str"), raw[name])
        for name in LIMITS
        if raw.get(name) is not None
    }
    return {
        name: str(limits_parse.amount(LIMITS[name], text, f"{where}.{name}")) for name, text in texts.items()
    }
