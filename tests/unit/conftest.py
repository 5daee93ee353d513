# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import HealthCheck, settings
from mlnode.agent import agent_modules  # noqa: F401  # of which the agent is built
from mlnode.host import places
from mlnode.knobs.nic import settle
from mlnode.model.setting import BootFile

# A busy machine is no bug: no example has a time to be done in (200 ms without this), nor to be made in.
settings.register_profile(
    "patient", max_examples=25 * EFFORT, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--once", action="store_true", help="each test with the first of its values alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The long ones first, or one process has nothing to do at the end (with --no-loadscope-reorder).
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("robustness", "system"))))
    if not config.getoption("--once"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    kept = {item.nodeid for item in first.values()}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = first.values()


def pytest_sessionfinish() -> None:
    """Of each worker, too, which ends without running what is registered for the end of a process."""
    build.remove()


@pytest.fixture(autouse=True, scope="session")
def _umask() -> Iterator[None]:
    """Folders of a machine in a folder are those of a distribution, whatever the umask of who runs this."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True, scope="session")
def _known_files() -> Iterator[None]:
    """No kind may ask for a file that a revert would refuse to put back: every file that any test makes one
    ask for is held against the table."""
    new = BootFile.__new__

    def checked(cls: type[BootFile], path: str, *rest: Any, **named: Any) -> BootFile:
        assert places.may_write(path), f"{path} is missing in places.py"
        return new(cls, path, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BootFile, "__new__", checked)
        yield


@pytest.fixture(autouse=True, scope="session")
def _unwatched() -> Iterator[None]:
    """Links of NICs in a folder are up again at once; a test of the waiting itself says how long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle, "RESET_SECONDS", 0.0)
        yield


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A small Debian node, untouched."""
    return Machine.debian(str(tmp_path / "node"))
