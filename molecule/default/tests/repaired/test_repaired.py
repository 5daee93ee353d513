# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After another run of the play: the value is restored; the foreign file stays, and is still reported."""

from __future__ import annotations

FOREIGN = "/etc/sysctl.d/zzz-foreign.conf"


def test_the_value_is_back(host, check):
    assert host.check_output("sysctl -n vm.swappiness") == "1"
    assert check.settings["vm.swappiness"]["status"] == "ok"


def test_what_another_file_overrides_stays_drift(host, check):
    if host.file(FOREIGN).exists:
        assert check.rc == 3
        assert check.keys("overridden") == ["net.ipv4.tcp_fin_timeout"]
    else:
        assert check.rc == 0


def test_the_origin_is_still_the_first_one(check):
    assert check.settings["net.ipv4.tcp_fin_timeout"]["origin"] == "60"
