# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a play that was refused: nothing is declared or installed."""

from __future__ import annotations


def test_nothing_of_the_fabric_was_declared(host):
    for path in (
        "/usr/local/bin/mlnode",
        "/etc/mlnode/declared.d",
        "/etc/nccl.conf",
        "/etc/sysctl.d/zz-mlnode-fabric.conf",
    ):
        assert not host.file(path).exists, path
