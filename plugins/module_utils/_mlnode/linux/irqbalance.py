# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service irqbalance, which asks a script of the agent about declared interrupts."""

from __future__ import annotations

from ..host import systemctl
from ..host.host import Host
from . import systemd_show

IRQBALANCE_UNIT = "irqbalance.service"
#: Link that `systemctl enable` makes for its unit
IRQBALANCE_LINK = f"/etc/systemd/system/multi-user.target.wants/{IRQBALANCE_UNIT}"
#: Prefix of the path of a declaration's drop-in, before the declaration's name
IRQBALANCE_DROP_INS = f"/etc/systemd/system/{IRQBALANCE_UNIT}.d/zz-mlnode-irq."
#: The script that irqbalance runs for every interrupt
IRQBALANCE_POLICY = "/etc/mlnode/irqbalance-policy"


def ask_again(host: Host) -> None:
    """Make a running irqbalance ask again about every interrupt. Raises HostError.

    irqbalance rejects a policy script without execute permission. A lost mode is restored here, as no write
    of the same content would do it.
    """
    saved = host.snapshot(IRQBALANCE_POLICY)
    if saved is not None and not int(saved.get("mode", 0)) & 0o100:
        host.write_file(IRQBALANCE_POLICY, host.read_bytes(IRQBALANCE_POLICY), 0o755)
    if host.systemd_runs():
        purpose = "make irqbalance ask its script again:"
        if _is_unread(host):
            systemctl.reload(host, purpose)
        systemctl.job(host, "try-restart", IRQBALANCE_UNIT, purpose)


def _is_unread(host: Host) -> bool:
    """True if systemd has not read the present unit, or may not have. A reload may take the GPUs from running
    containers (docs/knobs/limits.md), and a changed list does not need one."""
    shown = systemd_show.units_now(host).get(IRQBALANCE_UNIT, {})
    there = host.matching(f"{IRQBALANCE_DROP_INS}*.conf")
    if not there or "DropInPaths" not in shown:  # the last one is gone, or systemd cannot be asked
        return True
    gone = {path for path in shown["DropInPaths"] if path.startswith(IRQBALANCE_DROP_INS)} - {*there}
    return bool(gone) or any(systemd_show.is_unread(shown, path) for path in there)


def follow_boot(host: Host) -> None:
    """Run irqbalance now if the next boot starts it, else stop it. Raises HostError."""
    if host.systemd_runs():
        verb = "start" if host.is_link(IRQBALANCE_LINK) else "stop"
        systemctl.job(host, verb, IRQBALANCE_UNIT, f"{verb} irqbalance:")
