# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.effort import TRIED
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory, no_disk
from mlnode.engine import boot_run
from mlnode.knobs.nic import settle as nic_settle

_PREFIX = "tried "


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Links of these NICs are up again at once, and nothing here survives a power cut anyway."""
    monkeypatch.setattr(nic_settle, "RESET_SECONDS", 0.0)
    monkeypatch.setattr(boot_run, "_LOOK_SECONDS", 0.0)
    yield from no_disk()


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sends what a test has tried to the process that reports it."""
    TRIED.clear()
    yield
    request.node.user_properties += [(_PREFIX + what, count) for what, count in TRIED.items()]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    found: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":  # the last report of a test has them all
                continue
            for name, count in getattr(report, "user_properties", ()):
                if name.startswith(_PREFIX):
                    found[name[len(_PREFIX) :]] += count
    if found:
        words = ", ".join(f"{count:,} {what}" for what, count in sorted(found.items()))
        terminalreporter.write_line(f"tried: {words}")


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    yield from in_memory()
