# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the play, and again after a restart: the node serves models as declared, and keeps that."""

from __future__ import annotations

import pytest


def test_check_finds_no_drift(check):
    assert (check.rc, check.document["compliant"]) == (0, True), check.document["summary"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # Values that the other profile lacks or declares differently
        ("vm.compaction_proactiveness", ["0"]),
        ("vm.watermark_scale_factor", ["50"]),
        ("vm.stat_interval", ["10"]),
        # Values of the network namespace
        ("net.ipv4.tcp_keepalive_time", ["60"]),
        ("net.ipv4.tcp_keepalive_intvl", ["10"]),
        ("net.ipv4.tcp_keepalive_probes", ["6"]),
    ],
)
def test_the_kernel_has_the_value(kernel, key, value):
    assert kernel[key] == value


def test_every_setting_ends_in_a_known_status(check):
    assert check.keys("ok", "unsupported") == sorted(check.settings), check.document["summary"]
    # A network namespace has no NIC and does not poll: to be reported, not to be skipped.
    for key in ("net.core.busy_read", "nic.serving.coalesce.rx-usecs", "irq.nics.rfs"):
        assert check.settings[key]["status"] == "unsupported"
        assert check.settings[key]["reason"]
    assert "cpu.max_latency_us" not in check.settings


def test_there_is_one_declaration(host):
    assert host.file("/etc/mlnode/declared.d").listdir() == ["node.json"]
    assert host.file("/etc/sysctl.d/zz-mlnode-node.conf").contains("vm.stat_interval = 10")
