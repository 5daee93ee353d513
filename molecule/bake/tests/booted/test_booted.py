# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the agent has run: the machine has its own values, and no Ansible was needed."""

from __future__ import annotations

import json
import os
import subprocess

import pytest


def test_check_finds_no_drift(check):
    assert (check.rc, check.document["compliant"]) == (0, True), check.document["summary"]
    assert check.keys("ok", "unsupported") == sorted(check.settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [("vm.swappiness", ["1"]), ("kernel.numa_balancing", ["0"]), ("net.ipv4.tcp_fin_timeout", ["30"])],
)
def test_the_kernel_has_the_value(kernel, key, value):
    assert kernel[key] == value


def test_automatic_values_are_those_of_this_machine(host, check, kernel):
    dirty = check.settings["vm.dirty_bytes"]
    assert dirty["declared"] == "auto"
    assert int(kernel["vm.dirty_bytes"][0]) > 0
    assert dirty["boot_source"] == "mlnode-apply.service"
    assert not host.file("/etc/sysctl.d/zz-mlnode-node.conf").contains("^vm.dirty_bytes = ")


def test_what_it_was_before_is_kept_now(baseline, host):
    before = json.loads(baseline.read_text())
    entries = json.loads(host.file("/var/lib/mlnode/origin.json").content_string)["entries"]
    values = {entry["key"]: entry["value"] for entry in entries if "writes" in entry}
    assert values["vm.swappiness"].split() == before["vm.swappiness"]


def test_a_machine_that_is_tuned_is_no_image(check):
    """An image would pass on its values to other machines as original values."""
    inventories = f"--inventory={os.environ['MOLECULE_INVENTORY_FILE']}", "--inventory=inventory/hosts.yml"
    done = subprocess.run(
        ["ansible-playbook", *inventories, "mlnode.tuning.bake"],
        cwd=os.environ["MOLECULE_SCENARIO_DIRECTORY"],
        # Colours would stand in the middle of the words.
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    words = " ".join((done.stdout + done.stderr).split())
    assert "This machine is tuned: it records the original state of" in words, words
    assert "changed=0" in words
