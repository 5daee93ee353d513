# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, strategies
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import FEATURES
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.ethtool import words


@cases.table
def test_fec_modes_are_ethtools_words_in_the_order_of_their_bits(mask: int, text: str) -> None:
    assert words.fec(mask) == text


@quick
@given(bits=st.sets(st.integers(1, len(words.FEC) - 1), min_size=1))
def test_an_encoding_is_spelled_and_read_alike(bits: set[int]) -> None:
    mask = sum(1 << bit for bit in bits)
    assert words.fec_mask(words.fec(mask)) == mask


def test_a_mode_said_twice_is_said_once() -> None:
    assert words.fec_mask("rs rs") == words.fec_mask("rs")


@pytest.mark.parametrize("text", ["", " ", "none", "RS", "0x40", "rs,baser", "rs on"])
def test_what_is_no_encoding_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a FEC encoding is one of auto, off, rs, baser, llrs, not"):
        words.fec_mask(text)


@quick
@given(text=strategies.values)
def test_any_text_is_a_mask_that_the_kernel_takes_or_refused(text: str) -> None:
    try:
        mask = words.fec_mask(text)
    except ValueError:
        return
    assert 0 < mask < 1 << len(words.FEC)
    assert not mask & 1


@cases.table
def test_what_a_name_stands_for(name: str, found: tuple[str, ...]) -> None:
    assert words.members(name, [feature for feature in FEATURES if feature]) == found


@pytest.mark.parametrize("family", words.FAMILIES)
def test_a_family_has_two_names(family: words.Family) -> None:
    features = [feature for feature in FEATURES if feature]
    assert words.members(family.long, features) == words.members(family.short, features) != ()
