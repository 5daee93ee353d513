# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared defaults as this node can have them: `auto` from its other areas, and guards."""

from __future__ import annotations

import re
from typing import Collection, Iterable, Mapping, Sequence

from ...engine import declared
from ...engine.kind import Context
from ...linux import sysctl_d, sysctl_values
from ...linux.sysctl_reach import NEWEST
from ...model import schema, values
from ...model.errors import DeclarationError
from ...model.record import NamedTuple, regex
from ...model.schema import Checked
from ...model.setting import Setting
from ..limits import auto as limits_auto
from ..limits import guards as limits_guards
from ..limits import parse as limits_parse
from ..limits.parse import LIMITS, UNLIMITED
from ..sysctl import containers, of_module
from ..sysctl import parse as sysctl_parse
from . import parse as own
from .parse import SHM_SIZE, SIZE, ULIMITS, Values
from .runtime import amount_of, numbers_of
from .schema import AUTO
from .share import Share, settings_of, share


class Resolved(NamedTuple):
    """late: limits that depend on a device which is not there now. least: limits that are a minimum. invalid:
    why no container would start. refusal: why some would not, and how to allow it."""

    values: Values
    notes: Sequence[str] = ()
    late: Sequence[str] = ()
    least: Collection[str] = ()
    invalid: str = ""
    refusal: str = ""


def resolved(setting: Setting, context: Context, spec: Checked, runtime: str) -> Resolved:
    """Values of a setting. spec: the area of its declaration. Raises HostError."""
    topic = own.taken_apart(setting.key)[1]
    if topic == SHM_SIZE:
        return Resolved({SIZE: setting.claim})
    if setting.claim != AUTO and topic == ULIMITS:
        return Resolved(own.ulimits(spec))
    if setting.claim != AUTO:
        asked = _sysctls(own.sysctls(spec), context, "")
        equals = [key for key, value in asked.values.items() if runtime == "podman" and "=" in value]
        if equals:
            return asked._replace(invalid=f"{', '.join(equals)}: podman takes no = in a value: remove it")
        return asked._replace(refusal=_closed(asked.values, context, spec, runtime)[1])
    host, live = context.host, context.runtime
    release = context.facts.kernel_release() if live else NEWEST
    devconf = containers.devconf(host) if live else "0"
    shared = share(declared.expected(host), runtime, release, devconf)
    if topic == ULIMITS:
        return _shared_ulimits(shared, context)
    asked = _shared_sysctls(shared, context)
    keys, words = _closed(asked.values, context, spec, runtime)
    left = {key: value for key, value in asked.values.items() if key not in keys}
    return asked._replace(values=left, notes=[*asked.notes, *([f"left out: {words}"] if words else [])])


#: First version whose user namespaces are known to have all files but _NEVER. Up to 6.1, net/core/
#: sysctl_net_core.c and others do not "export any sysctls to unprivileged users"; only net.ipv4 is open.
_OPEN_SINCE = (6, 11)
#: net/xfrm/xfrm_sysctl.c: xfrm_sysctl_init(), net/ipv6/route.c: ip6_route_net_init()
_NEVER = ("net.core.xfrm_", "net.ipv6.route.")
_ALWAYS = regex(r"net\.ipv4\.[a-z0-9_]+|net\.ipv[46]\.conf\..+", re.ASCII)
#: Runtimes that may start a container with its own user namespace, and set its sysctls by themselves
_WITH_USERS = ("podman", "crio", "kubelet")


def is_open(key: str, release: str) -> bool:
    """True if a container with its own user namespace is known to have the key. release: of the kernel."""
    if key.startswith(_NEVER):
        return False
    version = values.kernel_version(release)
    return bool(_ALWAYS.fullmatch(key)) or (version is not None and version >= _OPEN_SINCE)


def _closed(keys: Iterable[str], context: Context, spec: Checked, runtime: str) -> tuple[list[str], str]:
    """The keys that a container with its own user namespace may not have, and the guard's words about them;
    empty if it has all, if the guard is off, and on a build host, whose kernel says nothing."""
    if runtime not in _WITH_USERS or not context.runtime:
        return [], ""
    closed = [key for key in keys if not is_open(key, context.facts.kernel_release())]
    reason = (
        f"with this kernel, a container with its own user namespace, such as a rootless one, may have no "
        f"{', '.join(closed)}, and does not start then"
    )
    words = schema.unless_allowed("user_namespaces", reason if closed else "", spec.get("allow", ()))
    return (closed, words) if words else ([], "")


def _sysctls(declared_values: Mapping[str, str], context: Context, note: str) -> Resolved:
    """note: text for keys that this kernel lacks, or whose value it refuses; empty if they are an error."""
    lacking = [key for key in declared_values if context.runtime and _lacks(context, key)]
    refused = {
        key: problem
        for key, value in declared_values.items()
        for problem in ([] if key in lacking else [_problem(context, key, value)])
        if problem
    }
    left = {key: value for key, value in declared_values.items() if key not in lacking and key not in refused}
    refused.update(_ports(left))
    words = [f"a container of this kernel has no {', '.join(lacking)}"] if lacking else []
    words += [f"{key}: {problem}" for key, problem in refused.items()]
    if not words:
        return Resolved(declared_values)
    if not note:
        return Resolved(declared_values, invalid=f"{'; '.join(words)}, and no container would start with it")
    kept = {key: value for key, value in declared_values.items() if key not in lacking and key not in refused}
    return Resolved(kept, [f"{text}, {note}" for text in words])


