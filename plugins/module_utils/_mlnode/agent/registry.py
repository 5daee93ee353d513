# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of knob, in the order of application: for the agent and the drift check.

A module imports only its own kind, to keep its payload small; the agent imports the declared kinds, to start
quickly.
"""

# pylint: disable=unused-import
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Iterator, Mapping

from ..model.schema import Table

if TYPE_CHECKING:
    # A controller, which needs the names alone, would load a third of the library for it.
    from ..engine.kind import Kind

#: Area → the module that declares it alone, in the order of application.
#: Services before all that they change: tuned restores its original values when it is stopped.
#: Modules next, because others set their parameters, and limits after sysctl, whose fs.nr_open bounds them.
#: Values of devices after the modules that bring them.
#: THP before sysctl: a change of `enabled` makes the kernel recompute vm.min_free_kbytes.
#: Rails after the sysctl of all interfaces, which counts for each of them, and after a NIC's MTU.
#: QoS after a NIC's rings and MTU, and interrupts after all that changes queues, as ice renews them for QoS.
#: NCCL after QoS, whose traffic class it takes, and containers after sysctl and limits, for `auto`.
#: Settings for the next boot come later, and timers last, because they start a check.
MODULES: Mapping[str, str] = {
    "services": "tuning_services",
    "modules": "kernel_modules",
    "thp": "thp",
    "sysctl": "sysctl_ml",
    "limits": "limits",
    "cpu": "cpu_governor",
    "gpu": "gpu_persistence",
    "storage": "storage_queue",
    "sysfs": "sysfs",
    "nic": "nic_ethtool",
    "rail": "multi_rail",
    "qos": "roce_qos",
    "irq": "irq_affinity",
    "nccl": "nccl_conf",
    "containers": "container_defaults",
    "boot": "boot_params",
    "metrics": "metrics_timer",
    "pull": "pull_timer",
}

#: Areas to apply again when a NIC arrives or changes its queues, and when the network is up at boot, for
#: which NFS mounts wait as well
ON_ARRIVAL = ("storage", "sysfs", "nic", "rail", "qos", "irq", "nccl")

#: Areas that `mlnode apply --nics` applies: sysctls, too, because some depend on the rate of links that come
#: up after the boot service has run
WITH_LINKS = ("sysctl", *ON_ARRIVAL)


class _Kinds(Mapping[str, "Kind"]):
    """Name → kind, imported on first use."""

    def __getitem__(self, name: str) -> Kind:
        if name not in MODULES:
            raise KeyError(name)
        package = __name__.rpartition(".agent.")[0]
        kind: Kind = importlib.import_module(f"{package}.knobs.{name}.kind").kind
        return kind

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


KINDS: Mapping[str, Kind] = _Kinds()


def options(area: str) -> Table:
    """The options of an area, for a caller that needs none of its other files."""
    package = __name__.rpartition(".agent.")[0]
    table: Table = importlib.import_module(f"{package}.knobs.{area}.schema").OPTIONS
    return table


def imported() -> tuple[Kind, ...]:
    """Import all of them. Ansible ships only modules that it finds in import statements."""
    from ..knobs.boot import kind as boot  # noqa: F401
    from ..knobs.containers import kind as containers  # noqa: F401
    from ..knobs.cpu import kind as cpu  # noqa: F401
    from ..knobs.gpu import kind as gpu  # noqa: F401
    from ..knobs.irq import kind as irq  # noqa: F401
    from ..knobs.limits import kind as limits  # noqa: F401
    from ..knobs.metrics import kind as metrics  # noqa: F401
    from ..knobs.modules import kind as modules  # noqa: F401
    from ..knobs.nccl import kind as nccl  # noqa: F401
    from ..knobs.nic import kind as nic  # noqa: F401
    from ..knobs.pull import kind as pull  # noqa: F401
    from ..knobs.qos import kind as qos  # noqa: F401
    from ..knobs.rail import kind as rail  # noqa: F401
    from ..knobs.services import kind as services  # noqa: F401
    from ..knobs.storage import kind as storage  # noqa: F401
    from ..knobs.sysctl import kind as sysctl  # noqa: F401
    from ..knobs.sysfs import kind as sysfs  # noqa: F401
    from ..knobs.thp import kind as thp  # noqa: F401

    return tuple(KINDS.values())
