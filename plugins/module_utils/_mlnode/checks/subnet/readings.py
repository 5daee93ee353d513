# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of uplinks, read with perfquery: one call per leaf, so a failure affects only that leaf."""

from __future__ import annotations

import math
from typing import Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError, listed
from ...model.record import dataclass
from ..campaign.clock import Clock
from . import traffic
from .fabric import Switch
from .reports import NOT_UNDERSTOOD, SubnetError
from .traffic import Counters, Reading

_TOOL = "perfquery"
_NAMED = 4
#: Warning for a switch with only 32-bit counters, which perfquery reads anyway
_NO_WIDE = "No extended counter support"


@dataclass(frozen=True)
class Reader:
    """port: the tool's options for the local port. seconds: limit for one call."""

    host: Host
    port: Sequence[str]
    seconds: float
    clock: Clock

    def read(
        self, leaves: Sequence[Switch], asked: Mapping[str, Reading] | None = None
    ) -> dict[str, Reading]:
        """Readings by GUID, of the leaves with more than one active cable. Never raises.

        asked: an earlier reading; the same cables are read again, without those that failed then.
        """
        readings = {}
        for leaf in leaves:
            first = asked.get(leaf.guid) if asked is not None else None
            if asked is not None and (first is None or first.why):
                continue
            cables = list(first.cables) if first else leaf.cables
            if len(cables) < 2:
                continue
            begun, why = self.clock.now(), ""
            counters: dict[int, Counters] = {}
            unread = [f"{cable.label} - {cable.other_label}" for cable in cables if math.isnan(cable.gbits)]
            if unread:
                why = f"{NOT_UNDERSTOOD}: {listed(unread, _NAMED)}"
                readings[leaf.guid] = Reading(leaf.name, begun, begun, {}, why)
                continue
            try:
                counters = self._counters(leaf.lid, sorted({cable.port.number for cable in cables}))
            except HostError as error:
                why = f"{error}; install infiniband-diags" if error.absent else str(error)
            except SubnetError as error:
                why = str(error)
            known = {cable: counters[cable.port.number] for cable in cables if cable.port.number in counters}
            if not why and len(known) < len(cables):
                why = f"{_TOOL} reports {len(known)} of {len(cables)} ports"
            readings[leaf.guid] = Reading(leaf.name, begun, self.clock.now(), {} if why else known, why)
        return readings

    def _counters(self, lid: int, ports: Sequence[int]) -> dict[int, Counters]:
        """Raises HostError, SubnetError."""
        wide = self._run(["-x"], lid, ports)
        if wide and all(counters.downed is not None for counters in wide.values()):
            return wide
        narrow = self._run([], lid, ports) or {}
        if not wide:
            return narrow
        return {
            port: counters if counters.downed is not None else counters._replace(downed=narrow[port].downed)
            for port, counters in wide.items()
            if counters.downed is not None or port in narrow
        }

    def _run(self, options: Sequence[str], lid: int, ports: Sequence[int]) -> dict[int, Counters] | None:
        """None if 64-bit counters are requested and the switch has none. Raises HostError, SubnetError."""
        numbers = ",".join(map(str, ports))
        done = self.host.run([_TOOL, *options, "-l", *self.port, str(lid), numbers], self.seconds)
        if options and _NO_WIDE in done.err:
            return None
        if done.rc or done.err.strip():
            output = " ".join(f"{done.err} {done.out.rpartition('iberror')[2]}".split())[-300:]
            raise SubnetError(f"{_TOOL} ended with {done.rc}: {output}")
        return traffic.counters(done.out)
