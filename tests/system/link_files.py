# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of systemd's .link files, and what mlnode may say of each beside the file that udev takes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

Files = dict[str, str]

SCRIPT = pathlib.Path(__file__).with_name("link_files_probe.py")

#: Matches of systemd.link(5) for an interface {nic}, and others
MATCHES = (
    "OriginalName=*", "OriginalName={nic}", "OriginalName=!{nic}", "OriginalName=lo {other}",
    "OriginalName=lo\nOriginalName={nic}", "OriginalName=lo\nOriginalName=\nOriginalName={nic}",
    "OriginalName=e*", "OriginalName=!e* lo", "OriginalName={nic}\nDriver=netdevsim", "Driver=igb",
    "Driver=!igb", "Driver=i?b netdevsim", "MACAddress={mac}", "MACAddress={dashes} 00:00:00:00:00:01",
    "MACAddress=!{mac}", "PermanentMACAddress={mac}", "PermanentMACAddress=00:00:00:00:00:07",
    "Path=pci-0000:01:00.0", "Path=pci-*", "Path=!pci-*", "Type=ether", "Type=wlan", "Type=!wlan",
    "Type=ether\nDriver=igb", "Host=lab", "Host=!lab", "KernelCommandLine=root", "KernelCommandLine=!root",
    "Architecture=x86-64", "Virtualization=yes", "Kind=veth", "Property=ID_NET_DRIVER=igb", "", "# nothing",
    "OriginalName=\\\n{nic}", "originalname=*",
)  # fmt: skip

_ALL = "[Match]\nOriginalName=*\n[Link]\nTransmitQueueLength=77\n"
_FIRST, _SECOND = "05-a.link", "06-b.link"


def sets(nic: str, other: str, mac: str) -> list[Files]:
    """Each first file stands before one for all, so that udev takes either of them."""
    files = []
    for match in MATCHES:
        text = match.format(nic=nic, other=other, mac=mac, dashes=mac.replace(":", "-"))
        files.append({_FIRST: f"[Match]\n{text}\n[Link]\nTransmitQueueLength=66\n", _SECOND: _ALL})
    return [
        *files,
        {_FIRST: "", _SECOND: _ALL},
        {_FIRST: _ALL, f"{_FIRST}.d/x.conf": "[Match]\nOriginalName=\nOriginalName=lo\n", _SECOND: _ALL},
        {_FIRST: _ALL.replace("[Match]", "[match]"), _SECOND: _ALL},
    ]


def mistakes(given: Sequence[Files], printed: str) -> list[str]:
    """What the probe has printed against udev: a file that is taken and not named, or named for sure and not
    taken."""
    wrong = []
    for files, answers in zip(given, json.loads(printed), strict=True):
        for name, (taken, lines) in answers.items():
            sure = {source.partition(":")[0] for source, is_sure in lines.items() if is_sure}
            named = {source.partition(":")[0] for source in lines}
            if sure - {taken} or (taken.startswith("/run/") and taken not in named):
                wrong.append(f"{files} on {name}: udev takes {taken}, and {lines} is named")
    return wrong


def resolved(printed: str) -> int:
    """How many answers are sure."""
    return sum(all(lines.values()) for answers in json.loads(printed) for _taken, lines in answers.values())
