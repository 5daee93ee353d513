# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
import shutil
import struct
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.captures import of_ethtool as capture
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import TABLES, Bits, Nic
from mlnode.engine import boot_run, engine, revert
from mlnode.knobs.nic import commands as nic_commands
from mlnode.knobs.nic import settle as nic_settle
from mlnode.knobs.nic.kind import kind as nic
from mlnode.model.errors import DeclarationError, HostError, RefusedError, TransactionError
from mlnode.model.setting import Layer, Status, Value

from .node import WITHOUT_RDMA, NicNode, apply, plan, request, row, rows

#: Without eth4, which carries the default route
FABRIC = {"name": "fabric", "nics": {"management": False}}
ETH2 = {"name": "one", "nics": {"names": ["eth2"]}}
MLX = "eth2, eth3"
#: In KiB, so that no ring is too much
TERABYTE = 1 << 30


def statuses(host: NicNode, *rules: Any, **more: Any) -> dict[str, str]:
    return {key: str(found.status) for key, found in rows(host, *rules, **more).items()}


# -- amounts ---------------------------------------------------------------------------------


@cases.table
def test_a_ring_has_what_is_asked_for(tmp_path: pathlib.Path, value: Any, want: str) -> None:
    node = NicNode.made(tmp_path / "sockets", WITHOUT_RDMA)
    node.has(TERABYTE)
    for one in (node.eth2, node.eth3):
        one.ring_max = {"rx": 16384, "tx": 16384}
    assert row(node, {**FABRIC, "rings": {"rx": value}}).reading.want == f"{MLX}: {want}"
    outcome = apply(node, {**FABRIC, "rings": {"rx": value}})
    assert [str(found.status) for found in outcome.rows] == ["changed"]
    assert node.eth2.ring == {"rx": int(want), "tx": 1024, "rx-mini": 0, "rx-jumbo": 0}
    assert plan(node, {**FABRIC, "rings": {"rx": value}}).steps == ()


def test_both_rings_are_one_reset_of_each_nic_and_one_nic_after_the_other(node: NicNode) -> None:
    apply(node, {**FABRIC, "rings": 4096, "channels": 2})
    assert [path for path, _value in node.writes if path.startswith("/ethtool")] == [
        "/ethtool/eth2/channels/combined",
        "/ethtool/eth2/ring/rx,tx",
        "/ethtool/eth3/channels/combined",
        "/ethtool/eth3/ring/rx,tx",
    ]


def test_more_than_there_is_is_clamped_and_says_both_numbers(node: NicNode) -> None:
    node.eth3.ring_max = {"rx": 4096, "tx": 8192}
    rule = {**FABRIC, "rings": {"rx": 8192}}
    before = row(node, rule)
    assert (before.status, before.reading.want) == (Status.DRIFTED, "eth2: 8192; eth3: 4096")
    (after,) = apply(node, rule).rows
    assert (after.status, after.reason) == (
        Status.CLAMPED,
        "eth3: asked for 8192 rx ring entries, and the most it has is 4096",
    )
    assert row(node, rule).status is Status.CLAMPED
    assert plan(node, rule).steps == ()


def test_more_than_there_is_may_be_an_error(node: NicNode) -> None:
    rule = {**FABRIC, "rings": {"rx": 16384}, "beyond_max": "fail"}
    with pytest.raises(
        DeclarationError, match="eth2: asked for 16384 rx ring entries, and the most it has is 8192"
    ):
        apply(node, rule)
    assert node.writes == []


def test_channels_are_those_of_the_cores_near_the_nic(node: NicNode) -> None:
    assert row(node, {**FABRIC, "channels": "auto"}).reading.want == f"{MLX}: 4"
    node.eth2.channels_max = {"combined": 3}
    assert row(node, {**FABRIC, "channels": "auto"}).reading.want == "eth2: 3; eth3: 4"
    found = row(node, {"name": "m", "nics": {"names": ["eth4"]}, "channels": "auto"}, allow=["management"])
    assert found.reading.want == "eth4: 8"
    assert (
        "eth4: the firmware names no NUMA node for it, so the cores of all nodes are counted"
        in found.reading.note
    )


def test_isolated_cores_are_not_counted(node: NicNode) -> None:
    node.put("/sys/devices/system/cpu/isolated", "1-3,9-11\n")
    node.forget()
    assert row(node, {**FABRIC, "channels": "auto"}).reading.want == "eth2: 1; eth3: 4"


def test_channels_of_a_nic_that_has_them_apart_are_set_and_undone_in_one_write(node: NicNode) -> None:
    apart = Nic(channels={"rx": 4, "tx": 4}, channels_max={"rx": 8, "tx": 8})
    node.nics = {**node.nics, "eth2": apart}
    found = row(node, {**ETH2, "channels": 2})
    assert found.reading.want == "eth2: 2"
    apply(node, {**ETH2, "channels": 2})
    assert node.writes[-1] == ("/ethtool/eth2/channels/rx,tx", "2 2")
    node.writes.clear()
    revert.revert(node)
    assert [value for path, value in node.writes if "channels" in path] == ["4 4"]


# -- what a driver does not have --------------------------------------------------------------


