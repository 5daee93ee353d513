# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared kernel values, as the namespaces of a job have them."""

from __future__ import annotations

from typing import Iterator

from ...engine.kind import Facts
from ...knobs.containers.schema import RUNTIMES
from ...knobs.sysctl import schema
from ...knobs.sysctl.kind import kind
from ...linux import inside, sysctl_reach
from ...linux.cgroup_names import CONTAINER, Job
from ...linux.sysctl_reach import Reach
from ...model import values
from ...model.errors import MlnodeError, listed
from ...model.record import NamedTuple
from ...model.setting import Setting
from ..model import Check, Verdict
from . import defaults, remedy
from .defaults import Defaults
from .model import Node, Place

NAME = "job_sysctl"


class Own(NamedTuple):
    """A declared setting that a namespace of this type has for itself."""

    setting: Setting
    type: str


def declared(node: Node) -> list[Own]:
    """Declared settings with a value for each namespace; a key counts once."""
    return node.host.once("declared sysctls of namespaces", lambda: _declared(node))


def _declared(node: Node) -> list[Own]:
    owned: dict[str, Own] = {}
    facts = Facts(node.host)
    release = facts.kernel_release()
    for declaration in node.declarations:
        try:
            parsed = kind.parse(declaration.checked_spec(kind.KIND, schema.OPTIONS), facts)
        except MlnodeError as error:
            node.unclear(declaration, kind.KIND, error)
            continue
        for setting in parsed:
            type_ = _type(setting.key, release)
            if setting.want is not None and type_ in inside.TYPES:
                owned.setdefault(setting.key, Own(setting, type_))
    return [*owned.values()]


def _type(key: str, release: str) -> str:
    """Type of the namespace that has its own value of a key; empty if the machine has one value. A reading
    shows the truth about a key of the network whose reach is not known."""
    if key.startswith("net.") and sysctl_reach.reach(key, release) is None:
        return "net"
    return sysctl_reach.namespace(key, release) or ""


def paths(node: Node) -> list[str]:
    """Files of all keys that a job may have for itself."""
    of_containers = node.host.once("declared sysctls of containers", lambda: _of_containers(node))
    return [*dict.fromkeys([*(own.setting.path for own in declared(node)), *of_containers])]


def _of_containers(node: Node) -> list[str]:
    settings = (setting for runtime in RUNTIMES for setting in _defaults(node, runtime).sysctls.values())
    return [setting.path for setting in settings]


def _defaults(node: Node, runtime: str) -> Defaults:
    return defaults.declared(node.declarations, Job(CONTAINER, "", "", runtime), node.unclear)


def _wanted(place: Place, node: Node) -> list[Own]:
    """Declared settings of a place: in its own namespaces, the area containers takes precedence."""
    wants = {own.setting.key: own for own in declared(node)}
    for key, setting in place.defaults.sysctls.items():
        type_ = _type(key, Facts(node.host).kernel_release()) or "net"
        if type_ in place.own:
            wants[key] = Own(setting, type_)
    return [*wants.values()]


def checks(place: Place, node: Node) -> Iterator[Check]:
    owned = _wanted(place, node)
    subject = place.subject(NAME, source="/proc/sys in its namespaces")
    if not owned:
        yield node.undeclared(subject, "no declared key has a value for each namespace")
        return
    good: list[str] = []
    absent: list[str] = []
    for own in owned:
        key, value = own.setting.key, place.network.values[own.setting.path]
        place.known(f"sysctl {key}", value)
        # An interface there with the name of the node's is another one.
        others = "net" in place.own and sysctl_reach.reach(key) is Reach.INTERFACE
        if value.absent is not None or others:
            absent.append(key)
        elif value.text is None:
            yield subject.unknown(f"{key}: {value.problem}")
        elif _fits(own.setting, value.text):
            good.append(key)
        else:
            yield _bad(place, node, own, value.text)
    if good:
        yield subject.made(Verdict.PASS, f"{len(good)} of {len(owned)} declared keys", expected="as declared")
    if absent:
        yield subject.skip(f"its namespaces do not have {listed(absent)}")


def _fits(setting: Setting, text: str) -> bool:
    want = setting.want or ""
    return values.reaches(want, text) if setting.raise_only else values.same(text, want)


def _bad(place: Place, node: Node, own: Own, text: str) -> Check:
    setting = own.setting
    info = kind.info_of(setting, place.network.values[setting.path])
    subject = place.subject(
        NAME, source=setting.path, severity=info.severity, reason=info.reason, reference=info.source,
        expected=f"{'>= ' if setting.raise_only else ''}{setting.want}",
    )  # fmt: skip
    evidence = f"{setting.key} {' '.join(text.split())}"
    return subject.made(Verdict.FAIL, evidence, advice=_advice(place, node, own))


def _advice(place: Place, node: Node, own: Own) -> str:
    if own.type not in place.own:
        return remedy.NODE
    setting = own.setting
    advice = remedy.sysctl(place, setting.key, setting.want or "", own.type)
    here = node.host.once(f"{setting.path} of the node", lambda: node.host.value(setting.path)).text
    if sysctl_reach.reach(setting.key) is Reach.INHERITED and here is not None and _fits(setting, here):
        return f"start it again, as a new namespace copies the node's value; or {advice}"
    return advice
