# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines for the tests: each profile is booted once for all processes, and set back for every module
that asks for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator

import pytest

from . import host, profiles
from .collection import Collection
from .machine import PREFIX, Machine

#: The state of every machine before a test has touched it
BORN = "born"

#: The same with the agent, which an emulated CPU takes 13 seconds to compile
AGENT = "agent"

_CONSOLE_CHARACTERS = 4000

#: The environment variable with the folder in which processes share what they have booted
_SHARED = "MLNODE_LAB_SHARED"


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
    os.environ[_SHARED] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@contextlib.contextmanager
def _shared(name: str) -> Iterator[pathlib.Path]:
    """The place of a machine in the shared folder, for one process at a time."""
    place = pathlib.Path(os.environ[_SHARED], name)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


class Lab:
    """The machines of this session."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.running: dict[str, Machine] = {}
        self._say = say

    def machine(self, name: str, state: str = BORN) -> Machine:
        """The machine of a profile in a state that this or another process has saved, in a few seconds;
        else it is booted, and for AGENT gets the agent of the checkout."""
        for other in self.running.values():
            other.pause()
        if name not in self.running:
            self.running[name] = Machine(profiles.named(name))
        machine = self.running[name]
        try:
            if state in machine.states:
                machine.set_back(state)
                return machine
            with _shared(f"{name}-{state}") as saved:
                if saved.exists():
                    machine.take(saved)
                    machine.set_back(state)
                else:
                    self._reach(name, state)
                    machine.save(state)
                    machine.give(saved)
        except BaseException:
            # Or every later test would try to pause it.
            self.running.pop(name, machine).close()
            raise
        return machine

    def _reach(self, name: str, state: str) -> None:
        if state == BORN:
            self._say(f"booting {name}")
            self.running[name].start()
        else:
            assert Collection.checkout().task("agent", self.machine(name)).status == 0

    def close(self) -> None:
        for machine in self.running.values():
            machine.close()
        self.running.clear()


_LAB = pytest.StashKey[Lab]()


def why_not(name: str) -> str:
    """Why a profile cannot be booted here, or an empty string."""
    unusable = host.unusable()
    if unusable:
        return unusable
    missing = [part.name for part in profiles.named(name).parts if not part.path.exists()]
    return f"{', '.join(missing)} not built: make lab PROFILE={name}" if missing else ""


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    found = Lab(lambda words: terminal.write(f"[{words}] ") if terminal else None)
    request.config.stash[_LAB] = found
    yield found
    found.close()


def _fixture(name: str, profile: str, state: str = BORN) -> Callable[[Lab], Iterator[Machine]]:
    @pytest.fixture(scope="module", name=name)
    def machine(lab: Lab) -> Iterator[Machine]:
        if reason := why_not(profile):
            pytest.skip(reason)
        found = lab.machine(profile, state)
        yield found
        found.assert_no_unit_failed()

    return machine


baremetal = _fixture("baremetal", "baremetal")
epp = _fixture("epp", "epp")
boot = _fixture("boot", "boot")
cloud = _fixture("cloud", "cloud")
virtual = _fixture("virtual", "virtual")
peer = _fixture("peer", "peer")
debian12 = _fixture("debian12", "debian12")
runtimes = _fixture("runtimes", "runtimes")
uefi = _fixture("uefi", "uefi")
selinux = _fixture("selinux", "selinux")
apparmor = _fixture("apparmor", "apparmor")
baremetal_agent = _fixture("baremetal_agent", "baremetal", AGENT)
cloud_agent = _fixture("cloud_agent", "cloud", AGENT)
managers_agent = _fixture("managers_agent", "managers", AGENT)


@pytest.fixture(scope="session")
def collection() -> Collection:
    return Collection.checkout()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is printed at once, as the end of the session may be an hour away, or never come."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} ({report.when}):\n{report.longreprtext}", file=sys.stderr, flush=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The ends of the consoles go with every failure: what the kernel said is half of the story."""
    report = yield
    if report.failed and _LAB in item.config.stash:
        for name, machine in item.config.stash[_LAB].running.items():
            report.sections.append((f"console of {name}", machine.console()[-_CONSOLE_CHARACTERS:]))
    return report