def test_what_no_nic_has_is_unsupported_and_says_whose_fault_it_is(node: NicNode) -> None:
    for one in (node.eth2, node.eth3):
        one.ring = one.fec = one.flags = None
    rule = {**FABRIC, "rings": {"rx": 1}, "fec": "rs", "private_flags": {"x": True}, "channels": {"rx": 2}}
    found = rows(node, rule)
    assert {key: (str(one.status), one.reason) for key, one in found.items()} == {
        "nic.fabric.ring.rx": ("unsupported", f"{MLX}: the driver mlx5_core has no rings"),
        "nic.fabric.fec": ("unsupported", f"{MLX}: the driver mlx5_core has no forward error correction"),
        "nic.fabric.private-flag.x": ("unsupported", f"{MLX}: the driver mlx5_core has no private flags"),
        "nic.fabric.channels.rx": ("unsupported", f"{MLX}: the driver mlx5_core has no kind of channel rx"),
    }


def test_what_only_some_have_is_set_there_and_noted(node: NicNode) -> None:
    node.eth3.ring = None
    found = row(node, {**FABRIC, "rings": {"rx": 1024}})
    assert (found.status, found.reason) == (Status.OK, "eth3: the driver mlx5_core has no rings")


def test_only_a_write_tells_which_coalescing_there_is_and_it_is_remembered(node: NicNode) -> None:
    rule = {**ETH2, "coalesce": {"rx-usecs": 50, "rx-usecs-irq": 3}}
    assert statuses(node, rule) == {
        "nic.one.coalesce.rx-usecs": "drifted",
        "nic.one.coalesce.rx-usecs-irq": "drifted",
    }
    with pytest.raises(RefusedError, match="rx-usecs-irq: eth2: rx-usecs-irq 3: EOPNOTSUPP"):
        apply(node, rule)
    assert statuses(node, rule) == {
        "nic.one.coalesce.rx-usecs": "ok",
        "nic.one.coalesce.rx-usecs-irq": "refused",
    }
    assert (node.eth2.coalesce or {})["rx-usecs"] == 50
    assert plan(node, rule).steps == ()
    # Another NIC of that name may be another one.
    made_anew(node, "eth2")
    assert statuses(node, rule)["nic.one.coalesce.rx-usecs-irq"] == "drifted"


def test_a_nic_that_stops_to_adapt_has_numbers_of_its_own_before_it_takes_ours(node: NicNode) -> None:
    """As mlx5, whatever stands in the same call."""
    adapted = [True]

    def along(card: Nic) -> None:
        coalesce = card.coalesce or {}
        if adapted[0] and not coalesce["adaptive-rx"]:
            coalesce["rx-usecs"], adapted[0] = 8, False

    node.eth2.along = along
    outcome = apply(node, {**ETH2, "coalesce": {"rx-usecs": 50, "adaptive-rx": False}})
    assert {str(found.status) for found in outcome.rows} == {"changed"}
    assert (node.eth2.coalesce or {})["rx-usecs"] == 50


def made_anew(node: NicNode, name: str) -> None:
    """As by a reload of its driver."""
    folder = pathlib.Path(node.root, "sys/class/net", name).resolve()
    shutil.copytree(folder, folder.with_name("anew"), symlinks=True)
    shutil.rmtree(folder)
    folder.with_name("anew").rename(folder)
    node.forget()


class Contrary(Nic):
    """A driver that makes the change and reports an error (amzn-drivers issue 356). half: of the numbers of
    one call it takes the first, and the others only alone."""

    half = False

    def call(self, name: str, request: bytes) -> tuple[int, bytes]:
        group, names = TABLES.get(struct.unpack_from("=I", request)[0] - 1, ("", ()))
        if not group:
            return super().call(name, request)
        before = dict(getattr(self, group))
        super().call(name, request)
        moved = [field for field in names if getattr(self, group).get(field) != before.get(field, 0)]
        for field in moved[1:] if self.half else ():
            getattr(self, group)[field] = before.get(field, 0)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def contrary(node: NicNode, half: bool, **channels: int) -> Contrary:
    most = {kind: 8 if number else 0 for kind, number in channels.items()}
    node.nics["eth2"] = card = Contrary(
        "ena", channels=channels, channels_max=most, pause=None, flags=None, fec=None
    )
    card.half = half
    return card


@pytest.mark.parametrize("half", [False, True])
def test_an_error_of_a_joined_write_is_judged_by_what_is_there(node: NicNode, half: bool) -> None:
    """What has taken is not written once more, as each write may reset the NIC."""
    card = contrary(node, half, combined=0, rx=4, tx=4)
    rule = {**ETH2, "channels": {"rx": 2, "tx": 6}, "rings": {"rx": 2048, "tx": 512}}
    outcome = apply(node, rule)
    assert {str(found.status) for found in outcome.rows} == {"changed"}
    channels, rings = card.channels or {}, card.ring or {}
    assert (channels["rx"], channels["tx"], rings["rx"], rings["tx"]) == (2, 6, 2048, 512)
    assert [path for path, _value in node.writes] == [
        "/ethtool/eth2/channels/rx,tx",
        *(["/ethtool/eth2/channels/tx"] if half else []),
        "/ethtool/eth2/ring/rx,tx",
        *(["/ethtool/eth2/ring/tx"] if half else []),
    ]
    assert plan(node, rule).steps == ()


