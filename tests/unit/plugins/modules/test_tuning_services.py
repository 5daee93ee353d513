# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

from ansible_collections.mlnode.tuning.plugins.modules import tuning_services
from mlnode.agent import registry
from mlnode.knobs.services.known import SERVICES


def test_every_service_is_documented() -> None:
    about = registry.options("services")["services"].text
    page = pathlib.Path(tuning_services.__file__).parents[2] / "docs/knobs/services.md"
    for name in SERVICES:
        assert f"C({name})" in about
        assert f"| `{name}` |" in page.read_text(encoding="utf-8")
