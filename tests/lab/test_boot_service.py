# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will the next boot run the agent? Every way to keep it from that is named before a boot shows it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from . import claims
from . import guest_facts as facts
from .collection import Collection
from .machine import Finished, Machine

UNIT = "/etc/systemd/system/mlnode-apply.service"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


@dataclass(frozen=True)
class Breach:
    """What is done to the node, how it is undone, and what the report names. check() reads the units."""

    do: str
    undo: str
    named: str


def _drop_in(top: str, text: str, unit: str = "mlnode-apply.service") -> Breach:
    path = f"{top}/systemd/system/{unit}.d/x.conf"
    folder = path.rpartition("/")[0]
    return Breach(f"mkdir -p {folder} && printf '{text}' >{path}", f"rm -r {folder}", path)


BREACHES = {
    "masked": Breach(
        f"mv {UNIT} /root/ && ln -s /dev/null {UNIT}",
        f"rm {UNIT} && mv /root/mlnode-apply.service {UNIT}",
        "mlnode-apply.service",
    ),
    "another command": _drop_in("/etc", r"[Service]\nExecStart=\nExecStart=/bin/true\n"),
    "a condition": _drop_in("/run", r"[Unit]\nConditionPathExists=/nowhere\n"),
    "a sandbox that was not judged": _drop_in("/etc", r"[Service]\nReadOnlyPaths=/sys /proc\n"),
    "a sandbox for all services": Breach(
        "mkdir -p /run/systemd/system/service.d && "
        r"printf '[Service]\nNoExecPaths=/\n' >/run/systemd/system/service.d/x.conf",
        "rm -r /run/systemd/system/service.d",
        "/run/systemd/system/service.d/x.conf",
    ),
    "a conflict": Breach(
        r"printf '[Unit]\nConflicts=mlnode-apply.service\n[Service]\nExecStart=/bin/true\n"
        r"[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/other.service && "
        "systemctl enable other.service",
        "systemctl disable other.service && rm /etc/systemd/system/other.service",
        "/etc/systemd/system/other.service:2",
    ),
    "a command without exec": Breach(
        "cp /etc/fstab /root/ && echo 'tmpfs /usr/local tmpfs noexec,noatime 0 0' >>/etc/fstab",
        "mv /root/fstab /etc/fstab",
        "/etc/fstab:",
    ),
    "rescue": Breach(
        "systemctl get-default >/root/target; systemctl set-default rescue.target",
        "systemctl set-default $(cat /root/target)",
        "rescue.target",
    ),
    "a wrong link": Breach(
        "ln -sfn /nowhere /etc/systemd/system/multi-user.target.wants/mlnode-apply.service",
        f"ln -sfn {UNIT} /etc/systemd/system/multi-user.target.wants/mlnode-apply.service",
        "multi-user.target.wants/mlnode-apply.service",
    ),
    "an edited unit": Breach(f"sed -i.old /ExecStart=/d {UNIT}", f"mv {UNIT}.old {UNIT}", UNIT),
    "not executable": Breach(
        "chmod 644 /usr/local/bin/mlnode", "chmod 755 /usr/local/bin/mlnode", "/usr/local/bin/mlnode"
    ),
    "no udev rule": Breach(
        "mv /etc/udev/rules.d/90-mlnode.rules /root/",
        "mv /root/90-mlnode.rules /etc/udev/rules.d/",
        "/etc/udev/rules.d/90-mlnode.rules",
    ),
    "nothing waits for NICs": Breach(
        "systemctl disable mlnode-nic.path", "systemctl enable mlnode-nic.path", "mlnode-nic.path"
    ),
}


def check(machine: Machine) -> Finished:
    """Of the command as it is, executable or not."""
    machine.run("systemctl daemon-reload")
    return machine.run("python3 /usr/local/bin/mlnode check", check=False)


@pytest.fixture(scope="module")
def node(cloud_agent: Machine, collection: Collection) -> Machine:
    """Something only the agent brings at boot (THP), something that systemd does, and interrupts of NICs."""
    claims.converge(collection, cloud_agent, "sysctl", "thp", "irq")
    assert check(cloud_agent).returncode == 0
    return cloud_agent


#: The unit tests have all of them; of a real systemd, every second one is asked.
LOOKED_AT = [
    name if number % 2 == 0 else pytest.param(name, marks=pytest.mark.long)
    for number, name in enumerate(BREACHES)
]


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_keeps_the_agent_from_running_is_named_without_a_boot(name: str, node: Machine) -> None:
    breach = BREACHES[name]
    node.run(breach.do)
    found = check(node)
    node.run(breach.undo)
    assert found.returncode == 3, found.stdout
    assert breach.named in found.stdout


def test_once_all_of_them_are_undone_nothing_is_named(node: Machine) -> None:
    found = check(node)
    assert found.returncode == 0, found.stdout


def test_a_masked_reader_of_drop_ins_is_no_loss_as_the_agent_does_its_work(node: Machine) -> None:
    """Masked for this boot and the next: the column for the boot names the agent, and the value is right."""
    node.run("systemctl mask systemd-sysctl.service")
    found = facts.check(node)
    node.run("systemctl unmask systemd-sysctl.service")
    row = next(row for row in found["settings"] if row["key"] == "vm.swappiness")
    assert row["status"] in ("ok", "drifted")
    assert "mlnode-apply.service" in str(row) or "systemd-sysctl" in row["reason"]


def test_a_boot_proves_the_report_right(node: Machine, collection: Collection) -> None:
    node.run(f"{BREACHES['masked'].do} && systemctl daemon-reload")
    drift = collection.task("node_drift", node, fail_at="low")
    assert drift.status != 0
    assert "mlnode-apply.service" in drift.output
    node.reboot()
    assert facts.chosen(node, THP) != "madvise", "it was reported, and it is not so"
    assert facts.sysctl(node, "vm.swappiness") == "1", "its drop-in needs no agent"
    assert check(node).returncode == 3
    # A play installs what was masked again: as on the nodes of test_training.py, which boot then.
    claims.converge(collection, node, "sysctl", "thp", "irq")
    node.run(f"test ! -L {UNIT} && rm -f /root/mlnode-apply.service")
    assert facts.chosen(node, THP) == "madvise"
    assert check(node).returncode == 0
    assert node.out("systemctl is-enabled mlnode-apply.service") == "enabled"
