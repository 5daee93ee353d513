# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area services."""

from __future__ import annotations

from ...model.schema import Option, Table

#: Choices for a service
CHOICES = ("leave", "stop")

OPTIONS: Table = {
    "services": Option(
        "dict",
        """
        Name of a service to V(leave) or V(stop). A name without a value is not declared.

        Known are C(tuned), C(tuned-ppd), C(power-profiles-daemon), C(auto-cpufreq), C(tlp), C(cpupower),
        C(cpufrequtils), C(ondemand), C(laptop-mode), C(thermald), C(numad), C(ksmtuned),
        C(google-guest-agent), C(google-set-multiqueue) and C(google-optimize-local-ssd).

        C(google-guest-agent) cannot be stopped, as it manages accounts and SSH keys. Switch its tuning part
        off with C(set_multiqueue = false) in C(/etc/default/instance_configs.cfg).

        V(leave) is V(overridden) if the service is active and may change a declared setting. For C(tuned),
        the row shows the active profile. The agent sets values after tuned at boot, and other values of a
        newly chosen profile show as drift.
        """,
        default={},
        values=Option("str", choices=CHOICES),
        parts=True,
        reason="a second tuning program reverts declared settings; each has its own reason",
        source="knobs/services/known.py",
    ),
}
