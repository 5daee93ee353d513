# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The areas of a declaration, and which of them a play is about."""

from __future__ import annotations

from collections.abc import Iterable

from ..module_utils._mlnode.agent.registry import MODULES

AREAS = tuple(MODULES)

#: Module → the area that it alone declares
VIEWS = {module: area for area, module in MODULES.items()}


def selected(run: Iterable[str] | None, skip: Iterable[str] | None, own: Iterable[str]) -> list[str]:
    """Those that --tags and --skip-tags leave, as Ansible would for a task of each with its name as a tag.

    own: the tags of the task itself and of its play. The task has `always`, which makes it run with any area
    in --tags; `always` is not an area's tag.
    """
    wanted, unwanted = {*(run or ("all",))}, {*(skip or ())}
    around = {*own} - {"always"}
    return [area for area in AREAS if _is_selected({area, *around}, wanted, unwanted)]


def _is_selected(tags: set[str], wanted: set[str], unwanted: set[str]) -> bool:
    """As ansible.playbook.taggable.Taggable.evaluate_tags(), for a task that has tags and not `always`."""
    if tags & wanted:
        chosen = True
    else:
        chosen = bool(wanted & {"all", "tagged"}) and "never" not in tags
    return chosen and not unwanted & {"all", "tagged", *tags}
