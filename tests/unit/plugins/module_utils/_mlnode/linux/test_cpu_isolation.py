# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's grammar of CPU lists, and which words of a command line it obeys."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import cpu_isolation
from mlnode.model import cpulist

LAST = 95


@cases.table
def test_lists(text: str, cpus: str) -> None:
    assert cpulist.render(cpu_isolation.parse(text, LAST)) == cpus


@cases.table
def test_lists_that_the_kernel_refuses(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cpu_isolation.parse(text, LAST)


@cases.table
def test_words(
    words: list[str], version: tuple[int, int] | None, flags: dict[str, str], ignored: str
) -> None:
    """flags: of each flag the CPUs, irqaffinity among them."""
    pairs = [(key, value) for key, _equals, value in (word.partition("=") for word in words)]
    given = cpu_isolation.read(pairs, range(LAST + 1), LAST, version)
    seen = {flag: cpulist.render(given.cpus(flag)) for flag in ("domain", "nohz", "managed_irq")}
    seen["irqaffinity"] = ";".join(cpulist.render(word.cpus) for word in given.words if not word.flags)
    assert {flag: cpus for flag, cpus in seen.items() if cpus} == flags
    assert "; ".join(f"{text}: {why}" for text, why in given.ignored) == ignored
