# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of RDMA drivers: congestion control of RoCE, and names of their counters."""

from __future__ import annotations

from typing import Mapping

from ...host.host import Host
from ...model.errors import printable
from ...model.record import NamedTuple
from ...model.setting import Value

#: Groups of settings that each driver sets in its own way, as in a setting of roce_qos
ECN, CNP_DSCP, CNP_PRIORITY, TRAFFIC_CLASS = "ecn", "cnp_dscp", "cnp_priority", "traffic_class"

#: Options of all drivers with dcbnl → the interface that sets them
COMMON = {
    **dict.fromkeys(("trust", "dscp", "ets", "pfc"), "dcb"),
    "global_pause": "ethtool",
    "rdma_cm_tos": "configfs",
}
NO_CNP = "its driver does not show what its congestion notifications (CNP) look like"
NO_DEVICE = "there is no RDMA device on it"


class Nic(NamedTuple):
    """An interface. address: of its PCI function, or empty. ports: device and number of its RoCE ports."""

    name: str
    address: str = ""
    ports: tuple[tuple[str, int], ...] = ()


class Knob(NamedTuple):
    """One file of a setting. label: its name within the NIC. device: the RDMA device it belongs to; empty for
    the interface."""

    path: str
    want: str
    label: str = ""
    device: str = ""


def value(host: Host, knob: Knob) -> Value:
    """Present value. Drivers of virtual folders check theirs. Other text than a number in a kernel file is
    unreadable: it could not be written back."""
    known = host.value(knob.path)
    text = (known.text or "").strip()
    if known.text is None or not knob.path.startswith("/sys/") or (text.isdecimal() and text.isascii()):
        return known
    return Value(unreadable=f"{knob.path}: expected a number, got {printable(text[:40])!r}")


class Answer(NamedTuple):
    """The files of a setting on one NIC, or why the driver has none. managed: why the firmware sets it, with
    its present value."""

    knobs: tuple[Knob, ...] = ()
    lacks: str = ""
    managed: str = ""
    value: str = ""


class Counters(NamedTuple):
    """Files of a port that count packets, below its folder in sysfs. The files of each tuple are added up.

    lost_sent: negative acknowledgements and timeouts of a sender. lost_received: packets out of sequence.
    """

    sent: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    lost_sent: tuple[str, ...] = ()
    lost_received: tuple[str, ...] = ()


class RoceDriver:
    """One RDMA driver.

    MODULE: the kernel module that makes RDMA devices; empty if unknown.
    SUPPORTS: option of roce_qos → the interface that sets it; cnp has one entry for each of its parts. LACKS:
    all others → the reason. QUIET: groups whose change resets no link. COUNTERS: one for each set of names.
    """

    MODULE: str = ""
    SUPPORTS: Mapping[str, str] = {}
    LACKS: Mapping[str, str] = {}
    QUIET: frozenset[str] = frozenset()
    COUNTERS: tuple[Counters, ...] = ()

    def pause(self, nic: str) -> str:
        """Folder with the files rx and tx of global pause."""
        return f"/ethtool/{nic}/pause"

    def knobs(self, host: Host, nic: Nic, group: str, value: object) -> Answer:
        """The files of one of the groups above. Raises HostError."""
        del host, nic, value
        return Answer(lacks=self.LACKS[group])

    def remark(self, host: Host, nic: Nic, group: str) -> str:
        """A remark on a group that is set; empty if there is none. Raises HostError."""
        del host, nic, group
        return ""


class Unknown(RoceDriver):
    """A driver with no interface for congestion control that mlnode knows."""

    LACKS = {
        ECN: "its driver has no known switch for congestion control (ECN, DCQCN)",
        CNP_DSCP: NO_CNP,
        CNP_PRIORITY: NO_CNP,
        TRAFFIC_CLASS: "its driver has no traffic class for all queue pairs: let the programs set theirs",
    }


class Simulated(Unknown):
    """netdevsim, which only keeps numbers."""

    QUIET = frozenset(("trust", "dscp", "ets", "pfc", "buffer"))
