# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of keys that count in a container agrees with the running kernel, key by key. No value of this
machine changes: where a changed value is needed, a network namespace is the node. Which values a namespace
takes from the first one, tests/lab/test_sysctl_reach.py shows."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux.sysctl_reach import Reach, reach
from ansible_collections.mlnode.tuning.tests.system import namespaces, sysctl_namespace, sysctl_reach
from ansible_collections.mlnode.tuning.tests.system.sysctl_reach_probe import UNSHARE, Seen

pytestmark = [pytest.mark.system, namespaces.needs_root]

RELEASE = os.uname().release


def _seen(*command: str, keys: list[str]) -> dict[str, Seen]:
    done = subprocess.run(
        [*command, sys.executable, str(sysctl_reach.SCRIPT)],
        input=json.dumps(keys), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sysctl_reach.parsed(done.stdout)


def test_a_container_has_the_files_of_the_table() -> None:
    seen = _seen(keys=[])
    assert sysctl_reach.differences(seen, RELEASE) == []
    shown = [sysctl_reach.possible(key, files) for key, files in seen.items()]
    assert shown.count({Reach.READ_ONLY}) >= 4
    assert shown.count({Reach.ABSENT, Reach.INTERFACE}) > 20


def test_a_namespace_takes_no_value_of_the_one_that_makes_it_but_names() -> None:
    writable = sysctl_namespace.keys()
    seen = _seen(*UNSHARE, keys=[key for key in writable if not key.startswith("user/")])
    changed = {key: files for key, files in seen.items() if files.is_changed}
    assert len(changed) > 200
    wrong = []
    for key, files in changed.items():
        # Values are taken from the first namespace, which is not the node here.
        expected = reach(key, RELEASE)
        if expected is Reach.INHERITED and key.startswith("net/"):
            expected = Reach.OWN
        if expected is not None and expected not in sysctl_reach.possible(key, files):
            wrong.append((key, expected, files))
    assert wrong == []
    assert {"net/core/somaxconn", "net/ipv4/tcp_rmem", "kernel/shmmax", "kernel/hostname"} <= {*changed}


@pytest.mark.skipif(not pathlib.Path("/proc/sys/user").exists(), reason="kernel without namespaces of users")
def test_the_bound_of_a_namespace_of_users_counts_in_those_below_it() -> None:
    """The limit 0 for IPC namespaces is not shown in a namespace below, and refuses one there."""
    inner = "cat /proc/sys/user/max_ipc_namespaces; unshare --ipc true || echo refused"
    outer = f"echo 0 >/proc/sys/user/max_ipc_namespaces; exec unshare --user --map-root-user sh -c '{inner}'"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", outer],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.stdout.split() == [str((1 << 31) - 1), "refused"], done.stderr
    assert reach("user.max_ipc_namespaces", RELEASE) is Reach.OUTER
