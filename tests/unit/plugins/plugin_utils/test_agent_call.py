# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's forks take with them from the process that has called them."""

from __future__ import annotations

import gc
import subprocess
import sys

from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_call
from ansible_collections.mlnode.tuning.tests.unit.faults import in_child


def test_a_collection_in_a_fork_leaves_out_what_it_shares() -> None:
    assert agent_call
    shared = [[] for _ in range(10)]

    def collect() -> None:
        assert gc.get_freeze_count() > len(shared)
        assert not any(one is shared for one in gc.get_objects())

    assert gc.get_freeze_count() == 0
    assert in_child(collect) == 0


def test_a_python_without_bz2_packs_with_what_it_has() -> None:
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
sys.modules["bz2"] = None
import {agent_call.__name__} as call
print(*(packer.__name__ for packer in call._PACKERS))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.returncode) == ("zlib\n", 0), done.stderr
