# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that set keys of /proc/sys after sysctl.d: the keys, lines and time of each. Each is read by its
own rules, as far as files show it; networkd.py is separate."""

from __future__ import annotations

import json
import re
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import drop_ins, kubelets, network_manager, sysctl_commands, sysctl_d, systemd_unit, tuned
from .sysctl_d import Line
from .systemd_show import SYSCTL_UNIT

_FORWARD, _FORWARD6 = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"


class Owner(NamedTuple):
    """unit: the starting unit. when: time of the writes, for people. lines: in their order, with slashes in
    the keys; a value of None is unknown. sure: False if further conditions decide whether it sets them.
    booted: a boot starts the unit. late: it sets them by events after its start, in an unknown order. unread:
    why the program's files cannot be read; nothing else is known of it then."""

    unit: str
    when: str
    lines: tuple[Line, ...]
    sure: bool = True
    booted: bool = True
    late: bool = False
    unread: str = ""


def load(host: Host) -> Sequence[Owner]:
    """Owners with keys to set, and unreadable ones, in no order."""
    return host.once("owners of sysctls", lambda: [*_load(host)], of_files=True)


def _load(host: Host) -> Iterator[Owner]:
    for read in _READERS:
        try:
            yield from [*_with_lines(host, read(host))]
        except HostError as error:
            yield Owner("", "", (), unread=str(error))


def _with_lines(host: Host, owners: Iterable[Owner]) -> Iterator[Owner]:
    for owner in owners:
        if owner.lines:
            booted = not owner.unit or owner.unit in systemd_unit.booted(host)
            yield owner._replace(booted=booted)


# -- ufw -----------------------------------------------------------------------------------

_UFW_DEFAULTS, _UFW_CONF = "/etc/default/ufw", "/etc/ufw/ufw.conf"


def _ufw(host: Host) -> Iterator[Owner]:
    """ufw-init runs `sysctl -e -q -p` on the file in IPT_SYSCTL, at its start and each reload, unless
    ENABLED disables it (ufw-init-functions: ufw_start)."""
    given = _shell(drop_ins.text(host, _UFW_DEFAULTS))
    enabled = _shell(drop_ins.text(host, _UFW_CONF)).get("ENABLED", "")
    file = given.get("IPT_SYSCTL", "")
    if enabled in ("yes", "YES") and file.startswith("/") and "/../" not in file:
        lines = _assigned(drop_ins.text(host, file), file)
        yield Owner("ufw.service", "when ufw starts or is reloaded", tuple(lines))


_ASSIGNMENT = regex(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)")


def _shell(text: str) -> Mapping[str, str]:
    """Plain assignments of a file that a shell sources; the last of a name counts."""
    matches = (_ASSIGNMENT.match(line.strip()) for line in text.split("\n"))
    return {match[1]: match[2].strip("\"'") for match in matches if match}


def _assigned(text: str, file: str) -> list[sysctl_d.Line]:
    """The assignments of a file for `sysctl -p`, which knows no exclusions."""
    return [line for line in sysctl_d.parse(text, file) if line.value is not None]


def _number(text: str, begin: str) -> int:
    """Number of the last line that begins so; 0 for none."""
    numbers = [at for at, line in enumerate(text.split("\n"), start=1) if line.strip().startswith(begin)]
    return numbers[-1] if numbers else 0


# -- firewalld -----------------------------------------------------------------------------

_ZONES = tuple(f"{top}/firewalld/{kind}" for kind in ("zones", "policies") for top in ("/etc", "/usr/lib"))
_NAT = regex(r"<masquerade\b|<forward-port\b[^>]*\bto-addr=")


def _firewalld(host: Host) -> Iterator[Owner]:
    """firewalld switches forwarding on for a zone that masquerades (firewall/functions.py:
    enable_ip_forwarding). Only the running service knows the interfaces of a zone."""
    lines = []
    for path in drop_ins.paths(host, _ZONES, (".xml",)):
        for number, text in enumerate(drop_ins.text(host, path).split("\n"), start=1):
            if _NAT.search(text):
                lines.append(Line(_FORWARD, "1", path, number))
    when = "when firewalld starts or is reloaded, if the zone is in use"
    yield Owner("firewalld.service", when, tuple(lines), sure=False)


