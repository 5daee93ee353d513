# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""netplan sets nothing itself: it makes files for systemd-networkd and NetworkManager, below /run and at
every boot (netplan(5)). Those are read in place of its own, which are YAML."""

from __future__ import annotations

import re

from ..host import Host
from .nic_owner import Found, source

OWNER = "netplan"

_FOLDERS = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan", "/lib/netplan")

#: Folder → how the files that netplan makes there begin
_MADE = {
    "/run/systemd/network": "10-netplan-",
    "/run/NetworkManager/system-connections": "netplan-",
}

#: The keys of netplan-yaml that become values of ours; in a comment they do no harm but a needless problem
_KEY = re.compile(
    r"\b(mtu|(?:receive|transmit)-checksum-offload|tcp6?-segmentation-offload|"
    r"generic-(?:segmentation|receive)-offload|large-receive-offload|ethtool\.[\w-]+)[\"']?\s*:"
)


def made(path: str) -> bool:
    folder, _slash, name = path.rpartition("/")
    return folder in _MADE and name.startswith(_MADE[folder])


def owner(path: str, otherwise: str) -> str:
    return OWNER if made(path) else otherwise


def origin(path: str) -> str:
    """What to add to the place of a word, as it would be useless to change it there."""
    return " (made from /etc/netplan)" if made(path) else ""


def read(host: Host, found: Found) -> None:
    """A problem for each file of netplan's that sets something, where netplan has made nothing of it: in an
    image, or before it has run."""
    for folder, begin in _MADE.items():
        if any(name.startswith(begin) for name in found.names(host, folder)):
            return
    for folder in _FOLDERS:
        if folder == "/lib/netplan" and host.is_link("/lib"):
            continue
        for name in found.names(host, folder):
            if name.endswith(".yaml"):
                _doubt(found, f"{folder}/{name}", found.text(host, f"{folder}/{name}"))


def _doubt(found: Found, path: str, text: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        key = _KEY.search(line)
        if key and not line.lstrip().startswith("#"):
            found.doubt(
                f"{source(path, number)} says {key[1]}, and netplan has made nothing of it yet, so that "
                "nobody can tell what for: run netplan generate, or boot"
            )
            return
