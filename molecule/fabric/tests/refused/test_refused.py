# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a play that was refused: the agent is there, and nothing is declared."""

from __future__ import annotations


def test_nothing_of_the_fabric_was_declared(host):
    assert host.file("/usr/local/bin/mlnode").exists
    for path in ("/etc/mlnode/declared.d", "/etc/nccl.conf", "/etc/sysctl.d/zz-mlnode-fabric.conf"):
        assert not host.file(path).exists, path
