# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NICs a rule is for, as declared: the option `nics` of every module that has rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from .. import cpulist, options
from ..errors import DeclarationError

#: What the kernel takes for an interface (net/core/dev.c: dev_valid_name), without the marks of a shell
_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z", re.ASCII)
#: Vendor tools write eight digits of the domain where sysfs writes four or more
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])\Z", re.ASCII | re.IGNORECASE)
#: As lspci(8) -n has it
_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}\Z", re.ASCII | re.IGNORECASE)

LINKS = ("up", "down")
#: Of ports of RDMA devices (drivers/infiniband/core/sysfs.c: link_layer_show); EFA's has no name
LINK_LAYERS = ("Ethernet", "InfiniBand")


@dataclass(frozen=True)
class Selection:
    """Which NICs: one of each list that is given.

    pci_ids: vendor:device. rails: None does not ask, an empty tuple takes them all. speeds: Mbit/s, of links
    that are up. link: up, down or "". link_layer: that of a port of its RDMA devices, or "".
    management: whether it carries the management path; None does not ask.
    """

    names: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    rails: tuple[int, ...] | None = None
    nodes: tuple[int, ...] = ()
    speeds: tuple[int, ...] = ()
    link: str = ""
    link_layer: str = ""
    management: bool | None = None

    @property
    def expects(self) -> bool:
        """Whether it asks for NICs that have to be there: by what each is called, or because they have RDMA.
        Drivers, models, speeds and the like only tell kinds of node apart."""
        named = self.names or self.addresses or self.rdma
        return bool(named or self.link_layer) or self.rails is not None

    @property
    def of_any_kind(self) -> Selection:
        """The same NICs, of whatever kind."""
        return replace(self, drivers=(), pci_ids=(), nodes=(), speeds=(), link_layer="")

    def __str__(self) -> str:
        words = [
            f"{kind.replace('_', ' ')} {', '.join(map(str, getattr(self, kind)))}"
            for kind in ("names", "drivers", "addresses", "pci_ids", "rdma")
            if getattr(self, kind)
        ]
        if self.rails is not None:
            words.append(f"rails {cpulist.render(self.rails)}" if self.rails else "all rails")
        if self.nodes:
            words.append(f"nodes {cpulist.render(self.nodes)}")
        if self.speeds:
            words.append(f"speeds {', '.join(map(str, self.speeds))}")
        if self.link:
            words.append(f"link {self.link}")
        if self.link_layer:
            words.append(f"link layer {self.link_layer}")
        if self.management is not None:
            words.append(f"{'' if self.management else 'not '}management")
        return "; ".join(words) or "all NICs"


#: What a rule is for that names nothing
ALL = Selection()

_OPTIONS = tuple(Selection.__dataclass_fields__)


def parse(where: str, raw: Any) -> Selection:
    """Raises DeclarationError."""
    if raw is None:
        return ALL
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    options.refuse_unknown(where, raw, _OPTIONS)
    return Selection(
        names=_texts(f"{where}.names", raw.get("names"), _INTERFACE, "an interface such as eth0"),
        drivers=_texts(f"{where}.drivers", raw.get("drivers"), _DEVICE, "a driver such as mlx5_core"),
        addresses=_addresses(f"{where}.addresses", raw.get("addresses")),
        pci_ids=_pci_ids(f"{where}.pci_ids", raw.get("pci_ids")),
        rdma=_texts(f"{where}.rdma", raw.get("rdma"), _DEVICE, "an RDMA device such as mlx5_0"),
        rails=_rails(f"{where}.rails", raw.get("rails")),
        nodes=_numbers(f"{where}.nodes", raw.get("nodes"), "a NUMA node such as 0"),
        speeds=_numbers(f"{where}.speeds", raw.get("speeds"), "a speed in Mbit/s such as 400000"),
        link=_choice(f"{where}.link", raw.get("link"), LINKS),
        link_layer=_choice(f"{where}.link_layer", raw.get("link_layer"), LINK_LAYERS),
        management=_switch(f"{where}.management", raw.get("management")),
    )


def _texts(where: str, raw: Any, pattern: re.Pattern[str], example: str) -> tuple[str, ...]:
    found = []
    for item in _list(where, raw):
        if not isinstance(item, str) or not pattern.match(item) or item in (".", ".."):
            raise DeclarationError(f"{where}: {item!r} is not {example}")
        found.append(item)
    return tuple(sorted(set(found)))


def _pci_ids(where: str, raw: Any) -> tuple[str, ...]:
    found = _texts(where, raw, _PCI_ID, "a vendor and device such as 15b3:101e, in quotes")
    return tuple(sorted({item.lower() for item in found}))


def _addresses(where: str, raw: Any) -> tuple[str, ...]:
    found = set()
    for item in _list(where, raw):
        match = _ADDRESS.match(item) if isinstance(item, str) else None
        if match is None:
            raise DeclarationError(f"{where}: {item!r} is not a PCI address such as 0000:41:00.0")
        domain, bus, slot, function = match.groups()
        found.add(f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower())
    return tuple(sorted(found))


def _rails(where: str, raw: Any) -> tuple[int, ...] | None:
    if raw is None or raw is False or raw == []:
        return None
    return () if raw is True else _numbers(where, raw, "true, or a rail such as 0")


def _numbers(where: str, raw: Any, example: str) -> tuple[int, ...]:
    found = set()
    for item in _list(where, raw):
        text = str(item)
        if isinstance(item, bool) or not re.match(r"[0-9]{1,8}\Z", text, re.ASCII):
            raise DeclarationError(f"{where}: {item!r} is not {example}")
        found.add(int(text))
    return tuple(sorted(found))


def _choice(where: str, raw: Any, known: Sequence[str]) -> str:
    if raw is not None and raw not in known:
        raise DeclarationError(f"{where}: {raw!r} is none of {', '.join(known)}")
    return str(raw or "")


def _switch(where: str, raw: Any) -> bool | None:
    if raw is not None and not isinstance(raw, bool):
        raise DeclarationError(f"{where}: {raw!r} is neither true nor false")
    return raw


def _list(where: str, raw: Any) -> Sequence[Any]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise DeclarationError(f"{where}: {raw!r} is no list")
    return raw
