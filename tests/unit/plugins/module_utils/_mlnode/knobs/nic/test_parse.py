# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.nic import parse as nic_parse
from mlnode.knobs.nic.disruption import Disruption
from mlnode.model.errors import DeclarationError


def claims(**rule: Any) -> dict[str, str]:
    settings = door.parse("nic", {"rules": [{"name": "fabric", **rule}]})
    return {setting.key: setting.claim.replace(" (all NICs)", "") for setting in settings}


def refused(**rule: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        claims(**rule)
    return str(caught.value)


def test_every_option_has_its_settings_in_the_order_of_application() -> None:
    everything: dict[str, Any] = {
        "mtu": 9000,
        "tx_queue_len": "10000",
        "features": {"tso": True, "rx-gro-hw": "off"},
        "fec": "rs",
        "pause": {"rx": False, "tx": "off", "autoneg": None},
        "coalesce": {"rx-usecs": 50, "adaptive-rx": "off"},
        "rings": {"rx": "max", "tx": {"at_most": 2048}},
        "channels": "auto",
        "private_flags": {"rx_striding_rq": True},
    }
    assert list(claims(**everything).items()) == [
        ("nic.fabric.private-flag.rx_striding_rq", "on"),
        ("nic.fabric.channels", "auto"),
        ("nic.fabric.ring.rx", "max"),
        ("nic.fabric.ring.tx", "at most 2048"),
        ("nic.fabric.coalesce.adaptive-rx", "off"),
        ("nic.fabric.coalesce.rx-usecs", "50"),
        ("nic.fabric.pause.rx", "off"),
        ("nic.fabric.pause.tx", "off"),
        ("nic.fabric.fec", "rs"),
        ("nic.fabric.feature.rx-gro-hw", "off"),
        ("nic.fabric.feature.tso", "on"),
        ("nic.fabric.tx_queue_len", "10000"),
        ("nic.fabric.mtu", "9000"),
    ]


def test_groups_come_before_rules() -> None:
    spec = {"rules": [{"name": "a", "mtu": 9000}, {"name": "b", "channels": 4, "rings": 512}]}
    keys = [setting.key for setting in door.parse("nic", spec)]
    assert keys == ["nic.b.channels", "nic.b.ring.rx", "nic.b.ring.tx", "nic.a.mtu"]


def test_one_value_is_that_of_both_rings_and_of_the_channels_there_are() -> None:
    assert claims(rings=4096) == {"nic.fabric.ring.rx": "4096", "nic.fabric.ring.tx": "4096"}
    assert claims(rings={"at_most": 512})["nic.fabric.ring.tx"] == "at most 512"
    assert claims(channels={"rx": 4, "tx": 2}) == {
        "nic.fabric.channels.rx": "4",
        "nic.fabric.channels.tx": "2",
    }


def test_what_others_build_on_is_switched_on_first_and_off_last() -> None:
    on = [key.rpartition(".")[2] for key in claims(features={"tso": True, "sg": True, "tx": True})]
    off = [key.rpartition(".")[2] for key in claims(features={"sg": False, "tso": False})]
    assert (on, off) == (["sg", "tx", "tso"], ["tso", "sg"])


def test_a_claim_tells_that_too_much_is_an_error() -> None:
    found = claims(rings=4096, beyond_max="fail", nics={"rails": True, "management": False})
    assert found["nic.fabric.ring.rx"] == "4096, or an error (all rails; not management)"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "nic.rules[0]: give it at least one of private_flags, channels, rings, coalesce, pause, fec,"),
        (
            {"ring": 1},
            "nic.rules[0].ring: unknown; known are name, nics, private_flags, channels, rings, coalesce,",
        ),
        ({"rings": {"rxx": 1}}, "nic.fabric.rings.rxx: unknown; known are rx, tx"),
        ({"rings": "many"}, "nic.fabric.rings.rx: must be a whole number, got 'many'; or max"),
        ({"rings": {"at_most": 0}}, "nic.fabric.rings.rx.at_most: must be from 1 to 4294967295, got 0"),
        ({"rings": -1}, "nic.fabric.rings.rx: must be from 0 to 4294967295, got -1; or max"),
        ({"rings": True}, "nic.fabric.rings.rx: must be a whole number, got True; or max, auto or {at_most"),
        ({"rings": 1 << 32}, "nic.fabric.rings.rx: must be from 0 to 4294967295, got 4294967296; or max"),
        ({"channels": {"other": 1}}, "nic.fabric.channels.other: unknown; known are combined, rx, tx"),
        ({"coalesce": {"rx_usecs": 1}}, "nic.rules[0].coalesce.rx_usecs: unknown; known are adaptive-rx"),
        ({"coalesce": {"adaptive-rx": 2}}, "nic.rules[0].coalesce.adaptive-rx: must be true or false"),
        (
            {"coalesce": {"adaptive-rx": True, "rx-usecs": 8}},
            "rx-usecs would be ignored while adaptive-rx is on",
        ),
        ({"coalesce": 5}, "nic.rules[0].coalesce: must be a dictionary, got 5"),
        (
            {"features": {"tso; reboot": True}},
            "nic.rules[0].features: the name 'tso; reboot' must be a feature such as tso or",
        ),
        ({"features": {"tso": True, "tcp-segmentation-offload": False}}, "are one and the same"),
        ({"features": {"tso": "auto"}}, "must be true or false, got 'auto'"),
        (
            {"private_flags": {"a\nb": True}},
            "nic.rules[0].private_flags: 'a\\nb' holds a character that does not print",
        ),
        ({"pause": {"both": True}}, "nic.rules[0].pause.both: unknown; known are autoneg, rx, tx"),
        ({"fec": "reed"}, "a FEC encoding is one of auto, off, rs, baser, llrs, not 'reed'"),
        ({"fec": 3}, "a FEC encoding is one of"),
        ({"mtu": 67}, "nic.fabric.mtu: must be from 1280 to 65536, got 67; or {at_least: NUMBER}"),
        ({"mtu": {"at_least": 67}}, "nic.fabric.mtu: must be from 1280 to 65536, got 67"),
        ({"mtu": {"at_most": 9000}}, "nic.fabric.mtu: must be a whole number, got {'at_most': 9000}; or"),
        ({"mtu": "9000 "}, "nic.fabric.mtu: must be a whole number, got '9000 '"),
        ({"tx_queue_len": 0}, "nic.rules[0].tx_queue_len: must be from 1 to 2147483647, got 0"),
        (
            {"mtu": 9000, "beyond_max": "maybe"},
            "nic.rules[0].beyond_max: must be one of clamp, fail, got 'maybe'",
        ),
        (
            {"mtu": 9000, "nics": {"link": "sideways"}},
            "nic.rules[0].nics.link: must be one of up, down, got 'sideways'",
        ),
        ({"mtu": 9000, "nics": {"management": "never"}}, "must be true or false, got 'never'"),
        (
            {"mtu": 9000, "nics": {"pci_ids": ["15b3"]}},
            "nic.rules[0].nics.pci_ids[0]: must be a vendor and device such as 15b3:101e, in quotes,",
        ),
        (
            {"mtu": 9000, "nics": {"speeds": ["fast"]}},
            "nic.rules[0].nics.speeds[0]: must be a whole number, got 'fast'",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(rule: dict[str, Any], words: str) -> None:
    assert words in refused(**rule)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"max_disruption": "reboot"},
            "nic.max_disruption: must be one of none, link_reset, driver_reload, got 'reboot'",
        ),
        ({"allow": ["everything"]}, "nic.allow[0]: must be one of management, busy, got 'everything'"),
        ({"rules": {}, "confirm": 1}, "nic.confirm: unknown"),
        ({"rules": [{"name": "a", "mtu": 1500}, {"name": "a", "mtu": 9000}]}, "declared by two rules"),
    ],
)
def test_a_mistake_beside_the_rules_is_told(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        door.parse("nic", spec)
    assert words in str(caught.value)


def test_what_may_happen_has_a_default() -> None:
    assert nic_parse.limit({}) is Disruption.LINK_RESET
    assert nic_parse.limit({"max_disruption": "none"}) is Disruption.NONE


def test_fec_has_one_spelling() -> None:
    assert claims(fec="rs auto") == {"nic.fabric.fec": "auto rs"}
    assert claims(fec=False) == {"nic.fabric.fec": "off"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["on", "max", "auto", "rx", "tso", "at_most", "adaptive-rx"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5) | st.sampled_from(
        ["rx", "tx", "combined", "tso", "at_most", "adaptive-rx", "rx-usecs"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@quick
@given(st.dictionaries(st.sampled_from((*nic_parse.GROUPS, "nics", "beyond_max")), anything, max_size=4))
def test_whatever_is_declared_is_understood_or_refused_in_words(rule: dict[str, Any]) -> None:
    with contextlib.suppress(DeclarationError):
        for setting in door.parse("nic", {"rules": [{"name": "fabric", **rule}]}):
            assert setting.key.startswith("nic.fabric.")
            assert setting.claim
