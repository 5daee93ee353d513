# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose AppArmor enforces the profiles that Debian ships."""

from __future__ import annotations

import pytest

from . import claims
from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

pytestmark = pytest.mark.long

VARIABLES = {
    "node_sysctl": claims.WITH_MODULES,
    "node_irq": {"irqbalance": "agree"},
    "node_metrics": {"textfile_directory": "auto"},
}


def denials(machine: Machine) -> str:
    """All that has ever been denied; ausearch does not find it."""
    return machine.out("grep --text 'apparmor=\"DENIED\"' /var/log/audit/audit.log*; true")


def test_a_denial_would_be_seen(apparmor: Machine) -> None:
    assert apparmor.out("aa-enabled") == "Yes"
    assert int(apparmor.out("aa-status --profiled")) > 0
    apparmor.write(
        "/etc/apparmor.d/story", "profile story /usr/local/bin/story { /usr/local/bin/story mr, }\n"
    )
    apparmor.run(
        "cp /bin/cat /usr/local/bin/story; apparmor_parser -r /etc/apparmor.d/story; story /etc/passwd",
        check=False,
    )
    assert 'profile="story"' in denials(apparmor)
    apparmor.run("apparmor_parser -R /etc/apparmor.d/story; rm /etc/apparmor.d/story /usr/local/bin/story")


def test_nothing_is_denied_from_site_to_revert(apparmor: Machine, collection: Collection) -> None:
    before = denials(apparmor)
    assert collection.play("site", apparmor, **VARIABLES).status == 0
    apparmor.run("systemctl start irqbalance mlnode-check mlnode-watch mlnode-nic")
    facts.until_at_rest(apparmor)
    assert facts.wrong(apparmor) == {}
    assert denials(apparmor) == before
    apparmor.reboot()
    facts.until(lambda: facts.wrong(apparmor) == {}, "the agent has applied it")
    assert collection.play("revert", apparmor).status == 0
    assert denials(apparmor) == before
