# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from mlnode.agent import registry
from mlnode.knobs.limits.parse import LIMITS, SERVICE_NAMES


def test_the_options_are_those_of_the_library() -> None:
    options = registry.options("limits")
    assert [*options] == [*LIMITS, "domains", "services", "defaults"]
    for name in SERVICE_NAMES:
        assert f"V({name})" in options["services"].text
