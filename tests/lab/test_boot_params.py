# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel command line through GRUB: pending, there after a reboot, gone after a revert and one more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from . import guest_facts as facts
from .born import Born
from .collection import Collection, Played
from .machine import Machine

ADMIN = "/etc/default/grub.d/zz-admin.cfg"
DROP_INS = "/etc/default/grub.d"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ISOLATED = "/sys/devices/system/cpu/isolated"

#: For the two root ports of the profile, whose bits the kernel leaves alone without an IOMMU. GRUB ends a
#: command at a semicolon outside quotes: then the second one would stay as it is.
ACS = "config_acs=xx111x1@0000:00:10.0;xx101x1@0000:00:11.0"

#: One CPU of the two. The guard wants two left over, which this machine does not have.
ISOLATE = {"isolate": {"cpus": "1"}, "absent": ["audit"]}
ALLOWED = {**ISOLATE, "parameters": {"pci": [ACS], "iommu": "pt"}, "allow": ["housekeeping"]}

MENU, CUSTOM = "/boot/grub/grub.cfg", "/boot/grub/custom.cfg"
#: What ALLOWED and the profile make of the command line
DECLARED = {"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "pci", "iommu", "numa_balancing"}

#: Longer than any play
JOB_SECONDS = 3600

_BORN: dict[str, Born] = {}


def words(machine: Machine) -> set[str]:
    return set(machine.read("/proc/cmdline").split())


def acs(machine: Machine) -> list[str]:
    """The control registers of both ports."""
    return machine.out("setpci -s 10.0 ECAP_ACS+6.w -s 11.0 ECAP_ACS+6.w").split()


def declare(machine: Machine, collection: Collection, parameters: Mapping[str, Any], **more: Any) -> Played:
    return collection.play("site", machine, "--tags", "boot", node_boot=parameters, **more)


def test_too_few_cpus_left_over_is_refused_before_anything_is_written(
    boot: Machine, collection: Collection
) -> None:
    assert "audit=0" in words(boot)
    # What the kernel does without a word, so that it is as it was born after the revert.
    boot.write(ADMIN, 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX transparent_hugepage=always"\n')
    boot.run("update-grub")
    _BORN["boot"] = Born.of(boot)
    assert acs(boot) == ["0000", "0000"]
    played = declare(boot, collection, ISOLATE)
    assert played.status != 0
    assert "housekeeping" in played.output
    assert "isolcpus" not in boot.out(f"cat {DROP_INS}/* /boot/grub/grub.cfg")


def test_what_is_declared_waits_for_a_reboot(boot: Machine, collection: Collection) -> None:
    before = words(boot)
    played = declare(boot, collection, ALLOWED)
    assert played.status == 0
    assert "Reboot if required" not in played.output
    assert words(boot) == before
    found = facts.wrong(boot)
    assert found, "nothing waits"
    assert {words.partition(":")[0] for words in found.values()} == {"pending_reboot"}
    assert {"boot.isolcpus", "boot.transparent_hugepage", "boot.audit", "boot.pci"} <= found.keys()
    assert "isolcpus=managed_irq,domain,1" in boot.read("/boot/grub/grub.cfg")
    again = declare(boot, collection, ALLOWED)
    assert again.changed == 0


def test_the_role_leaves_a_node_up_on_which_a_job_runs(boot: Machine, collection: Collection) -> None:
    before = boot.read(BOOT_ID)
    boot.run("cp /usr/bin/sleep /root/slurmstepd")
    boot.run(
        f"systemd-run --unit=step bash -c \"exec -a 'slurmstepd: [4711.0]' /root/slurmstepd {JOB_SECONDS}\""
    )
    played = declare(boot, collection, ALLOWED, node_reboot=True)
    boot.run("systemctl stop step; rm /root/slurmstepd")
    assert played.status == 0
    assert "Not rebooted: it is in use by Slurm job 4711." in played.output
    assert boot.read(BOOT_ID) == before
    assert {words.partition(":")[0] for words in facts.wrong(boot).values()} == {"pending_reboot"}


def test_the_role_reboots_where_it_may_and_it_is_there(boot: Machine, collection: Collection) -> None:
    before = boot.read(BOOT_ID)
    assert declare(boot, collection, ALLOWED, node_reboot=True).status == 0
    boot.hang_up()
    assert boot.read(BOOT_ID) != before
    assert {
        "transparent_hugepage=madvise",
        "numa_balancing=disable",
        "isolcpus=managed_irq,domain,1",
        "nohz_full=1",
        "rcu_nocbs=1",
        "irqaffinity=0",
        f"pci={ACS}",
        "iommu=pt",
    } <= words(boot)
    assert acs(boot) == ["001d", "0015"]
    unwanted = ("audit", "transparent_hugepage=always")
    assert not {word for word in words(boot) if word.startswith(unwanted)}
    assert boot.read(ISOLATED) == "1"
    assert facts.wrong(boot) == {}
    assert declare(boot, collection, ALLOWED).changed == 0


def test_somebody_else_s_file_is_seen_in_what_grub_will_do(boot: Machine) -> None:
    boot.write(f"{DROP_INS}/zzz-late.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX numa_balancing=enable"\n')
    boot.run("update-grub")
    found = facts.wrong(boot)
    assert list(found) == ["boot.numa_balancing"]
    assert found["boot.numa_balancing"].startswith("overridden:")
    boot.run(f"rm {DROP_INS}/zzz-late.cfg && update-grub")
    assert facts.wrong(boot) == {}


@pytest.mark.long
def test_an_entry_that_only_grub_can_choose_is_named_once(boot: Machine, collection: Collection) -> None:
    """Until it has been started nothing tells that it will be: no key is pressed. Then no reboot helps."""
    entry = f"menuentry 'Own' --id own {{\n{plain_body(boot.read(MENU))}}}\n"
    boot.write(CUSTOM, f"{entry}if keystatus --ctrl; then\n  true\nelse\n  set default=own\nfi\n")
    assert facts.wrong(boot) == {}
    boot.reboot()
    assert not {word for word in words(boot) if word.startswith("isolcpus")}
    assert "the boot chain starts another entry" in facts.wrong(boot)["boot.isolcpus"]
    before = boot.read(BOOT_ID)
    declare(boot, collection, ALLOWED, node_reboot=True)
    assert boot.read(BOOT_ID) == before, "it would come back the same"
    boot.write(CUSTOM, f"set default=own\n{entry}")
    found = facts.wrong(boot)["boot.isolcpus"]
    assert found.startswith("overridden:")
    assert f"the entry that GRUB starts by default ({CUSTOM}:1)" in found
    boot.run(f"rm {CUSTOM}")
    assert facts.wrong(boot)["boot.isolcpus"].startswith("pending_reboot:")
    boot.reboot()
    assert facts.wrong(boot) == {}


def plain_body(menu: str) -> str:
    """The first entry, without what is declared."""
    match = re.search(r"^menuentry .*?\{\n(.*?)^\}", menu, re.MULTILINE | re.DOTALL)
    assert match is not None
    return "".join(
        " ".join(word for word in line.split() if word.partition("=")[0] not in DECLARED) + "\n"
        for line in match.group(1).splitlines()
    )


def test_what_somebody_removed_is_declared_again_by_the_service(boot: Machine) -> None:
    boot.run(f"rm {DROP_INS}/*mlnode* && update-grub")
    boot.reboot()
    assert not {word for word in words(boot) if word.startswith("isolcpus")}
    found = facts.wrong(boot)
    assert {words.partition(":")[0] for words in found.values()} == {"pending_reboot"}, found
    assert "isolcpus=managed_irq,domain,1" in boot.read("/boot/grub/grub.cfg")


@pytest.mark.long
def test_after_a_revert_and_a_reboot_it_is_gone(boot: Machine, collection: Collection) -> None:
    assert collection.play("revert", boot).status == 0
    assert "isolcpus" not in boot.read("/boot/grub/grub.cfg")
    boot.reboot()
    assert boot.read(ISOLATED) == ""
    assert acs(boot) == ["0000", "0000"]
    assert "audit=0" in words(boot)
    assert _BORN["boot"].left(boot) == []
