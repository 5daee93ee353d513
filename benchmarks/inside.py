# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a node, with nothing but its Python: inside.py {NAME: COMMAND} ROUNDS, the first as JSON.

Runs the commands by turns, and prints of each the medians of wall clock and CPU seconds and the peak in MiB.
"""

import json
import os
import statistics
import subprocess
import sys
import time


def once(command):
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "wall": time.monotonic() - start,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss / 1024,
        "status": process.returncode,
    }


def main():
    commands, rounds = json.loads(sys.argv[1]), int(sys.argv[2])
    found = {name: [] for name in commands}
    for _round in range(rounds + 1):
        for name, command in commands.items():
            found[name].append(once(command))
    print(
        json.dumps(
            {
                # The first one fills the page cache.
                name: {field: statistics.median(one[field] for one in runs[1:]) for field in runs[0]}
                for name, runs in found.items()
            }
        )
    )


main()
