# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared expectations of a node's RDMA devices: for all of them, for rails, devices and ports.

    {all: {...}, rails: {count: 8, ..., 3: {...}}, devices: {mlx5_0: {...}, mlx5_1/1: {...}}, exact: false}

The most specific section wins, key by key: port, device, rail, rails, all. A key without a value (null) is
not declared.

Undeclared values are reported and not judged, except certain faults: a link that is down, no usable GID,
counters that exceed rdma_limits.py, and the defaults of pcie_values.py.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Iterator, Mapping, Optional, Tuple

from ..model import schema
from ..model.errors import DeclarationError
from ..model.record import dataclass, field, regex
from ..topology.model import RdmaDevice
from . import pcie_values
from . import rdma_values as values


def _qos(where: str, raw: Any) -> Any:
    # Imported late: compiled on the node at each call, and few declare it.
    from ..knobs.qos import parse

    return parse.expected(where, raw)


#: Key of a port or device → its parser. Documentation: docs/checks/rdma_check.md
PORT_KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "used": values.switch,
    "link_layer": values.link_layer,
    "rate": values.rate,
    "width": values.width,
    "mtu": values.mtu,
    "netdev_mtu": values.netdev_mtu,
    "netdev": values.netdev,
    "firmware": values.names,
    "board_id": values.names,
    "hca_type": values.names,
    "gid_type": values.gid_type,
    "slot": values.slot,
    "numa": values.number,
    "pkey": values.pkey,
    "rdma_cm_mode": values.gid_type,
    "rdma_cm_tos": values.tos,
    "counters": values.counters,
    "ber": values.ber,
    "qos": _qos,
    **pcie_values.DEVICE_KEYS,
}

#: Keys for the whole node, in `all` only
NODE_KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "netns": values.netns,
    "gpus": values.number,
    **pcie_values.NODE_KEYS,
}

#: Keys with dictionaries, which are merged key by key as well
_NESTED = ("counters", "ber", "qos")

_SECTIONS = ("all", "rails", "devices", "exact")

#: A device, with an optional port. Names: drivers/infiniband/core/device.c accepts 63 bytes
_TARGET = regex(r"([A-Za-z0-9_.:-]{1,63})(?:/([0-9]{1,3}))?\Z", re.ASCII)
_RAIL = regex(r"[0-9]{1,4}\Z", re.ASCII)

Section = Mapping[str, Any]
Target = Tuple[str, Optional[int]]


@dataclass(frozen=True)
class Expectations(Mapping[str, Any]):
    """A mapping of the whole node's expectations: the section `all`.

    count: number of rails; None if it is not declared. exact: an undeclared RDMA device is a failure.
    """

    all: Section = field(default_factory=dict)
    rails: Section = field(default_factory=dict)
    count: int | None = None
    rail: Mapping[int, Section] = field(default_factory=dict)
    targets: Mapping[Target, Section] = field(default_factory=dict)
    exact: bool = False

    def __getitem__(self, key: str) -> Any:
        return self.all[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices declared by name, in their order."""
        return tuple(dict.fromkeys(name for name, _port in self.targets))

    def section(self, device: str, port: int | None = None, rail: int | None = None) -> dict[str, Any]:
        """Merged expectations of a port, or of a device if no port is given."""
        sections = [self.all]
        if rail is not None:
            sections += [self.rails, self.rail.get(rail, {})]
        sections.append(self.targets.get((device, None), {}))
        if port is not None:
            sections.append(self.targets.get((device, port), {}))
        merged: dict[str, Any] = {}
        for section in sections:
            nested = {key: {**merged.get(key, {}), **section[key]} for key in _NESTED if key in section}
            merged.update({**section, **nested})
        return merged

    def judges(self, device: RdmaDevice, port: int, virtual: bool, rails: bool) -> bool:
        """True if a port is declared. rails: the node has rails.

        It may be declared by name, as a rail, or by a port's key in `all`. The latter covers every device
        except virtual functions, whose ports belong to their guests. Without any declaration it covers the
        rails, or every device if there are no rails.
        """
        if not self.section(device.name, port, device.rail).get("used", True):
            return False
        if (device.name, None) in self.targets or (device.name, port) in self.targets:
            return True
        if device.rail is not None and (self.rails or self.rail or self.count is not None):
            return True
        if any(key in PORT_KEYS for key in self.all):
            return not virtual
        if self.targets or self.rails or self.rail or self.count is not None:
            return False
        return device.rail is not None if rails else not virtual


def parse(raw: Any, where: str = "expect") -> Expectations:
    """Raises DeclarationError."""
    given = _section(where, raw if raw is not None else {})
    _refuse_unknown(where, given, _SECTIONS)
    rails = _section(f"{where}.rails", given.get("rails") or {})
    numbered = {key: value for key, value in rails.items() if _RAIL.match(str(key))}
    shared = {key: value for key, value in rails.items() if key not in numbered and key != "count"}
    return Expectations(
        all=_keys(f"{where}.all", given.get("all"), {**PORT_KEYS, **NODE_KEYS}),
        rails=_keys(f"{where}.rails", shared, PORT_KEYS, also=("count",)),
        count=None if rails.get("count") is None else values.number(f"{where}.rails.count", rails["count"]),
        rail={
            int(number): _keys(f"{where}.rails.{number}", value, PORT_KEYS)
            for number, value in numbered.items()
        },
        targets=dict(_targets(f"{where}.devices", given.get("devices"))),
        exact=values.switch(f"{where}.exact", given.get("exact") or False),
    )


def _targets(where: str, raw: Any) -> Iterator[tuple[Target, Section]]:
    for name, section in _section(where, raw if raw is not None else {}).items():
        match = _TARGET.match(name) if isinstance(name, str) else None
        if match is None:
            raise DeclarationError(
                f"{where}: {name!r} is neither a device such as mlx5_0 nor a port such as mlx5_0/1"
            )
        port = match.group(2)
        yield (match.group(1), int(port) if port else None), _keys(f"{where}.{name}", section, PORT_KEYS)


def _keys(
    where: str, raw: Any, known: Mapping[str, Callable[[str, Any], Any]], also: Collection[str] = ()
) -> dict[str, Any]:
    given = _section(where, raw if raw is not None else {})
    for key in given:
        if key in NODE_KEYS and key not in known:
            raise DeclarationError(f"{where}.{key}: is of the whole node, and belongs in expect.all")
    _refuse_unknown(where, given, (*known, *also))
    return {key: known[key](f"{where}.{key}", value) for key, value in given.items() if value is not None}


def _section(where: str, raw: Any) -> Mapping[Any, Any]:
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is not a dictionary")
    return raw


def _refuse_unknown(where: str, given: Mapping[Any, Any], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            raise DeclarationError(f"{where}.{key}: unknown; {schema.hint(key, sorted(known))}")
