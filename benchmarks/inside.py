# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a node, with nothing but its Python: inside.py {NAME: COMMAND} ROUNDS, the first as JSON.

Alternates between the commands. Prints for each one the medians of wall clock and CPU seconds and the peak in
MiB. A service is restarted; its CPU time is counted by its control group: the sandbox and all its programs. A
command `SERVICE FLAG FILE LOCK` is an event: the file gets a wrong value, and the flag has systemd start the
service, whose run holds the lock.
"""

import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import sys
import time


def of_event(name, flag, path, lock):
    right = text(path)
    with open(path, "w") as file:
        file.write(f"{int(right) + 1}\n")
    os.makedirs(os.path.dirname(flag), exist_ok=True)  # of udev, which a container lacks
    start = time.monotonic()
    with open(flag, "w"):
        pass
    while text(path) != right:
        if time.monotonic() > start + 60:
            sys.exit(f"{path} was not set again within a minute")
        time.sleep(0.01)
    with contextlib.suppress(FileNotFoundError), open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    wall = time.monotonic() - start
    cpu = int(shown(name)["CPUUsageNSec"]) / 1e9
    # It waits for more events, and systemd counts it as failed if it is stopped before its end.
    subprocess.run(["systemctl", "stop", name], check=False)
    subprocess.run(["systemctl", "reset-failed", name], check=False)
    return {"wall": wall, "cpu": cpu, "peak": 0.0, "status": 0}


def text(path):
    with open(path) as file:
        return file.read()


def shown(name):
    show = ["systemctl", "show", "--property=CPUUsageNSec,ExecMainStatus", name]
    answer = subprocess.run(show, stdout=subprocess.PIPE, check=True, text=True).stdout
    return dict(line.split("=") for line in answer.splitlines())


def of_unit(name):
    # Or systemd refuses to start it more than five times in ten seconds (systemd.unit(5), StartLimitBurst=).
    subprocess.run(["systemctl", "reset-failed", name], check=False)
    start = time.monotonic()
    status = subprocess.run(["systemctl", "restart", name], check=False).returncode
    wall = time.monotonic() - start
    # As programs of the unit end before systemd answers, there is no peak of one of them.
    unit = shown(name)
    cpu = int(unit["CPUUsageNSec"]) / 1e9
    return {"wall": wall, "cpu": cpu, "peak": 0.0, "status": status or int(unit["ExecMainStatus"])}


def once(command):
    if command[0].endswith(".service"):
        return of_event(*command) if command[1:] else of_unit(command[0])
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
