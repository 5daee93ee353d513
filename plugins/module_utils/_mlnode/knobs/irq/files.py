# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel files of a rule on this machine: one part for each interrupt or queue."""

from __future__ import annotations

import errno
import re
import time
from typing import Sequence

from ...drivers.nic import vectors as irq_vectors
from ...engine.answers import Answers
from ...host.host import Host
from ...linux import irqs
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.setting import KnobFile, Value, Write
from ...topology.model import Nic, Topology
from ..nics.ports import Port
from ..summary import Files, Target
from . import plan
from .parse import Rule, Steering

#: Errors of a write to smp_affinity_list of a managed IRQ: EIO, or EPERM since Linux 6.12 (kernel/irq/proc.c:
#: write_irq_affinity)
_KERNEL_OWNS = (errno.EIO, errno.EPERM)

#: Pause between two reads of /proc/interrupts: long enough for a busy queue, which has thousands of
#: interrupts
_LOOK_SECONDS = 0.05

FLOW_TABLE = "/proc/sys/net/core/rps_sock_flow_entries"


# -- interrupts ----------------------------------------------------------------------------


def interrupts(host: Host, port: Port, pool: plan.Pool) -> Files:
    """The queue interrupts of a NIC: queue i on CPU i of its pool, modulo their number."""
    files = Files(Target(port.label))
    files.refusal = pool.refusal and f"{port.label}: {pool.refusal}"
    files.invalid = pool.invalid
    files.note(pool.note)
    vectors = irq_vectors.queue_vectors(host, port.address)
    if vectors.problem:
        files.problems.append(vectors.problem)
    if vectors.unnamed:
        files.note("no interrupt is named after a queue, so all of them are taken for queues")
    known = Answers(host)
    for vector in vectors.queues:
        want = str(pool.cpus[vector.queue % len(pool.cpus)]) if pool.cpus else ""
        _interrupt(host, port, vector, want, known, files)
    return files


def _interrupt(
    host: Host, port: Port, vector: irq_vectors.Vector, want: str, known: Answers, files: Files
) -> None:
    path = f"/proc/irq/{vector.irq}/smp_affinity_list"
    device = f"{irq_vectors.msi_folder(port.address)}/{vector.irq}"
    try:
        saved = host.snapshot(path)
        if saved is None:  # Gone since the folder was listed
            return
        # Since Linux 6.12 the file of a managed interrupt is read-only (kernel/irq/proc.c).
        read_only = not int(saved.get("mode", 0)) & 0o200
        if read_only or known.refused(path, device, _KERNEL_OWNS):
            files.managed += 1
            return
        now = host.read(path).strip()
    except HostError as error:
        files.problems.append(str(error))
        return
    files.parts.append(KnobFile(vector.irq, path, now, want, (Write(path, now),), device))


def _names(host: Host, folder: str, files: Files) -> list[str]:
    try:
        return host.names(folder)
    except HostError as error:
        files.problems.append(str(error))
        return []


def follow(host: Host, all_files: Sequence[Files]) -> None:
    """Report the CPU on which an interrupt arrives, if it differs from its setting.

    Many interrupts move only when the next one arrives (kernel/irq/migration.c). An idle one still shows its
    old CPU, which is not a fault. All NICs of a rule share the two reads and the pause between them, as
    /proc/interrupts is the longest file of a large node.
    """
    late: dict[int, tuple[int, ...]] = {}
    for part in (part for files in all_files for part in files.parts):
        if part.runtime == part.want:
            arrives = _effective(host, part.number)
            if arrives and arrives != (int(part.want),):
                late[part.number] = arrives
    busy = _arriving(host, late) if late else set()
    # The counted interrupt may itself have moved it. Only those that are still on the old CPU are late.
    late = {irq: cpus for irq, cpus in late.items() if _effective(host, irq) == cpus}
    for files in all_files:
        here = {part.number for part in files.parts} & {*late}
        files.parts = [
            part._replace(runtime=cpulist.render(late[part.number])) if part.number in here & busy else part
            for part in files.parts
        ]
        if here - busy:
            files.note(f"interrupts that move when the next of them arrives: {len(here - busy)}")
        if files.managed:
            files.note(f"interrupts that the kernel keeps to itself: {files.managed}")


def _effective(host: Host, irq: int) -> tuple[int, ...] | None:
    """None if that is not known: the setting itself is right then."""
    try:
        return irqs.effective(host, irq)
    except HostError:
        return None


def _arriving(host: Host, late: dict[int, tuple[int, ...]]) -> set[int]:
    """The interrupts that still arrive on the wrong CPU."""
    before = _counts(host, late)
    time.sleep(_LOOK_SECONDS)
    after = _counts(host, late)
    return {irq for irq in late if irq in before and after.get(irq, before[irq]) != before[irq]}


