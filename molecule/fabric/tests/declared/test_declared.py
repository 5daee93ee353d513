# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the play: the files for the next boot exist, and no kernel value has changed."""

from __future__ import annotations

import json

import pytest


def test_all_of_it_is_declared(host):
    kinds = json.loads(host.file("/etc/mlnode/declared.d/fabric.json").content_string)["kinds"]
    assert {*kinds} == {"modules", "sysctl", "limits", "nic", "rail", "qos", "nccl", "boot"}
    (rule,) = kinds["qos"]["rules"]
    assert (rule["dscp"], rule["pfc"], rule["nics"]) == (
        {"26": 3, "48": 6},
        [3],
        {"rails": True, "link_layer": "Ethernet"},
    )


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/sysctl.d/zz-mlnode-fabric.conf", "net.ipv4.tcp_mtu_probing = 1"),
        ("/etc/modules-load.d/mlnode-modules.fabric.conf", "rdma_ucm"),
        ("/etc/nccl.conf", "NCCL_DEBUG=WARN"),
    ],
)
def test_files_of_the_system_carry_what_they_can(host, path, line):
    assert line in host.file(path).content_string.splitlines()


def test_what_depends_on_the_machine_is_left_to_its_boot(host):
    assert "NCCL_IB_HCA" not in host.file("/etc/nccl.conf").content_string
    assert "gc_thresh" not in host.file("/etc/sysctl.d/zz-mlnode-fabric.conf").content_string


def test_no_value_of_the_kernel_has_moved(state, baseline):
    before = json.loads(baseline.read_text())
    moved = {
        name: (before.get(name), value)
        for name, value in state.items()
        if not name.startswith("/") and before.get(name) != value
    }
    assert moved == {}
