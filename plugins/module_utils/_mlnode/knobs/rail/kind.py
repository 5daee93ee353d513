# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind rail: NICs of one node that share networks; each answers only for its own addresses.

Source: Documentation/networking/ip-sysctl.rst. Routes belong to the network manager, see
checks/rdma/replies.py. A new NIC has the kernel's defaults. The agent re-applies the rules at boot, once the
network is up, and when a NIC appears.
"""

from __future__ import annotations

from typing import Sequence

from ...drivers import ethtool
from ...engine.kind import Context, Facts
from ...host.host import Host, Mounts
from ...linux import setters, sysctl_d
from ...model.errors import HostError
from ...model.schema import Checked
from ...model.setting import Boot, Reading, Setting, Value
from ..nics import rules as nic_rules
from ..nics.rules import NicKind
from ..summary import Files, Summary
from . import files, interfaces
from . import parse as rail_parse
from . import schema as own
from .parse import RailSetting, path_of


def _boot(
    setting: RailSetting, context: Context, all_files: Sequence[Files], want: str
) -> tuple[Boot, list[str]]:
    """State after the next boot, and notes on it."""
    boot = context.boot_by_agent(setting, want)
    try:
        names = [device.target.name for device in all_files]
        hint, beats = files.at_boot(context.host, setting, names)
        if beats is not None:
            boot = Boot(Value(text=f"{beats.text} and so overrules it"), beats.where, foreign=True)
    except HostError as error:  # These files only serve a hint
        hint = str(error)
    return boot, [hint] if hint else []


class RailKind(NicKind):
    KIND = rail_parse.KIND
    OPTIONS = own.OPTIONS
    MOUNTS: Mounts = {ethtool.TOP: ethtool.driver}

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return rail_parse.parse(given)

    def read_one(self, setting: RailSetting, context: Context) -> Reading:
        places = interfaces.find(context.host, setting.rule.nics)
        all_files = [
            files.target_files(context.host, setting, want, context.allow) for want in places.targets
        ]
        if not all_files:
            return nic_rules.unread(setting, places.found, context)
        row = Summary(all_files)
        boot, hints = _boot(setting, context, all_files, row.want)
        reading = row.reading(setting.path, boot, context.origins, [*row.notes, places.found.note, *hints])
        return setters.named(context.host, reading)

    def keeps(self, key: str, path: str, origin: str, context: Context) -> str:
        """Refusal to restore a value on the management path, as for a declared one."""
        return files.back_refusal(context.host, path, origin, context.allow)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every line of sysctl.d for the knob, for any interface."""
        group = key.rpartition(".")[2]
        config = sysctl_d.load(host)
        try:
            here = host.names("/proc/sys/net/ipv4/conf")
        except HostError as error:
            return [str(error)]
        lines = {
            line.where: f"{line.where}: {line.text}"
            for name in ("all", "default", *here)
            for line in config.statements(path_of(name, group)[len("/proc/sys/") :])
        }
        return [*lines.values(), *config.unreadable]


kind = RailKind()
