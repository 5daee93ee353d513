# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that tune declared settings, and the settings that each of them changes."""

from __future__ import annotations

from typing import Mapping

from ...model.record import NamedTuple
from ...model.setting import Severity


class Switch(NamedTuple):
    """The tuning part of a service that a node needs for other work, and how to switch it off.

    files: INI files; the last one wins. other: the work that a stop would end.
    """

    files: tuple[str, ...]
    section: str
    option: str
    other: str

    @property
    def words(self) -> str:
        return f"{self.option} = false in section {self.section} of {self.files[-1]}"


class Service(NamedTuple):
    """A service.

    moves: settings that it may change, if no profile lists them; for areas with rules, the area. switch: None
    if the service may be stopped.
    """

    unit: str
    severity: Severity
    reason: str
    source: str
    moves: tuple[str, ...] = ()
    switch: Switch | None = None


TUNED = "tuned"

_HIGH, _MEDIUM, _LOW = Severity.HIGH, Severity.MEDIUM, Severity.LOW
_CLOCK = ("cpu.governor",)
_POLICY = ("cpu.governor", "cpu.energy_performance_preference", "cpu.boost")

#: Name → service
SERVICES: Mapping[str, Service] = {
    TUNED: Service(
        "tuned.service",
        _MEDIUM,
        "sets the values of its profile at boot and at every change of profile",
        "tuned(8)",
    ),
    "tuned-ppd": Service(
        "tuned-ppd.service",
        _MEDIUM,
        "lets any program on D-Bus change the profile of tuned",
        "tuned-ppd(8)",
        _POLICY,
    ),
    "power-profiles-daemon": Service(
        "power-profiles-daemon.service",
        _MEDIUM,
        "lets any program on D-Bus change governor and energy preference of all CPUs",
        "powerprofilesctl(1)",
        _POLICY,
    ),
    "auto-cpufreq": Service(
        "auto-cpufreq.service",
        _MEDIUM,
        "changes governor and boost with the load",
        "auto-cpufreq(1)",
        _POLICY,
    ),
    "tlp": Service(
        "tlp.service",
        _MEDIUM,
        "sets governor, energy preference and power saving of PCIe for laptops",
        "tlp(8)",
        (*_POLICY, "cpu.energy_perf_bias", "cpu.min_perf_pct"),
    ),
    "cpupower": Service("cpupower.service", _LOW, "sets a governor at boot", "cpupower(1)", _CLOCK),
    "cpufrequtils": Service(
        "cpufrequtils.service", _LOW, "sets a governor at boot", "cpufreq-set(1)", _CLOCK
    ),
    "ondemand": Service(
        "ondemand.service",
        _MEDIUM,
        "sets a governor that saves power, after boot",
        "Ubuntu's ondemand",
        _CLOCK,
    ),
    "laptop-mode": Service(
        "laptop-mode.service",
        _MEDIUM,
        "sets governors and how dirty pages are written, to let disks sleep",
        "laptop_mode(8)",
        (*_CLOCK, "vm.swappiness", "vm.dirty_ratio", "vm.dirty_background_ratio", "vm.dirty_bytes"),
    ),
    "thermald": Service(
        "thermald.service",
        _LOW,
        "lowers clocks before the CPU itself does; on servers their management does that",
        "thermald(8)",
        ("cpu.boost",),
    ),
    "numad": Service(
        "numad.service",
        _MEDIUM,
        "moves processes and their memory between NUMA nodes, against the binding of a job",
        "numad(8)",
        ("thp.khugepaged.scan_sleep_millisecs",),
    ),
    "ksmtuned": Service(
        "ksmtuned.service",
        _LOW,
        "has the kernel compare pages of guests, which takes a core and memory bandwidth",
        "admin-guide/mm/ksm.rst",
    ),
    "google-guest-agent": Service(
        "google-guest-agent.service",
        _MEDIUM,
        "runs google_set_multiqueue at each start, which sets channels, rings and interrupts of NICs",
        "GoogleCloudPlatform/guest-agent (README, InstanceSetup), guest-configs (google_set_multiqueue)",
        ("irq", "nic"),
        Switch(
            ("/etc/default/instance_configs.cfg.distro", "/etc/default/instance_configs.cfg"),
            "InstanceSetup",
            "set_multiqueue",
            "accounts and SSH keys",
        ),
    ),
    "google-set-multiqueue": Service(
        "google-set-multiqueue.service",
        _MEDIUM,
        "runs google_set_multiqueue at boot, which sets channels, rings and interrupts of NICs",
        "package google-guest-configs of SUSE; guest-configs (google_set_multiqueue)",
        ("irq", "nic"),
    ),
    "google-optimize-local-ssd": Service(
        "google-optimize-local-ssd.service",
        _LOW,
        "sets scheduler and interrupts of local SSDs at boot",
        "package google-guest-configs of SUSE; guest-configs (google_optimize_local_ssd)",
        ("storage",),
    ),
}

UNITS = tuple(service.unit for service in SERVICES.values())
