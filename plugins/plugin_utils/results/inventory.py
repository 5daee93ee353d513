# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of an inventory with their groups, as Ansible itself reads it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from ...module_utils._mlnode.model.errors import MlnodeError

#: A line of `ansible-inventory --graph`: bars for the depth, then @group: or a host. The command loads no
#: variables, so it decrypts none.
_LINE = re.compile(r"(?:@(?P<top>all):|(?P<bars>(?:  \|)+)--(?:@(?P<group>.*):|(?P<host>.+)))")

#: Groups that Ansible makes by itself; the fleet report leaves them out
_OWN = ("all", "ungrouped")


def hosts(sources: Sequence[str], groups: Sequence[str]) -> dict[str, list[str]]:
    """Host → its groups, for the hosts in one of these groups, or for all hosts. Without sources, Ansible
    uses its configuration. Raises MlnodeError."""
    return parsed(_graph(sources), groups)


def parsed(graph: str, groups: Sequence[str]) -> dict[str, list[str]]:
    """Read the output of ansible-inventory --graph. Raises MlnodeError."""
    groups_of: dict[str, set[str]] = {}
    known = set()
    above: list[str] = []
    for line in graph.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            raise MlnodeError(f"ansible-inventory --graph has the line {line!a}")
        group = match["top"] or match["group"]
        del above[len(match["bars"] or "") // 3 :]
        if group is not None:
            above.append(group)
            known.add(group)
        else:
            groups_of.setdefault(match["host"], set()).update(above)
    for group in groups:
        if group not in known:
            raise MlnodeError(f"the inventory has no group {group}")
    wanted = {*groups} or {"all"}
    chosen = {name: sorted(its - {*_OWN}) for name, its in groups_of.items() if its & wanted}
    if not chosen:
        raise MlnodeError("the inventory has no host: name another one with --inventory")
    return chosen


def _graph(sources: Sequence[str]) -> str:
    command = ["ansible-inventory", "--graph", *(f"--inventory={source}" for source in sources)]
    # An inventory that cannot be read would otherwise be an empty one.
    environment = {
        **os.environ,
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "true",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MlnodeError(f"cannot run ansible-inventory: {error.strerror}") from error
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise MlnodeError(f"the inventory cannot be read: {words}")
    return done.stdout
