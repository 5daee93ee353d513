# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AMD's nicctl, with the output and the refusals that AMD's documentation shows.

Knows the formats by itself, so that a mistake in the library is none here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlnode.host.system import Finished


def ranges(numbers: Sequence[int]) -> str:
    """`0-23, 25-45`"""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


@dataclass
class Card:
    """A Pollara. silent: changes that its firmware accepts without effect."""

    nic: str
    port: str
    address: str
    trust: str = "DSCP"
    dscps: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(64), 0))
    drops: set[int] = field(default_factory=set)
    pause: str = "LINK"
    ways: dict[str, bool] = field(default_factory=lambda: {"rx": True, "tx": True})
    enabled: bool = False
    cnp: int = 0
    silent: set[str] = field(default_factory=set)


class Nicctl:
    """cards: by RDMA device. says: thing → what is shown in place of it. dead: no card answers. calls: the
    arguments so far."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        """addresses: of the PCI functions, by RDMA device."""
        self.calls: list[list[str]] = []
        self.says: Mapping[str, str] = {}
        self.dead = False
        self.cards = {
            device: Card(
                f"42424650-4c32-3531-3230-3034430000{number:02x}",
                f"04908130-a7{number:02x}-4242-4242-000011010000",
                address,
            )
            for number, (device, address) in enumerate(addresses.items())
        }

    def run(self, words: Sequence[str]) -> Finished:
        self.calls.append([*words])
        if self.dead:
            return Finished(1, "", "failed to connect to the card\n")
        if words[0] == "show":
            return Finished(0, self.says.get(words[1], None) or self._shown(words[1]), "")
        problem = self._update([*words[1:]])
        return Finished(1, "", f"{problem}\n") if problem else Finished(0, "", "")

    def _shown(self, thing: str) -> str:
        return "".join(getattr(self, f"_{thing}")(name, card) for name, card in self.cards.items())

    def _qos(self, _name: str, card: Card) -> str:
        by_priority: dict[int, list[int]] = {}
        for dscp, priority in card.dscps.items():
            by_priority.setdefault(priority, []).append(dscp)
        masks = {number: sum(1 << dscp for dscp in dscps) for number, dscps in by_priority.items()}
        bitmap = [
            f"    DSCP bitmap               : {masks[number]:#018x} ==> priority : {number}\n"
            for number in sorted(masks)
        ]
        listed = [
            f"    DSCP                      : {ranges(dscps)} ==> priority : {number}\n"
            for number, dscps in sorted(by_priority.items())
        ]
        bits = sum(1 << number for number in card.drops)
        return (
            f"\nNIC  : {card.nic} ({card.address})\n\nPort : {card.port}\n\n"
            f"  Classification type         : {card.trust}\n\n  DSCP-to-priority :\n"
            f"{''.join(bitmap)}{''.join(listed)}\n\n  PFC :\n    PFC priority bitmap       : {bits:#x}\n"
            f"    PFC no-drop priorities    : {','.join(map(str, sorted(card.drops)))}\n\n  Scheduling :\n"
            f"    {'-' * 44}\n    Priority  Scheduling  Bandwidth Rate-limit\n"
            f"              Type        (in %age) (in Gbps)\n    {'-' * 44}\n"
            "    0         DWRR        0         N/A\n"
        )

    def _port(self, _name: str, card: Card) -> str:
        word = {True: "enabled", False: "disabled"}
        return (
            f"\nNIC  : {card.nic} ({card.address})\n\nPort : {card.port} (eth1/1)\n  Spec:\n"
            "    Ifindex                                  : 0x11010000\n"
            "    Admin state                              : UP\n"
            f"    Pause type                               : {card.pause}\n"
            "    MTU                                      : 9216\n"
            f"    TX pause                                 : {word[card.ways['tx']]}\n"
            f"    RX pause                                 : {word[card.ways['rx']]}\n"
            "    Auto negotiation                         : enabled\n  Status:\n"
            "    Physical port                            : 1\n"
            "    MAC address                              : 04:90:81:32:5d:88\n"
            f"{'-' * 85}\n"
        )

    def _dcqcn(self, name: str, card: Card) -> str:
        text = (
            f"\nNIC : {card.nic} ({card.address})\n{'-' * 90}\n\n"
            "Lif id                                     : 43000070-0100-0000-4242-04908130a7a0\n"
            f"ROCE device                                : {name}\n"
            "  DCQCN profile id                         : 1\n"
            f"  Status                                   : {'Enabled' if card.enabled else 'Disabled'}\n"
        )
        if card.enabled:
            text += (
                "  Rate increase in AI phase                : 160\n"
                f"  DSCP value used for CNP                  : {card.cnp}\n"
            )
        return f"{text}{'*' * 90}\n"

    def _update(self, words: list[str]) -> str:
        """Reason of a refusal."""
        options = dict(zip(words, words[1:]))
        if words[0] == "dcqcn":
            assert options["--profile-id"] == "1"
            card = self.cards[options["--roce-device"]]
            if "dcqcn" not in card.silent:
                card.enabled = "--disable" not in words
                card.cnp = int(options.get("--cnp-dscp", card.cnp)) if card.enabled else 0
            return ""
        if "--classification-type" in words:
            assert "-p" not in words
            for card in self.cards.values():
                card.trust = options["--classification-type"].upper()
            return ""
        (card,) = [one for one in self.cards.values() if one.port == options["-p"]]
        if words[0] == "port":
            card.pause = options["--pause-type"].upper()
            card.ways = {way: options[f"--{way}-pause"] == "enable" for way in ("rx", "tx")}
        elif words[3] == "pfc":
            number, wanted = int(options["--priority"]), options["--no-drop"] == "enable"
            if (number in card.drops) == wanted:
                return "Operation failed: Invalid input"
            if "pfc" not in card.silent:
                (card.drops.add if wanted else card.drops.discard)(number)
        else:
            assert words[3] == "dscp-to-priority"
            for low, _dash, high in (part.partition("-") for part in options["--dscp"].split(",")):
                for dscp in range(int(low), int(high or low) + 1):
                    card.dscps[dscp] = int(options["--priority"])
        return ""
