# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a node's declarations that does not reach a container by itself. Pure: nothing is read."""

from __future__ import annotations

from typing import Iterable, Mapping

from ...engine.declared import Declaration
from ...linux import sysctl_reach
from ...linux.sysctl_reach import NEWEST, Reach
from ...model.errors import MlnodeError
from ...model.record import NamedTuple
from ...model.schema import Checked
from ...model.setting import Setting
from ..limits import parse as limits_parse
from ..limits import schema as limits_schema
from ..limits.parse import ALL, LIMITS, SERVICES
from ..sysctl import parse as sysctl_parse
from ..sysctl import schema as sysctl_schema
from . import parse as own
from . import schema


class Share(NamedTuple):
    """sysctls: key → value. at_least: the keys whose value is a minimum. ulimits: name → amount, as limits
    are declared. automatic: limits that are unlimited if the node has RDMA devices or GPUs. exact: the
    limits that may also lower. shm_size: in bytes, None if it is not declared. unknown: declared keys that
    may have one value for the whole machine. refused: keys that no runtime sets. open: keys with a value that
    only the node can compute.
    """

    sysctls: Mapping[str, str]
    ulimits: Mapping[str, str]
    shm_size: int | None = None
    at_least: frozenset[str] = frozenset()
    automatic: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def share(
    declarations: Iterable[Declaration], runtime: str = "", release: str = NEWEST, devconf: str = "0"
) -> Share:
    """The values of all declarations of a node for its containers. A faulty area counts as not declared,
    because its own run reports the fault.

    runtime: a service with its own limits, such as docker. release, devconf: as for sysctl_reach.reach().
    The area containers decides over the areas sysctl and limits, unless it has `auto`.
    """
    settings: dict[str, Setting] = {}
    ulimits: dict[str, str] = {}
    explicit: dict[str, dict[str, str]] = {}
    size: int | None = None
    for declaration in declarations:
        for setting in settings_of(declaration):
            settings.setdefault(setting.key, setting)
        for name, text in _limits(declaration, runtime).items():
            ulimits.setdefault(name, text)
        containers = _containers(declaration)
        for topic, values_of in ((own.SYSCTLS, own.sysctls), (own.ULIMITS, own.ulimits)):
            if containers.get(topic) not in (None, schema.AUTO):
                explicit.setdefault(topic, values_of(containers))
        if own.SHM_SIZE in containers and size is None:
            size = int(containers[own.SHM_SIZE])
    shared = _of_settings(settings.values(), release, devconf)
    automatic = frozenset(name for name, text in ulimits.items() if text.endswith(schema.AUTO))
    wanted = {
        name: limits_parse.wanted(LIMITS[name], text)
        for name, text in ulimits.items()
        if name not in automatic
    }
    shared = shared._replace(
        ulimits={name: str(limit.amount) for name, limit in wanted.items()},
        automatic=automatic,
        exact=frozenset(name for name, limit in wanted.items() if limit.exact),
        shm_size=size,
    )
    if own.SYSCTLS in explicit:
        shared = shared._replace(
            sysctls=explicit[own.SYSCTLS], at_least=frozenset(), unknown=(), refused=(), open=()
        )
    if own.ULIMITS in explicit:
        limits = explicit[own.ULIMITS]
        shared = shared._replace(ulimits=limits, automatic=frozenset(), exact=frozenset(limits))
    return shared


def _of_settings(settings: Iterable[Setting], release: str, devconf: str) -> Share:
    values: dict[str, str] = {}
    at_least: set[str] = set()
    unknown, refused, open_keys = [], [], []
    for setting in sorted(settings, key=lambda item: item.key):
        known = sysctl_reach.reach(setting.key, release, devconf)
        if known is None and setting.key.startswith(own.PREFIXES):
            unknown.append(setting.key)
        # Runtimes accept no keys of other namespaces, such as user.
        if known is not Reach.OWN or sysctl_reach.namespace(setting.key, release) not in ("net", "ipc"):
            continue
        if not own.is_settable(setting.key):
            refused.append(setting.key)
            continue
        if setting.want is None:
            open_keys.append(setting.key)
            continue
        values[setting.key] = setting.want
        at_least.update([setting.key] if setting.raise_only else [])
    return Share(
        values,
        {},
        at_least=frozenset(at_least),
        unknown=tuple(unknown),
        refused=tuple(refused),
        open=tuple(open_keys),
    )


def settings_of(declaration: Declaration) -> list[Setting]:
    """The sysctls of a declaration; none of a faulty area."""
    try:
        return sysctl_parse.parse(declaration.checked_spec("sysctl", sysctl_schema.OPTIONS), None)
    except MlnodeError:
        return []


def _limits(declaration: Declaration, runtime: str) -> dict[str, str]:
    """Amounts of services, as limits_parse.declared() has them: containers inherit these from the daemon that
    starts them."""
    texts_by_name: dict[str, str] = {}
    try:
        spec = declaration.checked_spec("limits", limits_schema.OPTIONS)
        for limit in LIMITS.values():
            texts = limits_parse.declared(spec, SERVICES, limit) if limit.name in spec else {}
            text = texts.get(runtime, texts.get(ALL, ""))
            if text:
                texts_by_name[limit.name] = text
    except MlnodeError:
        return {}
    return texts_by_name


def _containers(declaration: Declaration) -> Checked:
    try:
        spec = declaration.checked_spec(own.KIND, schema.OPTIONS)
        own.parse(spec)
    except MlnodeError:
        return Checked()
    return spec
