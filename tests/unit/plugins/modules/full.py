# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For every module of one area a node, and a declaration of as much as there is."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.areas import VIEWS
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq import (
    node as irq_node,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nccl.node import (
    declare_class,
    roce,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic import (
    node as nic_node,
)
from mlnode.host.places import AGENT_COMMAND

PREFERENCE = "energy_performance_preference"


def _thp(folder: pathlib.Path) -> Machine:
    node = Machine.debian(str(folder))
    node.put(f"{THP}/khugepaged/max_ptes_none", "511\n")
    return node


def _limits(folder: pathlib.Path) -> Machine:
    node = CASES["limits"].make(folder)
    assert isinstance(node, LimitsMachine)
    node.process(50, "slurmd")
    return node


def _irq(folder: pathlib.Path) -> Machine:
    node = irq_node.IrqNode.made(str(folder))
    for number in (25, 26, 33, 38):
        node.place(number, "0-15")
    return node


def _nccl(folder: pathlib.Path) -> Machine:
    node = roce(str(folder))
    declare_class(node, 106)
    node.put("/etc/nccl.conf", "NCCL_DEBUG=INFO\n")
    return node


#: Module → the node on which it has something to do, where that is not the one of its area
NODES: dict[str, Callable[[pathlib.Path], Machine]] = {
    "thp": _thp,
    "sysctl_ml": lambda folder: Machine.debian(str(folder)),
    "limits": _limits,
    "cpu_governor": lambda folder: CpuMachine.intel(str(folder)),
    "gpu_persistence": lambda folder: GpuMachine.of(str(folder), 8),
    "nic_ethtool": nic_node.NicNode.made,
    "irq_affinity": _irq,
    "nccl_conf": _nccl,
    "boot_params": lambda folder: GrubMachine.debian_with_grub(str(folder)),
}

#: Module → a declaration of as much as there is, all of which changes
FULL: dict[str, dict[str, Any]] = {
    **{module: CASES[area].spec for module, area in VIEWS.items()},
    "thp": {
        "enabled": "madvise",
        "defrag": "defer+madvise",
        "shmem_enabled": "advise",
        "use_zero_page": 0,
        "khugepaged": {"defrag": 0, "scan_sleep_millisecs": 60000, "max_ptes_none": 0},
        "sizes": {"64kB": {"enabled": "madvise"}, "2048kB": {"enabled": "madvise"}},
    },
    # One of each sort: exact, list, floor, formula, a value with a module
    "sysctl_ml": {
        "settings": {
            "vm.swappiness": 1,
            "net.ipv4.ip_local_reserved_ports": "9100,29500",
            "vm.max_map_count": {"at_least": 1048576},
            "vm.min_free_kbytes": "auto",
            "net.ipv4.tcp_congestion_control": "bbr",
        }
    },
    "cpu_governor": {
        "governor": "performance",
        PREFERENCE: "performance",
        "energy_perf_bias": "0",
        "boost": False,
        "min_perf_pct": 100,
        "max_latency_us": "10",
    },
    "nic_ethtool": nic_node.FULL,
    "irq_affinity": irq_node.FULL,
    "nccl_conf": {"variables": {"NCCL_IB_HCA": "auto", "NCCL_SOCKET_IFNAME": "auto", "NCCL_IB_TC": "auto"}},
    "boot_params": {
        "parameters": {"transparent_hugepage": "madvise", "nosmt": "", "console": ["tty0", "ttyS0"]},
        "absent": ["quiet"],
        "isolate": {"cpus": "2-3,6-7", "rcu_nocbs": False},
    },
}


def made(module: str, folder: pathlib.Path) -> Machine:
    """The node of a module, with the agent on it."""
    node = NODES.get(module, CASES[VIEWS[module]].make)(folder)
    if not node.exists(AGENT_COMMAND):
        node.enable_agent()
    for path in ("/run/.keep", "/var/lib/.keep"):
        node.put(path, "")
    return node
