# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.ethtool.device import GROUPS
from mlnode.knobs.nic import disruption as nic_disruption
from mlnode.knobs.nic.disruption import Disruption

NONE, LINK_RESET, DRIVER_RELOAD = Disruption


def test_they_are_words_in_order() -> None:
    assert [str(item) for item in Disruption] == ["none", "link_reset", "driver_reload"]
    assert f"{LINK_RESET}" == "link_reset"
    assert max(NONE, DRIVER_RELOAD, LINK_RESET) is DRIVER_RELOAD


@pytest.mark.parametrize("driver", [None, "", "nfp", "a driver of tomorrow", "mlx5_cor", "virtio_net2"])
@pytest.mark.parametrize(
    ("group", "field", "expected"),
    [
        ("ring", "rx", LINK_RESET),
        ("channels", "combined", LINK_RESET),
        ("pause", "rx", LINK_RESET),
        ("fec", "encoding", LINK_RESET),
        ("mtu", "", LINK_RESET),
        ("private-flag", "anything", DRIVER_RELOAD),
        ("coalesce", "rx-usecs", NONE),
        ("coalesce", "adaptive-rx", NONE),
        ("tx_queue_len", "", NONE),
        ("feature", "tx-tcp-segmentation", NONE),
        ("feature", "tx-checksum-ip-generic", NONE),
        ("feature", "rx-gro", NONE),
        ("feature", "rx-gro-list", NONE),
        ("feature", "rx-gro-hw", LINK_RESET),
        ("feature", "rx-lro", LINK_RESET),
        ("feature", "rx-checksum", LINK_RESET),
        ("feature", "rx-hashing", LINK_RESET),
        ("feature", "rx-ntuple-filter", LINK_RESET),
        ("feature", "rx-vlan-hw-parse", LINK_RESET),
        ("feature", "rx-all", LINK_RESET),
        ("feature", "rx-fcs", LINK_RESET),
        ("feature", "loopback", LINK_RESET),
        ("feature", "hw-tc-offload", LINK_RESET),
        ("feature", "l2-fwd-offload", LINK_RESET),
        ("feature", "a feature of tomorrow", LINK_RESET),
    ],
)
def test_an_unknown_driver_is_expected_to_reset(
    driver: str | None, group: str, field: str, expected: Disruption
) -> None:
    assert nic_disruption.of(driver, group, field) is expected


@pytest.mark.parametrize(
    ("driver", "group", "field", "expected"),
    [
        # worse than their group
        ("mlx5_core", "coalesce", "adaptive-rx", LINK_RESET),
        ("mlx5_core", "coalesce", "rx-usecs", NONE),
        ("mlx5e_rep", "coalesce", "adaptive-tx", LINK_RESET),
        ("mlx5_core[ib_ipoib]", "coalesce", "adaptive-rx", LINK_RESET),
        ("ixgbe", "coalesce", "rx-usecs", LINK_RESET),
        ("ixgbe", "coalesce", "tx-usecs", LINK_RESET),
        ("bnxt_en", "coalesce", "stats-block-usecs", LINK_RESET),
        ("bnxt_en", "coalesce", "rx-usecs", NONE),
        ("bnxt_en", "feature", "rx-gro", LINK_RESET),
        # better than their group
        ("virtio_net", "ring", "rx", NONE),
        ("virtio_net", "channels", "combined", NONE),
        ("virtio_net", "mtu", "", NONE),
        ("virtio_net", "feature", "rx-gro-hw", NONE),
        ("netdevsim", "fec", "encoding", NONE),
        ("netdevsim", "feature", "hw-tc-offload", NONE),
        ("netdevsim", "mtu", "", NONE),
        ("veth", "mtu", "", NONE),
        ("veth", "feature", "rx-checksum", NONE),
        ("vmxnet3", "feature", "rx-lro", NONE),
        ("ena", "mtu", "", NONE),
        ("igb", "feature", "rx-checksum", NONE),
        ("ice", "feature", "rx-ntuple-filter", NONE),
        ("i40e", "feature", "rx-hashing", NONE),
        ("mlx5_core", "feature", "rx-vlan-hw-parse", NONE),
        ("mlx5_core", "private-flag", "rx_no_csum_complete", NONE),
        ("mlx5_core", "private-flag", "rx_cqe_compress", LINK_RESET),
        ("gve", "private-flag", "report-stats", NONE),
        ("e1000e", "private-flag", "s0ix-enabled", NONE),
        # and where nothing is special
        ("mlx5_core", "ring", "rx", LINK_RESET),
        ("mlx5_core", "feature", "rx-lro", LINK_RESET),
        ("mlx5_core", "feature", "rx-gro-hw", LINK_RESET),
        ("igb", "feature", "rx-ntuple-filter", LINK_RESET),
        ("igc", "feature", "rx-all", LINK_RESET),
        ("i40e", "feature", "rx-ntuple-filter", LINK_RESET),
        ("e1000e", "feature", "rx-checksum", LINK_RESET),
        ("e1000e", "coalesce", "rx-usecs", NONE),
        ("ena", "channels", "combined", LINK_RESET),
        ("gve", "channels", "rx", LINK_RESET),
        ("gve", "mtu", "", LINK_RESET),
        ("gve", "private-flag", "another", DRIVER_RELOAD),
        ("vmxnet3", "mtu", "", LINK_RESET),
        ("veth", "channels", "rx", LINK_RESET),
        ("hv_netvsc", "channels", "combined", LINK_RESET),
    ],
)
def test_what_a_driver_really_does(driver: str, group: str, field: str, expected: Disruption) -> None:
    assert nic_disruption.of(driver, group, field) is expected


def test_the_wanted_features_are_features() -> None:
    for driver in (None, "igb", "virtio_net"):
        for field in ("rx-checksum", "rx-lro", "tx-tcp-segmentation"):
            assert nic_disruption.of(driver, "feature/requested", field) is nic_disruption.of(
                driver, "feature", field
            )


def test_what_can_be_set_is_known_and_anything_else_is_the_worst() -> None:
    settable = {name for name, group in GROUPS.items() if group.settable and "/" not in name}
    assert settable <= {*nic_disruption._GROUPS, "feature"}
    assert nic_disruption.of("virtio_net", "rxfh", "key") is DRIVER_RELOAD


def test_every_exception_says_something_else_than_its_group_or_its_driver() -> None:
    # A line that changes nothing is one that nobody checks; groups and fields are spelled as they are asked.
    for driver, known in nic_disruption._DRIVERS.items():
        for (group, field), found in known.items():
            assert group in {*nic_disruption._GROUPS, "feature"}
            assert field
            plain = nic_disruption.of(None, group, field)
            rest = known.get((group, "*"), plain)
            assert found is not plain or found is not rest or driver == "netdevsim", (driver, group, field)


@given(st.text() | st.none(), st.text(), st.text())
def test_no_name_is_too_odd(driver: str | None, group: str, field: str) -> None:
    assert nic_disruption.of(driver, group, field) in Disruption
