# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Bits, Nic
from mlnode.drivers.ethtool import ioctls
from mlnode.drivers.ethtool.device import GROUPS
from mlnode.drivers.ethtool.ioctls import Kernel
from mlnode.drivers.ethtool.structs import AnswerError


def device(nic: Nic) -> Kernel:
    return Kernel("eth0", nic.call)


# -- the call itself -----------------------------------------------------------------------


class FakeIoctl:
    """fcntl.ioctl that writes an answer to where the kernel would."""

    def __init__(self, answer: bytes = b"", returned: int = 0) -> None:
        self.answer = answer
        self.returned = returned
        self.seen: list[tuple[int, int, bytes, bytes]] = []

    def __call__(self, handle: socket.socket, number: int, ifreq: bytearray, mutate: bool) -> int:
        assert mutate
        assert len(ifreq) == 40
        name, address = struct.unpack_from("@16sP", ifreq)
        self.seen.append((handle.family, number, name, ctypes.string_at(address, len(self.answer))))
        ctypes.memmove(address, self.answer, len(self.answer))
        return self.returned


def test_a_request_goes_through_the_family_that_the_sandbox_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeIoctl(b"answer", returned=2)
    monkeypatch.setattr(fcntl, "ioctl", fake)
    assert ioctls.ioctl("enp24s0f0np0", b"what is") == (2, b"answers")
    assert fake.seen == [(socket.AF_UNIX, 0x8946, b"enp24s0f0np0\0\0\0\0", b"what i")]


def test_a_name_that_is_no_utf8_reaches_the_kernel_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeIoctl()
    monkeypatch.setattr(fcntl, "ioctl", fake)
    ioctls.ioctl("eth\udcff", b"\0" * 8)
    assert fake.seen[0][2].rstrip(b"\0") == b"eth\xff"


def test_what_the_kernel_refuses_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> int:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    with pytest.raises(OSError, match="no"):
        ioctls.ioctl("eth0", b"\0" * 8)


# -- what is told --------------------------------------------------------------------------


@cases.table
def test_a_group_by_ethtools_names(group: str, told: dict[str, str]) -> None:
    assert device(Nic()).get(group) == told


def test_coalescing_has_all_of_ethtools_parameters() -> None:
    found = device(Nic()).get("coalesce")
    assert len(found) == 22
    assert {name: found[name] for name in ("adaptive-rx", "rx-usecs", "rx-frames", "tx-usecs")} == {
        "adaptive-rx": "on",
        "rx-usecs": "8",
        "rx-frames": "128",
        "tx-usecs": "0",
    }


def test_a_kind_of_ring_with_a_maximum_of_0_is_not_there() -> None:
    nic = Nic(ring={"rx": 512, "rx-jumbo": 256}, ring_max={"rx": 4096, "rx-jumbo": 1024})
    assert device(nic).get("ring") == {"rx": "512", "rx-jumbo": "256"}
    assert device(nic).get("ring/max") == {"rx": "4096", "rx-jumbo": "1024"}


def test_channels_of_one_kind_each() -> None:
    nic = Nic(channels={"rx": 4, "tx": 2, "other": 1}, channels_max={"rx": 8, "tx": 8, "other": 1})
    assert device(nic).get("channels") == {"rx": "4", "tx": "2", "other": "1"}


def test_a_feature_is_active_requested_and_fixed_or_not() -> None:
    nic = Nic()
    nic.features["tx-tcp-segmentation"] = Bits(available=True, requested=True, active=False)
    names = ("tx-tcp-segmentation", "rx-lro", "rx-vlan-hw-parse", "tx-lockless")
    state = {part: device(nic).get(f"feature{part}") for part in ("", "/requested", "/fixed")}
    assert [state[""][name] for name in names] == ["off", "off", "off", "on"]
    assert [state["/requested"][name] for name in names] == ["on", "off", "off", "on"]
    assert [state["/fixed"][name] for name in names] == ["no", "no", "yes", "yes"]
    assert "" not in state[""]


def test_a_kernel_with_three_blocks_of_features_is_asked_and_set_alike() -> None:
    nic = Nic(blocks=3)
    device(nic).set("feature", {"tx-udp-segmentation": "on"})
    assert device(nic).get("feature")["tx-udp-segmentation"] == "on"


