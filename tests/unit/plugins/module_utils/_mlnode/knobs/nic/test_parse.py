# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import door
from mlnode.drivers.nic.disruption import Disruption
from mlnode.knobs.nic import parse as nic_parse


def claims(**rule: Any) -> dict[str, str]:
    settings = door.parse("nic", {"rules": [{"name": "fabric", **rule}]})
    return {setting.key: setting.claim.replace(" (all NICs)", "") for setting in settings}


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


def test_what_may_happen_has_a_default() -> None:
    assert nic_parse.limit({}) is Disruption.LINK_RESET
    assert nic_parse.limit({"max_disruption": "none"}) is Disruption.NONE


def test_fec_has_one_spelling() -> None:
    assert claims(fec="rs auto") == {"nic.fabric.fec": "auto rs"}
    assert claims(fec=False) == {"nic.fabric.fec": "off"}
