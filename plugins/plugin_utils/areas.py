# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The areas of a declaration, and which of them a play is about."""

from __future__ import annotations

from collections.abc import Iterable

from ..module_utils.mlnode.registry import KINDS

AREAS = tuple(KINDS)


def selected(run: Iterable[str] | None, skip: Iterable[str] | None, own: Iterable[str]) -> list[str]:
    """Those that --tags and --skip-tags leave, as for a task of each that has its name as a tag.

    own: the tags of the task itself and of the play around it. It has `always`, so that it runs whatever area
    is named; what Ansible has to decide by itself it has decided before.
    """
    wanted, unwanted = {*(run or ("all",))}, {*(skip or ())}
    others = {*own} - {"always"}
    if wanted & {"all", "tagged"} or wanted & others:
        found = [*AREAS]
    else:
        found = [area for area in AREAS if area in wanted]
    if unwanted & {"tagged"}:
        return []
    return [area for area in found if area not in unwanted]
