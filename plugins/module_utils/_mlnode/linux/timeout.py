# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""timeout(1) of coreutils, which ends a program even if its parent was killed."""

from __future__ import annotations

import signal
from typing import Sequence

#: Time for a program to exit after SIGTERM, in seconds
GRACE = 2

#: Exit status if it had to end the program; SIGKILL ends timeout(1) itself as well
TIMED_OUT = (124, -signal.SIGKILL)


def limited(command: Sequence[str], most: float, grace: int = GRACE) -> list[str]:
    """A command that runs this one and ends it after so many seconds."""
    return ["timeout", f"--kill-after={grace}", f"{most:.1f}", *command]
