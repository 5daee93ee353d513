# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a guest, from standard input: `mlnode apply`, stopped before its N-th fsync or kernel write.

Arguments: fsync or kernel, and N. What was written before, and not yet flushed, is lost with the power.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, "/usr/local/bin/mlnode")

from mlnode.agent import cli  # of the installed command, on the lab machine
from mlnode.host.host import Host

point, number = sys.argv[1], int(sys.argv[2])
seen = 0


def stop_at_the_point(real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        global seen
        seen += 1
        if seen == number:
            with open("/dev/ttyS0", "w") as console:
                console.write("LAB: CUT HERE\n")
            time.sleep(600)
        return real(*arguments, **keywords)

    return wrapped


if point == "fsync":
    os.fsync = stop_at_the_point(os.fsync)
else:
    Host.write_kernel = stop_at_the_point(Host.write_kernel)
sys.exit(cli.main(["apply"]))
