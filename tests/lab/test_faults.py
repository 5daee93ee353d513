# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the lab notice? Three faults, each planted into a copy of the collection, that a claim has to catch.

Each claim is first made of the collection as it is: a check that fails on everything would catch every fault.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from . import claims
from .collection import Collection
from .conftest import Lab, why_not
from .machine import Machine

LIBRARY = "plugins/module_utils/_mlnode"


@dataclass(frozen=True)
class Fault:
    """One line of the library, what it becomes, the claim that catches it, and the words it does so with."""

    file: str
    old: str
    new: str
    claim: Callable[[Collection, Machine], None]
    words: str


FAULTS = {
    "persistence: the drop-in is not written": Fault(
        f"{LIBRARY}/knobs/sysctl/kind.py",
        'BootFile(f"{DROP_IN}{name}.conf", _file(name, lines))',
        'BootFile(f"{DROP_IN}{name}.conf", None)',
        claims.boot_files_alone_bring_values_back,
        # The run reads its files as the next boot would, and ends in failure.
        "site.yml ended with 2",
    ),
    "read-back: what was written is taken for what is": Fault(
        f"{LIBRARY}/engine/steps.py",
        "if not file.partial and not fits(now.text, file.want, file.among):",
        "if False:",
        claims.a_value_that_does_not_take_is_an_error,
        "a value that did not take went unnoticed",
    ),
    "override detection: later files are not read": Fault(
        f"{LIBRARY}/linux/sysctl_d.py",
        "for name in sorted(files):",
        'for name in sorted(name for name in files if name < "zz-mlnode-u"):',
        claims.a_later_file_is_reported,
        "an override went unnoticed",
    ),
}


@pytest.fixture
def machine(lab: Lab) -> Machine:
    """A machine without cpufreq and the like boots fastest; as it was born, for every test."""
    if reason := why_not("cloud"):
        pytest.skip(reason)
    return lab.machine("cloud")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_fault_can_be_planted(fault: Fault, tmp_path: pathlib.Path) -> None:
    """Needs no machine, so that a line which has changed is noticed at once."""
    Collection.copy(tmp_path).patch(fault.file, fault.old, fault.new)


@pytest.mark.parametrize(
    "claim", [claims.a_value_that_does_not_take_is_an_error, claims.a_later_file_is_reported]
)
def test_the_claim_holds(
    claim: Callable[[Collection, Machine], None], machine: Machine, collection: Collection
) -> None:
    claim(collection, machine)


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_caught(name: str, machine: Machine, tmp_path: pathlib.Path) -> None:
    fault = FAULTS[name]
    faulty = Collection.copy(tmp_path)
    faulty.patch(fault.file, fault.old, fault.new)
    with pytest.raises(AssertionError, match=fault.words):
        fault.claim(faulty, machine)
