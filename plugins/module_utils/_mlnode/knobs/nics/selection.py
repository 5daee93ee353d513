# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection of the NICs of a rule, as declared: the option `nics` of every module that has rules."""

from __future__ import annotations

from typing import Any, Mapping

from ...model import cpulist, schema
from ...model.record import NamedTuple
from ...model.schema import Option
from . import schema as rules_schema


class Selection(NamedTuple):
    """Choice of NICs: a NIC must match each given list.

    pci_ids: vendor:device. rails: None for any NIC, an empty tuple for all rails. speeds: Mbit/s, of links
    that are up. link: up, down or "". link_layer: link layer of an RDMA port, or "". management: whether the
    NIC carries the management path; None for either.
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
        """True if it requires its NICs, as it lists them by name or selects RDMA. Drivers, models, speeds and
        the like only distinguish kinds of nodes.
        """
        named = self.names or self.addresses or self.rdma
        return bool(named or self.link_layer) or self.rails is not None

    @property
    def of_any_kind(self) -> Selection:
        """The same NICs, of any kind."""
        return self._replace(drivers=(), pci_ids=(), nodes=(), speeds=(), link_layer="")

    def __str__(self) -> str:
        parts = [
            f"{kind.replace('_', ' ')} {', '.join(map(str, getattr(self, kind)))}"
            for kind in ("names", "drivers", "addresses", "pci_ids", "rdma")
            if getattr(self, kind)
        ]
        if self.rails is not None:
            parts.append(f"rails {cpulist.render(self.rails)}" if self.rails else "all rails")
        if self.nodes:
            parts.append(f"nodes {cpulist.render(self.nodes)}")
        if self.speeds:
            parts.append(f"speeds {', '.join(map(str, self.speeds))}")
        if self.link:
            parts.append(f"link {self.link}")
        if self.link_layer:
            parts.append(f"link layer {self.link_layer}")
        if self.management is not None:
            parts.append(f"{'' if self.management else 'not '}management")
        return "; ".join(parts) or "all NICs"


#: Selection of a rule without criteria
ALL = Selection()

_RAILS = Option("list", elements="int", least=0, most=rules_schema.MOST)


def parse(where: str, given: Mapping[str, Any]) -> Selection:
    """Selection from values that the schema has checked. Raises DeclarationError if rails are neither true
    nor a list.
    """
    return Selection(
        names=_sorted(given, "names"),
        drivers=_sorted(given, "drivers"),
        addresses=tuple(sorted({_address(item) for item in given.get("addresses", ())})),
        pci_ids=tuple(sorted({item.lower() for item in given.get("pci_ids", ())})),
        rdma=_sorted(given, "rdma"),
        rails=_rails(f"{where}.rails", given.get("rails")),
        nodes=_sorted(given, "nodes"),
        speeds=_sorted(given, "speeds"),
        link=given.get("link", ""),
        link_layer=given.get("link_layer", ""),
        management=given.get("management"),
    )


def _sorted(given: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    return tuple(sorted({*given.get(name, ())}))


def _address(text: str) -> str:
    domain, rest = text.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def _rails(where: str, raw: Any) -> tuple[int, ...] | None:
    if raw is None or raw is False:
        return None
    return () if raw is True else tuple(sorted({*schema.value(where, _RAILS, raw)}))
