# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import socket
import struct

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import icmp
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.icmp import (
    V4,
    V6,
    Family,
    Network,
    Refusal,
)
from hypothesis import given
from hypothesis import strategies as st

BYTES_16 = st.integers(0, 0xFFFF)


def test_a_packet_as_ping_sends_it() -> None:
    # 0x0800 + 0x1234 + 0x0001 = 0x1A35, the complement of which is 0xE5CA.
    assert icmp.pack(8, 0x1234, 1, bytes(8)).hex() == "0800e5ca123400010000000000000000"


@given(data=st.binary(max_size=2000))
def test_the_checksum_makes_the_sum_of_all_words_all_ones(data: bytes) -> None:
    even = data + b"\0" * (len(data) % 2)

    with_sum = even + struct.pack("!H", icmp.checksum(data))

    total = sum(struct.unpack(f"!{len(with_sum) // 2}H", with_sum))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF


@given(identifier=BYTES_16, sequence=BYTES_16, data=st.binary(max_size=100))
def test_what_is_packed_is_unpacked(identifier: int, sequence: int, data: bytes) -> None:
    assert icmp.unpack(icmp.pack(0, identifier, sequence, data)) == (0, identifier, sequence, data)


@pytest.mark.parametrize("message", [b"", b"\0" * 7, b"\0\1" + b"\0" * 6])
def test_what_is_no_echo_is_none(message: bytes) -> None:
    assert icmp.unpack(message) is None


def header(version: int = 4, words: int = 5, protocol: int = 1) -> bytes:
    return bytes([version << 4 | words, *[0] * 8, protocol, *[0] * (max(words, 5) * 4 - 10)])


@pytest.mark.parametrize("words", [5, 6, 15])
def test_options_of_the_ip_header_are_skipped(words: int) -> None:
    assert icmp.without_header(header(words=words) + b"message") == b"message"


@pytest.mark.parametrize(
    "packet",
    [b"", header()[:19], header(version=6), header(words=4), header(protocol=17), header(words=15)[:30]],
)
def test_what_is_no_icmp_packet_has_no_message(packet: bytes) -> None:
    assert icmp.without_header(packet) == b""


@given(data=st.binary(max_size=80))
def test_no_bytes_from_the_network_raise(data: bytes) -> None:
    icmp.unpack(data)
    icmp.unpack(icmp.without_header(data))
    for family in (V4, V6):
        icmp.unpack_error(family, data)


def told(family: Family, number: int, origin: int, kind: int, code: int, info: int, by: str = "") -> bytes:
    """struct sock_extended_err and the sockaddr of who told, as the error queue has it."""
    head = struct.pack("=IBBBBII", number, origin, kind, code, 0, info, 0)
    if not by:
        return head + bytes(28)
    place = socket.inet_pton(family.number, by)
    if family is V4:
        return head + struct.pack("=HH", socket.AF_INET, 0) + place + bytes(8)
    return head + struct.pack("=HHI", socket.AF_INET6, 0, 0) + place + bytes(4)


@pytest.mark.parametrize(("family", "kind", "code", "by"), [(V4, 3, 4, "10.0.0.254"), (V6, 2, 0, "fd00::fe")])
def test_a_router_tells_its_mtu(family: Family, kind: int, code: int, by: str) -> None:
    data = told(family, errno.EMSGSIZE, 2 if family is V4 else 3, kind, code, 1400, by)

    assert icmp.unpack_error(family, data) == Refusal(0, by, "", 1400)


def test_this_node_tells_its_own() -> None:
    for family in (V4, V6):
        assert icmp.unpack_error(family, told(family, errno.EMSGSIZE, 1, 0, 0, 1500)) == Refusal(
            0, "", "", 1500
        )
        assert icmp.unpack_error(family, told(family, errno.EPERM, 1, 0, 0, 0)) is None


@pytest.mark.parametrize(
    ("family", "kind", "code", "by", "words"),
    [
        (V4, 3, 1, "10.0.0.254", "host unreachable"),
        (V4, 3, 13, "10.0.0.254", "administratively prohibited"),
        (V4, 3, 77, "10.0.0.254", "ICMP type 3 code 77"),
        (V6, 1, 1, "fd00::fe", "administratively prohibited"),
    ],
)
def test_other_refusals_are_not_about_the_size(
    family: Family, kind: int, code: int, by: str, words: str
) -> None:
    data = told(family, errno.EHOSTUNREACH, 2, kind, code, 0, by)

    assert icmp.unpack_error(family, data) == Refusal(0, by, words, None)


def test_an_error_cut_short_is_none() -> None:
    whole = told(V4, errno.EMSGSIZE, 2, 3, 4, 1400, "10.0.0.254")

    for length in range(24):
        assert icmp.unpack_error(V4, whole[:length]) is None
    assert icmp.unpack_error(V4, whole[:24]) is not None


def test_addresses_are_found_as_they_are() -> None:
    network = Network()
    try:
        assert network.find("10.0.0.7") == (V4, ("10.0.0.7", 0))
        assert network.find("FD00:0::7").address == "fd00::7"
        assert network.find("fd00::7").family is V6
    finally:
        network.close()


@pytest.mark.parametrize("name", ["a\0b", "x" * 64 + ".example", "a..b", "\udcff.example"])
def test_a_name_that_no_resolver_takes_is_an_error_in_words(name: str) -> None:
    network = Network()
    try:
        with pytest.raises(OSError, match=r"is no name|not known|resolution|No address") as raised:
            network.find(name)
    finally:
        network.close()
    assert icmp.why(raised.value)


def test_why() -> None:
    assert icmp.why(OSError(errno.EPERM, "Operation not permitted")) == "EPERM (Operation not permitted)"
    assert icmp.why(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"
    assert icmp.why(OSError("in our words")) == "in our words"
