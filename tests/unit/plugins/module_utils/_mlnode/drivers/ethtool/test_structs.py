# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import endless, quick, words
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.ethtool import structs
from mlnode.drivers.ethtool.structs import AnswerError, Table

numbers = st.integers(0, structs.MAX_NUMBER)
ALL_TABLES = {**structs.TABLES, "value": structs.VALUE, "fec": structs.FEC}
#: The sizes that a C compiler gives these structures of linux/ethtool.h
SIZES = {"ring": 36, "channels": 36, "coalesce": 92, "pause": 16, "value": 8, "fec": 16}

UNPACK: dict[str, Callable[[bytes], object]] = {
    **{name: table.unpack for name, table in ALL_TABLES.items()},
    "sset_info": structs.unpack_sset_info,
    "gstrings": structs.unpack_gstrings,
    "drvinfo": structs.unpack_drvinfo,
    "mask words": structs.unpack_mask_words,
    "link": structs.unpack_link,
    "gfeatures": structs.unpack_gfeatures,
}


def strings(*raw: bytes, count: int | None = None) -> bytes:
    return struct.pack("=III", 0x1B, 4, len(raw) if count is None else count) + b"".join(raw)


# -- tables of numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(("name", "table"), ALL_TABLES.items())
def test_a_table_has_the_size_of_its_structure(name: str, table: Table) -> None:
    assert len(table.pack(table.get)) == SIZES[name]


@pytest.mark.parametrize("table", ALL_TABLES.values())
@quick
@given(data=st.data(), command=numbers)
def test_a_table_comes_back_as_it_was_packed(table: Table, data: st.DataObject, command: int) -> None:
    values = data.draw(st.fixed_dictionaries(dict.fromkeys(table.fields, numbers)))
    packed = table.pack(command, values)
    assert struct.unpack_from("=I", packed) == (command,)
    assert table.unpack(packed) == values


@pytest.mark.parametrize("table", ALL_TABLES.values())
def test_each_field_is_a_word_of_its_own(table: Table) -> None:
    for place, name in enumerate(table.fields, 1):
        packed = struct.unpack(f"={1 + len(table.fields)}I", table.pack(1, {name: 7}))
        assert [at for at, number in enumerate(packed) if number == 7] == [place]


@cases.table
def test_a_field_lies_where_the_header_says(group: str, field: str, at: int) -> None:
    packed = structs.TABLES[group].pack(0, {field: 0x11223344})
    assert packed[at : at + 4] == struct.pack("=I", 0x11223344)


@quick
@given(number=numbers)
def test_a_number_is_spelled_and_read_alike(number: int) -> None:
    ring = structs.TABLES["ring"]
    assert ring.number("rx", ring.text("rx", number)) == number


@pytest.mark.parametrize(("number", "text"), [(0, "off"), (1, "on"), (7, "on")])
def test_a_switch_is_on_or_off(number: int, text: str) -> None:
    assert structs.TABLES["coalesce"].text("adaptive-rx", number) == text
    assert structs.TABLES["pause"].number("rx", text) == bool(number)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "4096 ", "0x10", "1e3", "4294967296", "٤", "on", "1\n", "9" * 5000]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rx is a whole number from 0 to 4294967295"):
        structs.TABLES["ring"].number("rx", text)


@pytest.mark.parametrize("text", ["", "1", "yes", "True", "ON", "on\n", "on off"])
def test_what_is_no_switch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="adaptive-rx is on or off, not"):
        structs.TABLES["coalesce"].number("adaptive-rx", text)


@quick
@given(text=st.one_of(words, endless))
def test_any_text_is_a_number_in_range_or_refused(text: str) -> None:
    try:
        number = structs.TABLES["ring"].number("rx", text)
    except ValueError:
        return
    assert 0 <= number <= structs.MAX_NUMBER
    assert int(text) == number


# -- what a driver sends -------------------------------------------------------------------


