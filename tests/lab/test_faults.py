# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the lab notice? Three faults, each planted into a copy of the collection, that a claim has to catch.

Each claim is first made of the collection as it is: a check that fails on everything would catch every fault.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from . import claims
from .collection import Collection
from .conftest import AGENT, Lab, why_not
from .faults import FAULTS
from .machine import Machine

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def built() -> None:
    if reason := why_not("cloud"):
        pytest.skip(reason)


@pytest.mark.parametrize(
    "claim", [claims.a_value_that_does_not_take_is_an_error, claims.a_later_file_is_reported]
)
def test_the_claim_holds(
    claim: Callable[[Collection, Machine], None], lab: Lab, collection: Collection
) -> None:
    claim(collection, lab.machine("cloud", AGENT))


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_caught(name: str, lab: Lab, tmp_path: pathlib.Path) -> None:
    """On a machine without the agent, as the faulty collection has one of its own."""
    fault = FAULTS[name]
    faulty = Collection.copy(tmp_path)
    faulty.patch(fault.file, fault.old, fault.new)
    with pytest.raises(AssertionError, match=fault.words):
        fault.claim(faulty, lab.machine("cloud"))
