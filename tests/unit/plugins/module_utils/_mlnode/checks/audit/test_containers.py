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
from mlnode.topology import hardware

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
    return [*checks(LOOKS, machine, hardware.topology(machine))]


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
        (
            'default_sysctls = ["net.core.somaxconn=128", "net.ipv4.tcp_tw_reuse=1"]',
            Verdict.WARN,
            f"{COUNT}, and podman does not set net.core.somaxconn (128 there)",
        ),
    ],
)
def test_files_of_the_operator_count(node: Machine, line: str, verdict: Verdict, found: str) -> None:
    node.put(PODMAN, f"[containers]\n{line}\n")
    [check] = look(node)
    assert (check.verdict, check.found) == (verdict, found)


def test_a_value_that_only_this_node_keeps_from_containers_is_compared(node: Machine) -> None:
    """devconf_inherit_init_net is 2: a new namespace begins with the kernel's defaults."""
    node.put("/proc/sys/net/core/devconf_inherit_init_net", "2\n")
    declare(node, "node", {"net.ipv4.conf.all.rp_filter": 2})
    node.put(PODMAN, '[containers]\ndefault_sysctls = ["net.ipv4.conf.all.rp_filter=1"]\n')
    [check] = look(node)
    assert check.verdict is Verdict.WARN
    assert check.found.endswith("podman does not set net.ipv4.conf.all.rp_filter (1 there)")


def test_a_greater_value_meets_a_minimum(node: Machine) -> None:
    declare(node, "node", {"net.core.somaxconn": {"at_least": 4096}})
    for value, verdict in (("8192", Verdict.PASS), ("4096", Verdict.PASS), ("128", Verdict.WARN)):
        node.put(PODMAN, f'[containers]\ndefault_sysctls = ["net.core.somaxconn={value}"]\n')
        assert [check.verdict for check in look(node)] == [verdict]


def test_files_of_a_bundle_are_not_read(node: Machine) -> None:
    node.put("/etc/systemd/system/k3s-agent.service", "[Service]\nExecStart=/usr/local/bin/k3s agent\n")
    bundle = "the configuration of k3s-agent.service is not read"
    assert [(check.verdict, check.found) for check in look(node)][1:] == [(Verdict.UNKNOWN, bundle)]
    node.remove("/usr/bin/podman")
    node.forget()
    assert [(check.verdict, check.found) for check in look(node)] == [(Verdict.UNKNOWN, bundle)]


def test_an_argument_that_overrides_files_makes_it_unknown(node: Machine) -> None:
    node.remove("/usr/bin/podman")
    node.put(
        "/etc/systemd/system/crio.service", "[Service]\nExecStart=/usr/bin/crio --default-sysctls net.a=1\n"
    )
    assert [check.verdict for check in look(node)] == [Verdict.UNKNOWN]


def test_each_installed_runtime_has_to_set_them(node: Machine) -> None:
    node.put(
        PODMAN, '[containers]\ndefault_sysctls = ["net.core.somaxconn=65535", "net.ipv4.tcp_tw_reuse=1"]\n'
    )
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


def test_the_network_of_pods_may_set_them(node: Machine) -> None:
    node.remove("/usr/bin/podman")
    node.put(KUBELET, "[Service]\nExecStart=/usr/bin/kubelet\n")
    node.put("/etc/systemd/system/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n")
    tuning = {"type": "tuning", "sysctl": {"net.core.somaxconn": "65535", "net/ipv4/tcp_tw_reuse": "1"}}
    network = json.dumps({"plugins": [{"type": "calico"}, tuning]})
    folder = "/etc/cni/net.d"
    node.put(f"{folder}/00-multus.conf", '{"type": "multus"}')
    node.put(f"{folder}/10-calico.conflist", network)
    node.put(f"{folder}/10-calico.kubeconfig", "no JSON")
    [check] = look(node)
    words = f"{COUNT}, and defaults of kubelet with containerd with CNI set them"
    assert (check.verdict, check.found) == (Verdict.PASS, words)

    node.put(f"{folder}/05-other.conflist", '{"plugins": [{"type": "bridge"}]}')
    [check] = look(node)
    assert (check.verdict, check.expected) == (Verdict.WARN, "set by kubelet with containerd")
    for text in ("{", "[" * 100000):
        node.put(f"{folder}/05-other.conflist", text)
        assert [check.verdict for check in look(node)] == [Verdict.UNKNOWN]
    for text in ("[]", "{}", '{"plugins": 1}', '{"plugins": [1, {"type": "tuning", "sysctl": []}]}'):
        node.put(f"{folder}/05-other.conflist", text)
        assert [check.verdict for check in look(node)] == [Verdict.WARN]


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
