# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a drop-in of the boot service, by what is to be said of them. tests/system/test_drop_ins.py has
systemd itself run the service with each."""

from __future__ import annotations

import pathlib

from ansible_collections.mlnode.tuning.tests.unit import cases

_LINES = cases.load(pathlib.Path(__file__).with_suffix(".yml"))
HARMLESS, CHANGES, NOT_JUDGED = (tuple(_LINES[name]) for name in ("harmless", "changes", "not_judged"))


def text(line: str) -> str:
    """A drop-in with one line."""
    section, _blank, assignment = line.partition("] ")
    return f"{section}]\n{assignment}\n"
