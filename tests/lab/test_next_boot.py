# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of the next boot, and what that boot does: beside programs that set values later, and where
files are lost."""

from __future__ import annotations

from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

NAME = "lab"
AGENT = "mlnode-apply.service mlnode-nic.service mlnode-nic.path"
MARTIANS, FORWARD = "net.ipv4.conf.all.log_martians", "net.ipv4.ip_forward"


@pytest.fixture(scope="module")
def node(cloud_agent: Machine) -> Machine:
    return cloud_agent


def declare(collection: Collection, machine: Machine, **settings: Any) -> None:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    assert collection.task("sysctl_ml", machine, name=NAME, settings=named).status == 0


def row(machine: Machine, key: str) -> dict[str, Any]:
    [found] = (item for item in facts.check(machine)["settings"] if item["key"] == key)
    return dict(found)


@pytest.mark.long
def test_ufw_sets_its_values_before_the_agent_and_again_when_it_is_reloaded(
    node: Machine, collection: Collection
) -> None:
    assert "log_martians=0" in node.read("/etc/ufw/sysctl.conf"), "else nothing is shown"
    node.run("ufw allow 22/tcp && ufw --force enable")
    declare(collection, node, **{MARTIANS.replace(".", "__"): 1})
    said = row(node, MARTIANS)
    assert (said["status"], said["boot"]) == ("ok", "1")
    assert "/etc/ufw/sysctl.conf:" in said["reason"]
    node.reboot()
    assert node.out("systemctl is-active ufw") == "active"
    assert facts.sysctl(node, MARTIANS) == "1"
    node.run("ufw reload")
    assert facts.sysctl(node, MARTIANS) == "0"
    assert "as /etc/ufw/sysctl.conf:" in facts.wrong(node)[MARTIANS]
    node.run("ufw --force disable")


def test_networkd_forwards_although_sysctl_d_says_no(node: Machine, collection: Collection) -> None:
    node.run("mkdir -p /etc/systemd/networkd.conf.d")
    node.write("/etc/systemd/networkd.conf.d/x.conf", "[Network]\nIPv4Forwarding=yes\n")
    declare(collection, node, **{FORWARD.replace(".", "__"): 0})
    said = row(node, FORWARD)
    assert (said["status"], said["boot"]) == ("ok", "0")
    assert "later /etc/systemd/networkd.conf.d/x.conf:2 sets IPv4Forwarding=yes" in said["reason"]
    node.reboot()
    assert facts.sysctl(node, FORWARD) == "0"
    node.run(f"systemctl disable {AGENT}")
    said = row(node, FORWARD)
    assert (said["status"], said["boot"]) == ("overridden", "1")
    node.reboot()
    assert facts.sysctl(node, FORWARD) == "1"
    node.run(f"systemctl enable {AGENT} && rm -r /etc/systemd/networkd.conf.d")


def test_files_in_memory_are_lost(node: Machine, collection: Collection) -> None:
    copied = "mkdir /run/kept && cp -a /etc/. /run/kept/"
    node.run(f"{copied} && mount -t tmpfs -o mode=755 tmpfs /etc && cp -a /run/kept/. /etc/")
    declare(collection, node, vm__swappiness=7)
    wrong = facts.wrong(node)
    assert {*wrong} == {"agent.boot", "vm.swappiness"}
    assert all("lost at the next boot" in reason for reason in wrong.values()), wrong
    node.reboot()
    assert facts.sysctl(node, "vm.swappiness") == "60"
    assert "vm.swappiness" not in {item["key"] for item in facts.check(node)["settings"]}


@pytest.mark.long
def test_a_crash_kernel_has_its_memory_to_itself(boot: Machine, collection: Collection) -> None:
    """Debian's kdump-tools starts this system in that memory, and its systemd-sysctl reads sysctl.d."""
    assert collection.task("agent", boot).status == 0
    declare(collection, boot, vm__min_free_kbytes="auto", vm__swappiness=7)
    assert "min_free_kbytes" not in boot.out("cat /etc/sysctl.d/*mlnode*")
    words = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX crashkernel=192M"'
    boot.write("/etc/default/grub.d/zz-crash.cfg", f"{words}\n")
    boot.run("update-grub && systemctl unmask kdump-tools.service")
    boot.reboot()
    assert row(boot, "vm.min_free_kbytes")["status"] == "ok"
    boot.run("sed -i 's/^USE_KDUMP=.*/USE_KDUMP=1/' /etc/default/kdump-tools")
    loaded = boot.run("kdump-config load; kdump-config show", check=False, seconds=900)
    assert boot.read("/sys/kernel/kexec_crash_loaded").strip() == "1", loaded.stdout + loaded.stderr
    # A twentieth of this machine's memory is half of that one's.
    declare(collection, boot, vm__min_free_kbytes=65536, vm__swappiness=7)
    assert "declare auto, which no file has" in row(boot, "vm.min_free_kbytes")["reason"]
    declare(collection, boot, vm__min_free_kbytes="auto", vm__swappiness=7)
    assert "min_free_kbytes" not in boot.out("cat /etc/sysctl.d/*mlnode*")
    boot.crash()
    # The memory as it is, as makedumpfile, which would leave out free pages, is not on the disk.
    assert boot.out("ls /var/crash/*/vmcore.*"), boot.console()[-3000:]
    assert facts.wrong(boot) == {}
