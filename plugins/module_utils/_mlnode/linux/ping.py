# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Echo requests of an exact size with the don't-fragment bit, sent by ping(8) of iputils."""

from __future__ import annotations

import math
import re

from ..host.host import Host
from ..host.system import Finished
from ..model.errors import HostError, MissingError
from ..model.record import NamedTuple, regex
from .timeout import TIMED_OUT

PROGRAM = "ping"

#: Bytes of the IP header (RFC 791, RFC 8200) and of the ICMP header (RFC 792, RFC 4443)
_IPV4, _IPV6, _ICMP = 20, 40, 8
#: Seconds; ping exits at its deadline (-w), and a longer delay has another cause
_GRACE = 10

# Output of ping for LC_ALL=C: ping.c, ping6_common.c and ping_common.c of iputils, 20180629 to 20240905
_STATISTICS = regex(r"^(\d{1,9}) packets transmitted, (\d{1,9}) received", re.MULTILINE)
_LOCAL = regex(r"local error: message too long, mtu[=:] ?(\d{1,9})", re.IGNORECASE)
_REPORT = regex(r"^From (\S+?):? icmp_seq=\d+ (.+)$", re.MULTILINE)
_MTU = regex(r"\bmtu ?= ?(\d{1,9})")
_SEND = regex(r"^(?:ping: )?sendmsg: (.+)$", re.MULTILINE)


class Way(NamedTuple):
    """Address of a peer, and the way to send to it. interface, source: empty if routes decide."""

    address: str
    interface: str
    source: str
    tries: int
    timeout: float

    @property
    def header(self) -> int:
        return (_IPV6 if ":" in self.address else _IPV4) + _ICMP

    def command(self, size: int) -> list[str]:
        """With -w, ping sends every -i seconds until the one answer (-c), an ICMP error or the deadline."""
        return self._command(size, "-c", "1", "-i", f"{self.timeout:g}", "-w", str(self.seconds))

    def burst(self, size: int, number: int, every: float, most: float) -> list[str]:
        """Command for so many requests at this interval in seconds. After `most` seconds, SIGINT ends it with
        statistics (ping(8))."""
        guard = ["timeout", "--signal=INT", f"--kill-after={_GRACE}", f"{most:.2f}"]
        return [*guard, *self._command(size, "-q", "-c", str(number), "-i", f"{every:g}", "-W", "1")]

    def _command(self, size: int, *words: str) -> list[str]:
        argv = [PROGRAM, "-n", "-M", "do", *words, "-s", str(size - self.header)]
        for name in (self.interface, self.source):
            argv += ["-I", name] if name else []
        return [*argv, "--", self.address]

    @property
    def seconds(self) -> int:
        return math.ceil(self.tries * self.timeout)


class Reply(NamedTuple):
    """arrived: a packet of this size came back whole. mtu: the largest permitted size, from a refusal. by,
    report: the sender of the refusal, and its message; empty if ping itself kept to the MTU."""

    arrived: bool
    mtu: int = 0
    by: str = ""
    report: str = ""

    @property
    def is_local(self) -> bool:
        """The size exceeds this node's own MTU."""
        return bool(self.mtu) and not self.by


class Echoes(NamedTuple):
    """Number of sent requests of one size, and of lost requests or answers."""

    sent: int
    lost: int


def count(host: Host, way: Way, size: int, number: int, every: float, seconds: float = 0.0) -> Echoes:
    """Send a burst of requests. Raises HostError if nothing can be sent.

    seconds: for the burst, if they are more than it needs: ping may start late on a busy node.
    """
    most = max(seconds, number * every + 2 * way.timeout)
    done = host.run(way.burst(size, number, every, most), most + 2 * _GRACE)
    statistics = _STATISTICS.search(done.out)
    if not statistics:
        raise _refused(done)
    sent, received = int(statistics[1]), int(statistics[2])
    # The last request of an ended burst may still be on its way.
    late = 1 if done.rc in TIMED_OUT and sent == received + 1 else 0
    return Echoes(sent - late, max(0, sent - received - late))


def ask(host: Host, way: Way, size: int) -> Reply:
    """Send echo requests in IP packets of one size. Raises HostError if none can be sent."""
    done = host.run(way.command(size), way.seconds + _GRACE)
    if not _STATISTICS.search(done.out):
        raise _refused(done)
    # A path that cuts answers short prints another number here.
    if re.search(rf"^{size - way.header + _ICMP} bytes from ", done.out, re.MULTILINE):
        return Reply(True)
    text = f"{done.out}\n{done.err}"
    if local := _LOCAL.search(text):
        return Reply(False, int(local[1]))
    if report := _REPORT.search(text):
        mtu = _MTU.search(report[2])
        return Reply(False, int(mtu[1]) if mtu else 0, report[1], report[2])
    sent = _SEND.search(text)
    return Reply(False, 0, "this node", sent[1]) if sent else Reply(False)


def _refused(done: Finished) -> HostError:
    """ping(8): 2 is every error but a missing answer. Implementations other than iputils exit with 1 or 64 at
    -M."""
    lines = done.err.strip().splitlines() or [f"exit status {done.rc}"]
    if done.rc == 2:
        return HostError("run", PROGRAM, None, lines[-1])
    return MissingError("run", PROGRAM, f"it is not ping of iputils: {lines[0]}")
