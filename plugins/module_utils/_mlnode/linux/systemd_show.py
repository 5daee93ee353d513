# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units as systemd has loaded them, asked once for all of mlnode's units: starting systemctl takes as long as
reading a dozen settings."""

from __future__ import annotations

from itertools import chain
from typing import Callable, Mapping, Sequence, Tuple

from ..host.host import Host
from ..host.places import AGENT_UNITS, TIMED, pattern
from ..host.system import Finished
from ..model.errors import HostError

SYSCTL_UNIT = "systemd-sysctl.service"
MODULES_UNIT = "systemd-modules-load.service"

_UNITS = (*AGENT_UNITS, SYSCTL_UNIT, MODULES_UNIT)
_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "NeedDaemonReload", "DropInPaths", "ExecStart"),
    *("Result", "ExecMainStatus"),
)

#: Always there. It has systemd's default limits for units without own ones (src/core/unit.c:
#: unit_patch_contexts): the properties of the manager itself would take one more start of systemctl.
ROOT_MOUNT = "-.mount"
_LIMITS = ("LimitNOFILE", "LimitMEMLOCK", "LimitSTACK", "LimitCORE", "LimitNPROC")

#: Drop-ins of our declarations, of any kind: places.OWN
_DROP_INS = "/etc/systemd/system/*.service.d/zz-mlnode-*.conf"

_ANSWER = "properties of units"

#: Property → its values; ExecStart= may have several
Properties = Mapping[str, Tuple[str, ...]]


def units(host: Host) -> Mapping[str, Properties]:
    """Unit → its loaded properties: for the agent's units, units that read our drop-ins, have one or are
    started by one, and ROOT_MOUNT. Empty if systemd does not run or does not answer."""
    return host.once(_ANSWER, lambda: units_now(host), of_files=True)


def ask(host: Host) -> None:
    """Start systemctl while the caller reads other data: waiting for it is a fifth of a check."""
    host.ahead(_ANSWER, lambda: _asked(host), of_files=True)


def units_now(host: Host) -> Mapping[str, Properties]:
    """As units(), for a caller that has just written a unit's file."""
    return _asked(host)()


def is_unread(shown: Properties, path: str) -> bool:
    """True if systemd has not read the present content of an existing drop-in. shown: of its unit; empty if
    systemd does not run or cannot be asked, which gives False."""
    # A masked unit with drop-ins always needs a reload, even after one (systemd issue 33672).
    if shown.get("LoadState") != ("loaded",):
        return False
    # Some versions do not detect a new drop-in (systemd issue 31752), but show the ones they have read.
    return shown.get("NeedDaemonReload") == ("yes",) or path not in shown.get("DropInPaths", (path,))


def _asked(host: Host) -> Callable[[], Mapping[str, Properties]]:
    """Start systemctl. The result waits for its answer, and returns nothing if there is none."""
    try:
        if not host.systemd_runs():
            return dict
        own = [path.split("/")[-2][: -len(".d")] for path in host.matching(_DROP_INS)]
        # Showing a unit takes systemd three milliseconds.
        timed = [units for drop_in, units in TIMED.items() if host.matching(pattern(drop_in))]
        asked = [*dict.fromkeys((*_UNITS, *own, *chain(*timed), ROOT_MOUNT))]
        limits = [f"{name}{kind}" for name in _LIMITS for kind in ("", "Soft")]
        properties = [f"--property={name}" for name in (*_PROPERTIES, *limits)]
        end = host.begin(["systemctl", "show", *properties, "--", *asked])
    except HostError:
        return dict
    return lambda: _answer(asked, end)


def _answer(asked: Sequence[str], end: Callable[[], Finished]) -> Mapping[str, Properties]:
    try:
        done = end()
    except HostError:  # as in a captured tree
        return {}
    # In the order of the request: the Id of an alias is another name.
    blocks = done.out.split("\n\n") if done.rc == 0 else []
    return {unit: _fields(block) for unit, block in zip(asked, blocks)}


def _fields(block: str) -> Properties:
    properties: dict[str, tuple[str, ...]] = {}
    for line in block.splitlines():
        name, _equals, value = line.partition("=")
        values = value.split() if name == "DropInPaths" else [value]
        properties[name] = (*properties.get(name, ()), *values)
    return properties
