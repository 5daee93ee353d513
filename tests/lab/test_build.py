# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A part is built once for each recipe, whole or not at all; and a machine does not outlive its tests."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from . import accelerator, build, parts, profiles
from .build import Job, LabError, Part
from .conftest import why_not
from .machine import Machine
from .tools import Tools

_ENDS_LATER = """
import time
from ansible_collections.mlnode.tuning.tests.lab import machine, profiles
found = machine.Machine(profiles.named("cloud"))
found.power_on()
print(found.pid, found.folder, flush=True)
time.sleep(600)
"""


def make_text(job: Job) -> None:
    (job.out / "text").write_text(job.part.parameters[0])


def make_nothing(job: Job) -> None:
    job.run("false")


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("MLNODE_CACHE", str(tmp_path))
    return tmp_path / "lab"


def pair(low: str, high: str) -> tuple[Part, Part]:
    needed = Part("needed", (make_text,), (low,))
    return needed, Part("needing", (make_text,), (high,), needs=(needed,))


def test_a_second_build_does_nothing(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    _needed, needing = pair("one", "two")
    build.build([needing])
    assert (needing.path / "text").read_text() == "two"
    capsys.readouterr()
    build.build([needing])
    assert capsys.readouterr().out == ""


def test_a_changed_recipe_builds_what_depends_on_it_and_nothing_else(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_KEEP_SECONDS", -1)
    needed, needing = pair("one", "two")
    build.build([needing])
    first = needed.path.stat().st_ino
    _same, above = pair("one", "three")
    build.build([above])
    assert (needed.path.stat().st_ino, needing.path.exists()) == (first, False)
    below, both = pair("four", "three")
    build.build([both])
    assert (below.path.exists(), both.path != above.path, needed.path.exists()) == (True, True, False)


def test_a_failed_build_is_no_part_and_tells_where_its_log_is(folder: pathlib.Path) -> None:
    part = Part("broken", (make_nothing,))
    with pytest.raises(LabError, match=r"broken: false failed.*\.log"):
        build.build([part])
    assert not part.path.exists()


def test_the_parts_of_the_lab_have_keys_that_stay() -> None:
    assert len({part.key for part in parts.DISK.closure()}) == len(parts.DISK.closure())
    assert profiles.named("baremetal").disk is parts.DISK


@pytest.fixture
def built() -> None:
    if reason := why_not("cloud"):
        pytest.skip(reason)


def test_an_accelerator_counts_only_if_a_kernel_boots_with_it(built: None) -> None:
    tools, kernel = Tools(parts.TOOLS.path / "root"), parts.DISK.path / "vmlinux"
    seconds = 60  # beside other machines; what is no kernel ends at once
    assert accelerator.boots(tools, accelerator.TCG, "Nehalem", kernel, seconds)
    assert not accelerator.boots(tools, accelerator.TCG, "Nehalem", kernel.with_name("disk.raw"), seconds)


def test_a_machine_dies_with_the_tests_that_started_it(built: None) -> None:
    words = [sys.executable, "-c", _ENDS_LATER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as tests:
        assert tests.stdout is not None
        pid, folder = tests.stdout.readline().split()
        assert alive(pid)
        tests.kill()
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(pid)
    # The disk that it left behind goes with the next machine.
    assert pathlib.Path(folder).exists()
    Machine(profiles.named("cloud")).close()
    assert not pathlib.Path(folder).exists()


def alive(pid: str) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
