# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of `mlnode job` and `mlnode check` on this machine. The jobs hold a stand-in for a GPU, in
namespaces that end with the measurement; no value of this machine changes."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ..plugins.module_utils._mlnode.agent import (
    agent_modules,  # noqa: F401  # all that the archive holds
    install,
)
from ..plugins.module_utils._mlnode.engine import declared
from ..plugins.module_utils._mlnode.engine.declared import Declaration
from ..tests.unit.roles import declaration
from .measure import BenchError

#: Namespaces → processes in all of them, each with the device open
SCALES = {1: 1, 100: 2000}
MANY = "100 namespaces with 2000 processes"

CHECK, JOB = "mlnode check", "mlnode job"
#: Agreement and deviation, and jobs with a value that cannot be read
_FINE = (0, 1, 3)
#: Seconds for 2,000 processes to start, and for all rounds
_PATIENCE = 300

#: Arguments: folder, namespaces, processes in each, and the command that measures
_SCRIPT = """\
set -e
folder=$1 namespaces=$2 each=$3
shift 3
mount -t tmpfs none "$folder"
mkdir "$folder/upper" "$folder/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$folder/upper,workdir=$folder/work" none /etc
mkdir -p -m 755 /etc/mlnode/declared.d
printf %s "$DECLARATION" > /etc/mlnode/declared.d/node.json
mount -t tmpfs -o mode=755 none /dev
mkdir /dev/shm
for device in 'null 1 3' 'zero 1 5' 'urandom 1 9' 'nvidia0 1 3'; do
  set -f; set -- $device -- "$@"; set +f
  mknod -m 666 "/dev/$1" c "$2" "$3"
  shift 4
done
for number in $(seq "$namespaces"); do
  unshare --net --ipc --mount sh -c '
    exec 5</dev/nvidia0
    for number in $(seq 2 "$1"); do sleep 600 & done
    exec sleep 600' sh "$each" </dev/null >/dev/null 2>&1 &
done
until [ "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$')" -ge "$((namespaces * each))" ]; do
  sleep 0.2
done
exec "$@"
"""


def jobs(folder: pathlib.Path, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Number of namespaces → command → figures. Raises BenchError."""
    agent = folder / "mlnode"
    agent.write_bytes(install.build())
    inside = pathlib.Path(__file__).with_name("inside.py")
    commands = {name: [sys.executable, str(agent), name.split()[1]] for name in (CHECK, JOB)}
    figures = {}
    for namespaces, processes in SCALES.items():
        say(f"mlnode job with {namespaces} namespaces and {processes} processes")
        place = folder / "jobs"
        place.mkdir(exist_ok=True)
        measured = [sys.executable, str(inside), json.dumps(commands), str(rounds)]
        numbers = (str(namespaces), str(processes // namespaces))
        figures[str(namespaces)] = _measured(["sh", "-c", _SCRIPT, "sh", str(place), *numbers, *measured])
    return figures


def _measured(words: list[str]) -> dict[str, Any]:
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    content = declared.render(Declaration("node", declaration("training"))).decode()
    done = subprocess.run(
        [*unshare, *words], capture_output=True, text=True, timeout=_PATIENCE, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DECLARATION": content},
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"mlnode job: {done.stderr.strip()}")
    by_command: dict[str, Any] = json.loads(done.stdout)
    for name, figures in by_command.items():
        if figures["status"] not in _FINE:
            raise BenchError(f"{name}: exit status {figures['status']}")
    return by_command
