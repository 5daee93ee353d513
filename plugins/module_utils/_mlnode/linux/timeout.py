# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""timeout(1) of coreutils, which ends a program even if its parent was killed."""

from __future__ import annotations

import signal
from typing import Sequence

#: How long an end may take that was asked for with SIGTERM, in seconds
GRACE = 2

#: How it ends where it had to end the program; with SIGKILL it goes itself as well
TIMED_OUT = (124, -signal.SIGKILL)


def limited(command: Sequence[str], most: float, grace: int = GRACE) -> list[str]:
    """The command to run in place of another one, which ends after so many seconds."""
    return ["timeout", f"--kill-after={grace}", f"{most:.1f}", *command]
