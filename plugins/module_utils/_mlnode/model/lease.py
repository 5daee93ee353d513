# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease on the state of a node, as a controller asks for it."""

from __future__ import annotations

from typing import Any

from .record import NamedTuple

#: Relation of a call to the lease: the first change, a further one, the way back, and the end
BEGIN, RENEW, BACK, END = "begin", "renew", "back", "end"


class Lease(NamedTuple):
    """id: eight hexadecimal digits. step: one of the above. seconds: from each change on. words: the state to
    put back. calls: that put it back, each a name and its options (agent/call.py)."""

    id: str
    step: str
    seconds: int
    words: str
    calls: list[Any]
