# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions that a controller asks the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def declare(areas: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Options of the question `declare`: all that it takes, with the usual values if not given."""
    return {
        "name": "node",
        "layers": ["runtime", "boot"],
        "on_unsupported": "warn",
        "areas": areas,
        "profile": {},
        "selected": [*areas],
        "leave": False,
        "confirm_seconds": 0,
        "fabric_type": "",
        "fail_at": "high",
        "ignore": [],
        "interpreter": "/usr/bin/env python3",
        "check": False,
        "risky": True,
        "install": True,
        "diff": True,
        **changes,
    }
