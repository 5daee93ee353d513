# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    GEN4,
    GEN5,
)
from mlnode.topology import links
from mlnode.topology.model import Link, PciDevice

BAD = "ends can do 32.0 GT/s x16: reseat the card, look at slot and riser"
UNSEEN = (
    "end can do 32.0 GT/s x16; the limit of its other end is not known: look at the slot, and reseat the "
    "card if the slot can do as much"
)
IDLE = "32.0 GT/s x16: normal while the GPU is idle, so look again under load"
SWITCH = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0")


def link(now: tuple[str, int], most: tuple[str, int] = GEN5) -> Link:
    return Link(*now, *most)


@pytest.mark.parametrize(
    "now, above, sleepy, expected",
    [
        (link(GEN5), link(GEN5), False, ""),
        (link(GEN5), None, False, ""),
        # what the slot cannot do is no fault of the card, nor of the slot
        (
            link(GEN4),
            link(GEN4, GEN4),
            False,
            "the slot gives 16.0 GT/s x16, but 32.0 GT/s x16 could be used",
        ),
        (link(GEN4), link(GEN4), False, f"PCIe link at 16.0 GT/s x16, but both {BAD}"),
        (link(("32.0 GT/s PCIe", 8)), link(GEN5), False, f"PCIe link at 32.0 GT/s x8, but both {BAD}"),
        # Nothing is said of an end that was not seen.
        (link(("32.0 GT/s PCIe", 8)), None, False, f"PCIe link at 32.0 GT/s x8, but this {UNSEEN}"),
        (
            link(("2.5 GT/s PCIe", 16)),
            link(("2.5 GT/s PCIe", 16)),
            True,
            f"PCIe link at 2.5 GT/s x16 of {IDLE}",
        ),
        # Lanes are never saved by an idle GPU.
        (link(("2.5 GT/s PCIe", 8)), link(GEN5), True, f"PCIe link at 2.5 GT/s x8, but both {BAD}"),
        (link(("2.5 GT/s PCIe", 8)), None, True, f"PCIe link at 2.5 GT/s x8, but this {UNSEEN}"),
    ],
)
def test_what_is_wrong_with_a_link(now: Link, above: Link | None, sleepy: bool, expected: str) -> None:
    assert links.words(now, above, sleepy) == expected


def device(at: int, kind: int, now: tuple[str, int] | None = GEN5, address: str = "") -> PciDevice:
    """The n-th function on the way root port, upstream port, downstream port, card."""
    name = address or SWITCH[at]
    return PciDevice(
        name, 1, 1, kind << 8, (*SWITCH[:at], name), "pci0000:00", link=link(now) if now else None
    )


def test_every_second_port_faces_the_processor() -> None:
    assert [links.faces_up(device(at, 0x0604)) for at in range(3)] == [False, True, False]
    assert links.faces_up(device(3, 0x0200))
    assert links.faces_up(device(0, 0x0200))


def test_ports_are_counted_in_their_own_domain() -> None:
    behind_vmd = PciDevice("10000:00:02.0", 1, 1, 0x060400, ("0000:64:05.5", "10000:00:02.0"), "pci0000:64")

    assert not links.faces_up(behind_vmd)


def look(slow: int, gpus: tuple[str, ...] = (), now: tuple[str, int] = GEN4) -> list[tuple[str, str]]:
    kinds = (0x0604, 0x0604, 0x0604, 0x0200)
    # A link has two ends, and both show the same.
    devices = {SWITCH[at]: device(at, kinds[at], now if at in (slow, slow - 1) else GEN5) for at in range(4)}
    return links.look({SWITCH[3]: "eth0"}, gpus, devices)


def test_a_slow_card_and_a_slow_switch_are_told_once_each() -> None:
    [(card, words)] = look(3)
    assert card == "eth0"
    assert words.startswith("PCIe link at 16.0 GT/s x16, but both ends")

    [(switch, words)] = look(1)
    assert switch == f"PCIe switch {SWITCH[1]}"
    assert words.startswith("PCIe link at 16.0 GT/s x16, but both ends")


def test_bridges_of_a_hypervisor_are_no_end_that_was_seen() -> None:
    kinds = (0x0604, 0x0604, 0x0604, 0x0200)
    devices = {SWITCH[at]: device(at, kinds[at], ("2.5 GT/s PCIe", 1)) for at in range(3)}
    devices[SWITCH[3]] = device(3, kinds[3], ("32.0 GT/s PCIe", 8))

    [(name, words)] = links.look({SWITCH[3]: "eth0"}, [], devices, virtual=True)

    assert (name, words) == ("eth0", f"PCIe link at 32.0 GT/s x8, but this {UNSEEN}")


def test_links_that_are_as_they_should_be_say_nothing() -> None:
    assert look(9) == []


@pytest.mark.parametrize("at", [1, 3])
def test_a_gpu_and_the_switch_above_it_may_sleep(at: int) -> None:
    [(_name, words)] = look(at, (SWITCH[3],))

    assert "normal while the GPU is idle" in words


def test_a_function_without_a_link_or_above_the_known_ones_says_nothing() -> None:
    alone = device(3, 0x0200, None)

    assert links.look({alone.address: "eth0"}, [], {alone.address: alone}) == []
