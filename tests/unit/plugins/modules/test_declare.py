# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mlnode.tuning.plugins.action import declare as action
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from mlnode.agent.registry import KINDS


def test_every_area_is_an_option() -> None:
    assert {*KINDS} <= {*action._SPEC}
    assert {*action._SPEC} - {*KINDS} == {*options_of.module("declare")}
