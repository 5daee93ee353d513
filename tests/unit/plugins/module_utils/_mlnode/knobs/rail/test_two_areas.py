# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a rule for rails and a key of sysctl both mean."""

from __future__ import annotations

import pathlib

import pytest
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.knobs.rail.kind import kind as rail
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import DeclarationError

from .node import RAILS, RailNode

KEY = "net.ipv4.conf.eth2.rp_filter"


def requests(value: object) -> list[Request]:
    return [
        Request("one", sysctl, {"settings": {KEY: value}}),
        Request("one", rail, {"rules": [RAILS]}),
    ]


def test_two_areas_that_want_one_file_to_be_different_are_refused(tmp_path: pathlib.Path) -> None:
    node = RailNode.made(tmp_path / "node")
    before = node.tree()
    for run in (
        lambda: engine.preview(node, requests(1)),
        lambda: engine.apply_together(node, lambda: requests(1)),
    ):
        with pytest.raises(DeclarationError, match="declare it in one of the two areas") as caught:
            run()
        assert f"{KEY} (sysctl)" in str(caught.value)
        assert "rail.rails.rp_filter (rail)" in str(caught.value)
        assert node.tree() == before
    engine.apply_together(node, lambda: requests(2))
    assert node.now("/proc/sys/net/ipv4/conf/eth2/rp_filter") == "2"


def test_a_floor_is_content_with_more(tmp_path: pathlib.Path) -> None:
    node = RailNode.made(tmp_path / "node")

    engine.apply_together(node, lambda: requests({"at_least": 1}))

    assert node.now("/proc/sys/net/ipv4/conf/eth2/rp_filter") == "2"


def test_a_floor_above_the_other_area_is_refused(tmp_path: pathlib.Path) -> None:
    node = RailNode.made(tmp_path / "node")

    with pytest.raises(DeclarationError, match=r"\(sysctl\) 3 or more: declare it in one of the two areas"):
        engine.apply_together(node, lambda: requests({"at_least": 3}))
