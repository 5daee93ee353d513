# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's forks take with them from the process that has called them."""

from __future__ import annotations

import gc

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
