# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topics of the audit, and looks at them."""

from __future__ import annotations

from functools import partial
from typing import Callable, Collection, Iterable, Iterator, Tuple, Union

from ...host.host import Host
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, Subject, findings


def topic(
    name: str, severity: Severity, reason: str, reference: str, advice: str = "", source: str = ""
) -> Subject:
    """Subject of the audit. severity, reason, reference: as in the setting's kind, if there is one."""
    return Subject(name, source=source, advice=advice, severity=severity, reason=reason, reference=reference)


#: A look, with the topics of its findings
Look = Callable[[Host, Topology], Union[Check, Iterable[Check]]]
Looks = Tuple[Tuple[Tuple[Subject, ...], Look], ...]


def checks(looks: Looks, host: Host, topology: Topology, leave_out: Collection[str] = ()) -> Iterator[Check]:
    for topics, look in looks:
        if not {topic.name for topic in topics} <= {*leave_out}:
            topic_checks = findings(topics, partial(look, host, topology))
            yield from (check for check in topic_checks if check.name not in leave_out)
