# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's settings for pods, in its drop-in folder (Kubernetes, "Set Kubelet Parameters Via A
Configuration File", and "Using sysctls in a Kubernetes Cluster").

defaultPodSysctls gives sysctls to all pods without the network of the node. It exists from Kubernetes 1.37,
and a kubelet whose feature gate is off does not start with it. Without it, allowedUnsafeSysctls lets pods ask
for them. The files are merged as JSON (RFC 7386): a list replaces the previous one, a dictionary adds to it.
"""

from __future__ import annotations

import errno
import fnmatch
import re
from typing import Any, Callable, Mapping, Sequence

from ...host.host import Host
from ...linux import kubelets, settings_yaml
from ...model.errors import HostError
from ...model.record import regex
from ...model.setting import BootFile
from .. import own_file
from .parse import SHM_SIZE, SYSCTLS, ULIMITS, Values
from .runtime import FILE, Given, Runtime, argument, arguments, text_of, version, walked

_FOLDER = "/etc/kubernetes/kubelet.conf.d"
_ALLOWED, _DEFAULTS, _GATES = "allowedUnsafeSysctls", "defaultPodSysctls", "featureGates"
_GATE = "DefaultPodSysctls"
_HEAD = ("apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration")
_SINCE = (1, 37)
#: Signs of a name or pattern; a kubelet does not start with others (pkg/kubelet/sysctl/allowlist.go)
_NAME = regex(r"[A-Za-z0-9_./*-]+\Z", re.ASCII)

#: Value of a key that pods may ask for
ALLOWED = "allowed"
_LIMIT = (
    "pods may ask for these in securityContext.sysctls, and get none by themselves: defaults need Kubernetes "
    f"1.37 and the feature gate {_GATE}; see mlnode render pod"
)
_POD = "the kubelet has no default for it"


class Kubelet(Runtime):
    name = program = process = "kubelet"
    unit = "kubelet.service"
    path = f"{_FOLDER}/{FILE}NAME.conf"
    restart = "systemctl restart kubelet"
    lacks: Mapping[str, str] = {
        ULIMITS: f"{_POD}: containers have the limits of their runtime",
        SHM_SIZE: f"{_POD}: set an emptyDir with medium: Memory at /dev/shm; see mlnode render pod",
    }
    bundles: Mapping[str, str] = {
        unit: f"set the values in {path}; see mlnode render kubelet, and mlnode render pod"
        for unit, path in kubelets.UNITS.items()
        if unit != "kubelet.service"
    }

    def unread(self, host: Host, topic: str) -> str:
        folder, where = argument(arguments(host, self.unit), "config-dir")
        if folder.rstrip("/") == _FOLDER:
            return super().unread(host, topic)
        if folder:
            return f"{where} makes the kubelet read {folder} instead of {_FOLDER}: set the values there"
        return (
            f"the kubelet reads no folder of drop-ins: start it with --config-dir={_FOLDER}, such as in "
            "KUBELET_EXTRA_ARGS (Kubernetes 1.30 and later)"
        )

    def flag(self, host: Host, topic: str) -> str:
        lines = arguments(host, self.unit)
        return "" if self.has_defaults(host) else argument(lines, "allowed-unsafe-sysctls")[1]

    def has_defaults(self, host: Host) -> bool:
        """True if it takes default sysctls. Raises HostError."""
        gates: dict[str, Any] = {}
        for path in self.read_files(host):
            if path.startswith(f"{_FOLDER}/{FILE}"):  # mlnode's files set no gates
                continue
            gates.update(_dictionary(_member(host, path, _GATES)))
        flags = argument(arguments(host, self.unit), "feature-gates")[0]
        gates.update(word.partition("=")[::2] for word in flags.split(","))
        return str(gates.get(_GATE, "")).lower() == "true" and version(host, "kubelet") >= _SINCE

    def wanted(self, host: Host, values: Values) -> Values:
        return values if self.has_defaults(host) else dict.fromkeys(values, ALLOWED)

    def limit(self, want: Values) -> str:
        return _LIMIT if ALLOWED in want.values() else ""

    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        own, files = self.file(name), self.read_files(host)
        others = [path for path in files if not path.startswith(f"{_FOLDER}/{FILE}")]
        after = [path for path in others if path.startswith(f"{_FOLDER}/") and path > own]
        before = others[: len(others) - len(after)]
        own = own if own in files else ""
        if self.has_defaults(host):
            return _given(host, _DEFAULTS, (before, own, after), want, _dictionary, _merged)
        return _given(host, _ALLOWED, (before, own, after), want, _allowed, _last)

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        body: list[str] = []
        want = wants.get(SYSCTLS)
        if want and ALLOWED in want.values():
            others = self.given(host, SYSCTLS, name, want).others
            keys = [*others, *(key for key in want if not _covers([*others], key))]
            body = [*_HEAD, f"{_ALLOWED}:", *(f'- "{key}"' for key in keys)]
        elif want:
            body = [*_HEAD, f"{_DEFAULTS}:", *(f'  {key}: "{value}"' for key, value in want.items())]
        return [
            BootFile(self.file(name), own_file.content(name, body, explains="containers.kubelet.sysctls"))
        ]

    def read_files(self, host: Host) -> Sequence[str]:
        main = argument(arguments(host, self.unit), "config")[0]
        folder = self.folder(host)
        files = [main] if main and host.exists(main) else []
        more = walked(host, folder) if folder else []
        return files + [path for path in more if path.endswith(".conf")]

    def folder(self, host: Host) -> str:
        return argument(arguments(host, self.unit), "config-dir")[0].rstrip("/")

    def sources(self, host: Host, topic: str) -> list[str]:
        lines = []
        for path in self.read_files(host) if topic == SYSCTLS else ():
            for key in (_ALLOWED, _DEFAULTS):
                member = _member(host, path, key)
                lines += [f"{path}:{member.line}: {key}"] if member else []
        return lines


#: Values of all files together
_Join = Callable[[Sequence[Values]], Values]


def _given(
    host: Host,
    key: str,
    order: tuple[Sequence[str], str, Sequence[str]],
    want: Values,
    values_of: Callable[[settings_yaml.Member], Values],
    joined: _Join,
) -> Given:
    """State of a key. order: the files before mlnode's, that file, and those after it; that file is empty if
    the kubelet does not read it. Raises HostError."""
    before, own, after = order
    members = {path: _member(host, path, key) for path in before}
    members[own] = _written(host, own, key)
    members.update((path, _member(host, path, key)) for path in after)
    set_in = {path: values_of(member) for path, member in members.items() if member is not None}
    places = {path: f"{path}:{member.line}" for path, member in members.items() if member is not None}
    now = _covered(joined([*set_in.values()]), want)
    theirs = joined([set_in[path] for path in before if path in set_in])
    predicted = joined([theirs, {**theirs, **want}, *(set_in[path] for path in after if path in set_in)])
    later = [path for path in after if path in set_in]
    beaten = later and _covered(predicted, want) != want
    return Given(
        now,
        theirs,
        [*places.values()][-1] if places else "",
        places[later[-1]] if beaten else "",
        set_in.get(own, {}),
    )


def _merged(values: Sequence[Values]) -> Values:
    return {name: value for item in values for name, value in item.items()}


def _last(values: Sequence[Values]) -> Values:
    return values[-1] if values else {}


def _covered(values: Values, want: Values) -> Values:
    """The wanted keys as they are set, by their name or by a pattern."""
    now = {key: values[key] for key in want if key in values}
    return {**dict.fromkeys((key for key in want if _covers([*values], key)), ALLOWED), **now}


def _member(host: Host, path: str, key: str) -> settings_yaml.Member | None:
    """Raises HostError."""
    try:
        member = settings_yaml.find(text_of(host, path), key)
    except ValueError as error:
        raise HostError("understand", path, None, str(error)) from error
    problem = _problem(key, member) if member is not None and key != _GATES else ""
    if member is not None and problem:
        raise HostError("understand", path, None, f"line {member.line}: {key}: {problem}")
    return member


def _problem(key: str, member: settings_yaml.Member) -> str:
    """Why values of a file cannot be repeated in mlnode's; empty if they can."""
    if _has_null(member.value):
        return "expected values, got null, which removes earlier values"
    names = _allowed(member) if key == _ALLOWED else ()
    wrong = [name for name in names if not _NAME.match(name)]
    return f"expected names of sysctls, got {wrong[0]!r}" if wrong else ""


def _has_null(raw: Any) -> bool:
    values = [*raw.values()] if isinstance(raw, Mapping) else [raw]
    return any(value in (None, "null") for value in values)


def _written(host: Host, own: str, key: str) -> settings_yaml.Member | None:
    """The member of mlnode's file; None if it is damaged, as the next run writes it again. Raises
    HostError."""
    try:
        return _member(host, own, key) if own else None
    except HostError as error:
        if error.errno in (None, errno.ENOENT):
            return None
        raise


def _dictionary(member: settings_yaml.Member | None) -> Values:
    given = member.value if member is not None and isinstance(member.value, Mapping) else {}
    return {str(name): str(value) for name, value in given.items()}


def _allowed(member: settings_yaml.Member) -> Values:
    return dict.fromkeys(map(str, member.value), ALLOWED) if isinstance(member.value, list) else {}


def _covers(patterns: Sequence[str], key: str) -> bool:
    """As the kubelet has it: a name, or a prefix with * (pkg/kubelet/sysctl/allowlist.go)."""
    return any(fnmatch.fnmatchcase(key, pattern.replace("/", ".")) for pattern in patterns)