def numbers(card: Nic) -> list[dict[str, int]]:
    groups = (card.channels, card.ring, card.coalesce)
    return [{name: number for name, number in (group or {}).items() if number} for group in groups]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        {"channels": {"combined": 2}},
        {"rings": {"rx": 2048}},
        {"rings": {"rx": 2048, "tx": 512}},
        {"coalesce": {"rx-usecs": 50, "tx-usecs": 60, "rx-frames": 7}},
    ],
)
def test_an_error_of_a_driver_that_made_the_change_is_none(
    node: NicNode, wanted: dict[str, Any], half: bool
) -> None:
    """Neither when it is set, nor when it is put back."""
    card = contrary(node, half, combined=8, rx=0, tx=0)
    before = numbers(card)
    outcome = apply(node, {**ETH2, **wanted})
    assert {str(found.status) for found in outcome.rows} == {"changed"}
    assert plan(node, {**ETH2, **wanted}).steps == ()
    revert.revert(node)
    assert numbers(card) == before


def test_a_number_that_the_driver_makes_less_than_there_was_is_put_back(node: NicNode) -> None:
    """512 for 4096 where 1024 were is no rounding, and would be lowering behind a row that is clamped."""

    def less(card: Nic) -> None:
        if card.ring and card.ring["rx"] == 4096:
            card.ring["rx"] = 512

    node.eth2.along = less
    with pytest.raises(RefusedError, match="the device made it 512, and has 1024 again"):
        apply(node, {**ETH2, "rings": {"rx": 4096}})
    assert (node.eth2.ring or {})["rx"] == 1024


# -- features --------------------------------------------------------------------------------


def test_a_family_is_all_its_members_that_can_be_changed(node: NicNode) -> None:
    apply(node, {**ETH2, "features": {"tso": False}})
    state = node.eth2.features
    assert [state[name].active for name in ("tx-tcp-segmentation", "tx-tcp6-segmentation")] == [False, False]
    assert statuses(node, {**ETH2, "features": {"tcp-segmentation-offload": True}}) == {
        "nic.one.feature.tcp-segmentation-offload": "drifted"
    }
    apply(node, {**ETH2, "features": {"tcp-segmentation-offload": True}})
    assert [state[name].active for name in ("tx-tcp-segmentation", "tx-tcp6-segmentation")] == [True, True]
    revert.revert(node)
    assert state["tx-tcp-segmentation"].active


def test_one_checksum_is_enough(node: NicNode) -> None:
    node.eth2.features["tx-checksum-ipv4"] = Bits(True)
    assert statuses(node, {**ETH2, "features": {"tx": True}}) == {"nic.one.feature.tx": "ok"}
    node.eth2.features["tx-checksum-ip-generic"] = Bits(True)
    apply(node, {**ETH2, "features": {"tx": True}})
    assert not node.eth2.features["tx-checksum-ipv4"].active, "both would exclude each other"
    assert node.eth2.features["tx-checksum-ip-generic"].active


def test_a_fixed_feature_is_right_or_unsupported(node: NicNode) -> None:
    node.eth2.features["rx-hashing"] = Bits(False, True, True)
    found = rows(
        node, {**ETH2, "features": {"rxhash": True, "ntuple": True, "rx-gro-hw": True, "tx-lockless": False}}
    )
    assert {
        key.rpartition(".")[2]: (str(one.status), one.reading.runtime.text) for key, one in found.items()
    } == {
        "rxhash": ("ok", "eth2: on [fixed]"),
        "ntuple": ("drifted", "eth2: off"),
        "rx-gro-hw": ("unsupported", None),
        "tx-lockless": ("unsupported", None),
    }
    assert (
        found["nic.one.feature.rx-gro-hw"].reason == "eth2: the driver mlx5_core keeps rx-gro-hw off [fixed]"
    )


def test_a_misspelt_feature_is_told_with_the_nearest(node: NicNode) -> None:
    found = row(node, {**ETH2, "features": {"ntupel": True}})
    assert found.reading.invalid == "no kernel has a feature ntupel; did you mean ntuple?"
    assert found.status is Status.UNKNOWN


@pytest.mark.parametrize("name", ["tx-tcp-accecn-segmentation", "rx-of-my-own"])
def test_a_feature_of_another_kernel_is_unsupported(node: NicNode, name: str) -> None:
    found = row(node, {**ETH2, "features": {name: True}})
    assert (found.status, found.reading.invalid) == (Status.UNSUPPORTED, "")
    assert found.reason == f"eth2: this kernel has no feature {name}"


def test_what_is_requested_and_not_active_says_why(node: NicNode) -> None:
    node.eth2.features["rx-lro"] = Bits(True, True, False)
    found = row(node, {**ETH2, "features": {"lro": True}})
    assert (found.status, found.reason) == (
        Status.REFUSED,
        "eth2: rx-lro is requested, but off while a feature that it needs is off",
    )
    assert plan(node, {**ETH2, "features": {"lro": True}}).steps == ()


# -- the other groups ------------------------------------------------------------------------


