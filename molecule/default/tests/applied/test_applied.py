# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the play, and again after a restart: the node matches and keeps its declaration."""

from __future__ import annotations

import pytest

THP = "/sys/kernel/mm/transparent_hugepage"


def test_check_finds_no_drift(check):
    assert (check.rc, check.document["compliant"]) == (0, True), check.document["summary"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vm.swappiness", ["1"]),
        ("vm.zone_reclaim_mode", ["0"]),
        ("net.ipv4.tcp_fin_timeout", ["30"]),
        ("net.ipv4.tcp_keepalive_time", ["60"]),
        ("net.ipv4.ip_local_port_range", ["20000", "65535"]),
        ("net.ipv4.tcp_slow_start_after_idle", ["0"]),
    ],
)
def test_the_kernel_has_the_value(kernel, key, value):
    assert kernel[key] == value


def test_raise_only_values_are_raised(kernel):
    assert int(kernel["net.core.somaxconn"][0]) >= 65535
    assert int(kernel["vm.max_map_count"][0]) >= 1048576


def test_automatic_values_are_resolved(check):
    for key in ("vm.dirty_bytes", "vm.min_free_kbytes"):
        assert int(check.settings[key]["want"]) > 0, key
    assert check.settings["vm.dirty_bytes"]["status"] == "ok"


def test_huge_pages(host):
    assert "[madvise]" in host.file(f"{THP}/enabled").content_string
    assert "[madvise]" in host.file(f"{THP}/defrag").content_string


def test_every_setting_ends_in_a_known_status(check):
    assert check.keys("ok", "unsupported") == sorted(check.settings), check.document["summary"]
    # A network namespace does not have the backlog of the machine: to be reported, not to be skipped.
    assert check.settings["net.core.netdev_max_backlog"]["status"] == "unsupported"
    assert check.settings["net.core.netdev_max_backlog"]["reason"]


def test_files(host):
    agent = host.file("/usr/local/bin/mlnode")
    assert agent.is_file
    assert (agent.user, agent.group, oct(agent.mode)) == ("root", "root", "0o755")
    assert host.file("/etc/mlnode/declared.d/node.json").is_file
    drop_in = host.file("/etc/sysctl.d/zz-mlnode-node.conf")
    assert oct(drop_in.mode) == "0o644"
    assert "vm.swappiness" in drop_in.content_string
    assert host.file("/var/lib/mlnode/origin.json").is_file


def test_boot_service(host):
    assert host.check_output("systemctl is-enabled mlnode-apply.service") == "enabled"
    assert host.file("/etc/systemd/system/multi-user.target.wants/mlnode-apply.service").is_symlink
    assert host.run("systemctl is-failed mlnode-apply.service").rc != 0
    assert host.check_output("systemctl --failed --no-legend --plain") == ""


def test_explain_knows_the_origin(host):
    text = host.run("/usr/local/bin/mlnode explain net.ipv4.tcp_fin_timeout")
    assert text.rc == 0, text.stderr
    # The kernel's default, with which the container has started.
    assert "60" in text.stdout


def test_the_node_that_declares_it_is_checked_on_a_timer(host):
    """According to systemd, also after a restart. The service ends before its start is over."""
    watched = host.backend.get_hostname() == "mlnode-deb13"
    assert host.service("mlnode-check.timer").is_running == watched
    assert host.file("/srv/mlnode.prom").exists == watched
    if not watched:
        return
    before = host.file("/srv/mlnode.prom").content_string
    host.check_output("systemctl start mlnode-check.service")
    text = host.file("/srv/mlnode.prom").content_string
    assert "\nmlnode_check_success 1\n" in text
    assert text != before, "a check leaves another time"
    drifted = [line for line in text.splitlines() if 'state="drifted"' in line]
    assert drifted
    assert all(line.endswith(" 0") for line in drifted)
