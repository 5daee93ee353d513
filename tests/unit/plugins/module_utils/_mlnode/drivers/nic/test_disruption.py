# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.drivers.ethtool.device import GROUPS
from mlnode.drivers.nic import disruption as nic_disruption
from mlnode.drivers.nic.disruption import Disruption

NONE, LINK_RESET, DRIVER_RELOAD = Disruption


def test_they_are_words_in_order() -> None:
    assert [str(item) for item in Disruption] == ["none", "link_reset", "driver_reload"]
    assert f"{LINK_RESET}" == "link_reset"
    assert max(NONE, DRIVER_RELOAD, LINK_RESET) is DRIVER_RELOAD


@pytest.mark.parametrize("driver", [None, "", "nfp", "a driver of tomorrow", "mlx5_cor", "virtio_net2"])
@cases.table
def test_an_unknown_driver_is_expected_to_reset(
    driver: str | None, group: str, field: str, expected: str
) -> None:
    assert nic_disruption.change_effect(driver, group, field) is Disruption[expected]


@cases.table
def test_what_a_driver_really_does(driver: str, group: str, field: str, expected: str) -> None:
    assert nic_disruption.change_effect(driver, group, field) is Disruption[expected]


def test_the_wanted_features_are_features() -> None:
    for driver in (None, "igb", "virtio_net"):
        for field in ("rx-checksum", "rx-lro", "tx-tcp-segmentation"):
            assert nic_disruption.change_effect(
                driver, "feature/requested", field
            ) is nic_disruption.change_effect(driver, "feature", field)


def test_what_can_be_set_is_known_and_anything_else_is_the_worst() -> None:
    settable = {name for name, group in GROUPS.items() if group.settable and "/" not in name}
    assert settable <= {*nic_disruption._GROUPS, "feature"}
    assert nic_disruption.change_effect("virtio_net", "rxfh", "key") is DRIVER_RELOAD


def test_every_exception_says_something_else_than_its_group_or_its_driver() -> None:
    # A line that changes nothing is one that nobody checks; groups and fields are spelled as they are asked.
    for driver, known in nic_disruption._DRIVERS.items():
        for (group, field), found in known.items():
            assert group in {*nic_disruption._GROUPS, "feature"}
            assert field
            plain = nic_disruption.change_effect(None, group, field)
            rest = known.get((group, "*"), plain)
            assert found is not plain or found is not rest or driver == "netdevsim", (driver, group, field)