def test_everything_is_set_kept_and_undone(node: NicNode) -> None:
    node.put("/sys/class/net/eth2/tx_queue_len", "1000\n")
    before = {path: text for path, text in node.tree().items() if path.startswith("/sys/class/net/eth2/")}
    settings = capture(node.nic("eth2"))
    rule = {
        **ETH2,
        "private_flags": {"rx_striding_rq": True},
        "channels": 2,
        "rings": 2048,
        "coalesce": {"adaptive-rx": False, "rx-usecs": 16},
        "pause": {"rx": False, "tx": False},
        "fec": "rs",
        "features": {"lro": True, "rxhash": False},
        "tx_queue_len": 5000,
        "mtu": 9000,
    }
    outcome = apply(node, rule, max_disruption="driver_reload")
    assert {str(found.status) for found in outcome.rows} == {"changed"}
    assert plan(node, rule, max_disruption="driver_reload").steps == ()
    assert nic_commands.command_lines(outcome.rows) == [
        "ethtool --set-priv-flags eth2 rx_striding_rq on",
        "ethtool -L eth2 combined 2",
        "ethtool -G eth2 rx 2048 tx 2048",
        "ethtool -C eth2 adaptive-rx off",
        "ethtool -C eth2 rx-usecs 16",
        "ethtool -A eth2 rx off tx off",
        "ethtool --set-fec eth2 encoding rs",
        "ethtool -K eth2 rx-hashing off rx-lro on",
        "ip link set dev eth2 txqueuelen 5000",
        "ip link set dev eth2 mtu 9000",
    ]
    assert row(node, {**ETH2, "mtu": 9000}).origin == "eth2: 1500"
    revert.revert(node)
    assert capture(node.nic("eth2")) == settings
    after = node.tree()
    assert {path: after[path] for path in before} == before


def test_a_value_of_another_boot_is_nobodys_origin(node: NicNode) -> None:
    apply(node, {**ETH2, "mtu": 9000})
    node.put("/proc/sys/kernel/random/boot_id", "two\n")
    node.forget()
    node.put("/sys/class/net/eth2/mtu", "1400\n")
    apply(node, {**ETH2, "mtu": 9000})
    revert.revert(node)
    assert node.now("/sys/class/net/eth2/mtu") == "1400"


@pytest.mark.parametrize("command", [0x10, 0x37, 0x0E])
def test_what_cannot_be_read_is_unknown_and_keeps_none_of_the_others(node: NicNode, command: int) -> None:
    node.eth3.fails[command] = errno.EPERM
    rule = {
        **FABRIC,
        "rings": {"rx": 512},
        "features": {"lro": True},
        "coalesce": {"adaptive-rx": False, "rx-usecs": 3},
    }
    names = {0x10: "ring.rx", 0x37: "feature.lro", 0x0E: "coalesce.rx-usecs"}
    key = f"nic.fabric.{names[command]}"
    assert rows(node, rule)[key].status is Status.UNKNOWN
    assert "EPERM" in rows(node, rule)[key].reason
    apply(node, rule)
    assert rows(node, rule)[key].status is Status.UNKNOWN
    assert (node.eth2.ring or {})["rx"] == 512
    assert node.eth2.features["rx-lro"].active
    assert (node.eth2.coalesce or {})["rx-usecs"] == 3


def test_a_number_that_the_driver_rounds_is_clamped_and_is_no_drift_later(node: NicNode) -> None:
    node.eth2.most = {"ring/rx": 2016}
    rule = {**ETH2, "rings": {"rx": 2048}}
    for _turn in range(2):
        (found,) = apply(node, rule).rows
        assert (found.status, found.reason) == (
            Status.CLAMPED,
            "eth2: asked for 2048, and the driver made it 2016",
        )
    node.eth2.most = {}
    apply(node, {**ETH2, "rings": {"rx": 4096}})
    assert (node.eth2.ring or {})["rx"] == 4096


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, 524, errno.EBUSY])
def test_what_a_driver_only_reads_is_refused_after_the_first_try(node: NicNode, number: int) -> None:
    node.eth2.fails[0x3D] = number
    with pytest.raises(RefusedError, match="channels: eth2: combined 2: "):
        apply(node, {**ETH2, "channels": 2, "rings": 2048})
    assert (node.eth2.ring or {})["rx"] == 2048
    assert plan(node, {**ETH2, "channels": 2, "rings": 2048}).steps == ()


def test_fec_that_is_told_with_all_that_could_be_is_right_with_what_is_asked_for(node: NicNode) -> None:
    node.eth2.fec = (0b11010, 0b1000)
    assert statuses(node, {**ETH2, "fec": "rs"}) == {"nic.one.fec": "ok"}
    assert statuses(node, {**ETH2, "fec": "off"}) == {"nic.one.fec": "drifted"}


def test_a_smaller_mtu_is_undone_with_those_above(node: NicNode) -> None:
    for name in ("vlan7", "vlan7.8"):
        node.put(f"/sys/devices/virtual/net/{name}/mtu", "9000\n")
        node.link(f"/sys/class/net/{name}", f"../../devices/virtual/net/{name}")
    node.put("/sys/class/net/eth2/mtu", "9000\n")
    node.link("/sys/class/net/eth2/upper_vlan7", "/sys/class/net/vlan7")
    node.link("/sys/class/net/vlan7/upper_vlan7.8", "/sys/class/net/vlan7.8")
    (part,) = row(node, {**ETH2, "mtu": 1500}).reading.parts
    assert [(write.path.split("/")[4], write.value) for write in part.undo] == [
        ("eth2", "9000"),
        ("vlan7", "9000"),
        ("vlan7.8", "9000"),
    ]
    apply(node, {**ETH2, "mtu": 1500})
    for name in ("vlan7", "vlan7.8"):
        node.put(f"/sys/class/net/{name}/mtu", "1500\n")  # the kernel does
    revert.revert(node)
    assert [node.now(f"/sys/class/net/{name}/mtu") for name in ("eth2", "vlan7", "vlan7.8")] == ["9000"] * 3


