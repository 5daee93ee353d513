# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`auto` for rings and channels of one NIC, by its traffic: sockets, or only RDMA."""

from __future__ import annotations

import math
from typing import Sequence

from ...drivers.nic import rings
from ...engine.kind import Facts
from ...host.host import Host
from ...model import values
from ...model.record import NamedTuple
from ...topology import hardware, management
from ...topology.model import Nic
from .. import sizing
from ..irq import plan as irq_plan
from ..summary import Target
from .parse import Amount, Rule

#: Size of the huge page that one page table directory maps: 2 MiB with 4 KiB pages, 512 MiB with 64 KiB pages
_HUGE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
_PAGES = (4 * sizing.KIB, 16 * sizing.KIB, 64 * sizing.KIB)


class Resolved(NamedTuple):
    """A number; None leaves the NIC as it is. note: the reason. clamped: the result of the formula, and why
    the number is lower.
    """

    number: int | None
    note: str = ""
    clamped: str = ""


def resolved(
    host: Host, rule: Rule, target: Target, group: str, name: str, wanted: Amount, maximum: int
) -> Resolved:
    """Number for an amount on a NIC with this maximum."""
    if wanted.word in ("number", "max"):
        return Resolved(min(wanted.number, maximum) if wanted.word == "number" else maximum)
    most = min(wanted.number, maximum) if wanted.word == "at_most" else maximum
    return _ring(host, rule, target, name, most) if group == "ring" else _channels(host, target, most)


def _ring(host: Host, rule: Rule, target: Target, name: str, maximum: int) -> Resolved:
    """Descriptors of a ring. RDMA has its own queues in its own memory and leaves these rings empty."""
    if _is_for_rdma(host, target.name):
        return Resolved(None, "a rail, and RDMA does not use these rings: left as they are")
    wanted = sizing.ring_entries(maximum)
    if name == "tx":
        return Resolved(wanted)
    facts, queues = Facts(host), _receiving(host, rule, target)
    entry = rings.ring_entry_bytes(target.driver, _page_bytes(facts, host))
    fitting = sizing.fitting_entries(wanted, queues, entry, facts.memory_bytes())
    if fitting == wanted:
        return Resolved(wanted)
    reason = (
        f"{wanted} {name} ring entries of {entry // sizing.KIB} KiB in {queues} queues would take "
        f"{wanted * entry * queues // sizing.MIB} MiB, over 1 % of memory, so it gets {fitting}"
    )
    return Resolved(fitting, clamped=reason)


def _channels(host: Host, target: Target, maximum: int) -> Resolved:
    """Queues: one for each core near the NIC for sockets, a few for a NIC with only RDMA."""
    rail = _is_for_rdma(host, target.name)
    if rail and target.driver not in rings.RDMA_APART:
        return Resolved(None, f"a rail, and RDMA of {target.driver} may need its channels: left as they are")
    machine = hardware.topology(host)
    local, elsewhere = irq_plan.near(machine, target.node)
    free = frozenset(local) - machine.cpus.kept_free
    number = sizing.channels(maximum, len(irq_plan.cores(machine.cpus, free or local)))
    if rail:
        return Resolved(min(number, sizing.RAIL_CHANNELS), "a rail, and RDMA does not use these channels")
    note = "the firmware names no NUMA node for it, so the cores of all nodes are counted"
    return Resolved(number, note if elsewhere else "")


def _is_for_rdma(host: Host, name: str) -> bool:
    """True for a rail with RDMA in hardware that does not carry the management path. RDMA in software
    (Soft-RoCE) sends ordinary packets.
    """
    machine = hardware.topology(host)
    devices = {device.name for device in machine.rdma if device.address is not None}
    nic = _nic(machine.nics, name)
    if nic is None or nic.rail is None or not devices.intersection(nic.rdma):
        return False
    # For no process, as the result must not depend on the connection.
    return name not in management.interfaces(host, pid=0)


def kinds_in_use(host: Host, name: str) -> Sequence[str]:
    """Kinds of channels: combined queues, or separate ones to receive and to send; empty without channels."""
    here = host.names(f"/ethtool/{name}/channels/max")
    apart = [kind for kind in ("rx", "tx") if kind in here]
    used = {kind for kind in here if host.value(f"/ethtool/{name}/channels/{kind}").text != "0"}
    return ["combined"] if "combined" in here and ("combined" in used or not used & {*apart}) else apart


def _receiving(host: Host, rule: Rule, target: Target) -> int:
    """Receive queues that the NIC will have, as channels are set before rings."""
    kinds = dict.fromkeys((*kinds_in_use(host, target.name), *(kind for kind, _amount in rule.channels)))
    number = sum(_queues(host, rule, target, kind) for kind in kinds if kind in ("combined", "rx"))
    if number:
        return number
    nic = _nic(hardware.topology(host).nics, target.name)
    return nic.rx_queues if nic else 1


def _queues(host: Host, rule: Rule, target: Target, kind: str) -> int:
    folder = f"/ethtool/{target.name}/channels"
    now = values.number(host.value(f"{folder}/{kind}").text) or 0
    most = values.number(host.value(f"{folder}/max/{kind}").text)
    declared = dict(rule.channels)
    wanted = declared.get(kind, declared.get(""))
    if wanted is None or most is None:
        return now
    number = resolved(host, rule, target, "channels", kind, wanted, most).number
    return now if number is None else number


def _nic(nics: Sequence[Nic], name: str) -> Nic | None:
    return next((nic for nic in nics if nic.name == name), None)


def _page_bytes(facts: Facts, host: Host) -> int:
    """Bytes of a page, from the size of a huge page.

    A huge page has an eighth as many pages as a page has bytes. If the kernel has no huge pages, the largest
    known page.
    """
    huge = values.number(host.value(_HUGE).text) or facts.hugepage_kbytes() * sizing.KIB
    page = math.isqrt(8 * huge)
    return page if page in _PAGES else max(_PAGES)