# -- NetworkManager ------------------------------------------------------------------------

_NO = ("0", "no", "false", "off")


def _network_manager(host: Host) -> Iterator[Owner]:
    when = "when NetworkManager activates the connection"
    for connection in network_manager.connections(host):
        yield Owner(network_manager.UNIT, when, connection.lines, sure=connection.sure, late=True)


# -- tuned ---------------------------------------------------------------------------------

_TUNED_MAIN = "/etc/tuned/tuned-main.conf"
_SYSCTL_CONF = "/etc/sysctl.conf"


def _tuned(host: Host) -> Iterator[Owner]:
    """Sysctl units of the active profile. By default (reapply_sysctl) tuned then sets again the lines of the
    files in /run and /etc, without globs. Last comes /etc/sysctl.conf, even without a link in sysctl.d
    (tuned/plugins/plugin_sysctl.py: _apply_system_sysctl)."""
    lines = [*tuned.sysctls(host)]
    again = _shell(drop_ins.text(host, _TUNED_MAIN).replace(" ", "")).get("reapply_sysctl", "1").lower()
    if lines and again not in _NO:
        config = sysctl_d.load(host)
        files = [line for line in config.lines if line.file.startswith(("/etc/", "/run/"))]
        own = {line.key for line in files if line.value is not None and not line.is_glob}
        lines = [line for line in lines if line.key not in own]
        lines += _assigned(drop_ins.text(host, _SYSCTL_CONF), _SYSCTL_CONF)
    yield Owner("tuned.service", "when tuned starts or its profile is chosen", tuple(lines))


# -- containers ----------------------------------------------------------------------------

#: Unit → its configuration
_DOCKERS = {
    "docker.service": "/etc/docker/daemon.json",
    "snap.docker.dockerd.service": "/var/snap/docker/current/config/daemon.json",
}
_DOCKER_CONFIG = regex(r"--config-file[= ]\"?(/[^\s\"']+)")
_NO_FORWARD = regex(r"--ip-forward=(?:0|f|F|false|FALSE|False)(?=[\s\"']|$)")
_IPV6 = regex(r"--ipv6(?:=(?:1|t|T|true|TRUE|True))?(?=[\s\"']|$)")
_CNI = "/etc/cni/net.d"
_NETAVARK = ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark")


def _docker(host: Host) -> Iterator[Owner]:
    """dockerd switches forwarding on unless an option forbids it; IPv6 forwarding if its bridge has IPv6
    (libnetwork's setup_ip_forwarding.go)."""
    for unit, usual in _DOCKERS.items():
        command, given = kubelets.arguments(host, unit)
        if command is None:
            continue
        words = "\n".join(line.value or "" for line in given)
        named = _DOCKER_CONFIG.search(words)
        options = _json(drop_ins.text(host, named[1] if named else usual))
        if not options.get("ip-forward", True) or _NO_FORWARD.search(words):
            continue
        keys = [_FORWARD]
        if options.get("ipv6") is True or _IPV6.search(words):
            keys += ["net/ipv6/conf/default/forwarding", _FORWARD6]
        yield Owner(unit, "when docker starts", tuple(command._replace(key=key, value="1") for key in keys))


def _networks(host: Host) -> Iterator[Owner]:
    """Plugins that act as a container's gateway (CNI: plugins/main/bridge; podman: netavark)."""
    lines = []
    for path in drop_ins.paths(host, (_CNI,), (".conf", ".conflist")):
        for number, text in enumerate(drop_ins.text(host, path).split("\n"), start=1):
            if regex(r'"is(?:Default)?Gateway"\s*:\s*true').search(text):
                lines.append(Line(_FORWARD, "1", path, number))
    lines += [Line(_FORWARD, "1", path, 1) for path in _NETAVARK if host.exists(path)]
    yield Owner("", "when a container gets its network", tuple(lines), sure=False)


