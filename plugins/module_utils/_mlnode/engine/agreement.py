# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Areas of one declaration agree on each kernel file: otherwise every run would change it twice."""

from __future__ import annotations

from typing import Sequence

from ..model import values
from ..model.errors import DeclarationError
from ..model.record import NamedTuple
from .plan import Plan


def require(plans: Sequence[Plan]) -> None:
    """Raises DeclarationError for a file that two areas want to be different. One that wants a least value is
    content with more."""
    wanted: dict[str, _Wish] = {}
    floors: list[tuple[str, _Wish]] = []
    for area, row in ((plan.area, row) for plan in plans for row in plan.rows):
        for part in () if row.reading.invalid or row.reading.refusal else row.reading.parts:
            floor = row.setting.floor or row.setting.want
            if row.setting.raise_only and floor:
                floors.append((part.path, _Wish(area, row.setting.key, floor)))
                continue
            wish = _Wish(area, row.setting.key, part.want)
            first = wanted.setdefault(part.path, wish)
            if first.area != wish.area and not values.same(first.want, wish.want):
                raise _two_areas(part.path, first, wish)
    for path, wish in floors:
        first = wanted.get(path, wish)
        if first.area != wish.area and not values.reaches(wish.want, first.want):
            raise _two_areas(path, first, wish._replace(want=f"{wish.want} or more"))


class _Wish(NamedTuple):
    """The value that a setting of an area wants of a file."""

    area: str
    key: str
    want: str


def _two_areas(path: str, first: _Wish, second: _Wish) -> DeclarationError:
    return DeclarationError(
        f"{first.key} ({first.area}) wants {path} to be {first.want}, and {second.key} ({second.area}) "
        f"{second.want}: declare it in one of the two areas"
    )