# -- selection -------------------------------------------------------------------------------


@cases.table
def test_nics_are_chosen_by_what_they_are(node: NicNode, nics: dict[str, Any], names: str) -> None:
    found = row(node, {"name": "some", "nics": nics, "features": {"gro": True}})
    assert found.reading.runtime.text == f"{names}: on"


def test_a_link_that_is_down_is_chosen_by_that(node: NicNode) -> None:
    node.put("/sys/class/net/eth3/operstate", "down\n")
    assert (
        row(node, {"name": "a", "nics": {"link": "down"}, "mtu": 1500}).reading.runtime.text == "eth3: 1500"
    )


def test_a_kind_of_port_that_no_nic_has_is_said(node: NicNode) -> None:
    found = row(node, {"name": "ib", "nics": {"link_layer": "InfiniBand"}, "mtu": 2044})
    assert found.status is Status.UNSUPPORTED
    assert found.reason.startswith("no NIC here matches link layer InfiniBand; here are: ")


def test_no_nic_at_all_is_said(node: NicNode) -> None:
    found = row(node, {"name": "none", "nics": {"pci_ids": ["8086:1521"]}, "mtu": 9000})
    assert found.status is Status.UNSUPPORTED
    assert found.reason.startswith("no NIC here matches pci ids 8086:1521; here are: eth4 (virtio_net")


def test_two_rules_for_one_nic_must_agree(node: NicNode) -> None:
    with pytest.raises(
        DeclarationError, match=r"nic\.fabric\.mtu and nic\.one\.mtu both rule /sys/class/net/eth2/mtu"
    ):
        plan(node, {**FABRIC, "mtu": 9000}, {**ETH2, "mtu": 4200})
    plan(node, {**FABRIC, "mtu": 9000}, {**ETH2, "mtu": 9000})


LEAST: dict[str, Any] = {**ETH2, "mtu": {"at_least": 4200}}


def statuses_after(node: NicNode, rule: dict[str, Any]) -> set[Status]:
    """Of a second run, of both layers."""
    node.forget()
    return {found.status for found in apply(node, rule).rows}


def test_a_least_mtu_raises_a_smaller_one(node: NicNode) -> None:
    apply(node, LEAST)
    assert node.now("/sys/class/net/eth2/mtu") == "4200"
    assert statuses_after(node, LEAST) == {Status.OK}


@pytest.mark.parametrize("mtu", [4200, 4220, 8896, 9000])
def test_a_least_mtu_leaves_what_is_enough(node: NicNode, mtu: int) -> None:
    node.put("/sys/class/net/eth2/mtu", f"{mtu}\n")
    found = row(node, LEAST)
    assert (found.reading.want, found.reading.parts[0].differs) == (f"eth2: {mtu}", False)
    apply(node, LEAST)
    assert node.now("/sys/class/net/eth2/mtu") == str(mtu)
    assert statuses_after(node, LEAST) == {Status.OK}, "the next boot brings as much, by the agent"


def test_a_least_mtu_that_the_device_cannot_have_is_clamped(node: NicNode) -> None:
    node.mtus["eth2"] = 3498  # virtio behind some hypervisors
    apply(node, LEAST)
    found = row(node, LEAST)
    assert (found.status, found.reason) == (
        Status.CLAMPED,
        "eth2: asked for an MTU of at least 4200, and the most it has is 3498",
    )
    assert node.now("/sys/class/net/eth2/mtu") == "3498"


def test_a_bond_has_the_largest_mtu_that_all_members_have(node: NicNode) -> None:
    bonded(node)
    node.mtus.update(bond0=65535, eth2=9978, eth3=2044)
    rule = {"name": "members", "nics": {"drivers": ["mlx5_core"]}, "mtu": {"at_least": 4200}}
    found = row(node, rule)
    assert (found.reading.want, found.reading.clamped) == (
        "bond0: 2044",
        "bond0: asked for an MTU of at least 4200, and the most it has is 2044",
    )


def test_an_mtu_beyond_the_device_is_an_error_where_that_is_asked_for(node: NicNode) -> None:
    node.mtus["eth2"] = 2044
    found = row(node, {**LEAST, "beyond_max": "fail"})
    assert found.reading.invalid == "eth2: asked for an MTU of at least 4200, and the most it has is 2044"
    assert row(node, {**ETH2, "mtu": 9000}).reading.clamped == (
        "eth2: asked for an MTU of 9000, and the most it has is 2044"
    )


def test_where_no_maximum_is_known_the_kernel_decides(node: NicNode) -> None:
    node.mtus.clear()
    assert row(node, LEAST).reading.want == "eth2: 4200"


def test_a_least_mtu_goes_together_with_a_greater_one(node: NicNode) -> None:
    apply(node, {**ETH2, "mtu": 9000}, name="storage")
    node.put("/sys/class/net/eth2/mtu", "1500\n")
    plan(node, {**FABRIC, "mtu": {"at_least": 4200}})
    with pytest.raises(DeclarationError, match="one wants 9000, the other 9100 or more"):
        plan(node, {**FABRIC, "mtu": {"at_least": 9100}})