def test_names_beyond_the_kernels_bits_are_left_out() -> None:
    found = device(Nic(blocks=1)).get("feature")
    assert "rx-gro" in found
    assert "tx-udp-segmentation" not in found


@cases.table
def test_half_of_what_there_is_to_know_of_a_link(
    speed: int | None, detected: int | None, told: dict[str, str]
) -> None:
    assert device(Nic(speed=speed, detected=detected)).get("link") == told


@pytest.mark.parametrize("command", [0x4C, 0x0A])
def test_an_error_on_a_link_is_not_hidden(command: int) -> None:
    with pytest.raises(OSError, match="Input/output") as caught:
        device(Nic(fails={command: errno.EIO})).get("link")
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("fec", [None, (1, 1), (0, 0), (1, 0)])
def test_no_fec_can_be_said_in_several_ways(fec: tuple[int, int] | None) -> None:
    with pytest.raises(OSError, match="not supported"):
        device(Nic(fec=fec)).get("fec")


def test_a_link_without_fec_does_not_make_the_setting_go_away() -> None:
    assert device(Nic(fec=(0b10, 1))).get("fec") == {"encoding": "auto", "active": "none"}


@pytest.mark.parametrize("flags", [None, {}])
def test_no_private_flags_are_never_asked_for_by_name(flags: dict[str, bool] | None) -> None:
    nic = Nic(flags=flags)
    with pytest.raises(OSError, match="not supported"):
        device(nic).get("private-flag")
    assert 0x1B not in nic.calls


def test_private_flags_beyond_the_mask_are_left_out() -> None:
    nic = Nic(flags={f"flag-{number}": number % 2 == 1 for number in range(40)})
    found = device(nic).get("private-flag")
    assert list(found) == [f"flag-{number}" for number in range(32)]
    assert found["flag-31"] == "on"


def test_a_statistic_with_an_impossible_name_hides_none_of_the_others() -> None:
    nic = Nic(statistics={"rx,tx": 1, "": 2, "queue/0": 3, "rx-0.packets": 4, "n" * 32: 5})
    assert device(nic).get("statistic") == {"rx-0.packets": "4", "n" * 32: "5"}


def test_statistics_may_be_thousands() -> None:
    nic = Nic(statistics={f"rx{queue}_packets": queue for queue in range(9000)})
    assert device(nic).get("statistic")["rx8999_packets"] == "8999"


def test_statistics_that_changed_in_number_between_the_questions_are_no_answer() -> None:
    nic = Nic(answers={0x1D: struct.pack("=II2Q", 0x1D, 2, 7, 8)})
    with pytest.raises(AnswerError, match="2 statistics, and names 3"):
        device(nic).get("statistic")


BARE = Nic(
    driver=None, ring=None, channels=None, coalesce=None, pause=None, flags=None, fec=None,
    speed=None, detected=None, statistics=None,
)  # fmt: skip


@pytest.mark.parametrize("group", [name for name in GROUPS if not name.startswith("feature")])
def test_a_driver_without_a_group_says_eopnotsupp(group: str) -> None:
    with pytest.raises(OSError, match="not supported") as caught:
        device(BARE).get(group)
    assert caught.value.errno == errno.EOPNOTSUPP


@cases.table
def test_an_answer_that_makes_no_sense_is_an_error(command: int, group: str) -> None:
    with pytest.raises(AnswerError):
        device(Nic(answers={command: b"\xff" * 7})).get(group)


# -- what is set ---------------------------------------------------------------------------


def test_fields_are_set_together_and_the_others_kept() -> None:
    nic = Nic(ring={"rx": 512, "tx": 256, "rx-mini": 64}, ring_max={"rx": 4096, "tx": 4096, "rx-mini": 128})
    device(nic).set("ring", {"rx": "4096", "tx": "2048"})
    assert nic.ring == {"rx": 4096, "tx": 2048, "rx-mini": 64, "rx-jumbo": 0}
    assert nic.calls == [0x10, 0x11]


