# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Increases of counters since former values, which are kept in a file; for RDMA
/var/lib/mlnode/rdma-baseline.json.

Values are valid for this boot only, as every counter restarts with the next one. Devices are identified by
place and GUID, as another card under the same name has separate counters. For each counter two looks are
kept: the baseline, which stays until it is reset, and the last one, which shows recent events even if the
baseline is old. A lower value means that the counter was reset: it starts again.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping

from ..host.host import Host
from ..model import strict_json
from ..model.errors import HostError, MlnodeError, StoreError
from ..model.record import NamedTuple, dataclass, field, regex

PATH = "/var/lib/mlnode/rdma-baseline.json"
FORMAT = 1

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_UPTIME = "/proc/uptime"
_SECONDS = regex(r"([0-9]{1,12}(?:\.[0-9]{1,4})?) ", re.ASCII)

_ADVICE = "remove it (baseline: reset of rdma_check does), and a new one is taken"


class Look(NamedTuple):
    """A counter at a time, in seconds since the boot."""

    at: float
    value: int


class Rise(NamedTuple):
    """Increase of a counter, and the seconds it took."""

    by: int
    seconds: float


class Rises(NamedTuple):
    """Since the baseline and since the last look; empty if the counter starts here, with the reason."""

    spans: tuple[Rise, ...] = ()
    why: str = ""


@dataclass
class Device:
    """Known values of a device's counters, by path. identity: distinguishes it from another card."""

    identity: str
    base: dict[str, Look] = field(default_factory=dict)
    last: dict[str, Look] = field(default_factory=dict)


class Book:
    """All looks of this boot, and the present ones.

    reset: the present looks become the baseline. writable: save() may write. path: of the file. problem: why
    increases are unknown; "" if they are known.
    """

    def __init__(self, host: Host, reset: bool = False, writable: bool = False, path: str = PATH) -> None:
        self.reset = reset
        self.writable = writable
        self.path = path
        self.problem = ""
        self._host = host
        self._known: dict[str, Device] = {}
        self._now: dict[str, Device] = {}
        self._boot, self._at = "", 0.0
        try:
            self._boot, self._at = _time(host)
            if not reset:
                self._known = _load(host, self._boot, path)
        except MlnodeError as error:
            self.problem = str(error)

    def known(self, device: str, identity: str) -> frozenset[str]:
        """The counters that a device had at an earlier look."""
        return frozenset(self._before(device, identity).base)

    def look(self, device: str, identity: str, path: str, value: int) -> Rises:
        """Note the present value of a counter, and return its rise."""
        current = Look(self._at, value)
        new = self._now.setdefault(device, Device(identity))
        old = self._before(device, identity)
        base, last = old.base.get(path), old.last.get(path)
        new.last[path] = new.base[path] = current
        if self.problem or base is None or last is None:
            return Rises(why=self.problem or self._start)
        if value < max(base.value, last.value) or self._at < max(base.at, last.at):
            return Rises(why=f"went back from {max(base.value, last.value)} to {value}: it starts again")
        new.base[path] = base
        return Rises(tuple(Rise(value - was.value, self._at - was.at) for was in dict.fromkeys((base, last))))

    @property
    def _start(self) -> str:
        return "baseline taken" if self.writable else "no baseline, and this run may not take one"

    def keep(self, device: str, identity: str, path: str) -> None:
        """Keep the former values of a counter that could not be read now."""
        old = self._before(device, identity)
        new = self._now.setdefault(device, Device(identity))
        if path in old.base and path in old.last:
            new.base[path], new.last[path] = old.base[path], old.last[path]

    def save(self) -> None:
        """Put the present looks on disk; keep the looks of other devices. Raises HostError."""
        if not self.writable or not self._boot or not self._now:
            return
        if self.problem and not self.reset:
            return
        _write(self._host, self._boot, {**self._known, **self._now}, self.path)

    def _before(self, device: str, identity: str) -> Device:
        known = self._known.get(device)
        return known if known is not None and known.identity == identity else Device(identity)


def kept(host: Host) -> frozenset[str]:
    """Paths of all counters that are compared with an earlier look in this boot; empty if there are none, or
    if they cannot be read: the check reports that."""
    try:
        known = _load(host, _time(host)[0])
    except MlnodeError:
        return frozenset()
    return frozenset(
        path for device in known.values() for looks in (device.base, device.last) for path in looks
    )


def excuse(host: Host, rises: Mapping[str, int]) -> None:
    """Ignore increases caused by a requested change, such as a reset of a link: their former values are
    raised too. rises: path → increase. Counters without a valid former value are skipped. Raises HostError,
    StoreError."""
    risen = [path for path, rise in rises.items() if rise > 0]
    if not risen:
        return
    boot, _at = _time(host)
    known = _load(host, boot)
    kept = [looks for device in known.values() for looks in (device.base, device.last)]
    risen_looks = [(looks, path) for looks in kept for path in risen if path in looks]
    for looks, path in risen_looks:
        looks[path] = Look(looks[path].at, looks[path].value + rises[path])
    if risen_looks:
        _write(host, boot, known)


def _time(host: Host) -> tuple[str, float]:
    """This boot, and the seconds since it, by a clock that cannot be set. Raises HostError."""
    boot = host.read(_BOOT_ID).strip()
    match = _SECONDS.match(host.read(_UPTIME))
    if not boot or match is None:
        raise HostError(
            "read the time from", _BOOT_ID if not boot else _UPTIME, None, "it holds something else"
        )
    return boot, float(match.group(1))


def _load(host: Host, boot: str, path: str = PATH) -> dict[str, Device]:
    """Known devices; empty if there are none, or if they are from another boot. Raises StoreError,
    HostError."""
    content = host.content(path)
    if content is None:
        return {}
    document = strict_json.document(content, path, FORMAT, advice=_ADVICE)
    try:
        devices = {name: _device(raw) for name, raw in document["devices"].items()}
        return devices if document["boot"] == boot else {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({type(error).__name__}: {error}): {_ADVICE}") from error


def _write(host: Host, boot: str, devices: Mapping[str, Device], path: str = PATH) -> None:
    document = {
        "format": FORMAT,
        "boot": boot,
        "devices": {name: _document(device) for name, device in sorted(devices.items())},
    }
    # World-readable, as the counters are.
    host.write_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"), mode=0o644)


def _device(raw: Any) -> Device:
    looks = [{path: _look(look) for path, look in raw[kind].items()} for kind in ("base", "last")]
    if not isinstance(raw["identity"], str):
        raise TypeError("an identity is not text")
    return Device(raw["identity"], *looks)


def _look(raw: Any) -> Look:
    at, value = raw
    right = strict_json.is_of(value, int) and (strict_json.is_of(at, int) or isinstance(at, float))
    if not right or at < 0 or value < 0:
        raise ValueError(f"{raw!r} is not a time and counter")
    return Look(float(at), value)


def _document(device: Device) -> Mapping[str, Any]:
    looks = {
        kind: {path: [look.at, look.value] for path, look in sorted(looks_at.items())}
        for kind, looks_at in (("base", device.base), ("last", device.last))
    }
    return {"identity": device.identity, **looks}
