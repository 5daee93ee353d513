# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sysctls of a container with its own user namespace, which the running kernel shows and takes."""

from __future__ import annotations

import os
import subprocess

import pytest
from mlnode.knobs.containers import node
from mlnode.linux import sysctl_reach
from mlnode.linux.sysctl_d import dotted
from mlnode.linux.sysctl_reach import Reach

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

#: Each file, and `rw` if it takes its own value. ping_group_range has a group of the node that no user
#: namespace knows.
SCRIPT = """
cd /proc/sys
for file in $(find net kernel/msg* kernel/sem* kernel/shm* fs/mqueue -type f ! -name ping_group_range); do
    if value=$(cat "$file") && echo "$value" >"$file"; then echo "$file rw"; else echo "$file r"; fi
done 2>/dev/null
"""


def shown(*options: str) -> dict[str, str]:
    words = ["unshare", "--net", "--ipc", *options, "sh", "-c", SCRIPT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    pairs = (line.split() for line in done.stdout.splitlines())
    return {dotted(path): mode for path, mode in pairs}


def test_what_is_open_is_there() -> None:
    release = os.uname().release
    roots, users = (shown(*options) for options in ((), ("--user", "--map-root-user")))
    own = [
        key
        for key, mode in roots.items()
        if mode == "rw"
        and sysctl_reach.reach(key, release) is Reach.OWN
        and sysctl_reach.namespace(key, release) in ("net", "ipc")
    ]
    assert len(own) > 100
    assert [key for key in own if node.is_open(key, release) and users.get(key) != "rw"] == []
