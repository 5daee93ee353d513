# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind pull: a timer that fetches new declarations of this node from a web server."""

from __future__ import annotations

from ...engine.kind import Facts
from ...host import places
from ...model.errors import DeclarationError
from ...model.schema import Checked
from ...model.setting import Setting
from ..timers import TimerKind
from . import schema as own


class PullKind(TimerKind):
    KIND = "pull"
    OPTIONS = own.OPTIONS
    DROP_IN = places.PULL_DROP_IN
    ABOUT = "a new declaration is looked for"

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        if not given:
            return []
        for name in ("url", "node", "signers"):
            if not given.get(name):
                raise DeclarationError(f"{self.KIND}.{name}: is required")
        return [Setting(self.KIND, "pull.url", self.path, given["url"], given["url"])]


kind = PullKind()
