# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of a command, as text and as a list."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import command
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import MeasureError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("bench --name 'a b' $HOME", ["bench", "--name", "a b", "$HOME"]),
        (["bench", "-n", 200, 0.5], ["bench", "-n", "200", "0.5"]),
    ],
)
def test_a_command_has_words(given: Any, words: list[str]) -> None:
    assert command._words(given) == words


@pytest.mark.parametrize("given", [None, "", "  ", [], 5, True, [True], [["a"]], {"a": 1}, "a 'b", ["a\0"]])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(MeasureError, match=r"^effect_command: expected a command or a list of its words"):
        command._words(given)
