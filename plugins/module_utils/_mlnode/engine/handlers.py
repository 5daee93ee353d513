# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services to be notified that a file has changed, each once, after all files of a run are written.
Loaded by its name, so that only areas with such files have it sent along: they import their names here.

A table, and no register that kinds fill: an origin holds a reader's name and no command, as what a file names
is not run as root, and a revert notifies the readers of what was written without importing a kind.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Callable, Mapping

from ..host import places, systemctl
from ..host.host import Host
from ..linux import grub, irqbalance, node_exporter
from ..model.errors import HostError
from .kind import AGENT_FILE, AGENT_UNIT
from .units import CHECK_TIMER_FILE, NIC_FLAG, NIC_PATH_FILE, NIC_PATH_UNIT, NIC_SERVICE, PULL_TIMER_FILE

UNITS, IRQBALANCE, IRQBALANCE_SERVICE, BOOT_LOADER = places.READERS


def _units(host: Host) -> None:
    """Have systemd, if it runs, read its units again, wait for NICs, check the node and pull, or no longer.
    udev notices changed rules by itself."""
    checked = _is_declared(host, CHECK_TIMER_FILE, places.CHECK_DROP_IN)
    pulled = _is_declared(host, PULL_TIMER_FILE, places.PULL_DROP_IN)
    if not checked:
        _stop_checks(host)
        _remove_metrics(host)
    if not pulled:
        # Its service may be what runs here.
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
        # At once, too: it waits until this run has ended.
        host.run(["systemctl", "start", "--no-block", places.CHECK_SERVICE])
    if pulled:
        _start(host, places.PULL_TIMER)


def _start(host: Host, unit: str) -> None:
    """One that does not start is a row of its own, with its last lines: agent.nics, or that of what has the
    timer. All else that is declared has nothing to do with it."""
    with suppress(HostError):
        systemctl.job(host, "start", unit, f"start {unit}:")


def _is_declared(host: Host, timer: str, drop_in: str) -> bool:
    return host.exists(timer) and bool(host.matching(places.pattern(drop_in)))


def _stop_timer(host: Host, timer: str) -> bool:
    """For a caller that is about to have systemd read its units: an active timer whose file is gone fails
    then. False where it does not run."""
    if not host.systemd_runs() or host.run(["systemctl", "is-active", "--quiet", timer]).rc != 0:
        return False
    systemctl.job(host, "stop", timer, f"stop {timer}:")
    return True


def _stop_checks(host: Host) -> None:
    timers = {places.CHECK_TIMER: places.CHECK_SERVICE, places.WATCH_TIMER: places.WATCH_SERVICE}
    for timer, service in timers.items():
        if _stop_timer(host, timer):
            # One that is stopped before its end has failed.
            host.run(["systemctl", "stop", service])
            host.run(["systemctl", "reset-failed", service])


def _remove_metrics(host: Host) -> None:
    try:
        node_exporter.remove(host)
    except HostError as error:
        # In the sandbox of a pull, where its folder is read-only. That of the check is another one, and it
        # waits until this run has ended.
        if error.errno not in (errno.EROFS, errno.EPERM) or not host.systemd_runs():
            raise
        command = ["systemctl", "start", "--no-block", places.CHECK_SERVICE]
        host.must_run(command, "have the file of metrics removed by")


def stop_waiting(host: Host) -> None:
    """No NIC starts the agent any more. For a caller that holds the node's lock: what has been started waits
    for it, and has not begun. Raises HostError."""
    if host.systemd_runs():
        if host.run(["systemctl", "is-active", "--quiet", NIC_PATH_UNIT]).rc == 0:
            systemctl.job(host, "stop", NIC_PATH_UNIT, "stop waiting for NICs:")
        # A oneshot service that is stopped before its end has failed for systemd: forget_units().
        host.run(["systemctl", "stop", NIC_SERVICE])


def stop_agent(host: Host) -> None:
    """Stop all that starts the agent, for a caller that is about to remove it. Raises HostError."""
    stop_waiting(host)
    _stop_checks(host)
    _stop_timer(host, places.PULL_TIMER)


def forget_units(host: Host) -> None:
    """Nothing of the units stays once their files are gone: no flag, and no failure in `systemctl --failed`.
    A unit that systemd does not know any more is not an error."""
    host.remove_file(NIC_FLAG)
    if host.systemd_runs():
        if not host.exists(AGENT_FILE):
            # It is active after its exit, and listed until it is stopped. What requires it goes on.
            host.run(["systemctl", "stop", "--job-mode=ignore-requirements", AGENT_UNIT])
        for unit in (AGENT_UNIT, NIC_PATH_UNIT, NIC_SERVICE):
            host.run(["systemctl", "reset-failed", unit])


#: Name, as it is kept in a file's origin → how they are notified. Raises HostError.
HANDLERS: Mapping[str, Callable[[Host], None]] = {
    UNITS: _units,
    IRQBALANCE: irqbalance.ask_again,
    IRQBALANCE_SERVICE: irqbalance.follow_boot,
    BOOT_LOADER: grub.regenerate,
}


#: Those who read their files at boot only
AT_BOOT = frozenset({BOOT_LOADER})


def run(host: Host, name: str) -> None:
    """Notify one of them. Raises HostError where that fails, or the file is refused."""
    HANDLERS[name](host)
