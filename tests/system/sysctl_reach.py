# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reach of a key as a kernel shows it, for comparison with the table."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux import sysctl_reach
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux.sysctl_reach import Reach
from ansible_collections.mlnode.tuning.tests.system.sysctl_reach_probe import File, Seen

SCRIPT = pathlib.Path(__file__).with_name("sysctl_reach_probe.py")


def parsed(text: str) -> dict[str, Seen]:
    """The output of the script."""
    return {
        key: Seen(is_changed, *(file and File(*file) for file in files))
        for key, (is_changed, *files) in json.loads(text).items()
    }


def possible(key: str, seen: Seen) -> set[Reach]:
    """Each reach that agrees with the files of a key."""
    if seen.later is None:
        return {Reach.ABSENT, Reach.INTERFACE}
    if seen.before.writable and not seen.later.writable:
        return {Reach.READ_ONLY} if seen.changed.text == seen.later.text else set()
    if not seen.is_changed or seen.fresh is None:
        # Read-only everywhere, or it took no other value
        return {*Reach} - {Reach.ABSENT}
    if key.startswith(_LOOPBACK):
        return {Reach.INTERFACE}
    if seen.later.text != seen.changed.text:
        return {Reach.OWN, Reach.OUTER} if seen.later.text == seen.fresh.text else set()
    return {Reach.GLOBAL} if _follows(seen) else {Reach.INHERITED}


#: The one interface that a new namespace has
_LOOPBACK = (
    *("net/ipv4/conf/lo/", "net/ipv4/neigh/lo/", "net/ipv6/conf/lo/", "net/ipv6/neigh/lo/"),
    "net/mpls/conf/lo/",
)


def _follows(seen: Seen) -> bool:
    return seen.restored is not None and seen.restored.text == seen.before.text


def differences(seen: Mapping[str, Seen], release: str, devconf: str = "0") -> list[str]:
    """One line for each key whose reach is not the one of the table."""
    lines = []
    for key, files in sorted(seen.items()):
        expected = sysctl_reach.reach(key, release, devconf)
        got = possible(key, files)
        if expected is not None and expected not in got:
            names = ", ".join(sorted(kind.name for kind in got)) or "none"
            lines.append(f"{key}: expected {expected.name}, the kernel shows {names}: {files}")
    return lines
