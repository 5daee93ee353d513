# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs, NUMA nodes and huge pages that the processes of a place may use."""

from __future__ import annotations

from typing import Generator, Sequence, Tuple

from ...linux import job_status
from ...linux.job_status import Status
from ...model.errors import HostError
from ..model import Check, Subject
from .model import Node, Place, Process

Statuses = Sequence[Tuple[Process, Status]]


def of_processes(
    place: Place, node: Node, subject: Subject, names: Sequence[str]
) -> Generator[Check, None, Statuses]:
    """Checks of unreadable processes, whose values of these names are unknown. Returns the processes that
    still run."""
    running = []
    for process in place.processes:
        try:
            running.append((process, job_status.read(node.host, process.pid)))
        except HostError as error:
            if not node.has_ended(process.about):
                process.lost(names, str(error))
                yield subject.unknown(str(error), target=place.target([process]))
    return running
