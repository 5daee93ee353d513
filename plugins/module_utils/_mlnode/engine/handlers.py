# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services to be notified of changed files, each once, after all files of a run are written. Loaded by name:
only areas with such files package it, and their modules import it here.

A fixed table instead of a register: an origin stores a reader's name and no command, as a file must not name
a command for root. A revert can notify the readers without importing a kind.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Callable, Mapping

from ..host import places, systemctl
from ..host.host import Host
from ..linux import grub, irqbalance, node_exporter, systemd_boot
from ..loader import deployed
from ..model.errors import HostError
from .kind import AGENT_FILE, AGENT_UNIT
from .units import CHECK_TIMER_FILE, NIC_FLAG, NIC_PATH_FILE, NIC_PATH_UNIT, NIC_SERVICE, PULL_TIMER_FILE

UNITS, IRQBALANCE, IRQBALANCE_SERVICE, BOOT_LOADER, KERNEL_IMAGES, KERNEL_ARGUMENTS = places.READERS


def _units(host: Host) -> None:
    """Make a running systemd read its units again, and start or stop the wait for NICs, checks and pulls.
    udev notices changed rules automatically."""
    checked = _is_declared(host, CHECK_TIMER_FILE, places.CHECK_DROP_IN)
    pulled = _is_declared(host, PULL_TIMER_FILE, places.PULL_DROP_IN)
    if not checked:
        _stop_checks(host)
        _remove_metrics(host)
    if not pulled:
        # This process may be its service: stop the timer only.
        _stop_timer(host, places.PULL_TIMER)
        for path in host.matching(f"{places.PULL_FOLDER}/*"):
            host.remove_file(path)
    if not host.systemd_runs():
        return
    purpose = "make systemd read its units again:"
    systemctl.reload(host, purpose)
    if host.exists(NIC_PATH_FILE):
        _start(host, NIC_PATH_UNIT)
    elif host.run(["systemctl", "is-active", "--quiet", NIC_PATH_UNIT]).rc == 0:
        stop_waiting(host)
        forget_units(host)
    if checked:
        _start(host, places.CHECK_TIMER)
        _start(host, places.WATCH_TIMER)
        # Starts it at once, too: it waits until this run has ended.
        host.run(["systemctl", "start", "--no-block", places.CHECK_SERVICE])
    if pulled:
        _start(host, places.PULL_TIMER)


def _start(host: Host, unit: str) -> None:
    """Start a unit. A failure has its own row with the last log lines: agent.nics, or the row of the timer's
    area. It must not affect the other declared settings."""
    with suppress(HostError):
        systemctl.job(host, "start", unit, f"start {unit}:")


def _is_declared(host: Host, timer: str, drop_in: str) -> bool:
    return host.exists(timer) and bool(host.matching(places.pattern(drop_in)))


def _stop_timer(host: Host, timer: str) -> bool:
    """Stop a timer; False if it does not run. For a caller that is about to reload systemd: an active timer
    whose file is gone fails then."""
    if not host.systemd_runs() or host.run(["systemctl", "is-active", "--quiet", timer]).rc != 0:
        return False
    systemctl.job(host, "stop", timer, f"stop {timer}:")
    return True


def _stop_checks(host: Host) -> None:
    timers = {places.CHECK_TIMER: places.CHECK_SERVICE, places.WATCH_TIMER: places.WATCH_SERVICE}
    for timer, service in timers.items():
        if _stop_timer(host, timer):
            # systemd counts a service stopped before its end as failed.
            host.run(["systemctl", "stop", service])
            host.run(["systemctl", "reset-failed", service])


def _remove_metrics(host: Host) -> None:
    try:
        node_exporter.remove(host)
    except HostError as error:
        # The sandbox of a pull has a read-only folder. The check has another sandbox, and waits until this
        # run has ended.
        if error.errno not in (errno.EROFS, errno.EPERM) or not host.systemd_runs():
            raise
        command = ["systemctl", "start", "--no-block", places.CHECK_SERVICE]
        host.must_run(command, "have the file of metrics removed by")


def stop_waiting(host: Host) -> None:
    """Stop NICs from starting the agent. For a caller that holds the node's lock: a started agent waits for
    it, and has not begun. Raises HostError."""
    if host.systemd_runs():
        if host.run(["systemctl", "is-active", "--quiet", NIC_PATH_UNIT]).rc == 0:
            systemctl.job(host, "stop", NIC_PATH_UNIT, "stop waiting for NICs:")
        # systemd counts a oneshot service stopped before its end as failed: forget_units() resets it.
        host.run(["systemctl", "stop", NIC_SERVICE])


def stop_agent(host: Host) -> None:
    """Stop all starters of the agent, for a caller that is about to remove it. Raises HostError."""
    stop_waiting(host)
    _stop_checks(host)
    _stop_timer(host, places.PULL_TIMER)


def forget_units(host: Host) -> None:
    """Clear the remaining state of units whose files are gone: the flag, and failures in `systemctl
    --failed`. A unit unknown to systemd is not an error."""
    host.remove_file(NIC_FLAG)
    if host.systemd_runs():
        if not host.exists(AGENT_FILE):
            # It is active after its exit, and listed until it is stopped. Units that require it go on.
            host.run(["systemctl", "stop", "--job-mode=ignore-requirements", AGENT_UNIT])
        for unit in (AGENT_UNIT, NIC_PATH_UNIT, NIC_SERVICE):
            host.run(["systemctl", "reset-failed", unit])


#: Name in a file's origin → function that notifies the reader. Raises HostError.
HANDLERS: Mapping[str, Callable[[Host], None]] = {
    UNITS: _units,
    IRQBALANCE: irqbalance.ask_again,
    IRQBALANCE_SERVICE: irqbalance.follow_boot,
    BOOT_LOADER: grub.regenerate,
    KERNEL_IMAGES: systemd_boot.make_images,
    KERNEL_ARGUMENTS: deployed.give,
}


#: Readers that read their files at boot only
AT_BOOT = frozenset({BOOT_LOADER, KERNEL_IMAGES, KERNEL_ARGUMENTS})


def run(host: Host, name: str) -> None:
    """Notify a reader. Raises HostError if that fails, or if the reader refuses the file."""
    HANDLERS[name](host)