@pytest.mark.parametrize("unpack", UNPACK.values(), ids=list(UNPACK))
@quick
@given(data=st.binary(max_size=300))
def test_no_answer_raises_anything_but_an_answer_error(
    unpack: Callable[[bytes], object], data: bytes
) -> None:
    with contextlib.suppress(AnswerError):
        unpack(data)


@pytest.mark.parametrize("unpack", UNPACK.values(), ids=list(UNPACK))
def test_a_short_answer_says_so(unpack: Callable[[bytes], object]) -> None:
    with pytest.raises(AnswerError, match=r"the driver's answer has 3 bytes where [0-9]+ belong"):
        unpack(b"\0\0\0")


@pytest.mark.parametrize(("mask", "count", "told"), [(4, 2, 2), (4, 0, 0), (4, 1024, 1024), (0, 9999, 0)])
def test_how_many_strings_there_are(mask: int, count: int, told: int) -> None:
    assert structs.unpack_sset_info(struct.pack("=IIQI", 0x37, 0, mask, count)) == told


@pytest.mark.parametrize("count", [1025, 0xFFFFFFFF])
def test_more_strings_than_anybody_has_are_not_believed(count: int) -> None:
    with pytest.raises(AnswerError, match=f"it has {count} names, where 1024 are too many"):
        structs.unpack_sset_info(struct.pack("=IIQI", 0x37, 0, 4, count))


def test_one_string_set_is_asked_for() -> None:
    assert structs.pack_sset_info(4) == struct.pack("=IIQI", 0x37, 0, 0b10000, 0)


def test_there_is_room_for_all_the_strings_the_kernel_may_write() -> None:
    assert len(structs.pack_gstrings(4)) == 12 + 1024 * 32
    assert struct.unpack_from("=III", structs.pack_gstrings(4)) == (0x1B, 4, 0)


@quick
@given(
    names=st.lists(
        st.text(alphabet="abcdefghijklmnopqrstuvwxyzABC0123456789-_. +():", max_size=31).filter(
            lambda name: name not in (".", "..")
        ),
        max_size=70,
    )
)
def test_strings_keep_the_places_of_their_bits(names: list[str]) -> None:
    sent = strings(*(name.encode().ljust(32, b"\0") for name in names)) + b"\xff" * 64
    assert structs.unpack_gstrings(sent) == names


@pytest.mark.parametrize("count", [3, 0xFFFFFFFF])
def test_strings_that_were_not_sent_are_missed(count: int) -> None:
    with pytest.raises(AnswerError, match=f"it has {count} names, which it has not sent"):
        structs.unpack_gstrings(strings(b"a".ljust(32, b"\0"), b"b".ljust(32, b"\0"), count=count))


@pytest.mark.parametrize(
    "raw", [b"x" * 32, b"a/b", b"a,b", b"..", b".", b"a\nb", b"a\tb", b"\x7f", b"\xff\xfe", b"caf\xc3\xa9"]
)
def test_what_is_no_name_is_an_error(raw: bytes) -> None:
    with pytest.raises(AnswerError, match="which is not a name"):
        structs.unpack_gstrings(strings(raw.ljust(32, b"\0")))


def test_what_follows_the_end_of_a_name_is_not_looked_at() -> None:
    assert structs.unpack_gstrings(strings(b"rx\0/,\xff".ljust(32, b"\xff"))) == ["rx"]


# -- driver and link -----------------------------------------------------------------------


def test_a_driver_is_asked_with_the_size_of_the_structure() -> None:
    assert structs.pack_drvinfo() == struct.pack("=I", 3) + bytes(192)


def test_what_a_driver_tells_of_itself() -> None:
    texts = [b"ice", b"6.1.0", b"4.40 0x8001c7d4 1.3534.0", b"0000:ca:00.0", b"", b""]
    sent = struct.pack("=I32s32s32s32s32s12s5I", 3, *texts, 5, 0, 0, 0, 0)
    assert structs.unpack_drvinfo(sent) == {
        "driver": "ice",
        "version": "6.1.0",
        "firmware-version": "4.40 0x8001c7d4 1.3534.0",
        "bus-info": "0000:ca:00.0",
    }