def test_a_floor_and_a_number_of_one_declaration_are_one_write_of_the_greater(node: NicNode) -> None:
    for rules in ([{**FABRIC, "mtu": {"at_least": 4200}}, {**ETH2, "mtu": 9000}],
                  [{**ETH2, "mtu": 9000}, {**FABRIC, "mtu": {"at_least": 4200}}],
                  [{**FABRIC, "mtu": 9000}, {**ETH2, "mtu": 9000}]):  # fmt: skip
        for name in ("eth2", "eth3"):
            node.put(f"/sys/class/net/{name}/mtu", "1500\n")
        node.forget()
        apply(node, *rules)
        assert node.now("/sys/class/net/eth2/mtu") == "9000"
        assert {*statuses(node, *rules).values()} == {"ok"}


def test_what_an_interface_has_is_no_floor(node: NicNode) -> None:
    """Beside a floor of 4200 a number of 8896 is right, also where 9000 is there."""
    apply(node, {**FABRIC, "mtu": {"at_least": 4200}}, name="fabric")
    for now in (1500, 9000):
        node.put("/sys/class/net/eth2/mtu", f"{now}\n")
        node.forget()
        plan(node, {**ETH2, "mtu": 8896})


def test_a_file_with_a_greater_mtu_does_not_overrule_a_least_one(node: NicNode) -> None:
    node.put("/sys/fs/cgroup/system.slice/systemd-networkd.service/cgroup.procs", "1\n")
    folder = "/etc/systemd/network"
    node.put(f"{folder}/10-rail.network", "[Match]\nName=eth2\n[Link]\nMTUBytes=9000\n")
    assert not row(node, LEAST).reading.boot.foreign
    node.put(f"{folder}/10-rail.network", "[Match]\nName=eth2\n[Link]\nMTUBytes=1500\n")
    node.forget()
    assert row(node, LEAST).reading.boot.foreign


def bonded(node: NicNode) -> None:
    node.put("/sys/devices/virtual/net/bond0/uevent", "DEVTYPE=bond\n")
    node.put("/sys/devices/virtual/net/bond0/mtu", "1500\n")
    node.put("/sys/devices/virtual/net/bond0/operstate", "up\n")
    node.link("/sys/class/net/bond0", "../../devices/virtual/net/bond0")
    for member in ("eth2", "eth3"):
        node.link(f"/sys/class/net/{member}/master", "/sys/devices/virtual/net/bond0")
        node.link(f"/sys/class/net/bond0/lower_{member}", f"/sys/class/net/{member}")


def test_a_bond_has_its_own_mtu_and_the_rings_of_its_members(node: NicNode) -> None:
    bonded(node)
    by_name = {"name": "bond", "nics": {"names": ["bond0"]}, "mtu": 9000, "rings": {"rx": 2048}}
    found = rows(node, by_name)
    assert found["nic.bond.mtu"].reading.runtime.text == "bond0: 1500"
    assert found["nic.bond.ring.rx"].reading.want == f"{MLX}: 2048"
    by_driver = {"name": "members", "nics": {"drivers": ["mlx5_core"]}, "mtu": 9000}
    assert row(node, by_driver).reading.runtime.text == "bond0: 1500"


# -- guards ----------------------------------------------------------------------------------


def test_the_management_path_is_not_interrupted_unless_that_is_allowed(node: NicNode) -> None:
    node.carry("eth2", "eth4")
    rule = {"name": "all", "mtu": 9000}
    for one in ({**ETH2, "rings": {"rx": 128}}, rule):
        with pytest.raises(RefusedError, match=r"eth[24]: .*default route.*allow: \[management\]"):
            apply(node, one)
    assert {path for path, _value in node.writes} <= {"/sys/class/net/eth3/mtu"}, "which carries nothing"
    apply(node, rule, allow=["management"])
    assert node.now("/sys/class/net/eth4/mtu") == "9000"


def test_what_no_packet_notices_is_no_matter_of_guards(node: NicNode) -> None:
    node.carry("eth2")
    apply(
        node,
        {**ETH2, "coalesce": {"rx-usecs": 9, "adaptive-rx": False}, "features": {"gro": False}},
        allow=["management"],
    )
    assert not node.eth2.features["rx-gro"].active


def test_nothing_is_refused_that_is_right_already(node: NicNode) -> None:
    node.carry("eth2")
    assert statuses(node, {**ETH2, "rings": {"rx": 1024}, "mtu": 1500}) == {
        "nic.one.ring.rx": "ok",
        "nic.one.mtu": "ok",
    }


def test_more_than_the_limit_is_refused(node: NicNode) -> None:
    with pytest.raises(RefusedError, match=r"resets its link.*max_disruption: link_reset"):
        apply(node, {**ETH2, "rings": 4096}, max_disruption="none")


def test_jobs_keep_their_nics(node: NicNode) -> None:
    node.put("/proc/812/comm", "slurmstepd\n")
    node.put("/proc/812/cmdline", "slurmstepd: [4711.0]\0")
    node.put("/proc/812/status", "Name:\tslurmstepd\nPPid:\t1\n")
    with pytest.raises(RefusedError, match=r"under what runs here: Slurm job 4711.*allow: \[busy\]"):
        apply(node, {**ETH2, "rings": 4096})
    apply(node, {**ETH2, "rings": 4096}, allow=["busy"])
    assert (node.eth2.ring or {})["rx"] == 4096


# -- after a change --------------------------------------------------------------------------


