# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared sysctls that new containers of a node do not get."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.audit.containers import LOOKS, SYSCTLS
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.topology import read

KUBELET = "/etc/systemd/system/kubelet.service"
PODMAN = "/etc/containers/containers.conf.d/site.conf"
RELEASE = "/proc/sys/kernel/osrelease"
#: Two keys begin with the kernel's default in a container, and one has another spelling
SETTINGS = {
    "vm.swappiness": 1,
    "net.core.somaxconn": 65535,
    "net/ipv4/tcp_tw_reuse": 1,
    "net.ipv4.tcp_rmem": "auto",
}
COUNT = "2 of 4 declared keys do not reach containers here"


def declare(machine: Machine, name: str, settings: Any) -> None:
    document = {"format": 1, "name": name, "kinds": {"sysctl": {"settings": settings}}}
    machine.put(f"/etc/mlnode/declared.d/{name}.json", json.dumps(document))


@pytest.fixture
def node(machine: Machine) -> Machine:
    machine.put(RELEASE, "6.12.1\n")
    machine.put("/usr/bin/podman", "")
    declare(machine, "node", SETTINGS)
    return machine


def look(machine: Machine) -> list[Check]:
    return [*checks(LOOKS, machine, read.of(machine))]


def test_nothing_sets_the_keys_that_do_not_reach_containers(node: Machine) -> None:
    [check] = look(node)
    assert (check.name, check.target, check.verdict) == ("container_sysctls", "node", Verdict.WARN)
    assert check.found == f"{COUNT}, and nothing sets them there: net.core.somaxconn, net.ipv4.tcp_tw_reuse"
    assert check.expected == "set by podman"
    assert check.advice == SYSCTLS.advice


def test_each_declaration_counts_and_a_key_once(node: Machine) -> None:
    declare(node, "site", {"net.core.somaxconn": 9, "net.ipv4.tcp_fin_timeout": 5, "net.ipv4.tcp_sack": None})
    [check] = look(node)
    assert check.found.startswith("3 of 5 declared keys do not reach containers here, ")


@pytest.mark.parametrize(
    ("line", "verdict", "found"),
    [
        (
            'default_sysctls = ["net.core.somaxconn=65535", "net.ipv4.tcp_tw_reuse=1"]',
            Verdict.PASS,
            f"{COUNT}, and defaults of podman set them",
        ),
        (
            'default_sysctls = ["net.core.somaxconn=65535"]',
            Verdict.WARN,
            f"{COUNT}, and podman does not set net.ipv4.tcp_tw_reuse",
        ),
    ],
)
def test_files_of_the_operator_count(node: Machine, line: str, verdict: Verdict, found: str) -> None:
    node.put(PODMAN, f"[containers]\n{line}\n")
    [check] = look(node)
    assert (check.verdict, check.found) == (verdict, found)


def test_each_installed_runtime_has_to_set_them(node: Machine) -> None:
    node.put(PODMAN, '[containers]\ndefault_sysctls = ["net.core.somaxconn=1", "net.ipv4.tcp_tw_reuse=1"]\n')
    node.put("/usr/bin/dockerd", "")
    [check] = look(node)
    assert check.verdict is Verdict.WARN
    assert check.found.endswith("and docker does not set net.core.somaxconn, net.ipv4.tcp_tw_reuse")


def test_one_of_the_programs_that_start_a_pod_suffices(node: Machine) -> None:
    node.remove("/usr/bin/podman")
    node.put(KUBELET, "[Service]\nExecStart=/usr/bin/kubelet\n")
    node.put("/usr/bin/crio", "")
    [check] = look(node)
    assert check.expected == "set by kubelet with crio"
    assert check.found.startswith(f"{COUNT}, and nothing sets them there: ")
    node.put(
        "/etc/crio/crio.conf.d/site.conf",
        '[crio.runtime]\ndefault_sysctls = ["net.core.somaxconn=65535", "net.ipv4.tcp_tw_reuse=1"]\n',
    )
    [check] = look(node)
    assert (check.verdict, check.found) == (
        Verdict.PASS,
        f"{COUNT}, and defaults of kubelet with crio set them",
    )


def test_a_key_that_pods_may_ask_for_is_not_set(node: Machine) -> None:
    node.remove("/usr/bin/podman")
    folder = "/etc/kubernetes/kubelet.conf.d"
    node.put(KUBELET, f"[Service]\nExecStart=/usr/bin/kubelet --config-dir={folder}\n")
    node.put(f"{folder}/site.conf", 'allowedUnsafeSysctls: ["net.core.somaxconn", "net.ipv4.*"]\n')
    [check] = look(node)
    assert check.found.startswith(f"{COUNT}, and nothing sets them there: ")


def test_all_keys_that_reach_containers_pass(node: Machine) -> None:
    declare(node, "node", {"vm.swappiness": 1, "net.core.rmem_max": "auto"})
    [check] = look(node)
    assert (check.verdict, check.found) == (Verdict.PASS, "all 2 declared keys reach containers")


def test_a_key_that_no_examined_kernel_has_is_unknown(node: Machine) -> None:
    declare(node, "node", {"vm.swappiness": 1, "net.ipv4.tcp_brand_new": 1, "kernel.brand_new": 1})
    [check] = look(node)
    assert (check.verdict, check.found) == (
        Verdict.UNKNOWN,
        "not known for this kernel: net.ipv4.tcp_brand_new",
    )
    declare(node, "site", {"net.core.somaxconn": 1})
    assert [check.verdict for check in look(node)] == [Verdict.WARN, Verdict.UNKNOWN]


def test_a_node_without_a_runtime_or_a_declared_sysctl_is_skipped(node: Machine) -> None:
    node.remove("/usr/bin/podman")
    [check] = look(node)
    assert (check.verdict, check.found) == (Verdict.SKIP, "no container runtime is installed")
    node.remove("/etc/mlnode/declared.d/node.json")
    [check] = look(node)
    assert (check.verdict, check.found) == (Verdict.SKIP, "no sysctl is declared on this node")


def test_files_that_cannot_be_read_make_it_unknown(node: Machine) -> None:
    node.put(PODMAN, "[containers]\n")
    node.unreadable[PODMAN] = errno.EIO
    assert [check.verdict for check in look(node)] == [Verdict.UNKNOWN]
    del node.unreadable[PODMAN]
    node.put(PODMAN, "[containers\n")
    assert [check.verdict for check in look(node)] == [Verdict.UNKNOWN]
    node.put("/etc/mlnode/declared.d/node.json", "{}")
    assert [check.verdict for check in look(node)] == [Verdict.UNKNOWN]
