# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service irqbalance, which asks a script of the agent about declared interrupts."""

from __future__ import annotations

from ..host import systemctl
from ..host.host import Host

IRQBALANCE_UNIT = "irqbalance.service"
#: What `systemctl enable` makes of its unit
IRQBALANCE_LINK = f"/etc/systemd/system/multi-user.target.wants/{IRQBALANCE_UNIT}"
#: The script it asks about every interrupt
IRQBALANCE_POLICY = "/etc/mlnode/irqbalance-policy"


def ask_again(host: Host) -> None:
    """irqbalance, if it runs, asks again about every interrupt. Raises HostError.

    It takes no policy script that cannot be executed, so that a mode that was lost is mended here: no write
    of the same content would.
    """
    saved = host.snapshot(IRQBALANCE_POLICY)
    if saved is not None and not int(saved.get("mode", 0)) & 0o100:
        host.write_file(IRQBALANCE_POLICY, host.read_bytes(IRQBALANCE_POLICY), 0o755)
    if host.systemd_runs():
        purpose = "make irqbalance ask its script again:"
        systemctl.reload(host, purpose)
        systemctl.job(host, "try-restart", IRQBALANCE_UNIT, purpose)


def follow_boot(host: Host) -> None:
    """irqbalance runs now if the next boot starts it, and else does not. Raises HostError."""
    if host.systemd_runs():
        verb = "start" if host.is_link(IRQBALANCE_LINK) else "stop"
        systemctl.job(host, verb, IRQBALANCE_UNIT, f"{verb} irqbalance:")