def test_a_link_that_does_not_come_back_stops_everything_and_is_put_back(
    node: NicNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic_settle, "LINK_SECONDS", 0.2)
    monkeypatch.setattr(nic_settle.wait, "__defaults__", (0.2,))

    def along(card: Nic) -> None:
        node.put("/sys/class/net/eth2/carrier", "0\n" if (card.ring or {})["rx"] != 1024 else "1\n")

    node.eth2.along = along
    with pytest.raises(TransactionError, match="it has no carrier after 0 s"):
        apply(node, {**FABRIC, "rings": 4096})
    assert (node.eth2.ring or {})["rx"] == 1024
    assert (node.eth3.ring or {})["rx"] == 1024, "the next NIC was never touched"
    assert not any("eth3" in path for path, _value in node.writes)


def test_an_rdma_port_has_to_be_active_again(node: NicNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_settle.wait, "__defaults__", (0.2,))
    state = "/sys/class/infiniband/mlx5_0/ports/1/state"
    assert "ACTIVE" in node.now(state)
    node.eth2.along = lambda _nic: node.put(state, "1: DOWN\n")
    with pytest.raises(TransactionError, match=r"the RDMA port mlx5_0/1 is 1: DOWN and was 4: ACTIVE"):
        apply(node, {**ETH2, "rings": 4096})


def test_a_boot_sets_what_it_can(node: NicNode) -> None:
    apply(node, {**FABRIC, "rings": 2048, "mtu": 9000}, layers=(Layer.BOOT,))
    node.eth2.fails[0x11] = errno.EACCES
    outcome, errors = boot_run.apply_each(node, request({**FABRIC, "rings": 2048, "mtu": 9000}))
    assert len(errors) == 1
    assert "EACCES" in errors[0]
    assert (node.eth3.ring or {})["rx"] == 2048
    assert [node.now(f"/sys/class/net/{name}/mtu") for name in ("eth2", "eth3")] == ["9000", "9000"]
    assert [str(found.status) for found in outcome.rows] == ["refused", "refused", "changed"]
    assert outcome.rows[0].reason.startswith("it was tried and put back: eth2: nic.fabric.ring.rx")
    # Once is enough for the agent, until somebody watches or the node boots.
    node.eth2.fails.clear()
    node.writes.clear()
    boot_run.apply_each(node, request({**FABRIC, "rings": 2048, "mtu": 9000}))
    assert node.writes == []
    door.apply(node, request({**FABRIC, "rings": 2048, "mtu": 9000}))
    assert (node.eth2.ring or {})["rx"] == 2048


def rename(node: NicNode, old: str, new: str) -> None:
    """As udev does with a NIC that has arrived."""
    link = pathlib.Path(node.root, "sys/class/net", old)
    folder = link.resolve()
    folder.rename(folder.with_name(new))
    link.unlink()
    link.with_name(new).symlink_to(os.path.relpath(folder.with_name(new), link.parent))
    node.nics[new] = node.nics.pop(old)


@pytest.mark.parametrize("knobs", [{"rings": 2048, "mtu": 9000}, {"tx_queue_len": 500}], ids=["ring", "file"])
def test_a_nic_that_is_renamed_while_a_boot_sets_it_is_set_under_its_new_name(
    node: NicNode, monkeypatch: pytest.MonkeyPatch, knobs: dict[str, int]
) -> None:
    monkeypatch.setattr(boot_run, "_LOOK_SECONDS", 0)
    apply(node, {**FABRIC, **knobs}, layers=(Layer.BOOT,))
    todo = {"eth2": "ens2", "eth3": "ens3"}
    written = node.write_kernel

    def write(path: str, value: str) -> None:
        for old in [name for name in todo if f"/{name}/" in path]:
            rename(node, old, todo.pop(old))
        written(path, value)

    monkeypatch.setattr(node, "write_kernel", write)
    outcome, errors = boot_run.apply_each(node, request({**FABRIC, **knobs}))
    assert (todo, errors) == ({}, [])
    assert {str(found.status) for found in outcome.rows} == {"changed"}
    for name in ("ens2", "ens3"):
        now = {file: int(node.now(f"/sys/class/net/{name}/{file}")) for file in ("mtu", "tx_queue_len")}
        now["rings"] = (node.nics[name].ring or {})["rx"]
        assert {knob: now[knob] for knob in knobs} == knobs


def test_a_boot_looks_three_times_for_what_is_gone(node: NicNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_run, "_LOOK_SECONDS", 0)
    apply(node, {**FABRIC, "rings": 2048, "mtu": 9000}, layers=(Layer.BOOT,))
    written, forget, read = node.write_kernel, node.forget, node.value
    tries: list[str] = []
    gone: list[str] = []

    def write(path: str, value: str) -> None:
        if path == "/sys/class/net/eth2/mtu" and value == "9000":
            tries.append(value)
            gone.append(path)
        if path in gone:
            raise HostError("write to", path, errno.ENODEV)
        written(path, value)

    def value(path: str) -> Value:
        # As of an interface that is about to be unregistered (net/core/net-sysfs.c: netdev_show)
        return Value(unreadable="EINVAL") if path in gone else read(path)

    def look_again(**more: bool) -> None:
        gone.clear()
        forget(**more)

    monkeypatch.setattr(node, "write_kernel", write)
    monkeypatch.setattr(node, "forget", look_again)
    monkeypatch.setattr(node, "value", value)
    outcome, errors = boot_run.apply_each(node, request({**FABRIC, "rings": 2048, "mtu": 9000}))
    assert len(tries) == 3
    assert len(errors) == 1
    assert "eth2: nic.fabric.mtu: cannot write to /sys/class/net/eth2/mtu: ENODEV" in errors[0]
    assert [str(found.status) for found in outcome.rows] == ["changed", "changed", "drifted"]
    assert node.now("/sys/class/net/eth3/mtu") == "9000"


