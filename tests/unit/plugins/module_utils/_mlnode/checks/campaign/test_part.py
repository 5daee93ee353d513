# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import ASKED, SLOT
from mlnode.checks.campaign import kinds, part
from mlnode.model.errors import DeclarationError


def test_rounds_begin_and_end_by_arithmetic() -> None:
    made = part.parse(ASKED)

    assert made.round_seconds == 1 + 2 * (3 + 1 + 1.5)
    assert [made.begin(slot) - 1000 for slot in made.slots] == [0, 2 * made.round_seconds]
    assert made.end == 1000 + 3 * made.round_seconds


@pytest.mark.parametrize("name", kinds.NAMES)
def test_a_kind_has_the_name_by_which_it_is_found(name: str) -> None:
    assert name == kinds.of(name).NAME


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "../x"}, "id: '../x' is not a name"),
        ({"kind": "udp"}, "kind: 'udp' is not one of tcp"),
        ({"duration": 1}, "duration: 1 is not between 2 and 3600"),
        ({"streams": 0}, "streams: 0 is not between 1 and 64"),
        ({"tcp_port": 80}, "tcp_port: 80 is not between 1024 and"),
        ({"rounds": 0}, "rounds: 0 is not between"),
        ({"start": float("inf")}, "start: inf is not a number of seconds"),
        ({"addresses": []}, "addresses: there are 0"),
        ({"addresses": ["gpu001"]}, "addresses: 'gpu001' is not an IP address: give campaign_addresses"),
        ({"addresses": ["-R"]}, "addresses: '-R' is not an IP address"),
        ({"slots": [SLOT, SLOT]}, "slots: this node would be in two pairs of one round"),
        ({"slots": [{**SLOT, "round": 3}]}, "slots: round 3 is not one of 3"),
        ({"slots": [{**SLOT, "rails": [["10.9.0.1"]]}]}, "is not an own address and a peer's"),
        ({"slots": [{**SLOT, "rails": [["10.9.0.1", "x"]]}]}, "slots: 'x' is not an IP address"),
        ({"allow": ["jobs"]}, "allow"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as error:
        part.parse({**ASKED, **change})
    assert said in str(error.value)
