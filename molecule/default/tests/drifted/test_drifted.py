# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After drift.yml: it reports a value set by hand on both nodes, and the overriding file on one of them."""

from __future__ import annotations

FOREIGN = "/etc/sysctl.d/zzz-foreign.conf"


def test_check_ends_with_3_and_names_the_keys(host, check):
    assert (check.rc, check.document["compliant"]) == (3, False)
    drifted = ["vm.swappiness"]
    if host.file(FOREIGN).exists:
        drifted.insert(0, "net.ipv4.tcp_fin_timeout")
    assert sorted(set(check.settings) - set(check.keys("ok", "unsupported"))) == drifted


def test_the_value_set_by_hand(check):
    setting = check.settings["vm.swappiness"]
    assert setting["status"] == "drifted"
    assert (str(setting["want"]), str(setting["runtime"]), str(setting["boot"])) == ("1", "60", "1")


def test_the_overriding_file_is_named(host, check):
    setting = check.settings["net.ipv4.tcp_fin_timeout"]
    if host.file(FOREIGN).exists:
        assert setting["status"] == "overridden"
        assert (str(setting["runtime"]), str(setting["boot"])) == ("30", "45")
        assert FOREIGN in setting["boot_source"]
    else:
        assert setting["status"] == "ok"


def test_the_table_names_them_too(host):
    text = host.run("/usr/local/bin/mlnode check")
    assert text.rc == 3
    assert "vm.swappiness" in text.stdout
    assert "net.ipv4.tcp_keepalive_time" not in text.stdout


def test_check_changes_nothing(host):
    host.run("/usr/local/bin/mlnode check")
    assert host.check_output("sysctl -n vm.swappiness") == "60"


def test_the_drift_play_fails_and_names_them(drift_play):
    text = drift_play.stdout + drift_play.stderr
    assert drift_play.returncode == 2, text
    for name in ("mlnode-deb12", "mlnode-deb13", "vm.swappiness", "net.ipv4.tcp_fin_timeout", FOREIGN):
        assert name in text
    assert "net.ipv4.tcp_keepalive_time" not in text
