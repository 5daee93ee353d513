# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What effect.yml refuses before anything is touched; docs/guide/effects.md has a run of it."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["a"], "has 1 hosts in this inventory, of which tcp is to be measured 1 times"),
        (["a", "b"], "One pair in one block is one difference"),
    ],
    ids=["one node", "one difference"],
)
def test_what_could_say_nothing_is_refused(tmp_path: pathlib.Path, nodes: list[str], words: str) -> None:
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_become": False,
            "campaign_addresses": [f"192.0.2.{at}"],
        }
        for at, name in enumerate(nodes, 1)
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"training": {"hosts": hosts}}), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/effect.yml", "--check")

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert words in said
    assert "Look in which state the node is" not in said
