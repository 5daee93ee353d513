# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that loses its power in a phase of effect.yml in its declared state. Its controller loses it."""

from __future__ import annotations

import json
import pathlib
import time

import pytest

from .collection import Collection
from .machine import Machine

KEY, DECLARED = "/proc/sys/vm/max_map_count", "1048576"
PROFILE = {"sysctl": {"settings": {"vm.max_map_count": int(DECLARED)}}}

#: Ends at once, and in the declared state never
JOB = f"test $(cat {KEY}) != {DECLARED} || exec sleep 900"

#: All that a measurement leaves on a node
FILES = "ls /etc/mlnode /var/lib/mlnode /etc/systemd/system/multi-user.target.wants"


@pytest.mark.long
def test_a_node_that_boots_in_a_phase_restores_itself(
    cloud: Machine, collection: Collection, tmp_path: pathlib.Path
) -> None:
    born = cloud.read(KEY)
    (tmp_path / "own.yml").write_text(json.dumps(PROFILE), encoding="utf-8")
    results = {"node_profile": str(tmp_path / "own.yml"), "campaign_results": str(tmp_path / "out")}
    measures = collection.start(
        "effect", cloud, effect_kinds=["command"], effect_command=["sh", "-c", JOB], effect_settle=0,
        effect_warmups=0, campaign_allow=["busy"], **results,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while cloud.run("pgrep -fx 'sleep 900'", check=False).returncode:
        assert measures.poll() is None, measures.communicate()
        assert time.monotonic() < deadline
        time.sleep(1)
    assert cloud.read(KEY).strip() == DECLARED

    cloud.cut_power()
    cloud.start()

    assert cloud.read(KEY) == born
    files = cloud.run(FILES, check=False).stdout
    assert "lease" not in files, files
    assert "declared" not in files, files
    assert "the node was booted" in cloud.read("/var/lib/mlnode/undone.json")
    said, _nothing = measures.communicate(timeout=900)
    assert "phase 2 of 24 (B) was lost" in said
    assert "Not put back: lab" in said
    played = collection.play("effect", cloud, effect_put_back=True, **results)
    assert played.status == 0
    assert not [*tmp_path.glob("out/unfinished/*")]