def test_switches_and_numbers_of_coalescing() -> None:
    nic = Nic()
    device(nic).set("coalesce", {"adaptive-rx": "off", "rx-usecs": "50"})
    found = device(nic).get("coalesce")
    assert (found["adaptive-rx"], found["adaptive-tx"], found["rx-usecs"]) == ("off", "on", "50")


def test_what_coalescing_of_the_driver_does_not_have_is_refused() -> None:
    with pytest.raises(OSError, match="not supported"):
        device(Nic()).set("coalesce", {"sample-interval": "1"})


def test_beyond_the_maximum_is_refused_by_the_kernel() -> None:
    with pytest.raises(OSError, match="maximum") as caught:
        device(Nic()).set("ring", {"rx": "8193"})
    assert caught.value.errno == errno.EINVAL


def test_pause() -> None:
    nic = Nic()
    device(nic).set("pause", {"rx": "off"})
    assert nic.pause == {"autoneg": 0, "rx": 0, "tx": 1}


def test_one_private_flag_leaves_the_others_alone() -> None:
    nic = Nic(flags={"a": True, "b": False, "c": True})
    device(nic).set("private-flag", {"a": "off", "b": "on"})
    assert nic.flags == {"a": False, "b": True, "c": True}


def test_fec() -> None:
    nic = Nic()
    device(nic).set("fec", {"encoding": "rs"})
    assert device(nic).get("fec")["encoding"] == "rs"


@pytest.mark.parametrize("group", ["feature", "feature/requested"])
def test_a_family_is_set_at_once(group: str) -> None:
    nic = Nic()
    device(nic).set(group, {"tx-tcp-segmentation": "off", "tx-tcp6-segmentation": "off"})
    found = device(nic).get("feature")
    assert [found[name] for name in ("tx-tcp-segmentation", "tx-tcp6-segmentation")] == ["off", "off"]
    assert found["rx-gro"] == "on"
    assert nic.calls.count(0x3B) == 1


def test_a_fixed_feature_may_be_asked_to_be_what_it_is() -> None:
    nic = Nic()
    device(nic).set("feature", {"tx-lockless": "on", "rx-vlan-hw-parse": "off"})
    assert 0x3B not in nic.calls
    device(nic).set("feature", {"tx-lockless": "on", "rx-lro": "on"})
    assert nic.features["rx-lro"].active


@pytest.mark.parametrize("name", ["tx-lockless", "rx-gro-hw"])
def test_a_fixed_feature_stops_all_that_were_asked_with_it(name: str) -> None:
    nic = Nic()
    wanted = "off" if nic.features[name].active else "on"
    with pytest.raises(OSError, match="not supported"):
        device(nic).set("feature", {"rx-lro": "on", name: wanted})
    assert not nic.features["rx-lro"].active


def test_a_feature_that_became_fixed_meanwhile_is_noticed() -> None:
    nic = Nic()
    sent = nic.call

    def call(name: str, request: bytes) -> tuple[int, bytes]:
        if request[:4] == struct.pack("=I", 0x3B):
            nic.features["rx-lro"].available = False
        return sent(name, request)

    with pytest.raises(OSError, match="not supported"):
        Kernel("eth0", call).set("feature", {"rx-lro": "on"})


def test_a_feature_that_another_one_keeps_off_stays_requested() -> None:
    nic = Nic()
    nic.ignores.add("rx-lro")
    device(nic).set("feature", {"rx-lro": "on"})
    assert device(nic).get("feature")["rx-lro"] == "off"
    assert device(nic).get("feature/requested")["rx-lro"] == "on"


@pytest.mark.parametrize(("group", "name"), [("feature", "tx-nonsense"), ("private-flag", "nonsense")])
def test_a_name_that_is_not_there_any_longer_is_refused(group: str, name: str) -> None:
    with pytest.raises(OSError, match="not supported"):
        device(Nic()).set(group, {name: "on"})


@cases.table
def test_a_value_that_cannot_be_reaches_no_driver(group: str, wanted: dict[str, str]) -> None:
    nic = Nic()
    with pytest.raises(ValueError, match="not '"):
        device(nic).set(group, wanted)
    assert nic.calls == []
