# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of calls to nodes."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import nodes

ALIVE = "-o ControlPath=none -o ServerAliveInterval=15 -o ServerAliveCountMax=4"


def test_the_death_of_a_node_is_noticed_with_the_options_of_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nodes.noticed({"a": 1}) == {"a": 1, "ansible_ssh_common_args": ALIVE}

    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-F of_environment")
    assert nodes.noticed({})["ansible_ssh_common_args"] == f"-F of_environment {ALIVE}"
    monkeypatch.setattr(nodes.context, "CLIARGS", {"ssh_common_args": "-F of_command"})
    assert nodes.noticed({})["ansible_ssh_common_args"] == f"-F of_command {ALIVE}"
    known = {"ansible_ssh_common_args": "-F {{ file }}"}
    assert nodes.noticed(known)["ansible_ssh_common_args"] == f"-F {{{{ file }}}} {ALIVE}"
