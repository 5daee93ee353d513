# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the module measure that have no effect with its other options. A run with one is refused: its
user expects something that would not happen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple


class Needs(NamedTuple):
    """Options that have an effect only with one of these values of another option. values: empty for any
    value."""

    options: tuple[str, ...]
    other: str
    values: tuple[Any, ...] = ()


#: The launchers that start several nodes at once
_TOGETHER = ("mpirun", "srun")

#: Between nodes, by TCP
_TCP = ("duration", "streams", "tcp_port", "timeout", "lead")

#: For a search of slow nodes
_SEARCH = ("kind", "rounds", "limit", "second_look", "balance", "balance_node", "balance_names")

#: Value of the option `kind` → needs of its options
NEEDS: Mapping[str, tuple[Needs, ...]] = {
    "effect": (
        Needs(
            (
                "effect_command", "effect_metrics", "effect_launcher", "effect_warmups", "effect_runs",
                "effect_timeout",
            ),
            "effect_kinds", ("command",),
        ),
        Needs(("effect_launcher_arguments", "effect_processes"), "effect_launcher", _TOGETHER),
        Needs(("effect_rounds", *(f"campaign_{name}" for name in _TCP)), "effect_kinds", ("tcp",)),
        Needs(("effect_phases",), "effect_by"),
        Needs(tuple(f"campaign_{name}" for name in _SEARCH), "kind", ("campaign",)),
    ),
    "nccl": (
        Needs(("nccl_launcher_arguments",), "nccl_launcher", _TOGETHER),
        Needs(("nccl_balance_node",), "nccl_balance", (True,)),
    ),
    "campaign": (
        Needs(("campaign_streams",), "campaign_kind", ("tcp",)),
        Needs(("campaign_balance_node", "campaign_balance_names"), "campaign_balance", (True,)),
    ),
}  # fmt: skip


def refused(given: Mapping[str, Any], spec: Mapping[str, Any], own: Collection[str]) -> list[str]:
    """A reason for each option without an effect. given: all options. spec: of the module. own: options that
    were set for this run alone; variables of campaigns may be in an inventory for other runs."""
    if given.get("effect_put_back"):  # the options of the unfinished run may be given again
        return []
    reasons = []
    for needs in NEEDS[given["kind"]]:
        now = given[needs.other]
        if {*(now if isinstance(now, list) else [now])} & {*needs.values} or (now and not needs.values):
            continue
        values = " or ".join(map(_shown, needs.values))
        missing = f"with {needs.other} {_shown(now)}" if values else f"without {needs.other}"
        reasons += [
            f"{name}: has no effect {missing}; omit it, or set {needs.other}{values and f' to {values}'}"
            for name in needs.options
            if given[name] != spec[name].get("default") and (name in own or not name.startswith("campaign_"))
        ]
    return reasons


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value).lower()
