# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declared settings that a container on this node does not have by itself."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ....engine import declared
from ....engine.declared import Declaration
from ....engine.kind import Context, Facts
from ....host.host import Host
from ....model.errors import MlnodeError
from ....model.record import NamedTuple
from ....model.schema import Checked, Table
from ....model.setting import BOTH_LAYERS, Layer, Setting
from ...limits import parse as limits_parse
from ...limits import schema as limits_schema
from ...nccl import file as nccl_file
from ...nccl import parse as nccl_parse
from ...nccl import schema as nccl_schema
from ...sysctl import parse as sysctl_parse
from ...sysctl import schema as sysctl_schema
from .. import node, parse, schema
from ..schema import AUTO
from ..share import share

_RELEASE = "/proc/sys/kernel/osrelease"
_NONE = f"{declared.FOLDER}: no declaration; run site.yml for this node first"
_NO_DEVICES = "the devices of the node are not known here: run this on the node"
_EMPTY = "an empty value, which no runtime writes"


#: Areas with settings for containers → their options and parsers
_AREAS: Mapping[str, tuple[Table, Callable[[Any], Sequence[Setting]]]] = {
    "sysctl": (sysctl_schema.OPTIONS, lambda given: sysctl_parse.parse(given, None)),
    limits_parse.KIND: (limits_schema.OPTIONS, limits_parse.parse),
    nccl_parse.KIND: (nccl_schema.OPTIONS, nccl_parse.parse),
    parse.KIND: (schema.OPTIONS, parse.parse),
}


class Needs(NamedTuple):
    """Settings of all declarations of a node.

    names: of the declarations. sysctls: key → value. ulimits: as they are declared for services. least: the
    names of minimums. shm_size: in bytes; None if it is not declared. nccl: path of NCCL's file, if variables
    are declared. huge_pages: pools are declared. left_out: settings without a value for a container, with the
    reason.
    """

    names: Sequence[str] = ()
    sysctls: Mapping[str, str] = {}
    ulimits: Mapping[str, str] = {}
    least: frozenset[str] = frozenset()
    shm_size: int | None = None
    nccl: str = ""
    huge_pages: bool = False
    left_out: Sequence[str] = ()

    @property
    def none(self) -> bool:
        return not (self.sysctls or self.ulimits or self.shm_size or self.nccl)


def needs(host: Host, service: str, problems: list[str]) -> Needs | None:
    """Needs of a container that a service starts, such as docker; None without a usable declaration.

    problems: takes messages about faulty areas and files, and the others still count. Raises HostError.
    """
    declarations = declared.load_all(host, problems)
    if not declarations and not problems:
        problems.append(_NONE)
    if not declarations:
        return None
    settings = [setting for declaration in declarations for setting in _settings(declaration, problems)]
    # A tree without /proc says nothing about the kernel of a container.
    live = host.exists(_RELEASE)
    context = Context(host, Facts(host), layers=BOTH_LAYERS if live else (Layer.BOOT,))
    sysctls, ulimits = (_resolved(topic, context, service) for topic in (parse.SYSCTLS, parse.ULIMITS))
    if ulimits.late and not live:
        ulimits = ulimits._replace(notes=[f"{', '.join(ulimits.late)}: auto, and {_NO_DEVICES}"])
    empty = [f"{key}: {_EMPTY}" for key, value in sysctls.values.items() if not value]
    return Needs(
        [declaration.name for declaration in declarations],
        {key: value for key, value in sysctls.values.items() if value},
        ulimits.values,
        frozenset(ulimits.least),
        share(declarations).shm_size,
        nccl_file.path_of(host) if any(setting.kind == nccl_parse.KIND for setting in settings) else "",
        any(setting.key.startswith("vm.nr_hugepages") for setting in settings),
        [*empty, *sysctls.notes, *ulimits.notes],
    )


def _resolved(topic: str, context: Context, service: str) -> node.Resolved:
    setting = Setting(parse.KIND, f"{parse.KIND}.podman.{topic}", "", None, AUTO)
    return node.resolved(setting, context, Checked(), service)


def _settings(declaration: Declaration, problems: list[str]) -> list[Setting]:
    settings: list[Setting] = []
    for area, (options, parsed) in _AREAS.items():
        try:
            settings += parsed(declaration.checked_spec(area, options))
        except MlnodeError as error:
            problems.append(f"{declaration.path}: {error}")
    return settings
