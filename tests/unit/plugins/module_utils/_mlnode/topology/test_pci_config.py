# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.pci_config_builder import ACS_BY_KERNEL, KINDS, config
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.topology import pci_config
from mlnode.topology.model import Link
from mlnode.topology.pci_config import ConfigError

ASKED = (pci_config.express, pci_config.acs, pci_config.ats)
SIZES = [128, 256, 512, 1024, 2048, 4096]

#: What `lspci -xxx` printed of a ConnectX-5 Ex in a slot of 16 lanes (a report on the linux-pci list)
CONNECTX = """
00: b3 15 19 10 46 05 10 00 00 00 00 02 08 00 80 00
30: 00 00 70 e6 60 00 00 00 00 00 00 00 ff 01 00 00
40: 01 00 c3 81 08 00 00 00 03 9c cc 80 00 78 00 00
60: 10 48 02 00 e2 8f e0 11 5f 29 00 00 04 71 41 00
70: 08 00 04 11 00 00 00 00 00 00 00 00 00 00 00 00
90: 04 00 1e 00 00 00 00 00 00 00 00 00 11 c0 3f 80
c0: 09 40 18 00 0a 00 00 20 f0 1a 00 00 00 00 00 00
"""


def changed(data: bytes, at: int, *octets: int) -> bytes:
    return data[:at] + bytes(octets) + data[at + len(octets) :]


@pytest.mark.parametrize("payload", SIZES)
@pytest.mark.parametrize("read_request", SIZES)
@pytest.mark.parametrize("ordered", [True, False])
def test_device_control(payload: int, read_request: int, ordered: bool) -> None:
    data = config(payload=payload, read_request=read_request, relaxed_ordering=ordered)
    found = pci_config.express(data)
    assert found is not None
    assert (found.payload, found.read_request, found.relaxed_ordering) == (payload, read_request, ordered)
    assert found.payload_supported == 512


def test_the_link_in_the_kernels_words() -> None:
    found = pci_config.express(config(speed="16.0", width=8))
    assert found is not None
    assert found.link == Link("16.0 GT/s PCIe", 8, "32.0 GT/s PCIe", 16)


def test_a_link_that_says_nothing() -> None:
    data = changed(config(), 0x60 + 0x12, 0, 0)
    found = pci_config.express(data)
    assert found is not None
    assert found.link is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "conventional"])
def test_what_is_not_there_is_surely_not_there(kind: str) -> None:
    assert pci_config.acs(config(kind)) is None
    assert pci_config.ats(config(kind)) is None
    assert pci_config.express(config(kind)) is not None


def test_a_conventional_function_has_none_of_it() -> None:
    assert [ask(config("conventional", size=256)) for ask in ASKED] == [None, None, None]


def test_no_list_of_capabilities_at_all() -> None:
    assert [ask(changed(config(), 0x06, 0)) for ask in ASKED] == [None, None, None]


def test_cardbus_has_its_list_elsewhere() -> None:
    data = changed(changed(config(), 0x0E, 2), 0x34, 0)
    assert pci_config.express(changed(data, 0x14, 0x60)) is not None
    assert pci_config.express(data) is None


def test_acs() -> None:
    found = pci_config.acs(config("downstream", acs=ACS_BY_KERNEL, ats=True))
    assert found is not None
    assert (found.control, found.offered, found.redirects) == (0x1D, 0x5F, True)
    assert str(found) == "0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+)"


@cases.table
def test_which_bits_redirect(control: int, redirects: bool) -> None:
    found = pci_config.acs(config("downstream", acs=control))
    assert found is not None
    assert found.redirects is redirects


@cases.table
def test_bits_of_a_boot_parameter(control: int, bits: str, after: int) -> None:
    assert pci_config.with_bits(control, bits) == after


def test_acs_without_a_bit() -> None:
    assert str(pci_config.acs(config("downstream", acs=0))) == "0x0000"


@pytest.mark.parametrize("enabled", [True, False])
def test_ats(enabled: bool) -> None:
    found = pci_config.ats(config(ats=enabled, acs=0))
    assert found is not None
    assert found.enabled is enabled


def test_a_real_card() -> None:
    data = bytearray(256)
    for row in CONNECTX.strip().splitlines():
        at, octets = row.split(": ")
        data[int(at, 16) : int(at, 16) + 16] = bytes.fromhex(octets)
    found = pci_config.express(bytes(data))
    assert found == pci_config.Express(512, 512, 512, True, Link(*2 * ("16.0 GT/s PCIe", 16)))
    with pytest.raises(ConfigError, match="has 256 bytes"):
        pci_config.acs(bytes(data))


# -- bytes that do not tell ------------------------------------------------------------------


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("size", [64, 128])
def test_only_root_reads_more_than_the_header(ask: object, size: int) -> None:
    data = config(acs=0, ats=True, size=size)
    assert callable(ask)
    if (
        size == 128 and ask is pci_config.express
    ):  # of CardBus anybody may read as much, and here it is enough
        assert ask(data) is not None
        return
    with pytest.raises(ConfigError, match=f"only the first {size} bytes can be read: it takes root"):
        ask(data)


