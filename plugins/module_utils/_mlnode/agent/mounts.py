# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All drivers, for a Host that reads all declared settings, such as the agent's. Each is imported at the
first access below its folder; most commands need none."""

from __future__ import annotations

from ..drivers import dcb, ethtool, roce
from ..host import places
from ..host.host import Driver, Mounts


def _service() -> Driver:
    from ..drivers import services as service_files

    return service_files


def _agent() -> Driver:
    from . import state

    return state


def _gpu() -> Driver:
    from ..drivers.gpu import nvidia_smi

    return nvidia_smi


ALL: Mounts = {
    ethtool.TOP: ethtool.driver,
    dcb.TOP: dcb.driver,
    roce.TOP: roce.driver,
    "/service": _service,
    "/gpu": _gpu,
    places.AGENT: _agent,
}


def imported() -> tuple[Driver, ...]:
    """Import all of them now: the installed agent may be replaced or removed during the run."""
    return tuple(driver() for driver in ALL.values())
