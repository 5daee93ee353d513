# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about each limit: the reason for a value, and what a deviation costs."""

from __future__ import annotations

import re

from ...engine.kind import Info
from ...model.record import regex
from ...model.setting import Severity, Value
from .parse import LOGIN, taken_apart

#: Under which data loaders with many workers and many connections run out of files
_FEW_FILES = 65536
_SOURCE = "getrlimit(2)"
_REASONS: dict[str, tuple[Severity, str, str]] = {
    "nofile": (
        Severity.MEDIUM,
        "data loaders and connections of all ranks run out of files; a soft one of a million breaks some",
        "systemd.exec(5), LimitNOFILE; moby pull request 45534, containerd pull request 8924",
    ),
    "memlock": (Severity.HIGH, "RDMA locks the memory it registers, and fails without", "user_verbs.rst"),
    "stack": (Severity.LOW, "programs with large arrays on the stack crash", _SOURCE),
    "core": (Severity.LOW, "a crash leaves no file to look at, or one as large as memory", "core(5)"),
    "nproc": (Severity.MEDIUM, "workers and threads of one user cannot be started", _SOURCE),
}  # fmt: skip
_AMOUNT = regex(r"([0-9]{1,20})(?::([0-9]{1,20}))?(?![0-9:])", re.ASCII)


def info(key: str, runtime: Value) -> Info:
    """Severity and reason; enough files for most programs lower the severity."""
    scope, _domain, limit = taken_apart(key)
    severity, reason, source = _REASONS[limit.name]
    if limit.name == "nofile" and _has_files(scope, runtime.text or ""):
        severity = Severity.LOW
    return Info(severity, reason, source)


def _has_files(scope: str, text: str) -> bool:
    """The soft limit is what users' programs and jobs of Slurm get; a daemon raises its own to the hard one,
    and containers have theirs from their runtime."""
    for part in text.split("; "):
        match = _AMOUNT.match(part)
        soft = scope == LOGIN or "slurmd" in part
        number = match and (match.group(1) if soft or not match.group(2) else match.group(2))
        if not number or int(number) < _FEW_FILES:
            return False
    return True
