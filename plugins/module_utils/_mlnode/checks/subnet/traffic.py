# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data counters of ports from perfquery, at two times.

Format: infiniband-diags/perfquery.c and libibmad/fields.c of rdma-core. A data counter counts words of four
bytes. With 64 bits (PortCountersExtended) it wraps after centuries. With 32 bits it stops at its maximum, as
the standard demands, or wraps on some devices.
"""

from __future__ import annotations

import math
import re
from typing import Any, Mapping

from ...model.errors import DeclarationError
from ...model.record import NamedTuple, dataclass, regex
from .fabric import Cable
from .reports import Port, SubnetError

#: Bytes per word of PortXmitData and PortRcvData
_WORD = 4
#: Bits of these counters in PortCounters
_NARROW = 32


class Counters(NamedTuple):
    """Counters of a port: data sent and received, in four-byte words.

    bits: width of both counters. downed: how often its link was lost, None if this is not counted.
    """

    sent: int
    received: int
    bits: int
    downed: int | None


_PORT = regex(r"# Port (extended )?counters: .{1,200} port ([0-9]{1,3}) \(CapMask: .{1,60}\)\Z", re.ASCII)
_COUNTER = regex(r"(\w{1,40}):\.*([0-9]{1,20}|0x[0-9a-fA-F]{1,16})\Z", re.ASCII)


def counters(text: str) -> dict[int, Counters]:
    """Counters by port number, from perfquery for ports of one switch. Raises SubnetError."""
    ports: dict[int, dict[str, int]] = {}
    numbers: dict[str, int] = {}
    for line in filter(None, text.split("\n")):
        port, counter = _PORT.match(line), _COUNTER.match(line)
        if port:
            numbers = ports[int(port.group(2))] = {"bits": 64 if port.group(1) else _NARROW}
        elif counter and ports:
            numbers[counter.group(1)] = int(counter.group(2), 0)
        else:
            raise SubnetError(f"perfquery reports {line[:80]!r}, which is not a counter")
    try:
        return {
            port: Counters(
                numbers["PortXmitData"],
                numbers["PortRcvData"],
                numbers["bits"],
                numbers.get("LinkDownedCounter"),
            )
            for port, numbers in ports.items()
        }
    except KeyError as error:
        raise SubnetError(f"perfquery reports no {error.args[0]}") from error


@dataclass(frozen=True)
class Reading:
    """Counters of the cables of a leaf.

    begun, ended: clock times in seconds around the reading. why: reason why nothing could be read.
    """

    name: str
    begun: float
    ended: float
    cables: Mapping[Cable, Counters]
    why: str = ""

    def document(self) -> dict[str, Any]:
        """The reading as data for JSON."""
        ports = [
            [*cable.port, *cable.other, cable.label, cable.other_label, cable.gbits, *numbers]
            for cable, numbers in self.cables.items()
        ]
        times = {"begun": self.begun, "ended": self.ended}
        return {"name": self.name, **times, "ports": ports, "why": self.why}


def parse(where: str, raw: Mapping[str, Any]) -> dict[str, Reading]:
    """Readings by the GUID of the leaf, from document(). Raises DeclarationError."""
    try:
        return {str(guid): _reading(reading) for guid, reading in raw.items()}
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DeclarationError(
            f"{where}: expected `traffic` of an earlier result of this module, got something else"
        ) from error


def _reading(raw: Mapping[str, Any]) -> Reading:
    cables = {}
    for row in raw["ports"]:
        guid, number, far, at, label, other_label, gbits, sent, received, bits, downed = row
        cable = Cable(
            Port(str(guid), int(number)), Port(str(far), int(at)), str(label), str(other_label), float(gbits)
        )
        if not 0 < cable.gbits < math.inf:
            raise ValueError("a rate")
        cables[cable] = Counters(int(sent), int(received), int(bits), None if downed is None else int(downed))
    begun, ended = float(raw["begun"]), float(raw["ended"])
    return Reading(str(raw["name"]), begun, ended, cables, str(raw["why"]))


class Sent(NamedTuple):
    """Bytes that crossed a cable in one direction; None if unknown, and why."""

    cable: Cable
    number: int | None
    why: str = ""


def sent(cable: Cable, field: str, before: Counters, after: Counters, seconds: float) -> Sent:
    """Bytes between two readings. field: sent or received. seconds: upper limit of the time between them."""
    first, last = getattr(before, field), getattr(after, field)
    #: Most words the link can carry in this time: its rate includes the coding, so the data rate is lower
    most = cable.gbits * 1e9 / 8 / _WORD * seconds
    if before.bits != after.bits:
        return Sent(cable, None, f"its counters had {before.bits} bits and then {after.bits}")
    if last < first:
        return Sent(cable, None, f"its counter went back from {first} to {last}: reset, or wrapped")
    if after.bits == _NARROW and first + most >= 1 << _NARROW:
        return Sent(cable, None, f"its counter has {_NARROW} bits, too few for {seconds:.1f} s at this rate")
    if last - first > most:
        return Sent(cable, None, f"its counter rose by {last - first}, more than the link can carry")
    return Sent(cable, (last - first) * _WORD)
