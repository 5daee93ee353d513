# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the kernel without which an interface gets no routable IPv6 address, and the files that set them.

Documentation/networking/ip-sysctl.rst; net/ipv6/addrconf.c: ipv6_accept_ra, addrconf_addr_gen.
"""

from __future__ import annotations

from typing import Iterator, Mapping

from ...host.host import Host
from ...linux import kernel_line, networkd, setters, sysctl_d
from ...model import values
from ...model.cause import DIFFERS, NOTE, SET, Cause, placed, sentence
from ...model.errors import HostError, printable
from ...model.record import NamedTuple
from ...model.setting import Layer

_CONF = "/proc/sys/net/ipv6/conf"
_KEYS = ("disable_ipv6", "addr_gen_mode", "accept_ra", "forwarding", "autoconf")
_IPV4, _CMDLINE = "/proc/sys/net/ipv4", "/proc/cmdline"


class Lack(NamedTuple):
    """causes: values, each followed by the line that sets it, if one is known. remedy: what to set; empty if
    that is unknown."""

    causes: tuple[Cause, ...]
    remedy: str = ""

    @property
    def words(self) -> str:
        return sentence(self.causes)


class _Reason(NamedTuple):
    """key: empty if the text has the place. right: what to set instead."""

    key: str
    text: str
    right: str


def explain(host: Host, name: str) -> Lack | None:
    """Why an interface gets no IPv6 address from a router; None if no value prevents it. An unreadable value
    is a cause as well. Raises nothing."""
    try:
        if not host.exists(f"{_CONF}/{name}/disable_ipv6"):
            return _absent(host, name)
        reasons = [*_reasons(host, name, _read(host, name))]
        causes = [cause for reason in reasons for cause in _causes(host, name, reason)]
    except HostError as error:
        return Lack((Cause(Layer.RUNTIME, NOTE, text=f"why it has no IPv6 address is unknown: {error}"),))
    remedy = " and ".join(reason.right for reason in reasons)
    return Lack(tuple(causes), f"for an IPv6 address set {remedy}") if causes else None


def _read(host: Host, name: str) -> dict[str, int | None]:
    """None for a value that this kernel does not have. Raises HostError."""
    numbers = {}
    for key in _KEYS:
        path = f"{_CONF}/{name}/{key}"
        content = host.content(path)
        text = (content or b"").decode("utf-8", "replace").strip()
        numbers[key] = values.number(text)
        if content is not None and numbers[key] is None:
            raise HostError("understand", path, None, f"expected a number, got {printable(text[:40])!r}")
    return numbers


def _reasons(host: Host, name: str, now: Mapping[str, int | None]) -> Iterator[_Reason]:
    """Raises HostError."""

    def reason(key: str, meaning: str, right: int, other: str = "") -> _Reason:
        text = f"{_dotted(name, key)} is {now[key]}: {meaning}"
        return _Reason(key, text, f"{_dotted(name, other or key)} = {right}")

    if now["disable_ipv6"]:
        yield reason("disable_ipv6", "IPv6 is off on this interface", 0)
    if now["addr_gen_mode"] == 1:  # in6_addr_gen_mode: IN6_ADDR_GEN_MODE_NONE
        yield reason("addr_gen_mode", "without a link-local address no router is asked, only awaited", 0)
    owner = networkd.advertisements(host, name)
    if owner is not None:
        if not isinstance(owner, bool):
            text = f"{owner.where} has {owner.text}: systemd-networkd ignores router advertisements"
            yield _Reason("", text, f"IPv6AcceptRA=yes in {owner.file}")
        return
    if now["accept_ra"] == 0:
        yield reason("accept_ra", "the kernel ignores router advertisements (NetworkManager may not)", 1)
    elif now["accept_ra"] == 1 and now["forwarding"]:
        yield reason("forwarding", "a router ignores router advertisements if accept_ra is 1", 2, "accept_ra")
    if now["autoconf"] == 0:
        yield reason("autoconf", "the kernel makes no address from an advertised prefix", 1)


def _causes(host: Host, name: str, reason: _Reason) -> Iterator[Cause]:
    """Raises HostError."""
    if not reason.key:
        yield placed(Layer.RUNTIME, SET, reason.text)
        return
    yield Cause(Layer.RUNTIME, DIFFERS, text=reason.text)
    path = f"{_CONF}/{name}/{reason.key}"
    line = setters.line(host, path, host.text(path).strip())
    yield from [line] if line is not None else []


def _absent(host: Host, name: str) -> Lack | None:
    """None for a captured tree without these files. Raises HostError."""
    if host.exists(f"{_CONF}/all"):
        # net/ipv6/addrconf.c: addrconf_notify, NETDEV_CHANGEMTU
        words = f"{name} has no IPv6: the interface is gone, or its MTU is below 1280"
        return Lack((Cause(Layer.RUNTIME, DIFFERS, text=words),))
    if not host.exists(_IPV4):
        return None
    line = kernel_line.parse(host.text(_CMDLINE), kernel_line.RUNNING)
    given = [word.text for word in line.words if word.key == "ipv6.disable" and word.value != "0"]
    by = f", by {printable(given[-1])} on {kernel_line.RUNNING}" if given else ""
    cause = Cause(Layer.RUNTIME, DIFFERS, text=f"the kernel has no IPv6{by}")
    return Lack((cause,), f"for an IPv6 address remove {printable(given[-1])}" if given else "")


def _dotted(name: str, key: str) -> str:
    return sysctl_d.dotted(f"net/ipv6/conf/{name}/{key}")
