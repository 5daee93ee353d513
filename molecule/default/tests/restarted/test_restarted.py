# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a restart, in addition to the tests of `applied`: the service has applied the values."""

from __future__ import annotations


def test_the_boot_service_has_run(host):
    unit = host.check_output(
        "systemctl show --property=Result,ExecMainStatus,ExecMainStartTimestampMonotonic mlnode-apply.service"
    )
    facts = dict(line.split("=", 1) for line in unit.splitlines())
    assert (facts["Result"], facts["ExecMainStatus"]) == ("success", "0")
    assert facts["ExecMainStartTimestampMonotonic"] != "0"


def test_the_drift_play_ends_well(drift_play):
    assert drift_play.returncode == 0, drift_play.stdout + drift_play.stderr