def _counts(host: Host, late: dict[int, tuple[int, ...]]) -> dict[int, int]:
    """Arrivals of each late interrupt on its old CPUs; empty if they are not known."""
    try:
        rows = [*irqs.counted(host, only=late)]
    except HostError:
        return {}
    return {row.irq: sum(row.counts.get(cpu, 0) for cpu in late[row.irq]) for row in rows}


# -- queues --------------------------------------------------------------------------------


def steering(
    host: Host, topology: Topology, port: Port, rule: Rule, topic: str, served: Sequence[int]
) -> Files:
    """rps_cpus or xps_cpus of every queue of a NIC. served: as of plan.sending()."""
    files = Files(Target(port.label))
    want = rule.rps if topic == "rps" else rule.xps
    folder, file = ("rx", "rps_cpus") if topic == "rps" else ("tx", "xps_cpus")
    if want is not None and want.cpus:
        files.invalid = plan.unusable(topology, want.cpus)
        isolated = topology.cpus.kept_free & {*want.cpus}
        if topic == "rps" and isolated and not files.invalid:
            kept = cpulist.render(isolated)
            files.invalid = f"CPUs {kept} are isolated, and the kernel takes such CPUs out of rps_cpus"
    for nic in port.nics:
        queues = _queues(host, nic, folder, files)
        if not queues:
            continue
        if topic == "xps" and want is not None and want.word == "auto":
            masks: Sequence[tuple[int, ...]] = plan.sending(topology, port.node, len(queues), served)
        else:
            masks = _masks(topology, port, want, len(queues), files)
        for number, mask in zip(queues, masks):
            _queue(host, nic, f"{folder}-{number}", file, number, cpulist.mask(mask), files)
    return files


def _masks(
    topology: Topology, port: Port, want: Steering | None, queues: int, files: Files
) -> Sequence[tuple[int, ...]]:
    if want is None or want.word == "off":
        return ((),) * queues
    if want.cpus:
        return (want.cpus,) * queues
    takers = plan.receiving(topology, port.node, queues)
    files.refusal = takers.refusal and f"{port.label}: {takers.refusal}"
    files.note(takers.note)
    return (takers.cpus,) * queues


def receive_flows(host: Host, port: Port, entries: int) -> Files:
    """rps_flow_cnt of every receive queue of a NIC."""
    files = Files(Target(port.label))
    for nic in port.nics:
        queues = _queues(host, nic, "rx", files)
        if not queues:
            continue
        share = plan.flows(entries, len(queues))
        if entries and not share:
            files.invalid = f"{entries} entries are fewer than the {len(queues)} queues of {nic.name}"
        # Never lowered, like the table: a queue that was given more needs more of it.
        more = _more_flows(host, nic, queues, share) if entries else {}
        if more:
            files.note(f"queues {cpulist.render(more)} have more flows than {share}, and keep them")
        for number in queues:
            _queue(host, nic, f"rx-{number}", "rps_flow_cnt", number, str(more.get(number, share)), files)
    return files


def _more_flows(host: Host, nic: Nic, queues: Sequence[int], share: int) -> dict[int, int]:
    """Queue → its flows, of those that have more than the share."""
    folder = f"/sys/class/net/{nic.name}/queues"
    flow_counts = {n: values.number(host.value(f"{folder}/rx-{n}/rps_flow_cnt").text) or 0 for n in queues}
    return {number: flows for number, flows in flow_counts.items() if flows > share}


def _queues(host: Host, nic: Nic, kind: str, files: Files) -> list[int]:
    """The numbers of a NIC's receive or transmit queues."""
    names = _names(host, f"/sys/class/net/{nic.name}/queues", files)
    matches = (re.match(rf"{kind}-([0-9]{{1,6}})\Z", name, re.ASCII) for name in names)
    return sorted(int(match.group(1)) for match in matches if match)


def _queue(host: Host, nic: Nic, folder: str, file: str, number: int, want: str, files: Files) -> None:
    device = f"/sys/class/net/{nic.name}/queues/{folder}"
    now = host.value(f"{device}/{file}")
    if now.unreadable is not None:
        files.problems.append(now.unreadable)
    elif now.text is not None:  # A NIC with one transmit queue has no choice, and therefore no xps_cpus
        path = f"{device}/{file}"
        files.parts.append(KnobFile(number, path, now.text, want, (Write(path, now.text),), device))


def flow_table(host: Host, least: Sequence[int]) -> tuple[KnobFile | None, Value]:
    """The table that all NICs share, or the reason why it is absent.

    Never lowered, as other software may need more entries. least: entries of all declarations.
    """
    now = host.value(FLOW_TABLE)
    if now.text is None:
        return None, now
    if not re.match(r"[0-9]{1,10}\Z", now.text, re.ASCII):
        return None, Value(unreadable=f"{FLOW_TABLE} says {now.text[:60]!r}, which is not a number")
    want = str(max(int(now.text), *least))
    return KnobFile(0, FLOW_TABLE, now.text, want, (Write(FLOW_TABLE, now.text),)), now
