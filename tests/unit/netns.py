# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kernel's verdict on values of /proc/sys/net, in a network namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

#: Run in the namespace. Each value is written and read back, and the first one put back.
_SCRIPT = """
import json, os, pathlib, sys

values, left_out = json.loads(sys.argv[1])
root = pathlib.Path("/proc/sys/net")
for path in sorted(root.rglob("*")):
    if not path.is_file() or not os.stat(path).st_mode & 0o200 or str(path).endswith(tuple(left_out)):
        continue
    try:
        present = " ".join(path.read_text().split())
    except OSError:
        continue
    answers = {}
    for text in values:
        try:
            path.write_text(text + "\\n")
            answers[text] = path.read_text().split() == text.split()
        except OSError:
            answers[text] = False
        try:
            path.write_text(present + "\\n")
        except OSError:
            pass
    print(json.dumps([str(path.relative_to("/proc/sys")), present, answers]))
"""


def answers(values: Sequence[str], left_out: Sequence[str]) -> Iterator[tuple[str, str, dict[str, bool]]]:
    """Of each writable key, its path below /proc/sys, its value, and whether the kernel keeps each of these
    values as it is. left_out: endings of paths that are not tried."""
    command = ["unshare", "--net", sys.executable, "-c", _SCRIPT, json.dumps([values, left_out])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        yield tuple(json.loads(line))