def _problem(context: Context, key: str, value: str) -> str:
    """Why the kernel of a container does not take a value; empty if it does, or if that is not known. The
    node's file has the same form."""
    like = context.host.value(sysctl_parse.path_of(key)).text if context.runtime else None
    release = context.facts.kernel_release() if context.runtime else ""
    try:
        sysctl_values.require(key, value, like, release)
    except DeclarationError as error:
        return str(error)
    return _algorithm(context, value) if key == _CONGESTION and context.runtime else ""


_CONGESTION = "net.ipv4.tcp_congestion_control"
_ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


def _algorithm(context: Context, name: str) -> str:
    """Why a container cannot have an algorithm. Only the node's network namespace takes a restricted one
    (net/ipv4/tcp_cong.c: tcp_set_default_congestion_control()); the node's own one is not restricted."""
    offered, _now, _at_boot, problem = of_module.offer(_CONGESTION, name, context)
    allowed = values.tokens(context.host.value(_ALLOWED).text or "")
    if problem or name not in offered or not allowed or name in allowed:
        return problem
    settings = [setting for item in declared.expected(context.host) for setting in settings_of(item)]
    if any((setting.key, setting.want) == (_CONGESTION, name) for setting in settings):
        return ""
    return f"{name} is not in {_ALLOWED} ({', '.join(allowed)}), which is all that a container may have"


_PORTS, _FIRST = "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"
#: Their values in a new namespace (net/ipv4/af_inet.c: inet_init_net())
_FIRST_PORT, _FIRST_OPEN = 32768, 1024


def _ports(given: Mapping[str, str]) -> dict[str, str]:
    """Key → why a new namespace refuses its value. Each of the two keys must fit the other one at each write
    (net/ipv4/sysctl_net_ipv4.c: ipv4_local_port_range(), ipv4_privileged_ports()), and runc writes them in
    any order (libcontainer/standard_init_linux.go)."""
    problems: dict[str, str] = {}
    first = values.integers(given.get(_FIRST, "")) or [0]
    if first[0] > _FIRST_PORT:
        problems[_FIRST] = f"must be {_FIRST_PORT} or less in a container, the first of its {_PORTS}"
    least = max([_FIRST_OPEN, *([] if problems else first)])
    ports = values.integers(given.get(_PORTS, ""))
    if ports and ports[0] < least:
        problems[_PORTS] = f"must begin with {least} or more in a container, because of {_FIRST}"
    return problems


def _lacks(context: Context, key: str) -> bool:
    return not context.host.exists(sysctl_parse.path_of(key)) or bool(
        own.shared(key, context.facts.kernel_release())
    )


def _shared_sysctls(shared: Share, context: Context) -> Resolved:
    texts = {
        key: _raised(key, text, context) if key in shared.at_least else text
        for key, text in shared.sysctls.items()
    }
    resolved_sysctls = _sysctls(texts, context, "which is left out")
    notes = [*resolved_sysctls.notes]
    if shared.unknown:
        notes.append(f"not known whether a container has its own {', '.join(shared.unknown)}: left out")
    if shared.refused:
        notes.append(f"no runtime sets {', '.join(shared.refused)} in a container: left out")
    if shared.open:
        notes.append(f"computed for the node alone: {', '.join(shared.open)}")
    return resolved_sysctls._replace(notes=notes)


def _raised(key: str, least: str, context: Context) -> str:
    """The node's value if it is greater, because a minimum lowers nothing."""
    now = context.host.value(sysctl_parse.path_of(key)).text if context.runtime else None
    return " ".join(values.tokens(now)) if now is not None and values.reaches(least, now) else least


def _shared_ulimits(shared: Share, context: Context) -> Resolved:
    given = {**shared.ulimits}
    late = sorted(shared.automatic)
    if late and limits_auto.has_devices(context):
        given.update(dict.fromkeys(late, UNLIMITED))
        late = []
    notes = [f"{', '.join(late)}: {limits_auto.LEFT}"] if late else []
    limits = {name: given[name] for name in LIMITS if name in given}
    return Resolved(limits, notes, late, {*limits} - shared.exact)


def raised(asked: Resolved, others: Values, usual: Values) -> Resolved:
    """The declared limits, with higher limits that a container has without them. others: limits of other
    files. usual: limits without any file; those that suffice are left alone."""
    limits: dict[str, str] = {}
    notes = [*asked.notes]
    for name, text in asked.values.items():
        base = others.get(name, usual.get(name))
        most = _greater(text, base) if base and name in asked.least else text
        if most == base and name not in others:
            notes.append(f"{name} is at least {base} without a default")
            continue
        limits[name] = most
    return asked._replace(values=limits, notes=notes)


def _greater(text: str, base: str) -> str:
    """The greater soft limit and the greater hard limit of two amounts."""
    try:
        pairs = [*zip(numbers_of(text), numbers_of(base))]
    except ValueError:  # a form of a newer version
        return text
    return amount_of(":".join(str(-1 if -1 in pair else max(pair)) for pair in pairs))


def refusal(topic: str, wanted: Values, context: Context) -> str:
    """Why no container could start with these limits; empty if it could. Raises HostError."""
    if topic != ULIMITS:
        return ""
    guards = limits_guards.look(context.host, context.runtime, sysctl_d.load(context.host))
    for name, text in wanted.items():
        limit = LIMITS[name]
        amount = limits_parse.amount(limit, text)
        if name == "nofile" and not limits_parse.is_within(amount.hard, guards.files):
            return (
                f"fs.nr_open is {guards.files} ({guards.source}), and no container would start with nofile "
                f"{amount}: declare fs.nr_open of at least {amount.hard} first"
            )
        ceiling = guards.ceiling(limit, amount)
        if ceiling:
            return f"no container would start with {name} {amount}, as {ceiling}"
    return ""
