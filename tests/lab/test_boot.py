# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided early: the kernel command line, through GRUB; and the boot layer without the agent."""

from __future__ import annotations

import pytest

from . import claims
from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

GRUB = "/etc/default/grub.d/zz-admin.cfg"
UNDECLARED = {"parameters": {"transparent_hugepage": None, "numa_balancing": None}}
#: So that nothing else can be what the drift is about
IGNORED = [{"key": "thp.enabled", "reason": "the word of this test", "until": "2099-12-31"}]
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


@pytest.mark.long
def test_a_word_on_the_command_line_is_reported_as_override(boot: Machine, collection: Collection) -> None:
    # Left to somebody else, as the role itself would otherwise put its own word there.
    claims.converge(collection, boot, "thp", "boot", node_boot=UNDECLARED)
    assert facts.wrong(boot) == {}
    boot.write(GRUB, 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX transparent_hugepage=always"\n')
    boot.run("update-grub")
    boot.reboot()
    assert "transparent_hugepage=always" in boot.read("/proc/cmdline").split()
    found = facts.wrong(boot)
    assert list(found) == ["thp.enabled"]
    assert found["thp.enabled"].startswith("overridden: ")
    assert "kernel command line (transparent_hugepage=always)" in found["thp.enabled"]
    assert facts.chosen(boot, THP) == "madvise", "the agent still has the last word at run time"
    # Compared with nothing but itself, as most areas were not played.
    assert collection.task("node_drift", boot, fail_at="low", ignore=IGNORED).status == 0
    drift = collection.task("node_drift", boot, fail_at="low")
    assert drift.status != 0
    assert "thp.enabled: overridden" in drift.output


def test_drop_ins_and_modules_come_back_without_the_agent(
    cloud_agent: Machine, collection: Collection
) -> None:
    claims.boot_files_alone_bring_values_back(collection, cloud_agent)
