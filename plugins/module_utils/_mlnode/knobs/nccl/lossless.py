# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effect of a RoCE traffic class on the rails: none, unless the NIC maps its DSCP to a lossless priority. The
source is the rails' declarations of kind qos.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from ...engine import declared
from ...host.host import Host
from ...model.record import NamedTuple
from ...topology import hardware
from ..nics import targets as nic_targets
from ..qos import files as qos_files
from ..qos import parse as qos_parse
from ..qos import schema as qos_schema
from ..qos.parse import QosSetting
from ..summary import Files, grouped

#: Settings that map DSCPs to priorities; other settings of a rule divide the bandwidth
_GROUPS = ("trust", "dscp", "pfc")


class Rail(NamedTuple):
    """A port of an RDMA device that is a rail. netdevs: its interfaces."""

    device: str
    port: int
    link_layer: str
    netdevs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


def lacking(host: Host, rails: Sequence[Rail]) -> str:
    """Reason why no rail has the declared priorities; empty if a rail has them or may have them.

    Also empty if none are declared: then the fabric has to provide them by other means.
    """
    names = {name for rail in rails for name in rail.netdevs}
    settings = [setting for _path, setting in priorities(host) if setting.group in _GROUPS]
    if not settings:
        return ""
    all_files = [
        qos_files.target_files(host, setting, target)
        for setting in settings
        for target in nic_targets.find(host, setting.rule.nics, "pause").targets
        if target.name in names
    ]
    if not all_files:
        return f"no rule of kind {qos_parse.KIND} that makes priorities means a rail ({_listed(host, rails)})"
    if any(_has(device) for device in all_files):
        return ""
    reasons = grouped(dict.fromkeys((device.lacking, device.label) for device in all_files if device.lacking))
    return f"the priorities that give it a meaning are unsupported on every rail: {'; '.join(reasons)}"


def _has(device: Files) -> bool:
    """True if the rail has them, or may: a failed read does not prove that they are missing."""
    return bool(device.parts or device.problems)


def priorities(host: Host) -> Iterator[tuple[str, QosSetting]]:
    """Declared settings of kind qos, each with its declaration."""
    for declaration, setting in declared.settings(host, qos_parse.KIND, qos_schema.OPTIONS, qos_parse.parse):
        yield declaration.path, setting


def _listed(host: Host, rails: Sequence[Rail]) -> str:
    drivers = {nic.name: nic.driver for nic in hardware.topology(host).nics}
    return ", ".join(
        f"{rail} on {name} ({drivers.get(name) or 'no driver'})" for rail in rails for name in rail.netdevs
    )
