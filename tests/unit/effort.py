# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much is tried: EFFORT is 1 in `make test`, and more in `make robustness`, which sets the variable."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

EFFORT = int(os.environ.get("MLNODE_ROBUSTNESS", "1"))

#: What a test has tried → how often; pytest reports it at its end
TRIED: Counter[str] = Counter()


def examples(count: int) -> settings:
    """No deadline, as a busy machine is no bug; and `make test` tries the same in every run."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(
        max_examples=count * EFFORT, deadline=None, derandomize=EFFORT == 1, suppress_health_check=checks
    )


def half(everything: Iterable[T], first: int) -> list[T]:
    """Every second one, from the first or the second on; all with more effort."""
    return [*everything][first::2] if EFFORT == 1 else [*everything]


def some(everything: Sequence[T], count: int, seed: int = 20) -> list[T]:
    """count times EFFORT of them, or all: the same ones in every run, and in their order."""
    if count * EFFORT >= len(everything):
        return list(everything)
    chosen = random.Random(seed).sample(range(len(everything)), count * EFFORT)
    return [everything[at] for at in sorted(chosen)]
