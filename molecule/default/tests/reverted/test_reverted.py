# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After revert.yml: every kernel setting, file and unit has its state from before the first run."""

from __future__ import annotations

import json

# From another package: a revert leaves it.
FOREIGN = "/etc/sysctl.d/zzz-foreign.conf"


def test_everything_is_as_it_was(state, baseline):
    before = json.loads(baseline.read_text())
    differing = {
        name: (before.get(name), state.get(name))
        for name in before.keys() | state.keys()
        if before.get(name) != state.get(name) and not name.startswith(FOREIGN)
    }
    assert differing == {}


def test_systemd_has_forgotten_the_unit(host):
    unit = host.check_output("systemctl show --property=LoadState mlnode-apply.service")
    assert unit == "LoadState=not-found"
    assert host.check_output("systemctl --failed --no-legend --plain") == ""
    assert host.check_output("systemctl list-units --all --plain --no-legend 'mlnode*'") == ""


def test_no_metrics_are_left(host):
    """One of the nodes had a timer; node_exporter would export its last metrics for ever."""
    assert not host.file("/srv/mlnode.prom").exists


def test_a_foreign_file_is_left_alone(host):
    if host.backend.get_hostname() == "mlnode-deb13":
        assert host.file(FOREIGN).contains("tcp_fin_timeout = 45")
