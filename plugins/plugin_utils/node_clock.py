# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a node in its answer, as only the controller knows when the answer had come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._mlnode.checks import module_result
from ..module_utils._mlnode.checks.campaign.clock import TOLERATED, Offset, offset
from ..module_utils._mlnode.checks.campaign.kind import LEAD
from ..module_utils._mlnode.checks.model import Check, Verdict
from ..module_utils._mlnode.checks.preflight.clock import SYNC
from .campaign import model

#: Seconds. munge(7) refuses a credential that seems older than its default TTL, Kerberos a clock skew above
#: its default clockskew (krb5.conf(5)): 300 both.
REFUSED = 300.0

_ALIKE = f"{SYNC}; if all nodes have the same offset, correct the controller's clock"


def compared(
    module: str, answer: dict[str, Any], fail_on: str, asked: float, answered: float
) -> dict[str, Any]:
    """The answer, with the findings about its `clock` in place of the field. asked, answered: seconds since
    1970 by the controller's clock."""
    times = answer.pop("clock", None)
    clock_offset = (
        offset(asked, times[0], times[1], answered) if isinstance(times, list) and len(times) == 2 else None
    )
    if module == "campaign" and not answer.get("failed"):
        return {**answer, **_of_campaign(clock_offset), "took": answered - asked}
    return (
        _of_preflight(module, clock_offset, answer, fail_on)
        if clock_offset and "checks" in answer
        else answer
    )


def _of_campaign(clock_offset: Offset | None) -> dict[str, Any]:
    """`shift`: seconds to add to a time that this node is given. A clock that may be right is left alone, as
    NTP is more exact than this."""
    if clock_offset is None or clock_offset.least <= TOLERATED:
        return {"shift": 0.0}
    if clock_offset.uncertain <= LEAD:
        return {"shift": clock_offset.seconds, "clock_note": f"its clock is {clock_offset}: {_ALIKE}"}
    return {
        "failed": True,
        "msg": f"campaign: the clock of this node is {clock_offset}, which is too uncertain for rounds: "
        f"{_ALIKE}",
    }


def _of_preflight(
    module: str, clock_offset: Offset, answer: Mapping[str, Any], fail_on: str
) -> dict[str, Any]:
    checks = [*map(_check, answer["checks"]), judged(clock_offset)]
    more = {name: answer[name] for name in ("seconds",) if name in answer}
    return module_result.result(module, checks, fail_on, **more)


def _check(fields: Mapping[str, Any]) -> Check:
    return Check(**{**fields, "verdict": model.verdict(fields["verdict"])})


def judged(clock_offset: Offset) -> Check:
    """Verdict on the clock of a node."""
    name, source = "clock_offset", "the controller's clock, at half of the time between question and answer"
    expected = f"within {REFUSED:g} s of the controller's clock, and not certainly off by {TOLERATED:g} s"
    verdict = Verdict.UNKNOWN
    if clock_offset.least > REFUSED:
        verdict = Verdict.FAIL
    elif clock_offset.least > TOLERATED:
        verdict = Verdict.WARN
    elif clock_offset.most <= REFUSED:
        verdict = Verdict.PASS
    advice = "" if verdict is Verdict.PASS else _ALIKE
    return Check(name, "node", verdict, expected, str(clock_offset), source, advice)