def _json(text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


# -- Kubernetes ----------------------------------------------------------------------------

#: pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables()
_KUBELET = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
#: cmd/kube-proxy/app/conntrack.go: by the number of CPUs and its configuration, which is not on the node
_PROXY = (
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
)


def _kubelet(host: Host) -> Iterator[Owner]:
    """A kubelet that does not protect the kernel's values sets its own; a protecting kubelet exits if they
    differ."""
    for kubelet in kubelets.all_of(host):
        changes = {} if kubelet.protects else _KUBELET
        own = tuple(Line(key, value, *kubelet.where) for key, value in changes.items())
        yield Owner(kubelet.unit, "when the kubelet starts (protectKernelDefaults is false)", own)
        proxy = tuple(Line(key, None, *kubelet.where) for key in _PROXY)
        yield Owner(kubelet.unit, "when kube-proxy starts on the node", proxy, sure=False)


# -- kdump ---------------------------------------------------------------------------------

_KDUMP_UNIT, _KDUMP = "kdump-tools.service", "/etc/default/kdump-tools"


def _kdump(host: Host) -> Iterator[Owner]:
    """kdump-config of Debian and Ubuntu: loading makes an oops a panic (apply_panic_triggers; older versions
    set the value of KDUMP_SYSCTL)."""
    text = drop_ins.text(host, _KDUMP)
    given = _shell(text)
    if not text or given.get("USE_KDUMP", "0") == "0":
        return
    words = given.get("KDUMP_SYSCTL", "kernel.panic_on_oops=1").split()
    number = _number(text, "KDUMP_SYSCTL=") or _number(text, "USE_KDUMP=")
    parsed = _assigned("\n".join(words), _KDUMP)
    lines = [line._replace(number=number) for line in parsed]
    yield Owner(_KDUMP_UNIT, "when kdump-tools loads the crash kernel", tuple(lines))


# -- the administrator ---------------------------------------------------------------------


def _commands(host: Host) -> Iterator[Owner]:
    for commands in sysctl_commands.all_of(host):
        when = f"when {commands.unit or '/etc/rc.local'} runs"
        yield Owner(commands.unit, when, commands.lines, sure=commands.sure, late=not commands.unit)


def decided(
    owner: Owner, key: str, writes: sysctl_d.Writes, present: str | None = None
) -> sysctl_d.Decision | None:
    """The line of a program that decides a key (path form), of lines that set it; None if none moves it.
    present: the key's text before, for comparison with values that begin with `>` or `<`."""

    def relative(name: str, text: str, before: str | None) -> sysctl_d.Effect:
        least = _RELATIVE.match(text)
        if least is None:
            return writes(name, text, before)
        now = present if before is None else before
        if now is not None and now.isdecimal():
            moves = int(least[2]) > int(now) if least[1] == ">" else int(least[2]) < int(now)
            if not moves:
                return sysctl_d.Effect(now)
        return writes(name, least[2], before)

    return sysctl_d.decided(owner.lines, key, relative)


#: tuned/plugins/base.py: _process_assignment_modifiers
_RELATIVE = regex(r"([<>])\s*([0-9]+)\Z", re.ASCII)


_READERS: tuple[Callable[[Host], Iterator[Owner]], ...] = (
    _kdump,
    _ufw,
    _firewalld,
    _tuned,
    _network_manager,
    _networks,
    _docker,
    _kubelet,
    _commands,
)


#: systemd's services are before it whether or not their files are in a captured tree (bootup(7))
_EARLY = {"sysinit.target": {SYSCTL_UNIT}}
_TARGETS = ("sysinit.target", "basic.target")


def comes_after(host: Host, unit: str, other: str) -> bool | None:
    """True if a boot starts a unit once another is up, False for the reverse order, None if neither waits for
    the other. Raises HostError."""
    among = systemd_unit.booted(host) | {unit, other, *_TARGETS}
    before = {target: {*names} for target, names in _EARLY.items()}
    for name in (unit, other):
        for later in systemd_unit.load(host, name).words("Before"):
            before.setdefault(later, set()).add(name)
    if systemd_unit.waits_for(host, unit, other, among, before):
        return True
    return False if systemd_unit.waits_for(host, other, unit, among, before) else None
