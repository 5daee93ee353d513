# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units as systemd has loaded them, asked once for all that mlnode has to do with: to start systemctl takes
as long as to look at a dozen settings."""

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

#: Always there. It has the limits that systemd gives to units which do not say otherwise (src/core/unit.c:
#: unit_patch_contexts): the properties of the manager itself would take one more start of systemctl.
ROOT_MOUNT = "-.mount"
_LIMITS = ("LimitNOFILE", "LimitMEMLOCK", "LimitSTACK", "LimitCORE", "LimitNPROC")

#: Those of our declarations, whatever their kind: places.OWN
_DROP_INS = "/etc/systemd/system/*.service.d/zz-mlnode-*.conf"

_ANSWER = "what systemd says of units"

#: Property → its values, of which ExecStart= may have several
Properties = Mapping[str, Tuple[str, ...]]


def units(host: Host) -> Mapping[str, Properties]:
    """Unit → what systemd has loaded: the agent's, those that read our drop-ins, have one or are started by
    one, and ROOT_MOUNT. Nothing where it does not run or does not answer."""
    return host.once(_ANSWER, lambda: units_now(host), of_files=True)


def ask(host: Host) -> None:
    """Have systemctl look while the caller looks at something else: a fifth of a check is the wait for it."""
    host.ahead(_ANSWER, lambda: _asked(host), of_files=True)


def units_now(host: Host) -> Mapping[str, Properties]:
    """As units(), for who has just written a file of one."""
    return _asked(host)()


def is_unread(shown: Properties, path: str) -> bool:
    """True if systemd has not read the present content of a drop-in that is there. shown: of its unit; empty,
    and then it is False, where systemd does not run or cannot be asked."""
    # What is masked needs a reload whenever it has drop-ins, also after one (systemd issue 33672).
    if shown.get("LoadState") != ("loaded",):
        return False
    # Some versions do not see that a drop-in is new (systemd issue 31752), but show which they have read.
    return shown.get("NeedDaemonReload") == ("yes",) or path not in shown.get("DropInPaths", (path,))


def _asked(host: Host) -> Callable[[], Mapping[str, Properties]]:
    """Start systemctl. The result waits for its answer, and has nothing where there is none."""
    try:
        if not host.systemd_runs():
            return dict
        own = [path.split("/")[-2][: -len(".d")] for path in host.matching(_DROP_INS)]
        # It takes systemd three milliseconds to show one.
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
    # In the order in which they are asked for: the Id of an alias is another name.
    blocks = done.out.split("\n\n") if done.rc == 0 else []
    return {unit: _fields(block) for unit, block in zip(asked, blocks)}


def _fields(block: str) -> Properties:
    properties: dict[str, tuple[str, ...]] = {}
    for line in block.splitlines():
        name, _equals, value = line.partition("=")
        values = value.split() if name == "DropInPaths" else [value]
        properties[name] = (*properties.get(name, ()), *values)
    return properties