def test_no_extended_space() -> None:
    data = config(acs=ACS_BY_KERNEL, size=256)
    assert pci_config.express(data) is not None
    with pytest.raises(ConfigError, match="nothing here reaches the extended space"):
        pci_config.acs(data)


@pytest.mark.parametrize("size", [257, 300, 0x1C0, 0x1C3, 0x1C6])
def test_an_extended_capability_cut_off(size: int) -> None:
    with pytest.raises(ConfigError, match=f"ends after {size} bytes"):
        pci_config.acs(config(acs=ACS_BY_KERNEL, size=size))


@pytest.mark.parametrize("size", [0, 1, 63])
def test_less_than_a_header(size: int) -> None:
    for ask in ASKED:
        with pytest.raises(ConfigError, match=f"has {size} bytes"):
            ask(config(size=size))


def test_a_function_that_fell_off_the_bus() -> None:
    for ask in ASKED:
        with pytest.raises(ConfigError, match="does not answer"):
            ask(b"\xff" * 4096)


def test_a_virtual_function_has_no_vendor() -> None:
    assert pci_config.express(changed(config(), 0, 0xFF, 0xFF, 0xFF, 0xFF)) is not None


@cases.table
def test_a_list_that_leads_astray(at: int, octets: tuple[int, ...], words: str | None) -> None:
    data = changed(config(), at, *octets)
    if words is None:
        pci_config.express(data)
        return
    with pytest.raises(ConfigError, match=words):
        pci_config.express(data)


@pytest.mark.parametrize("at", [0x48, 0x40])
def test_a_loop(at: int) -> None:
    data = changed(config("conventional"), at + 1, 0x48)
    with pytest.raises(ConfigError, match="the list of capabilities is broken: it leads to 0x48"):
        pci_config.express(data)


def test_a_capability_of_all_ones() -> None:
    with pytest.raises(ConfigError, match="0x48 reads as all ones"):
        pci_config.express(changed(config("conventional"), 0x48, 0xFF))


def test_a_loop_of_extended_capabilities() -> None:
    data = changed(config(acs=0), 0x1C2, 0x01, 0x10)  # next: 0x100
    with pytest.raises(ConfigError, match="it leads to 0x100"):
        pci_config.ats(data)


@pytest.mark.parametrize("following", [0x04, 0x40, 0xFC])
def test_an_extended_capability_below_its_space(following: int) -> None:
    data = changed(config(acs=0), 0x1C2, (following & 0xF) << 4 | 1, following >> 4)
    with pytest.raises(ConfigError, match=f"it leads to 0x0{following:02x}"):
        pci_config.ats(data)


def test_extended_space_of_all_ones() -> None:
    data = config(acs=0)[:256] + b"\xff" * 3840
    with pytest.raises(ConfigError, match="all ones at 0x100"):
        pci_config.acs(data)


@pytest.mark.parametrize("code", [6, 7])
@pytest.mark.parametrize("at, shift, name", [(0x68, 5, "MaxPayload"), (0x69, 4, "MaxReadReq")])
def test_codes_that_stand_for_nothing(code: int, at: int, shift: int, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} has the code {code}"):
        pci_config.express(changed(config(), at, code << shift))


# -- hostile bytes ---------------------------------------------------------------------------


@st.composite
def _spaces(draw: st.DrawFn) -> bytes:
    """A good one with some bytes changed, cut anywhere, or just bytes."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=600))
    data = bytearray(config(draw(st.sampled_from([*KINDS])), acs=draw(st.integers(0, 0x7F)), ats=True))
    for _change in range(draw(st.integers(0, 6))):
        data[draw(st.one_of(st.integers(0, 0x80), st.integers(0x100, 0x240)))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([4096, 4096, 256, 64, draw(st.integers(0, 4096))]))])


@quick
@given(_spaces())
def test_never_anything_but_an_answer_or_config_error(data: bytes) -> None:
    for ask in ASKED:
        with contextlib.suppress(ConfigError):
            str(ask(data))


@quick
@given(st.sampled_from([*KINDS]), st.integers(0, 0x7F), st.integers(0, 4095))
def test_what_is_cut_never_says_that_there_is_nothing(kind: str, control: int, size: int) -> None:
    """A capability that is there is found, or nobody can tell: never None."""
    whole = config(kind, acs=control, ats=True)
    for ask in ASKED:
        answer = ask(whole)
        if answer is None:
            continue
        with contextlib.suppress(ConfigError):
            assert ask(whole[:size]) == answer


# -- the file --------------------------------------------------------------------------------

ADDRESS = "0000:18:00.0"


def test_read(machine: Machine) -> None:
    with pytest.raises(ConfigError, match=f"{pci_config.path(ADDRESS)} does not exist"):
        pci_config.read(machine, ADDRESS)
    machine.put(pci_config.path(ADDRESS), "x" * 64)
    assert pci_config.read(machine, ADDRESS) == b"x" * 64


def test_unreadable_is_not_absent(machine: Machine) -> None:
    machine.unreadable[pci_config.path(ADDRESS)] = errno.EACCES
    with pytest.raises(ConfigError, match="EACCES"):
        pci_config.read(machine, ADDRESS)
