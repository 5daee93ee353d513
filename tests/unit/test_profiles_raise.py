# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile raises: each of its sysctls is a least number, or is listed here with the reason why more is not
as good."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import door
from mlnode.knobs.nic import parse as nic_parse
from mlnode.knobs.sysctl import info

_SWITCH = "a switch or a mode: there is no more of it"
_TIME = "a time: longer is another choice, and not a better one"
EXACT = {
    "vm.swappiness": "more swaps more",
    "vm.dirty_background_bytes": "more is a longer flush",
    "vm.dirty_bytes": "more is a longer flush",
    "vm.zone_reclaim_mode": _SWITCH,
    "vm.compaction_proactiveness": "more compacts more",
    "kernel.numa_balancing": _SWITCH,
    "kernel.sched_autogroup_enabled": _SWITCH,
    "kernel.nmi_watchdog": _SWITCH,
    "kernel.timer_migration": _SWITCH,
    "net.ipv4.tcp_window_scaling": _SWITCH,
    "net.ipv4.tcp_tw_reuse": _SWITCH,
    "net.ipv4.tcp_slow_start_after_idle": _SWITCH,
    "net.ipv4.tcp_mtu_probing": _SWITCH,
    "net.ipv4.tcp_fin_timeout": _TIME,
    "net.ipv4.tcp_keepalive_time": _TIME,
    "net.ipv4.tcp_keepalive_intvl": _TIME,
    "net.ipv4.tcp_keepalive_probes": "more notices a dead peer later",
    "net.ipv4.tcp_notsent_lowat": "less is the point: unsent data queued per socket",
    "net.ipv4.ip_local_port_range": "a wider range takes the ports of Ray and of Fabric Manager",
    "net.core.busy_read": "more takes more CPU time",
    "net.core.busy_poll": "more takes more CPU time",
}


@pytest.mark.parametrize("name", ["training", "inference", "fabric"])
def test_each_value_of_a_profile_raises_or_is_exact_for_a_reason(name: str) -> None:
    settings = door.parse("sysctl", profile.combined(name, {}).areas["sysctl"])
    assert settings
    for setting in settings:
        assert setting.raise_only != (setting.key in EXACT), setting.key
        assert setting.raise_only or setting.key not in info.CAPACITIES, setting.key


#: Amounts of NICs that may lower, with the reason why more is not as good
BOUNDS = {
    ("ring", "at_most"): "of a full long ring the last packet is the late one",
    ("channels", "auto"): "more queues than cores only share them",
}


@pytest.mark.parametrize("name", ["training", "inference", "fabric"])
def test_numbers_of_devices_raise_or_are_bounds_for_a_reason(name: str) -> None:
    areas = profile.combined(name, {}).areas
    for setting in door.parse("nic", areas.get("nic", {})):
        assert isinstance(setting, nic_parse.NicSetting)
        if setting.amount is not None:
            bound = (setting.group, setting.amount.word) in BOUNDS
            assert setting.raise_only != bound, setting.key
    for setting in door.parse("storage", areas.get("storage", {})):
        assert setting.raise_only or not setting.key.endswith("read_ahead_kb"), setting.key
