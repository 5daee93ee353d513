# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs run for a host: no shell, no input, an environment of our own, and a limit of time."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .errors import HostError

#: How long a helper program may take; modprobe of a driver is the slowest of most
USUAL_SECONDS = 60.0


class Finished(NamedTuple):
    """What a command left: exit status and its two outputs."""

    rc: int
    out: str
    err: str


def run(command: Sequence[str], seconds: float) -> Finished:
    """Raises HostError where it cannot be started or takes longer."""
    # Only here: most commands start no program.
    import subprocess

    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise HostError("run", command[0], None, f"no answer in {seconds:.0f} s") from error
    except OSError as error:
        raise HostError("run", command[0], error.errno) from error
    return Finished(done.returncode, done.stdout, done.stderr)
