# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared sysctls that new containers of this node do not get."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence, Tuple

from ...engine import declared
from ...engine.kind import Facts
from ...host.host import Host
from ...knobs.sysctl import containers as sysctls
from ...linux.sysctl_d import dotted, slashed
from ...linux.sysctl_reach import Reach
from ...model import values
from ...model.errors import listed
from ...model.record import NamedTuple
from ...model.setting import Severity
from ...topology.model import Topology
from ..model import Check, Nothing
from .model import Looks, topic

SYSCTLS = topic(
    "container_sysctls",
    Severity.MEDIUM,
    "jobs in containers with their own network run with kernel defaults instead of the declared values",
    "docs/knobs/sysctl.md, In containers",
    "declare the area containers, set them for the container (--sysctl) or pod (securityContext.sysctls), or "
    "use the host's network",
    declared.FOLDER,
)

#: Number of names that fit on one line
_NAMED = 4


class Declared(NamedTuple):
    """Number of declared sysctls. lost: keys that do not reach a container. unknown: no reach is known."""

    number: int
    lost: Sequence[str]
    unknown: Sequence[str]


def _declared(host: Host) -> Declared:
    """Raises MlnodeError for a declaration that cannot be read."""
    keys = sorted(
        {
            dotted(slashed(key)) if "@" not in key else key
            for declaration in declared.load_all(host)
            for key, value in _settings(declaration).items()
            if value is not None
        }
    )
    # A key of another folder without a reach belongs to no namespace, or to no kernel.
    kinds = {key: sysctls.reach(host, key) for key in keys}
    lost = [key for key, kind in kinds.items() if kind is Reach.OWN]
    unknown = [key for key, kind in kinds.items() if kind is None and key.startswith("net.")]
    return Declared(len(keys), lost, unknown)


def _settings(declaration: declared.Declaration) -> Mapping[str, object]:
    settings = declaration.kinds.get("sysctl", {}).get("settings")
    return settings if isinstance(settings, Mapping) else {}


def checks(host: Host) -> Iterator[Check]:
    """Raises Nothing, or another MlnodeError if declarations or files of a runtime cannot be read."""
    keys = _declared(host)
    if not keys.number:
        raise Nothing("no sysctl is declared on this node", declared.FOLDER)
    # Only here: preflight compiles the area on the node
    from ...knobs.containers import present
    from ...knobs.containers.share import share

    given, elsewhere = present.sysctls(host, keys.lost), present.elsewhere(host)
    if not given and not elsewhere:
        raise Nothing("no container runtime is installed", "podman, docker, crio, containerd, kubelet")
    if keys.lost and given:
        release, devconf = Facts(host).kernel_release(), sysctls.devconf(host)
        shared = share(declared.load_all(host), release=release, devconf=devconf)
        wants = {key: (shared.sysctls.get(key, ""), key in shared.at_least) for key in keys.lost}
        yield _judged(keys, given, wants)
    if keys.lost and elsewhere:
        yield SYSCTLS.unknown(f"the configuration of {listed(elsewhere, _NAMED)} is not read")
    if not keys.lost and not keys.unknown:
        yield SYSCTLS.judged(True, f"all {keys.number} declared keys reach containers")
    if keys.unknown:
        yield SYSCTLS.unknown(f"not known for this kernel: {listed(keys.unknown, _NAMED)}")


#: Key → its value, empty if only the node can compute it; and whether that is a minimum
_Wants = Mapping[str, Tuple[str, bool]]


def _judged(declared_keys: Declared, given: Mapping[str, Mapping[str, str]], wants: _Wants) -> Check:
    """given: runtime → the lost keys that its defaults set, with their values."""
    count = f"{len(declared_keys.lost)} of {declared_keys.number} declared keys do not reach containers here"
    missing = {name: _missing(now, wants) for name, now in given.items()}
    open_ones = {name: keys for name, keys in missing.items() if keys}
    if not open_ones:
        return SYSCTLS.judged(True, f"{count}, and defaults of {', '.join(given)} set them")
    if not any(given.values()):
        words = f"{count}, and nothing sets them there: {listed(declared_keys.lost, _NAMED)}"
    else:
        words = f"{count}, and {_words(open_ones)}"
    return SYSCTLS.judged(False, words, expected=f"set by {', '.join(given)}")


def _missing(now: Mapping[str, str], wants: _Wants) -> Sequence[str]:
    """The keys that a runtime does not set as declared, with another value that it sets."""
    return [
        f"{key} ({now[key]} there)" if key in now else key
        for key, (want, least) in wants.items()
        if key not in now or not _is_met(want, least, now[key])
    ]


def _is_met(want: str, least: bool, now: str) -> bool:
    return not want or values.tokens(want) == values.tokens(now) or (least and values.reaches(want, now))


def _words(missing: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{name} does not set {listed(keys, _NAMED)}" for name, keys in missing.items())


def _look(host: Host, _topology: Topology) -> Iterator[Check]:
    return checks(host)


LOOKS: Looks = (((SYSCTLS,), _look),)
