# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before/after pairs of the values that a revert restores: Ansible's format for differences."""

from __future__ import annotations

from typing import Sequence

from ..engine.revert import Change
from ..model.errors import counted, shown
from .diff import hidden_pair, lines, pair


def diff(changes: Sequence[Change]) -> list[dict[str, str]]:
    """One pair for the running kernel, and one per file."""
    kernel = [change for change in changes if not change.is_file]
    old = counted(f"{change.key} = {shown(change.before)}" for change in kernel)
    new = counted(f"{change.key} = {shown(change.after)}" for change in kernel)
    runtime = [pair("runtime", lines(old), lines(new))] if kernel else []
    files = [change for change in changes if change.is_file]
    return runtime + [_file(item) for item in files]


def _file(change: Change) -> dict[str, str]:
    texts = (change.before, change.after)
    return (
        hidden_pair(change.key, texts)
        if change.is_closed
        else pair(change.key, *(text or "" for text in texts))
    )
