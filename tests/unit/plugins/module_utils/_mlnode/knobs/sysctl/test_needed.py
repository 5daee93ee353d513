# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and values that live in a module, and what keeps that from being loaded at the next boot."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.setting import Layer, Status

BBR, FQ = "net.ipv4.tcp_congestion_control", "net.core.default_qdisc"
TRACK = "net.netfilter.nf_conntrack_max"
FILE = "/etc/modprobe.d/x.conf"
LIST = "/etc/modules-load.d/mlnode-one.conf"
VALUES = {BBR: "bbr", FQ: "fq", TRACK: 1000000}


@pytest.fixture
def node(machine: Machine) -> Machine:
    """As declared, now and at the next boot."""
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "a/tcp_bbr.ko:\na/sch_fq.ko:\na/nf_conntrack.ko:\n")
    machine.put(f"/lib/modules/{RELEASE}/modules.builtin", "")
    machine.put(f"/proc/sys/{TRACK.replace('.', '/')}", "1000000\n")
    machine.put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n")
    machine.put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n")
    machine.put("/proc/sys/net/core/default_qdisc", "fq\n")
    machine.put("/sys/module/sch_fq/initstate", "live\n")
    lines = "".join(f"{key} = {value}\n" for key, value in VALUES.items())
    machine.put("/etc/sysctl.d/zz-mlnode-one.conf", lines)
    machine.put(LIST, "nf_conntrack\n")
    machine.put("/sys/module/nf_conntrack/initstate", "live\n")
    return machine


def row(machine: Machine, key: str, **more: Any) -> Row:
    machine.forget()
    request = Request("one", sysctl, {"settings": {key: VALUES[key]}}, **more)
    return engine.evaluate(machine, request).rows[0]


@pytest.mark.parametrize("key", VALUES)
def test_nothing_is_said_where_the_module_comes(node: Machine, key: str) -> None:
    node.put(FILE, "blacklist other\ninstall other /bin/true\noptions tcp_bbr x=1\n")
    assert row(node, key).status is Status.OK


@pytest.mark.parametrize(("key", "module"), [(BBR, "tcp_bbr"), (FQ, "sch_fq"), (TRACK, "nf_conntrack")])
@cases.table
def test_a_module_that_a_file_keeps_out_is_a_fault_of_the_boot_layer(
    node: Machine, key: str, module: str, line: str, words: str
) -> None:
    node.put(FILE, f"{line.format(module)}\n")
    found = row(node, key)
    assert (found.status, found.reading.boot.source) == (Status.OVERRIDDEN, f"{FILE}:1")
    assert found.reason == f"boot: it needs the module {module}, and {words}"


@pytest.mark.parametrize(("key", "module"), [(BBR, "tcp_bbr"), (FQ, "sch_fq"), (TRACK, "nf_conntrack")])
def test_so_is_one_that_the_kernel_refuses(node: Machine, key: str, module: str) -> None:
    node.put("/proc/cmdline", f"ro module_blacklist=x,{module}\n")
    found = row(node, key)
    assert found.status is Status.OVERRIDDEN
    assert f"kernel command line (module_blacklist=x,{module}) has the kernel refuse it" in found.reason


@pytest.mark.parametrize("line", ["modprobe.blacklist=sch_fq,tcp_bbr,nf_conntrack", ""])
def test_a_blacklist_is_no_bar_for_those_who_ask_by_name(node: Machine, line: str) -> None:
    """As the kernel does, but for queueing disciplines since 6.9."""
    node.put("/proc/cmdline", f"ro {line}\n")
    if not line:
        node.put(FILE, "blacklist tcp_bbr\nblacklist sch_fq\nblacklist nf_conntrack\n")
    assert row(node, BBR).status is Status.OK
    # systemd-modules-load, which brings the key before its line is read, heeds it.
    assert "blacklists it" in row(node, TRACK).reason
    assert "blacklists it" in row(node, FQ).reason
    node.put("/proc/sys/kernel/osrelease", "6.8.0\n")
    node.put("/lib/modules/6.8.0/modules.dep", "a/sch_fq.ko:\n")
    assert row(node, FQ).status is Status.OK


def test_what_a_command_does_may_be_unknown(node: Machine) -> None:
    node.put(FILE, "install tcp_bbr /root/load\n")
    assert row(node, BBR).status is Status.UNKNOWN
    node.put(FILE, "")
    node.unreadable[FILE] = errno.EACCES
    found = row(node, BBR)
    assert found.status is Status.UNKNOWN
    assert "EACCES" in found.reason


def test_what_is_built_in_needs_no_file(node: Machine) -> None:
    node.put(FILE, "install tcp_bbr /bin/true\n")
    node.put(f"/lib/modules/{RELEASE}/modules.dep", "")
    assert row(node, BBR).status is Status.OK


def test_an_image_is_judged_by_its_files(node: Machine) -> None:
    assert row(node, BBR, layers=(Layer.BOOT,)).status is Status.OK
    node.put("/proc/cmdline", "module_blacklist=tcp_bbr\n")  # of the build host
    assert row(node, BBR, layers=(Layer.BOOT,)).status is Status.OK
    node.put(FILE, "install tcp_bbr /bin/true\n")
    assert row(node, BBR, layers=(Layer.BOOT,)).status is Status.OVERRIDDEN


def test_a_value_that_cannot_come_now_names_the_line(node: Machine) -> None:
    node.put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n")
    node.put("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n")
    node.put(FILE, "install tcp_bbr /bin/true\n")
    found = row(node, BBR)
    assert (found.status, found.reading.load) == (Status.REFUSED, ())
    assert f"{FILE}:1 has /bin/true run" in found.reason
