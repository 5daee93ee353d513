# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that look at a node, run by its agent: Python compiles the code shipped with a module at each call,
but the agent's code only once."""

# pylint: disable=unused-import
from __future__ import annotations

import importlib
from typing import Any, Mapping

from ..host.host import Host
from ..model import argument_spec, schema
from ..model.errors import MlnodeError, paragraphs
from ..model.schema import Option

#: Module → the file of the library that does its work, imported on demand
MODULES: Mapping[str, str] = {
    "node_preflight": "checks.preflight.run",
    "path_mtu": "checks.path_mtu",
    "rdma_check": "checks.rdma.run",
    "ib_subnet": "checks.subnet.check",
    "campaign": "checks.campaign.look",
    "memory_bandwidth": "checks.memory",
    "node_audit": "checks.audit.run",
    "node_job": "checks.jobs.run",
    "node_topology": "report.topology",
}


def answer(host: Host, module: str, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of a module. given: its options. dry: nothing is written. Raises ValueError for another one."""
    if module not in MODULES:
        raise ValueError(f"module is {module!r}")
    look: Any = importlib.import_module(f"{__name__.rpartition('.agent.')[0]}.{MODULES[module]}")
    spec = argument_spec.of_area(look.OPTIONS)
    try:
        options = schema.value(module, Option("dict", suboptions=look.OPTIONS), given)
        every = {name: options.get(name, about.get("default")) for name, about in spec.items()}
        result: dict[str, Any] = look.answer(host, every, dry)
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": paragraphs(f"{module}: {error}")}
    return result


def imported() -> None:
    """Import all of them. Ansible ships only modules that it finds in import statements."""
    from ..checks import memory, path_mtu  # noqa: F401
    from ..checks.audit import run as audit  # noqa: F401
    from ..checks.campaign import gpudirect, look, rdma_bw, rdma_lat, run, tcp  # noqa: F401
    from ..checks.jobs import run as jobs  # noqa: F401
    from ..checks.preflight import run as preflight  # noqa: F401
    from ..checks.rdma import run as rdma  # noqa: F401
    from ..checks.subnet import check  # noqa: F401
    from ..report import topology  # noqa: F401
