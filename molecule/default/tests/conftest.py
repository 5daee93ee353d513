# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of all stages of the scenario. Tests run on the host and look into the containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Counters, and values that the kernel changes itself.
VOLATILE = re.compile(
    r"fs\.(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\.)"
    r"|kernel\.(hung_task_|ns_last_pid|perf_event_max_sample_rate|pty\.nr|random\.)"
    r"|net\.netfilter\.nf_conntrack_count"
)


@dataclass(frozen=True)
class Check:
    """Answer of `mlnode check --json`."""

    rc: int
    document: dict[str, Any]

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        return {item["key"]: item for item in self.document["settings"]}

    def keys(self, *statuses: str) -> list[str]:
        return sorted(key for key, item in self.settings.items() if item["status"] in statuses)


@pytest.fixture(scope="module")
def check(host):
    result = host.run("/usr/local/bin/mlnode check --json")
    assert result.rc in (0, 3), result.stderr
    return Check(result.rc, json.loads(result.stdout))


@pytest.fixture(scope="module")
def kernel(host):
    """Every sysctl of the container as a list of words, in one call: each costs a third of a second."""
    lines = host.run("sysctl -a 2>/dev/null").stdout.splitlines()
    return {key: value.split() for key, _, value in (line.partition(" = ") for line in lines)}


@pytest.fixture
def state(host, kernel):
    """All that a run could have left behind: kernel settings, huge pages, files, enabled units."""
    found = {key: value for key, value in kernel.items() if not VOLATILE.match(key)}
    for line in host.check_output(
        "grep -rs . /sys/kernel/mm/transparent_hugepage --include=*enabled --include=defrag"
    ).splitlines():
        path, _, value = line.partition(":")
        found[path] = value
    for path in host.check_output(
        "find /etc /usr/local /var/lib -xdev -path /var/lib/systemd -prune -o -printf '%p %M %u %l\\n'"
    ).splitlines():
        found[path] = "there"
    return found


@pytest.fixture(scope="module")
def drift_play():
    """The play that compares all nodes with their declaration, in the environment that molecule made."""
    inventories = f"--inventory={os.environ['MOLECULE_INVENTORY_FILE']}", "--inventory=inventory/hosts.yml"
    return subprocess.run(
        ["ansible-playbook", *inventories, "mlnode.tuning.drift"],
        cwd=os.environ["MOLECULE_SCENARIO_DIRECTORY"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def baseline(host):
    """File that keeps the state of this container before the first run between the stages."""
    folder = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
    return folder / f"baseline-{host.backend.get_hostname()}.json"
