# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refused input of each area, with the whole message: refused/AREA.yml.

Each case has a name, the input (`given`) and the message (`words`). `...` in a message matches any text.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import ASKED
from mlnode.agent import registry, waivers
from mlnode.agent.registry import KINDS
from mlnode.checks import expect, path_mtu
from mlnode.checks.campaign import part
from mlnode.checks.preflight import run as preflight
from mlnode.checks.subnet import check as subnet
from mlnode.model import cpulist
from mlnode.model.errors import DeclarationError
from mlnode.model.schema import Table

FOLDER = pathlib.Path(__file__).parent / "refused"

#: Area of a module → its options, unless a case sets them
TOLD: Mapping[str, Mapping[str, Any]] = {
    "path_mtu": {"size": 9000, "tries": 3, "timeout": 1.0},
    "preflight": {"peers": [], "mtu": None, "tcp_port": 18590, "raw": {}},
}

#: Area → function that takes the input. All other areas are kinds, which take a declaration.
FEEDS: Mapping[str, Callable[[Any], object]] = {
    "campaign": lambda given: part.parse({**ASKED, **given}),
    "cpu_list": cpulist.parse,
    "cpu_mask": cpulist.from_mask,
    "expect": expect.parse,
    "path_mtu": lambda given: path_mtu.parse(**{**TOLD["path_mtu"], **given}),
    "preflight": lambda given: preflight.parse(**{**TOLD["preflight"], **given}),
    "subnet": lambda given: subnet.parse({**defaults(subnet.OPTIONS), **given}),
    "waivers": waivers.parse,
}


def defaults(options: Table) -> dict[str, Any]:
    return {name: option.default for name, option in options.items()}


def feed(area: str, given: Any) -> object:
    return FEEDS[area](given) if area in FEEDS else door.parse(area, given)


CASES = [
    pytest.param(path.stem, case["given"], case["words"], id=f"{path.stem}: {name}")
    for path in sorted(FOLDER.glob("*.yml"))
    for name, case in cases.load(path).items()
]


@pytest.mark.parametrize(("area", "given", "words"), CASES)
def test_it_is_refused_in_these_words(area: str, given: Any, words: str) -> None:
    with pytest.raises((DeclarationError, ValueError)) as caught:  # the words are compared below
        feed(area, given)
    said = str(caught.value)
    assert re.fullmatch(re.escape(words).replace(r"\.\.\.", ".*"), said), said
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize("area", KINDS)
def test_an_unknown_option_is_answered_with_the_known_ones(area: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        door.parse(area, {"nonsense": 1})
    assert str(caught.value) == f"{area}.nonsense: unknown; known are {', '.join(registry.options(area))}"


@cases.table
def test_nothing_is_declared(area: str, given: Any) -> None:
    assert door.parse(area, given) == []


def test_every_kind_has_its_cases() -> None:
    assert {*KINDS} <= {path.stem for path in FOLDER.glob("*.yml")}
