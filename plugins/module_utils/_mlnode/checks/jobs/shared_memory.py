# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared memory of a job: the size of its /dev/shm (tmpfs(5))."""

from __future__ import annotations

from typing import Iterator

from ...linux.inside import Storage
from ...model import values
from ...model.errors import printable
from ...model.setting import Severity
from ..model import Check, Subject, Verdict
from . import ranks, remedy
from .model import Node, Place

NAME = "job_shm"
PATH = "/dev/shm"  # noqa: S108  # looked at, no file is created

#: podman-run(1) and docker run: the default of --shm-size. The kubelet's runtimes have it as well.
_USUAL = 64 << 20
#: NCCL user guide, Troubleshooting, Shared memory: --shm-size=1g. The shared segments of the GPUs of one node
#: and the batches of data loaders fit.
_ENOUGH = 1 << 30
_SIZE = "1g"
#: A folder of /dev itself is in memory, too (drivers/base/devtmpfs.c)
_IN_MEMORY = ("tmpfs", "devtmpfs", "ramfs")
_REASON = "ranks of one node exchange data there: NCCL's buffers and the batches of data loaders do not fit"
_SOURCE = "NCCL user guide, Troubleshooting; docker run, --shm-size; tmpfs(5)"


def checks(place: Place, node: Node) -> Iterator[Check]:
    del node
    storage = place.storage
    subject = place.subject(
        NAME, source=f"/proc/{place.first.pid}/root{PATH}", severity=Severity.HIGH, reason=_REASON,
        reference=_SOURCE,
    )  # fmt: skip
    if isinstance(storage, str):
        place.unknown["shm size"] = storage
        yield subject.unknown(storage)
        return
    place.values["shm size"] = str(storage.size or "unlimited")
    count = _ranks(place)
    evidence = f"{_words(storage)}; {count} local {'rank' if count == 1 else 'ranks'}"
    if storage.kind not in _IN_MEMORY:
        evidence = f"no tmpfs is at {PATH} ({storage.kind}), so shared memory goes to a disk; {evidence}"
        advice = remedy.shm(place, _SIZE)
        yield subject.judged(False, evidence, expected="a tmpfs", bad=Verdict.WARN, advice=advice)
        return
    if place.defaults.shm_size is not None and "ipc" in place.own:
        yield _as_declared(place, subject, storage, place.defaults.shm_size, evidence)
        return
    good = not storage.size or storage.size >= _ENOUGH
    if count < 2:
        unread = next(filter(None, (process.environment.unknown for process in place.processes)), "")
        if unread and not good:
            yield subject.unknown(f"{evidence}, or more: its environment: {printable(unread)}")
        else:
            yield subject.skip(f"{evidence}: not judged, as ranks share it")
        return
    yield subject.judged(
        good, evidence, expected="1 GiB or more for several ranks", advice=remedy.shm(place, _SIZE),
        bad=Verdict.FAIL if storage.size <= _USUAL else Verdict.WARN,
    )  # fmt: skip


def _as_declared(place: Place, subject: Subject, storage: Storage, size: int, evidence: str) -> Check:
    """A container of Podman or Docker has the declared default, unless it was started before or asked for
    less."""
    good = not storage.size or storage.size >= size
    advice = remedy.shm(place, str(size))
    return subject.judged(good, evidence, expected=f">= {values.size(size)}", advice=advice)


def _ranks(place: Place) -> int:
    """Ranks of the node, by their launcher or by the processes here with a device. Launchers without their
    number count them from 0, so there is one for each number below."""
    variables = [process.environment.variables for process in place.processes]
    said = [ranks.local_ranks(names) or 0 for names in variables]
    counted = [number + 1 for number in (ranks.rank(names).local_rank for names in variables) if number]
    return max([*(said if any(said) else counted), place.sharers, 1])


def _words(storage: Storage) -> str:
    if not storage.size:
        return "no limit"
    return f"{values.size(storage.size)}, {values.size(storage.free)} of them free"
