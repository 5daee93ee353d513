# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's part of a campaign as declared: its peer in each round, and the times.

It is sent once; afterwards the node needs only the time of the start from the controller.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Mapping, Sequence

from ...model import schema
from ...model.errors import DeclarationError
from ...model.record import regex
from ...model.schema import Option
from .. import module_result
from . import kinds
from .kind import Device, Part, Slot

#: Guards that `allow` may switch off
GUARDS = ("busy",)
_ALLOW = Option("list", elements="str", choices=GUARDS)

_ID = regex(r"[0-9a-z][0-9a-z-]{0,62}\Z", re.ASCII)

#: Option → (least, most). tcp needs a port per stream and direction, RDMA one per rail and step. A campaign
#: has fewer rounds than the largest number of nodes of a plan
_RANGES: Mapping[str, tuple[int, int]] = {
    "duration": (2, 3600),
    "streams": (1, 64),
    "tcp_port": (1024, 65535 - 256),
    "rounds": (1, 4096),
}
_MOST_RAILS = 64


def parse(raw: Mapping[str, Any]) -> Part:
    """Raises DeclarationError."""
    if not _ID.match(raw["id"]):
        raise DeclarationError(f"id: {raw['id']!r} is not a name of small letters, digits and dashes")
    for name, (least, most) in _RANGES.items():
        module_result.between(name, raw[name], least, most)
    if raw.get("start") is not None:
        check_start(raw["start"])
    addresses = [_address("addresses", text) for text in raw["addresses"]]
    if not 1 <= len(addresses) <= _MOST_RAILS:
        raise DeclarationError(f"addresses: there are {len(addresses)}, and not between 1 and {_MOST_RAILS}")
    slots = tuple(_slot(slot, raw["rounds"]) for slot in raw["slots"])
    if len({slot.round for slot in slots}) != len(slots):
        raise DeclarationError("slots: this node would be in two pairs of one round")
    return Part(
        id=raw["id"],
        kind=kinds.kind(raw["kind"]),
        start=raw.get("start") or 0.0,
        rounds=raw["rounds"],
        duration=raw["duration"],
        streams=raw["streams"],
        tcp_port=raw["tcp_port"],
        addresses=tuple(addresses),
        slots=slots,
        devices=_devices(raw.get("devices") or [], len(addresses)),
        allow=tuple(schema.value("allow", _ALLOW, raw.get("allow") or [])),
    )


def check_start(start: float) -> None:
    """Raises DeclarationError."""
    if not 0 < start < float("inf"):
        raise DeclarationError(f"start: {start} is not a number of seconds since 1970")


def _devices(raw: Sequence[Any], rails: int) -> tuple[Device, ...]:
    if not raw:
        return ()
    if len(raw) != rails:
        raise DeclarationError(f"devices: there are {len(raw)}, and {rails} addresses")
    from . import rdma  # imports the RDMA checks

    devices = [rdma.device(text) for text in raw]
    for text, device in zip(raw, devices):
        if device is None:
            raise DeclarationError(
                f"devices: {text!r} is not an RDMA device such as mlx5_0, with its port such as mlx5_0/1, or "
                "with an entry of its GID table such as mlx5_0/1/3"
            )
    return tuple(device for device in devices if device)


def _slot(raw: Mapping[str, Any], rounds: int) -> Slot:
    number = raw["round"]
    if number not in range(rounds):
        raise DeclarationError(f"slots: round {number} is not one of {rounds}")
    rails = []
    for pair in raw["rails"]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise DeclarationError(
                f"slots: rails of round {number}: {pair!r} is not an own address and a peer's"
            )
        rails.append((_address("slots", pair[0]), _address("slots", pair[1])))
    return Slot(number, raw["peer"], raw["serves"], tuple(rails))


def _address(name: str, text: Any) -> str:
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise DeclarationError(f"{name}: {text!r} is not an IP address: give campaign_addresses") from error
