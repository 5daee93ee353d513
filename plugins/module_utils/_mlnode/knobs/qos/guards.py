# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards that keep a change of priorities from stopping unrelated traffic."""

from __future__ import annotations

from typing import Sequence

from ...drivers.dcb import answers
from ...drivers.nic.disruption import Disruption
from ...drivers.roce import registry
from ...engine import declared
from ...host.host import Host
from ...model.schema import unless_allowed
from ...model.setting import KnobFile
from ..nic import parse as nic_parse
from ..nic import schema as nic_schema
from ..nic.guards import Guards
from ..nic.parse import NicSetting
from ..nics import targets as nic_targets
from ..summary import Target
from .parse import QosSetting

NONE, LINK_RESET = Disruption.NONE, Disruption.LINK_RESET

#: Groups that affect only the headers of later packets, and stop none
_QUIET = frozenset({"ecn", "cnp_dscp", "cnp_priority", "rdma_cm_tos", "traffic_class"})


class QosGuards(Guards):
    """Guards of NICs, with the effect of these settings."""

    def disruption(self, setting: NicSetting, target: Target, part: KnobFile) -> Disruption:
        if setting.group == "pause":
            return super().disruption(setting, target, part)
        if setting.group in _QUIET:
            return NONE
        # ice stops its queues for all groups (intel/ice/ice_dcb_lib.c: ice_pf_dcb_cfg), and bnxt reopens the
        # NIC if PFC needs other queues (broadcom/bnxt/bnxt_dcb.c: bnxt_queue_remap).
        return NONE if setting.group in registry.named(target.driver).QUIET else LINK_RESET

    def protected(self, setting: QosSetting, target: Target, part: KnobFile) -> KnobFile:
        """The part as in guarded(), but with guards for these settings before guards for NICs."""
        guarded_part = self.guarded(as_nic(setting), target, part)
        if setting.group in _QUIET:
            guarded_part = guarded_part._replace(risk="")
        if not part.differs:
            return guarded_part
        refusal = several(setting, self.allow) or paused(self.host, setting, target) or guarded_part.refusal
        return guarded_part._replace(refusal=refusal)


def as_nic(setting: QosSetting) -> NicSetting:
    """The setting in the form of the guards of NICs, which read the group only."""
    pause = setting.group == "global_pause"
    return NicSetting(
        setting.kind,
        setting.key,
        setting.path,
        None,
        setting.claim,
        group="pause" if pause else setting.group,
        field="rx" if pause else "",
    )


def several(setting: QosSetting, allow: Sequence[str]) -> str:
    """Reason why PFC for these priorities is refused on any NIC; empty if it is not."""
    if setting.group != "pfc" or len(setting.value) < 2:
        return ""
    reason = (
        f"PFC on priorities {answers.numbers(setting.value)}: each takes buffers from the others, and is one "
        "more that can stand still all over the fabric"
    )
    return unless_allowed("pfc_priorities", reason, allow)


def paused(host: Host, setting: QosSetting, target: Target) -> str:
    """Reason why PFC is refused: global pause is on. Empty if it is off, or the rule switches it off."""
    if setting.group != "pfc" or not setting.value or setting.rule.given.get("global_pause") == "off":
        return ""
    folder = registry.named(target.driver).pause(target.name)
    states = {name: host.value(f"{folder}/{name}") for name in ("rx", "tx")}
    on = [name for name, value in states.items() if value.text == "on" or value.unreadable]
    if not on:
        return ""
    blind = next((value.unreadable for value in states.values() if value.unreadable), "")
    reason = f"{target.name}: global pause {'may be' if blind else 'is'} on ({blind or ', '.join(on)})"
    return f"{reason}, which excludes PFC: declare global_pause: off beside it"


def wants_pause(host: Host) -> dict[str, str]:
    """NIC → nic_ethtool setting that declares global pause, with its declaration."""
    sources: dict[str, str] = {}
    for declaration, setting in declared.settings(host, nic_parse.KIND, nic_schema.OPTIONS, nic_parse.parse):
        if setting.group != "pause" or setting.text != "on":
            continue
        if setting.field == "autoneg":  # Negotiated within the limits of rx and tx
            continue
        for target in nic_targets.find(host, setting.rule.nics, "pause").targets:
            sources.setdefault(target.name, f"{setting.key} (declared by {declaration.name})")
    return sources
