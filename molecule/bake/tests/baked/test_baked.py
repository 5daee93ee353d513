# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After bake.yml: the files exist, and the build machine's own state is unchanged."""

from __future__ import annotations

import json

import pytest

FILES = [
    "/usr/local/bin/mlnode",
    "/etc/mlnode/declared.d/fabric.json",
    "/etc/mlnode/declared.d/node.json",
    "/etc/modules-load.d/mlnode-modules.fabric.conf",
    "/etc/sysctl.d/zz-mlnode-node.conf",
    "/etc/systemd/system/mlnode-apply.service",
    "/etc/systemd/system-preset/50-mlnode.preset",
    "/etc/udev/rules.d/90-mlnode.rules",
]
WANTS = "/etc/systemd/system/multi-user.target.wants"
UNITS = ["mlnode-apply.service", "mlnode-nic.service", "mlnode-nic.path"]


@pytest.mark.parametrize("path", FILES)
def test_what_a_boot_needs_is_there(host, path):
    assert host.file(path).is_file


@pytest.mark.parametrize("unit", UNITS)
def test_the_units_are_enabled_by_links(host, unit):
    assert host.file(f"{WANTS}/{unit}").linked_to == f"/etc/systemd/system/{unit}"


def test_no_value_has_moved(state, baseline):
    before = json.loads(baseline.read_text())
    values = [name for name in before if not name.startswith(("/etc", "/usr", "/var"))]
    assert len(values) > 500, "too few to say anything"
    assert {name: (before[name], state.get(name)) for name in values if state.get(name) != before[name]} == {}


def test_the_running_systemd_was_not_told(host):
    assert host.check_output("systemctl list-units --all --plain --no-legend 'mlnode*'") == ""
    assert host.check_output("systemctl --failed --no-legend --plain") == ""


def test_nothing_that_only_this_machine_is_was_written(host):
    words = host.file("/etc/sysctl.d/zz-mlnode-node.conf").content_string
    assert "vm.swappiness = 1\n" in words
    # Numbers that the hardware decides.
    for key in ("vm.min_free_kbytes", "vm.dirty_bytes", "net.core.rmem_max", "net.ipv4.tcp_rmem"):
        assert key not in words
    assert not host.file("/etc/nccl.conf").exists, (
        "it must name the devices and interfaces of the booted node"
    )
    # Memory is locked for devices that only the machine knows.
    limits = host.file("/etc/systemd/system.conf.d/zz-mlnode-node.conf").content_string
    assert "DefaultLimitNOFILE=1024:1048576\n" in limits
    assert "MEMLOCK" not in limits
    declared = json.loads(host.file("/etc/mlnode/declared.d/node.json").content_string)
    assert declared["kinds"]["sysctl"]["settings"]["vm.min_free_kbytes"] == "auto"
    found = sorted(host.file("/etc/mlnode").listdir())
    assert found == ["declared.d", "origin.json"], "no list of interfaces or of interrupts"


def test_no_value_of_this_machine_is_kept_as_what_its_copies_were(host):
    words = host.file("/var/lib/mlnode/origin.json").content_string
    assert host.file("/etc/mlnode/origin.json").content_string == words
    origin = json.loads(words)
    assert origin["entries"]
    assert [entry["key"] for entry in origin["entries"] if "file" not in entry] == []


def test_nothing_is_left_over(host):
    assert host.check_output("find /run -name '*mlnode*'") == ""
    assert host.check_output("find /tmp /var/tmp -name '*ansible*'") == ""
    assert not host.file("/root/.ansible").exists
    assert not host.file("/home/admin/.ansible").exists
