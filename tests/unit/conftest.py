# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from typing import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import HealthCheck, settings

# A busy machine is no bug: no example has a time to be done in (200 ms without this), nor to be made in.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_sessionfinish() -> None:
    """Of each worker, too, which ends without running what is registered for the end of a process."""
    build.remove()


@pytest.fixture(autouse=True, scope="session")
def _umask() -> Iterator[None]:
    """Folders of a machine in a folder are those of a distribution, whatever the umask of who runs this."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A small Debian node, untouched."""
    return Machine.debian(str(tmp_path / "node"))