def test_the_management_path_is_left_alone_where_somebody_may_be_cut_off(node: NicNode) -> None:
    rule = {"name": "m", "nics": {"names": ["eth4"]}, "mtu": 9000}
    apply(node, rule, layers=(Layer.BOOT,), allow=["management"])
    asked = request(rule, allow=["management"])
    _outcome, errors = boot_run.apply_each(node, asked, "somebody is connected")
    (error,) = errors
    assert error == "eth4: nic.m.mtu: not done, as it is on the management path; somebody is connected"
    assert node.now("/sys/class/net/eth4/mtu") == "1500"
    assert boot_run.apply_each(node, asked)[1] == []
    assert node.now("/sys/class/net/eth4/mtu") == "9000"


def test_what_may_cut_somebody_off_comes_last(node: NicNode) -> None:
    apply(node, {"name": "all", "mtu": 9000}, allow=["management"])
    assert [path.split("/")[4] for path, _value in node.writes] == ["eth2", "eth3", "eth4"]


# -- other owners ----------------------------------------------------------------------------

LINK = "/etc/systemd/network/10-eth2.link"


def test_another_owner_overrides_the_next_boot_and_is_named(node: NicNode) -> None:
    rule = {**ETH2, "rings": {"rx": 4096}, "features": {"tso": True}}
    apply(node, rule)
    node.put(LINK, "[Match]\nOriginalName=eth2\n[Link]\nRxBufferSize=512\nTCPSegmentationOffload=no\n")
    node.forget()  # as a later run would
    found = engine.evaluate(node, request(rule)).rows
    assert [(str(one.status), one.reason) for one in found] == [
        ("overridden", f"boot: {LINK}:4 (systemd .link) sets eth2: 512"),
        ("overridden", f"boot: {LINK}:5 (systemd .link) sets eth2: off"),
    ]


def test_another_owner_that_wants_the_same_is_no_drift(node: NicNode) -> None:
    rule = {**ETH2, "rings": {"rx": 8192}}
    node.put(LINK, "[Match]\nOriginalName=eth2\n[Link]\nRxBufferSize=max\n")
    assert [str(one.status) for one in apply(node, rule).rows] == ["changed"]
    assert [str(one.status) for one in engine.evaluate(node, request(rule)).rows] == ["ok"]


def test_a_line_that_may_be_for_another_interface_is_a_note(node: NicNode) -> None:
    rule = {**ETH2, "features": {"tso": True}}
    apply(node, rule)
    node.put(LINK, "[Match]\nHost=other\n[Link]\nTCPSegmentationOffload=no\nTCP6SegmentationOffload=no\n")
    node.forget()
    [found] = engine.evaluate(node, request(rule)).rows
    assert str(found.status) == "ok"
    assert f"{LINK}:4 (systemd .link) may set off" in found.reason
    [words] = [
        text for text in nic.boot_sources("nic.one.feature.tx-tcp-segmentation", node) if " eth2 " in text
    ]
    assert words.startswith(
        f"{LINK}:4: eth2 feature/tx-tcp-segmentation off (systemd .link); whether it takes"
    )


@pytest.mark.parametrize("problem", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("path", [LINK, f"{LINK}.d/a.conf", "/run/systemd/network", "/etc/netplan/a.yaml"])
def test_where_a_file_of_an_owner_cannot_be_read_the_next_boot_is_unknown(
    node: NicNode, path: str, problem: int
) -> None:
    rule = {**ETH2, "rings": {"rx": 4096}}
    apply(node, rule)
    node.put(LINK, "[Match]\nOriginalName=eth2\n[Link]\nRxBufferSize=4096\n")
    node.put(f"{LINK}.d/a.conf", "[Link]\n")
    node.put("/etc/netplan/a.yaml", "{}")
    node.forget()
    assert [str(item.status) for item in engine.evaluate(node, request(rule)).rows] == ["ok"]
    node.unreadable[path] = problem
    node.forget()
    [item] = engine.evaluate(node, request(rule)).rows
    assert str(item.status) == "unknown"
    assert path in item.reason
    # A line that was read is an answer.
    node.put("/etc/systemd/network/00-a.link", "[Match]\nOriginalName=eth2\n[Link]\nRxBufferSize=1\n")
    node.forget()
    assert str(engine.evaluate(node, request(rule)).rows[0].status) == "overridden"


def test_an_explanation_names_the_program_that_manages_an_interface(node: NicNode) -> None:
    node.put("/sys/class/net/eth2/ifindex", "7\n")
    node.put("/run/NetworkManager/devices/7", "[device]\nmanaged=true\n")
    [words] = nic.boot_sources("nic.one.mtu", node)
    assert words.startswith("eth2: managed by NetworkManager; there it is set with nmcli ")


def test_an_explanation_names_all_owners(node: NicNode) -> None:
    node.put(LINK, "[Match]\nOriginalName=eth2\n[Link]\nRxBufferSize=512\n")
    assert nic.boot_sources("nic.one.ring.rx", node) == [f"{LINK}:4: eth2 ring/rx 512 (systemd .link)"]
    assert nic.boot_sources("nic.one.ring.tx", node) == []
    assert nic.boot_sources("nic.one.mtu", node) == []
