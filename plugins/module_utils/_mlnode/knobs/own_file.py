# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the system that hold what one declaration has, each with the same head."""

from __future__ import annotations

from typing import Iterable

from ..engine import declared


def content(name: str, lines: Iterable[str], section: str = "", explains: str = "KEY") -> bytes | None:
    """Content of a declaration's file; None without lines.

    section: section of a systemd file. explains: key for `mlnode explain` in the head of the file.
    """
    body = [*lines]
    if not body:
        return None
    head = [
        f"# Written by mlnode.tuning for the declaration {name}; edits are overwritten.",
        f"# Declared in {declared.path_of(name)}; see: mlnode explain {explains}",
        *([section] if section else []),
    ]
    return "\n".join([*head, *body, ""]).encode("utf-8")
