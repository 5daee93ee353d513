# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards that keep a change of a NIC from disconnecting an administrator or a job."""

from __future__ import annotations

from typing import Sequence

from ...drivers.nic import disruption as nic_disruption
from ...drivers.nic.disruption import Disruption
from ...engine.failed_changes import held_back
from ...host.host import Host
from ...linux import jobs
from ...model.errors import several
from ...model.record import dataclass
from ...model.schema import unless_allowed
from ...model.setting import KnobFile
from ...topology import management
from ..summary import Target
from . import settle
from .parse import NicSetting

#: The most jobs that a message lists
_LISTED = 3


@dataclass(frozen=True)
class Guards:
    """Allowed changes on this node. limit: for NICs off the management path."""

    host: Host
    allow: Sequence[str]
    limit: Disruption

    def disruption(self, setting: NicSetting, target: Target, part: KnobFile) -> Disruption:
        name = part.path.rpartition("/")[2] if setting.group in ("feature", "channels") else setting.field
        return nic_disruption.change_effect(target.driver, setting.group, name)

    def risk(self, setting: NicSetting, target: Target) -> str:
        """Reason why the change may cut off the management path; empty if it cannot."""
        carried = management.carried(self.host, target.name)
        # The effect of an offload on hardware is unknown until a packet is lost.
        return f"{target.name}: {carried}" if carried and setting.group != "tx_queue_len" else ""

    def refusal(self, setting: NicSetting, target: Target, part: KnobFile) -> str:
        """The guard that stops this change; empty if none does."""
        if not part.differs:
            return ""
        effect = self.disruption(setting, target, part)
        risk = self.risk(setting, target)
        # A wrong MTU loses large packets even if the link stays up.
        interrupts = effect is not Disruption.NONE or setting.group == "mtu"
        held = held_back(self.host, part)
        if held:
            return held
        if risk and interrupts and "management" not in self.allow:
            reason = f"{risk}, and this change {_EFFECT[effect]}"
            return unless_allowed("management", reason, self.allow)
        if effect > self.limit:
            reason = f"{target.name}: this change {_EFFECT[effect]} (driver {target.driver})"
            return f"{reason}; to do it all the same: max_disruption: {effect}"
        if effect is Disruption.NONE or "busy" in self.allow:
            return ""
        running = self._running()
        if not running:
            return ""
        names = several(running, _LISTED)
        reason = f"{target.name}: this change {_EFFECT[effect]}, under what runs here: {names}"
        return unless_allowed("busy", reason, self.allow)

    def guarded(self, setting: NicSetting, target: Target, part: KnobFile) -> KnobFile:
        """The part with its disruption, refusal and recovery."""
        resets = self.disruption(setting, target, part) is not Disruption.NONE
        return part._replace(
            unit=settle.unit(target, resets),
            risk=self.risk(setting, target),
            refusal=self.refusal(setting, target, part),
        )

    def _running(self) -> list[str]:
        return self.host.once("jobs", lambda: jobs.running(self.host))


_EFFECT = {
    Disruption.NONE: "may keep large packets from arriving",
    Disruption.LINK_RESET: "resets its link",
    Disruption.DRIVER_RELOAD: "restarts the driver",
}