def test_a_text_that_fills_its_place_or_cannot_be_shown_is_shown_as_it_can_be() -> None:
    sent = struct.pack("=I32s32s160x", 3, b"x" * 32, b"a\nb\x1b[0m\xff")
    found = structs.unpack_drvinfo(sent)
    assert found["driver"] == "x" * 32
    assert found["version"] == "a?b?[0m�"


def link(speed: int = 0, duplex: int = 0, autoneg: int = 0, length: int = 0) -> bytes:
    return struct.pack("=IIBBBBBBBb4B28x", 0x4C, speed, duplex, 0, 0, autoneg, 0, 0, 0, length, 0, 0, 0, 0)


def test_a_link_is_asked_for_with_room_for_three_masks() -> None:
    assert structs.pack_link(0) == link()
    assert structs.pack_link(4) == link(length=4) + bytes(48)


@pytest.mark.parametrize("length", [1, 4, 128])
def test_the_length_of_a_mask_comes_as_a_negative_number(length: int) -> None:
    assert structs.unpack_mask_words(link(length=-length)) == length


@pytest.mark.parametrize("length", [0, 1, 127])
def test_any_other_length_is_an_error(length: int) -> None:
    with pytest.raises(AnswerError, match="mask of link modes"):
        structs.unpack_mask_words(link(length=length))


@cases.table
def test_what_a_link_is(speed: int, duplex: int, autoneg: int, told: tuple[str, str, str]) -> None:
    found = structs.unpack_link(link(speed, duplex, autoneg, 4))
    assert (found["speed"], found["duplex"], found["autoneg"]) == told


# -- features ------------------------------------------------------------------------------


@quick
@given(blocks=st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=32))
def test_features_come_bit_by_bit(blocks: list[tuple[int, int, int, int]]) -> None:
    sent = struct.pack("=II", 0x3A, len(blocks)) + b"".join(struct.pack("=IIII", *block) for block in blocks)
    found = structs.unpack_gfeatures(sent + bytes(16))
    assert len(found) == 32 * len(blocks)
    for at, feature in enumerate(found):
        bits = [bool(part >> at % 32 & 1) for part in blocks[at // 32]]
        assert [feature.available, feature.requested, feature.active, feature.never_changed] == bits
        assert feature.fixed == (not bits[0] or bits[3])


@pytest.mark.parametrize(("blocks", "sent"), [(0, 0), (33, 33), (2, 1), (0xFFFFFFFF, 1)])
def test_blocks_that_cannot_be_are_an_error(blocks: int, sent: int) -> None:
    with pytest.raises(AnswerError, match=f"the kernel says that it has {blocks} blocks"):
        structs.unpack_gfeatures(struct.pack("=II", 0x3A, blocks) + bytes(16 * sent))


def test_features_are_asked_for_with_room_for_more_blocks_than_there_are() -> None:
    request = structs.pack_gfeatures()
    assert struct.unpack_from("=II", request) == (0x3A, 32)
    assert len(request) == 8 + 32 * 16


@quick
@given(blocks=st.integers(1, 4), data=st.data())
def test_a_request_names_the_features_that_it_changes(blocks: int, data: st.DataObject) -> None:
    wanted = data.draw(st.dictionaries(st.integers(0, 32 * blocks - 1), st.booleans()))
    request = structs.pack_sfeatures(32 * blocks, wanted)
    assert struct.unpack_from("=II", request) == (0x3B, blocks)
    assert len(request) == 8 + 8 * blocks
    for bit in range(32 * blocks):
        valid, on = struct.unpack_from("=II", request, 8 + 8 * (bit // 32))
        assert bool(valid >> bit % 32 & 1) == (bit in wanted)
        assert bool(on >> bit % 32 & 1) == wanted.get(bit, False)
