# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode enrol`: a machine that no playbook has reached yet begins to pull, as at its first boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..host.host import Host
from ..knobs.pull.kind import kind
from . import declare, output
from .arguments import DRIFT, ERROR, OK

if TYPE_CHECKING:
    import argparse

#: The name that the roles use: the first pulled document replaces the declaration written here
NAME = "node"

_HOSTNAME = "/proc/sys/kernel/hostname"

#: Statuses of a timer that runs now and at the next boot
_IN_FORCE = ("ok", "changed")


def enrol(host: Host, options: argparse.Namespace) -> int:
    """Declare the area pull, and leave all other areas of the declaration as they are."""
    from . import registry

    node = options.node or host.value(_HOSTNAME).text
    spec = {"url": options.url, "node": node, "signers": options.signer}
    order = declare.Order(
        NAME, registry.KINDS, {kind.KIND: spec}, (kind.KIND,), check=options.dry_run, diff=False
    )
    result = declare.run(host, order)
    for warning in result.warnings:
        output.complain(warning)
    if result.failed:
        output.complain(result.msg)
        return ERROR
    done = "would be enrolled" if options.dry_run and result.changed else "is enrolled"
    output.say_wrapped(f"{node} {done}; its document is {options.url.rstrip('/')}/{node}.signed")
    if options.dry_run:
        return DRIFT if result.changed else OK
    statuses = [item["status"] for item in result.areas[kind.KIND]["settings"]]
    return OK if all(status in _IN_FORCE for status in statuses) else DRIFT
