# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import rollout
from ansible_collections.mlnode.tuning.plugins.plugin_utils.rollout import RolloutError


@pytest.fixture
def state(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "rollout.json"


def test_a_node_is_done_with_the_declaration_that_it_had_last(state: pathlib.Path) -> None:
    assert not rollout.is_done(state, "gpu1", "node", "a")
    rollout.add(state, "gpu1", "node", "a")
    rollout.add(state, "gpu11", "node", "b")
    assert rollout.is_done(state, "gpu1", "node", "a")
    assert not rollout.is_done(state, "gpu1", "fabric", "a")
    assert not rollout.is_done(state, "gpu11", "node", "a")
    assert not rollout.is_done(state, "node", "node", "a")

    rollout.add(state, "gpu1", "node", "b")

    assert not rollout.is_done(state, "gpu1", "node", "a"), "declared otherwise meanwhile"
    assert [json.loads(line)["host"] for line in state.read_text().splitlines()] == ["gpu1", "gpu11", "gpu1"]


def test_the_digest_is_of_what_is_declared_and_by_which_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(**options: object) -> str:
        return rollout.digest({"areas": {"thp": {"enabled": "madvise"}}, "diff": False, **options})

    first = digest()
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert digest(diff=True, check=True) == first
    assert digest(areas={"thp": {"enabled": "never"}}) != first
    assert digest(selected=["thp"]) != first
    monkeypatch.setattr(rollout.agent_source, "said", lambda: {"sha256": "another"})
    assert digest() != first


@pytest.mark.parametrize("line", ['{"host": "gpu1", "declar', '["gpu1"]', '{"host": "gpu1"}'])
def test_a_broken_line_about_the_node_is_named(state: pathlib.Path, line: str) -> None:
    rollout.add(state, "gpu2", "node", "a")
    with state.open("a") as file:
        file.write(f"{line}\n")

    with pytest.raises(RolloutError, match=r"rollout.json:2: not a line of a rollout; remove it"):
        rollout.is_done(state, "gpu1", "node", "a")
    assert rollout.is_done(state, "gpu2", "node", "a")


def test_a_file_that_cannot_be_written_is_named_before_anything_is_done(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "missing/rollout.json"
    with pytest.raises(RolloutError, match=r"missing/rollout\.json"):
        rollout.is_done(path, "gpu1", "node", "a")
    with pytest.raises(RolloutError, match=r"missing/rollout\.json"):
        rollout.add(path, "gpu1", "node", "a")
